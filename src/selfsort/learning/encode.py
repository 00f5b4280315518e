"""Images through a network in inference mode."""

from __future__ import annotations

from selfsort.errors import InvalidInput, invalid
from selfsort.types import Images


def check_request(
    images: Images, shape: tuple[int, int, int], layer: str = "top", layers: tuple[str, ...] = ("top",)
) -> None:
    """Refuse images that a trained network cannot take, and layers that it does not give."""
    if images.shape != shape:
        raise InvalidInput(
            f"the images have shape {images.shape}. This model was trained on {shape} (height, width, "
            "channels). Bring them to that size with selfsort.data.conform."
        )
    if layer in layers:
        return
    if len(layers) == 1:
        raise invalid("the layer", f"be {layers[0]}, the only one this network gives", repr(layer), "Leave it out.")
    raise invalid("the layer", f"be one of {', '.join(layers)}", repr(layer), "Name one of them.")
