"""A finished run's network as an ONNX file, for programs that have neither selfsort nor torch.

The graph takes pictures as they are decoded, `pixels`: uint8 (batch, height, width, channels), any batch size, and
gives `soft` (batch, clusters) and `features` (batch, width). Scaling to [0, 1] is part of the graph. What has to be
done before it (size, aspect ratio, gray or RGB) is in the file's metadata, as JSON under `preprocessing`.

Protobuf holds no message of 2 GB. The weights of a larger model, which may hold the features of many training images,
go into a second file beside it, as ONNX has it (external data). That file is named after what it holds: whoever reads
an older model at the same place meanwhile still finds its own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor, nn

from selfsort import __version__
from selfsort.data import ImageSpec
from selfsort.errors import InvalidInput, missing_extra
from selfsort.nets.trace import as_onnx
from selfsort.runs.encoder import EncodedModel
from selfsort.runs.files import write_whole
from selfsort.runs.folder import RunFolder
from selfsort.runs.model import load_model
from selfsort.types import ExportableModel, Json, Model, NetworkModel

_MOST_BYTES = 2_000_000_000
_PAGE = 4096
"""Where a tensor of the second file may begin, so that it can be mapped."""

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


def export_onnx(folder: RunFolder, place: Path) -> None:
    """Write the model of a finished run, which knows the clusters of the method and no corrections."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "--to onnx", "onnx") from None
    model = load_model(folder, torch.device("cpu"))
    spec = ImageSpec.from_json(folder.field("image", dict))
    network = _FromPixels(network_of(model, folder.field("method", str), spec.shape)).eval()
    weights = network.state_dict()
    is_whole = sum(part.numel() * part.element_size() for part in weights.values()) <= _MOST_BYTES
    example = torch.zeros(2, *spec.shape, dtype=torch.uint8)
    graph = onnx.load_from_string(as_onnx(network, example, "pixels", ["soft", "features"], has_weights=is_whole))
    for key, value in _metadata(folder, spec).items():
        graph.metadata_props.add(key=key, value=value)
    onnx.checker.check_model(graph)
    if is_whole:
        write_whole(place, lambda file: file.write(graph.SerializeToString()))
    else:
        _write_with_data(onnx, graph, weights, place)


def _write_with_data(onnx: Any, graph: Any, weights: Mapping[str, Tensor], place: Path) -> None:
    """Write the weights that a graph takes as inputs into a file beside it, and then the graph."""
    if place.exists() and not place.is_file():
        raise InvalidInput(
            f"a model of more than {_MOST_BYTES / 1e9:.0f} GB is two files, and {place} takes one. Expected the name "
            "of a file. Choose another --out."
        )
    arrays = {given.name: weights[given.name].numpy() for given in graph.graph.input if given.name in weights}
    digest = hashlib.sha256()
    for block in _paged(arrays.values()):
        digest.update(block)
    beside = place.with_name(f"{place.name}.{digest.hexdigest()[:12]}.data")
    inputs = [given for given in graph.graph.input if given.name not in arrays]
    del graph.graph.input[:]
    graph.graph.input.extend(inputs)
    offset = 0
    for name, array in arrays.items():
        tensor = graph.graph.initializer.add(
            name=name, dims=array.shape, data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        )
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", beside.name), ("offset", offset), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        offset += -(-array.nbytes // _PAGE) * _PAGE

    def fill(file: IO[bytes]) -> None:
        for block in _paged(arrays.values()):
            file.write(block)

    is_new = not beside.exists()
    write_whole(beside, fill)
    try:
        write_whole(place, lambda file: file.write(graph.SerializeToString()))
    except BaseException:
        if is_new:  # otherwise it belongs to the model that still lies there
            beside.unlink(missing_ok=True)
        raise
    _remove_older_data(place, beside)


def _paged(arrays: Iterable[Any]) -> Iterator[memoryview]:
    """Yield the bytes of arrays, each filled up to whole pages."""
    for array in arrays:
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield memoryview(bytes(-array.nbytes % _PAGE))


def _remove_older_data(place: Path, kept: Path) -> None:
    """Remove the weights of models that lay at this place before; a reader who has them open keeps them."""
    ours = re.compile(re.escape(place.name) + r"\.[0-9a-f]{12}\.data")
    for path in place.parent.iterdir():
        if ours.fullmatch(path.name) and path.name != kept.name and path.is_file() and not path.is_symlink():
            with suppress(OSError):
                path.unlink()


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
