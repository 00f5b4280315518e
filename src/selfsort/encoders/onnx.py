"""An encoder from an ONNX file, through onnxruntime.

What the file must be: one input, of images (four axes, channels first or last, one or three of them), and at least one
pooled output. What is done to an image before it goes in:

- what `selfsort export --to onnx` wrote into the file's metadata: size, channels, aspect ratio;
- uint8 inputs get the pixels, 0..255: such a graph scales them itself;
- other inputs get (x - mean) / std of pixels in [0, 1], with the mean and deviation given. Without any, RGB images get
  those of ImageNet, with which most published files were trained, and gray ones stay as they are. A graph that does
  this itself needs mean=0, std=1.

The file is read for what it claims before onnxruntime opens it: weights that lie outside its folder are never touched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from selfsort.data import Fit, ImageSpec
from selfsort.encoders._batch import checked_batch, checked_features
from selfsort.encoders._files import digest_of, first_line, require_file
from selfsort.encoders._protobuf import Claims, Outside, Unreadable, read_claims
from selfsort.errors import InvalidInput, MissingData, invalid, missing_extra
from selfsort.types import Json

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

_FLOATS = {"tensor(float)": "float32", "tensor(float16)": "float16", "tensor(double)": "float64"}
_DTYPES = {**_FLOATS, "tensor(uint8)": "uint8"}
_LARGEST_SIDE = 4096
# More would be no quicker on a processor, and onnxruntime keeps the memory that the largest batch took.
_BATCH = 4
# What onnxruntime itself knows; operators of any other domain are somebody's own.
_KNOWN_DOMAINS = ("ai.onnx", "com.microsoft", "com.ms")

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OnnxInput:
    """What is done to images in [0, 1] of shape (batch, channels, height, width) before they enter the graph."""

    name: str
    height: int
    width: int
    channels: int
    dtype: str
    is_channels_last: bool
    batch: int | None
    """How many images the graph takes at once; None: any number."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fit: Fit

    def prepare(self, x_BCHW: Tensor) -> Array:
        """Return the array that the graph takes."""
        if self.dtype == "uint8":
            ready = (x_BCHW * 255).round().clamp(0, 255).to(torch.uint8)
        else:
            mean, std = (
                torch.tensor(values, dtype=torch.float32).view(1, -1, 1, 1) for values in (self.mean, self.std)
            )
            ready = (x_BCHW.float() - mean) / std
        if self.is_channels_last:
            ready = ready.permute(0, 2, 3, 1)
        array: Array = np.ascontiguousarray(ready.numpy()).astype(self.dtype, copy=False)
        return array


@dataclass(frozen=True, eq=False)
class OnnxEncoder:
    """An ONNX graph that turns images into features."""

    name: str
    digest: str
    dim: int
    input: OnnxInput
    output: str
    session: Any

    @property
    def engine(self) -> str:
        """What computes it."""
        return "onnxruntime"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images it takes."""
        return self.input.height, self.input.width, self.input.channels

    @property
    def fit(self) -> Fit:
        """What has to be done about another aspect ratio."""
        return self.input.fit

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D) of images in [0, 1], on the device they came from."""
        x = checked_batch(x_BCHW, self.shape, self.name).detach().cpu()
        at_once = self.input.batch or _BATCH
        chunks = [x[start : start + at_once] for start in range(0, len(x), at_once)]
        rows = [_pooled(self._run(chunk), self.input)[: len(chunk)] for chunk in chunks]
        found = torch.from_numpy(np.concatenate(rows)) if rows else torch.zeros(0, self.dim)
        return checked_features(found, self.name).to(x_BCHW.device)

    def _run(self, chunk: Tensor) -> Array:
        array = self.input.prepare(chunk)
        if self.input.batch is not None and len(array) < self.input.batch:
            array = np.concatenate([array, np.repeat(array[-1:], self.input.batch - len(array), axis=0)])
        found: Array = _run(self.session, self.name, [self.output], {self.input.name: array})[0]
        return found


def open_onnx(
    path: Path | str,
    *,
    output: str | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    side: int | None = None,
    device: torch.device,
) -> OnnxEncoder:
    """Open an ONNX file as an encoder.

    Args:
        path: the .onnx file; weights beside it are found as it names them.
        output: name of the output to use. None: `features` if there is one (as in our own exports), else the last
            output of shape (batch, features), else the last of shape (batch, features, height, width), averaged.
        mean: of pixels in [0, 1], one for all channels or one each; with `std`. See the top of this file for None.
        std: the deviation to divide by.
        side: height and width, for a graph that leaves them open.
        device: where to compute; CUDA if this is a CUDA device and onnxruntime was built for it, else the processor.
    """
    path = Path(path)
    require_file(path)
    try:
        import onnxruntime
    except ImportError:
        raise missing_extra("onnxruntime", "an encoder from an ONNX file", "onnx") from None
    try:
        claims = read_claims(path)
    except Unreadable as error:
        raise InvalidInput(
            f"{path.name} cannot be read: {error}. Expected a whole ONNX model. Export or download it again."
        ) from None
    files = [("", path), *_outside_files(path, claims.outside)]
    graph = _open_graph(onnxruntime, path, claims, device)
    taken = _understand_input(graph, mean=mean, std=std, side=side)
    name, dim = _choose_output(graph, taken, output)
    digest = digest_of(files, {"input": asdict(taken), "output": name})
    return OnnxEncoder(path.name, digest, dim, taken, name, graph.session)


# Files


def _outside_files(path: Path, outside: list[Outside]) -> list[tuple[str, Path]]:
    """Return the further files of a model, all of which lie beside it and are as long as they must be."""
    # A model in a store of links (as the Hugging Face cache is) has its further files beside what it links to.
    folders = {path.parent.resolve(), path.resolve().parent}
    found: dict[str, Path] = {}
    for tensor in outside:
        location = tensor.location
        if location not in found:
            found[location] = _beside(path, location, folders)
        present, needed = found[location].stat().st_size, tensor.offset + (tensor.n_bytes or 0)
        if needed > present:
            raise InvalidInput(
                f"{location} has {present:,} bytes, and {path.name} needs {needed:,} of it. Expected the whole file. "
                "Download it again."
            )
    return sorted(found.items())


def _beside(path: Path, location: str, folders: set[Path]) -> Path:
    windows = PureWindowsPath(location)
    # onnxruntime takes that one name for an address in memory.
    is_plain = bool(location) and "\0" not in location and "_ORT_MEM_ADDR_" not in location
    if is_plain and not windows.anchor and not PurePosixPath(location).anchor and ".." not in windows.parts:
        target = path.parent / location
        if not target.exists():
            raise MissingData(
                f"{path.name} has weights in {location!r}, which is not there. Expected it beside the model. "
                "Copy or download both files."
            )
        if target.is_file() and any(target.resolve().is_relative_to(folder) for folder in folders):
            return target
    raise InvalidInput(
        f"{path.name} has weights at {location!r}, which lies outside its folder. Expected all its files beside it. "
        "Save the model as one file, or with its weights in the same folder."
    )


# Graph


@dataclass(frozen=True, eq=False)
class _Graph:
    """What onnxruntime says of an opened file."""

    name: str
    session: Any
    inputs: list[tuple[str, str, list[Any]]]
    """Name, type, axes."""
    outputs: list[str]
    metadata: dict[str, str]


def _open_graph(onnxruntime: Any, path: Path, claims: Claims, device: torch.device) -> _Graph:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    # Threads that wait by spinning would take the processor from those that decode the next images.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    providers: list[Any] = ["CPUExecutionProvider"]
    if device.type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        providers.insert(0, ("CUDAExecutionProvider", {"device_id": device.index or 0}))
    try:
        # Without its second attempt, which it announces on standard output.
        session = onnxruntime.InferenceSession(str(path), options, providers=providers, enable_fallback=0)
        return _Graph(
            path.name,
            session,
            [(given.name, given.type, list(given.shape)) for given in session.get_inputs()],
            [given.name for given in session.get_outputs()],
            dict(session.get_modelmeta().custom_metadata_map),
        )
    except Exception as error:
        foreign = sorted(
            f"{domain}.{name}"
            for domain, name in claims.operators - claims.functions
            if domain and not domain.startswith(_KNOWN_DOMAINS)
        )
        if foreign:
            raise InvalidInput(
                f"{path.name} needs operators that onnxruntime does not have: {', '.join(foreign[:5])}. "
                "Expected standard ONNX operators. Export the model without its own."
            ) from None
        raise InvalidInput(
            f"onnxruntime cannot open {path.name}: {first_line(error)}. Expected a valid model. Export it again."
        ) from None


def _run(session: Any, name: str, outputs: list[str] | None, given: dict[str, Array]) -> list[Array]:
    try:
        found: list[Array] = session.run(outputs, given)
    except Exception as error:
        shape = next(iter(given.values())).shape
        raise InvalidInput(
            f"{name} failed on images of shape {shape}: {first_line(error)}. Expected a graph that takes this shape. "
            "Give another size with side, or export the model again."
        ) from None
    return found


# Input


def _understand_input(
    graph: _Graph, *, mean: float | Sequence[float] | None, std: float | Sequence[float] | None, side: int | None
) -> OnnxInput:
    name = graph.name
    if len(graph.inputs) != 1:
        raise _no_images(name, f"it has {len(graph.inputs)} inputs ({', '.join(given for given, *_ in graph.inputs)})")
    ((given, dtype, shape),) = graph.inputs
    if dtype not in _DTYPES:
        raise _no_images(name, f"its input {given} is of type {dtype}")
    if len(shape) != 4:
        raise _no_images(name, f"its input {given} has {len(shape)} axes")
    # Axes left open have a name, or None.
    batch, *axes = (axis if isinstance(axis, int) and axis > 0 else None for axis in shape)
    spec = _own_spec(graph)
    is_last = _is_channels_last(axes, spec)
    channels, height, width = (axes[2], axes[0], axes[1]) if is_last else axes
    channels = channels or (spec.channels if spec else 3)
    if channels not in (1, 3):
        raise _no_images(name, f"its input {given} has {channels} channels")
    height = _length("height", height or (spec.height if spec else None), side, name)
    width = _length("width", width or (spec.width if spec else None), side, name)
    means, stds = _normalisation(mean, std, channels, _DTYPES[dtype], name)
    return OnnxInput(
        name=given,
        height=height,
        width=width,
        channels=channels,
        dtype=_DTYPES[dtype],
        is_channels_last=is_last,
        batch=batch,
        mean=means,
        std=stds,
        fit=spec.fit if spec else "crop",
    )


def _no_images(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{name} takes no images: {why}. Expected one input of shape (batch, channels, height, width) with 1 or 3 "
        "channels. Export the part of the model that takes images."
    )


def _is_channels_last(axes: list[int | None], spec: ImageSpec | None) -> bool:
    first, _, last = axes
    if spec is not None and last == spec.channels and axes[:2] == [spec.height, spec.width]:
        return True
    return first not in (1, 3) and last in (1, 3)


def _own_spec(graph: _Graph) -> ImageSpec | None:
    """Return what our own export wrote about the images; None for the files of others."""
    if "selfsort" not in graph.metadata:
        return None
    try:
        values: Json = json.loads(graph.metadata["preprocessing"])
        return ImageSpec.from_json({key: values[key] for key in ("height", "width", "channels", "fit")})
    except (KeyError, TypeError, ValueError, RecursionError):
        raise InvalidInput(
            f"the metadata of {graph.name} does not say what images it takes. Expected what selfsort export writes. "
            "Export it again."
        ) from None


def _length(axis: str, known: int | None, side: int | None, name: str) -> int:
    """Return the height or width: that of the graph or its metadata, or else the one asked for."""
    if known is None and side is None:
        raise InvalidInput(
            f"{name} takes images of any {axis}. Expected a size. Give it with side, for example side=224."
        )
    length = known or side
    if side is not None and side != length:
        raise invalid("side", f"be {length}, the {axis} {name} was made for", side, "Leave it out.")
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= _LARGEST_SIDE:
        raise invalid(
            f"the {axis} of images", f"be between 1 and {_LARGEST_SIDE}", length, "Give another size or model."
        )
    return length


def _normalisation(
    mean: float | Sequence[float] | None, std: float | Sequence[float] | None, channels: int, dtype: str, name: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    plain = (0.0,) * channels, (1.0,) * channels
    if mean is None and std is None:
        return (IMAGENET_MEAN, IMAGENET_STD) if channels == 3 and dtype != "uint8" else plain
    if dtype == "uint8":
        raise InvalidInput(f"{name} takes whole pixels (uint8) and scales them itself. Leave mean and std out.")
    if mean is None or std is None:
        raise InvalidInput(
            "mean and std belong together. Expected both or none. Give the other one too (0 and 1 are neutral)."
        )
    means, stds = ((value,) * channels if isinstance(value, int | float) else tuple(value) for value in (mean, std))
    for option, values in (("mean", means), ("std", stds)):
        if len(values) != channels or not all(math.isfinite(value) for value in values):
            raise invalid(option, f"be a number, or {channels} of them", values, "One for each channel.")
    if min(stds) <= 0:
        raise invalid("std", "be above 0", stds, "Pixels are divided by it.")
    return tuple(map(float, means)), tuple(map(float, stds))


# Output


def _choose_output(graph: _Graph, taken: OnnxInput, wanted: str | None) -> tuple[str, int]:
    """Return the output to use and how many features it has, seen on images rather than believed."""
    name, names = graph.name, graph.outputs
    if wanted is not None and wanted not in names:
        raise invalid("the output", f"be one of {', '.join(names)}", repr(wanted), f"These are what {name} gives.")
    asked = names if wanted is None else [wanted]
    n = taken.batch or 2
    images = torch.linspace(0, 1, n * taken.channels * taken.height * taken.width)
    array = taken.prepare(images.view(n, taken.channels, taken.height, taken.width))
    found = dict(zip(asked, _run(graph.session, name, asked, {taken.name: array}), strict=True))
    pooled = {key: value.shape[1] for key, value in found.items() if _is_pooled(value, n, 2)}
    averaged = {key: _pooled(value, taken).shape[1] for key, value in found.items() if _is_pooled(value, n, 4)}
    usable = pooled or averaged
    if not usable:
        shapes = ", ".join(f"{key} {getattr(value, 'shape', '')}" for key, value in found.items())
        raise InvalidInput(
            f"{name} gives no pooled features: for {n} images {shapes}. Expected floats of shape (batch, features) or "
            "(batch, features, height, width). Export the model with its pooled output."
        )
    chosen = "features" if "features" in usable else list(usable)[-1]
    return chosen, usable[chosen]


def _is_pooled(value: Any, n: int, ndim: int) -> bool:
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return is_float and value.ndim == ndim and len(value) == n and value.size > 0


def _pooled(value: Array, taken: OnnxInput) -> Array:
    with np.errstate(all="ignore"):  # what is too large becomes infinite, and is refused later
        rows: Array = value.astype(np.float32)
        if rows.ndim == 4:
            # A graph that takes channels last gives them last.
            rows = rows.mean(axis=(1, 2) if taken.is_channels_last else (2, 3))
    return rows
