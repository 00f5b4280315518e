"""Images through a network in inference mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from selfsort import distributed
from selfsort.data.store import allocate_floats
from selfsort.errors import InvalidInput, invalid
from selfsort.learning.batches import InputTensor
from selfsort.pages import fill, forget
from selfsort.progress import track
from selfsort.types import F32, Assignment, Inputs, Model


def check_request(
    images: Inputs, shape: tuple[int, ...], layer: str = "top", layers: tuple[str, ...] = ("top",)
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


def encode(net: nn.Module, pixels: InputTensor, chunks: Iterable[Tensor], compute: Callable[[Tensor], Tensor]) -> F32:
    """Return rows (N, D) for all images: what `compute`, a part of `net`, makes of them in evaluation mode.

    How images are cut into chunks decides about the last bits of the result, so every method keeps its own cut.
    """
    return encode_several(net, pixels, chunks, lambda x_BCHW: (compute(x_BCHW),))[0]


def encode_several(
    net: nn.Module, pixels: InputTensor, chunks: Iterable[Tensor], compute: Callable[[Tensor], Sequence[Tensor]]
) -> tuple[F32, ...]:
    """Same as `encode` for several arrays at once."""
    was_training = net.training
    net.eval()
    with torch.inference_mode():
        found = rows_of_all(
            track(chunks, "encoding", len(pixels), weigh=len), len(pixels), lambda idx: compute(pixels.floats(idx))
        )
    net.train(was_training)
    return found


def rows_of_all(chunks: Iterable[Tensor], n: int, compute: Callable[[Tensor], Sequence[Tensor]]) -> tuple[F32, ...]:
    """Compute rows for all images, within the budget of the process or in mapped files.

    Several processes compute some of the chunks each, and hold all rows in memory (`distributed.rows_in_shares`).
    """
    if distributed.world_size() > 1:
        return distributed.rows_in_shares(chunks, n, compute)
    tables: list[F32] = []
    for idx in chunks:
        parts = [part.detach().cpu().numpy() for part in compute(idx)]
        tables = tables or [allocate_floats((n, *part.shape[1:]), part.dtype.str) for part in parts]
        for table, part in zip(tables, parts, strict=True):
            table[idx.cpu().numpy()] = part
            forget(table)
    if not tables:
        raise invalid("images", "be at least one", 0, "Give some images.")
    return tuple(tables)


def apply_in_blocks(model: Model, images: Inputs, layer: str = "top", block: int = 4096) -> Assignment:
    """Apply a model to any number of images with bounded memory."""
    tables: list[F32] = []
    for start in range(0, len(images), block):
        some = slice(start, start + block)
        found = model.apply(images.subset(some), layer)
        parts = (found.features, found.soft)
        tables = tables or [allocate_floats((len(images), *part.shape[1:]), part.dtype.str) for part in parts]
        for table, part in zip(tables, parts, strict=True):
            fill(table[some], part)
    return Assignment(*tables)
