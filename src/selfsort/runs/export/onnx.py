"""A finished run's network as an ONNX file, for programs that have neither selfsort nor torch.

The graph takes pictures as they are decoded, `pixels`: uint8 (batch, height, width, channels), any batch size, and
gives `soft` (batch, clusters) and `features` (batch, width). Scaling to [0, 1] is part of the graph. What has to be
done before it (size, aspect ratio, gray or RGB) is in the file's metadata, as JSON under `preprocessing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import IO

import torch
from torch import Tensor, nn

from selfsort import __version__
from selfsort.data import ImageSpec
from selfsort.errors import InvalidInput, missing_extra
from selfsort.nets.trace import as_onnx
from selfsort.runs.encoder import EncodedModel
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import RunLabels
from selfsort.runs.model import load_model
from selfsort.types import ExportableModel, Json, Model, NetworkModel

_MOST_BYTES = 2_000_000_000

_FIT = {
    "crop": "scale until both sides cover height x width, cut the surplus evenly on both sides",
    "stretch": "scale each side on its own to height x width",
    "pad": "scale until both sides fit into height x width, fill up evenly on both sides with white (255)",
}


class _FromPixels(nn.Module):
    """Pictures as decoded to what a network expects, then the network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels_BHWC: Tensor) -> tuple[Tensor, Tensor]:
        x_BCHW = pixels_BHWC.permute(0, 3, 1, 2).float() * (1 / 255)
        soft_BK, features_BD = self.network(x_BCHW)
        return soft_BK, features_BD


def onnx_file(folder: RunFolder, labels: RunLabels) -> Callable[[IO[bytes]], object]:
    """Prepare the model of a finished run, which knows the clusters of the method and no corrections."""
    del labels
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "--to onnx", "onnx") from None
    model = load_model(folder, torch.device("cpu"))
    spec = ImageSpec.from_json(folder.field("image", dict))
    network = network_of(model, folder.field("method", str), spec.shape)
    n_bytes = sum(part.numel() * part.element_size() for part in (*network.parameters(), *network.buffers()))
    if n_bytes > _MOST_BYTES:
        raise InvalidInput(
            f"the model of {folder.path} holds {n_bytes / 1e9:.1f} GB, with the features of its training images. "
            "Expected at most 2 GB, which is all that an ONNX file can hold. Label new images with selfsort predict."
        )
    example = torch.zeros(2, *spec.shape, dtype=torch.uint8)
    graph = onnx.load_from_string(as_onnx(_FromPixels(network), example, "pixels", ["soft", "features"]))
    for key, value in _metadata(folder, spec).items():
        graph.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(graph)
    return lambda file: file.write(graph.SerializeToString())


def network_of(model: Model, method: str, shape: tuple[int, int, int]) -> nn.Module:
    """Return a model for images of a shape as one module, with its encoder and the votes of its training images."""
    if isinstance(model, EncodedModel):
        return _Behind(model.encoder.network(shape), network_of(model.inner, method, shape)).eval()
    if isinstance(model, NetworkModel):
        return model.network()
    if isinstance(model, ExportableModel):
        return model.exported().eval()
    raise InvalidInput(
        f"the models of {method} cannot be written as ONNX. Expected a method of selfsort itself. "
        "Label new images with selfsort predict."
    )


class _Behind(nn.Module):
    """A method's own module behind an encoder."""

    def __init__(self, encoder: nn.Module, own: nn.Module) -> None:
        super().__init__()
        self.encoder, self.own = encoder, own

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        soft_BK, features_BD = self.own(self.encoder(x_BCHW))
        return soft_BK, features_BD


def _metadata(folder: RunFolder, spec: ImageSpec) -> dict[str, str]:
    preprocessing: Json = {
        **spec.to_json(),
        "colour": "gray (luma)" if spec.channels == 1 else "RGB",
        "fit_means": _FIT[spec.fit],
        "filter": "bilinear, widened when shrinking (Pillow)",
        "layout": "batch, height, width, channels",
        "values": "uint8, 0..255; the graph scales them itself",
    }
    return {
        "selfsort": __version__,
        "method": folder.field("method", str),
        "n_clusters": str(folder.n_clusters),
        "preprocessing": json.dumps(preprocessing),
    }
