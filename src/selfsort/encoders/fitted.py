"""An encoder, or several side by side, as one run uses them: with the centre of its images, kept for new ones.

Shape letters: N images, D features, V views, C channels of feature maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.augment.policy import augment
from selfsort.data.store import allocate_floats
from selfsort.encoders.cache import Rows
from selfsort.encoders.encode import (
    Fitting,
    ReducedMaps,
    feature_maps,
    fit_of,
    fitted_batch,
    map_basis,
    plain_features,
    view_features,
    view_policy,
)
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.encoders.table import VectorTable
from selfsort.errors import InvalidInput
from selfsort.pages import forget
from selfsort.types import F32, Encoded, Encoder, Json, NetworkEncoder, State

On = Literal["features", "maps"]

_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Part:
    """One of the encoders of a run."""

    source: Encoder | VectorTable
    is_general: bool
    """Whether it learned to see in general, and not for this run or by it: then centring and mirroring help."""

    def to_json(self) -> Json:
        """Describe it for config.json."""
        engine = {} if isinstance(self.source, VectorTable) else {"engine": self.source.engine}
        return {"name": self.source.name, "digest": self.source.digest, "dim": self.source.dim, **engine}


@runtime_checkable
class RowSource(Protocol):
    """What gives the features of whole sets of pictures by its own way: a table, or another run."""

    def rows_for(self, pictures: Pictures) -> F32:
        """Return features (N, D)."""
        ...


@dataclass(frozen=True, eq=False)
class FittedEncoder:
    """Encoders with the centres of the images they were fitted on."""

    parts: tuple[Part, ...]
    config: EncodeConfig
    on: On
    state: State
    """mean.0, mean.1, ...: the means of the parts; mean and basis of feature maps."""
    device: torch.device

    @property
    def name(self) -> str:
        """What a person calls it."""
        return "+".join(part.source.name for part in self.parts)

    def is_complete(self) -> bool:
        """Whether the centres are those that the parts ask for: a stored run may claim anything."""
        dims = [part.source.dim for part in self.parts]
        if self.on == "maps":
            shapes = {"map_mean": (dims[0],), "map_basis": (dims[0], min(self.config.map_channels, dims[0]))}
        else:
            centred = [is_centred(part, self.config, len(self.parts)) for part in self.parts]
            shapes = {f"mean.{i}": (dim,) for i, dim in enumerate(dims) if centred[i]}
        arrays = self.state.arrays
        return (
            (self.on == "features" or (len(self.parts) == 1 and isinstance(self.parts[0].source, Encoder)))
            and {name: array.shape for name, array in arrays.items()} == shapes
            and all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays.values())
        )

    def encode(self, pictures: Pictures, *, folder: Path | None = None, with_views: bool = False) -> Encoded:
        """Encode pictures as those that the encoder was fitted on."""
        if self.on == "maps":
            return self._maps(pictures, with_views=with_views, folder=folder)
        raws = [_raw(part, pictures, self.config, self.device, folder) for part in self.parts]
        return Encoded(self._joined(raws), self._views(pictures, folder) if with_views else None)

    def _views(self, pictures: Pictures, folder: Path | None) -> Rows:
        """Encode augmented copies, and bring them to the same centres."""
        kept, fingerprint = folder if pictures.fingerprint else None, pictures.fingerprint or ""
        found = []
        for part in self.parts:
            assert isinstance(part.source, Encoder), "tables have no views"
            found.append(
                view_features(part.source, pictures.images, fingerprint, self.config, folder=kept, device=self.device)
            )
        n, n_views = found[0].shape[:2]
        joined = allocate_floats((n, n_views, sum(rows.shape[2] for rows in found)), "<f2")
        for start in range(0, n, _BLOCK):
            block = slice(start, start + _BLOCK)
            joined[block] = np.concatenate([self._placed(i, rows[block]) for i, rows in enumerate(found)], axis=2)
            _forget_all([*found, joined])
        return joined

    def _joined(self, raws: Sequence[Rows]) -> F32:
        """Bring each part to its centre and to unit length, side by side; the whole has unit length too."""
        joined: F32 = allocate_floats((len(raws[0]), sum(raw.shape[1] for raw in raws)))
        for start in range(0, len(joined), _BLOCK):
            rows = slice(start, start + _BLOCK)
            joined[rows] = np.concatenate([self._placed(i, raw[rows]) for i, raw in enumerate(raws)], axis=1)
            _forget_all([*raws, joined])
        return joined

    def _placed(self, i: int, rows: Rows) -> F32:
        mean = self.state.arrays.get(f"mean.{i}")
        if mean is None:
            return rows.astype(np.float32)
        placed = rows.astype(np.float32) - mean
        norms = np.linalg.norm(placed, axis=-1, keepdims=True)
        unit: F32 = placed / np.maximum(norms, 1e-8) / np.float32(np.sqrt(len(self.parts)))
        return unit

    def _maps(self, pictures: Pictures, *, with_views: bool, folder: Path | None) -> Encoded:
        encoder = cast(Encoder, self.parts[0].source)
        reduce = (torch.from_numpy(self.state.arrays["map_mean"]), torch.from_numpy(self.state.arrays["map_basis"]))
        kept = folder if pictures.fingerprint else None
        plain, views = feature_maps(
            encoder,
            pictures.images,
            pictures.fingerprint or "",
            self.config,
            reduce,
            folder=kept,
            device=self.device,
            with_views=with_views,
        )
        return Encoded(plain, views)

    def network(self, shape: tuple[int, int, int]) -> nn.Module:
        """Return one module from images in [0, 1] of a shape to what `encode` gives, if all parts are networks."""
        networks = []
        for part in self.parts:
            if not isinstance(part.source, NetworkEncoder):
                raise InvalidInput(
                    f"{part.source.name} is a table, a run or a file of its own, which cannot be written into one "
                    "model. Expected an encoder such as efficientnet-lite0. Label new images with selfsort predict."
                )
            networks.append(part.source)
        return EncoderNetwork(networks, self, shape)


class EncoderNetwork(nn.Module):
    """The way from images in [0, 1] of one shape to a run's features, as one module.

    Trained further, it keeps the statistics of batch normalisation that it came with: those of many more images.
    """

    keeps_statistics: ClassVar[bool] = True

    def __init__(self, encoders: Sequence[NetworkEncoder], fitted: FittedEncoder, shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(encoder.network() for encoder in encoders)
        self.fittings = nn.ModuleList(_fitting(shape, encoder) for encoder in encoders)
        self.mirrors = [is_mirrored(part, fitted.config) for part in fitted.parts]
        self.shapes = [encoder.shape for encoder in encoders]
        self.policy = view_policy(max(encoders, key=lambda encoder: min(encoder.shape[:2])), fitted.config)
        self.on = fitted.on
        found = {name: torch.from_numpy(np.array(array)) for name, array in fitted.state.arrays.items()}
        self.reduce = ReducedMaps(found["map_mean"], found["map_basis"]) if self.on == "maps" else nn.Identity()
        for name, tensor in found.items():
            self.register_buffer(name.replace(".", "_"), tensor)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D), or maps (B, C, h, w)."""
        return self._placed([fit(x_BCHW) for fit in self.fittings], self.mirrors)

    def augmented(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Return the same of augmented copies, as `encode.view_features` makes them."""
        x_BCHW = augment(x_BCHW, self.policy, generator)
        return self._placed([fitted_batch(x_BCHW, shape) for shape in self.shapes], [False] * len(self.shapes))

    def train(self, mode: bool = True) -> Self:
        """Stay in evaluation mode."""
        return super().train(False)

    def _placed(self, given: Sequence[Tensor], mirrors: Sequence[bool]) -> Tensor:
        if self.on == "maps":
            maps_BDhw = self.networks[0].maps(given[0])  # type: ignore[operator]
            reduced: Tensor = self.reduce(maps_BDhw)
            return reduced
        found = []
        for i, (network, fitting, mirror) in enumerate(zip(self.networks, given, mirrors, strict=True)):
            rows = (network(fitting) + network(fitting.flip(3))) / 2 if mirror else network(fitting)
            if hasattr(self, f"mean_{i}"):
                rows = rows - self.get_buffer(f"mean_{i}")
                rows = rows / rows.norm(dim=1, keepdim=True).clamp(min=1e-8) / len(self.networks) ** 0.5
            found.append(rows)
        return torch.cat(found, dim=1)


def _fitting(shape: tuple[int, int, int], encoder: NetworkEncoder) -> Fitting:
    fit = fit_of(encoder)
    assert fit != "pad", "no network of ours or of Hugging Face fills up"
    return Fitting(shape, encoder.shape, fit)


def fit_encoder(
    parts: tuple[Part, ...],
    pictures: Pictures,
    config: EncodeConfig,
    *,
    on: On,
    with_views: bool,
    device: torch.device,
    folder: Path | None,
) -> tuple[FittedEncoder, Encoded]:
    """Encode all images of a run, and keep what is needed to encode others alike."""
    if on == "maps":
        return _fit_maps(parts, pictures, config, device=device, folder=folder, with_views=with_views)
    raws = [_raw(part, pictures, config, device, folder) for part in parts]
    means = {f"mean.{i}": _mean(raw) for i, raw in enumerate(raws) if is_centred(parts[i], config, len(parts))}
    fitted = FittedEncoder(parts, config, on, State(means), device)
    return fitted, fitted.encode(pictures, folder=folder, with_views=with_views)


def _fit_maps(
    parts: tuple[Part, ...],
    pictures: Pictures,
    config: EncodeConfig,
    *,
    device: torch.device,
    folder: Path | None,
    with_views: bool,
) -> tuple[FittedEncoder, Encoded]:
    if len(parts) > 1 or isinstance(parts[0].source, VectorTable):
        raise InvalidInput(
            "gatcluster places its attention on the feature maps of one encoder. Expected one network. "
            "Name one encoder, or choose another method."
        )
    mean_D, basis_DC = map_basis(parts[0].source, pictures.images, config.map_channels, device)
    state = State({"map_mean": mean_D.cpu().numpy(), "map_basis": basis_DC.cpu().numpy()})
    fitted = FittedEncoder(parts, config, "maps", state, device)
    return fitted, fitted._maps(pictures, with_views=with_views, folder=folder)


def is_mirrored(part: Part, config: EncodeConfig) -> bool:
    """Whether features are the mean of an image's and its mirror image's."""
    if isinstance(part.source, VectorTable):
        return False
    return part.is_general if config.mirror == "auto" else config.mirror


def is_centred(part: Part, config: EncodeConfig, n_parts: int) -> bool:
    """Whether features are centred and scaled; side by side they always are, or the longer ones would rule."""
    return part.is_general or n_parts > 1 if config.centre == "auto" else config.centre


def _raw(part: Part, pictures: Pictures, config: EncodeConfig, device: torch.device, folder: Path | None) -> Rows:
    if isinstance(part.source, RowSource):
        return part.source.rows_for(pictures)
    return plain_features(
        part.source,
        pictures.images,
        pictures.fingerprint or "",
        is_mirrored=is_mirrored(part, config),
        folder=folder if pictures.fingerprint else None,
        device=device,
    )


def _forget_all(arrays: Sequence[Rows]) -> None:
    for rows in arrays:
        forget(rows)


def _mean(rows: Rows) -> F32:
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _BLOCK):
        total += rows[start : start + _BLOCK].sum(axis=0, dtype=np.float64)
        forget(rows)
    mean: F32 = (total / len(rows)).astype(np.float32)
    return mean
