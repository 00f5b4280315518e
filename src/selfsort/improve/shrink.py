"""Large images averaged down for any method that learns a network from pixels; ours, off by default.

A network computes sixteen times as much of an image of 128 pixels as of one of 32, and holds sixteen times as much of a
batch. What tells clusters apart is mostly seen at 32. So the method learns from images averaged down once, as bytes,
and its model does the same with new ones. Whoever asks a run for its size gets that of the images, as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeGuard

import torch
from torch import nn

from selfsort.config import Config
from selfsort.data.store import allocate
from selfsort.learning.encode import check_request
from selfsort.nets.averaged import Averaged, averaged_blocks, averaging_factor
from selfsort.pages import passes
from selfsort.types import (
    Assignment,
    ExportableModel,
    Images,
    Inputs,
    Method,
    Model,
    NetworkModel,
    Snapshot,
    State,
)

SEEN_FROM = "averaged_from"
"""In the state of a model: height, width and channels of the images before they are averaged down."""


def smaller(images: Images) -> Images:
    """Return images averaged down, within the memory budget of the process or in a mapped file."""
    factor = averaging_factor(images.shape)
    height, width, channels = images.shape
    pixels, _ = allocate((len(images), height // factor, width // factor, channels), None)
    for block in passes(images.pixels):
        pixels[block] = averaged_blocks(images.pixels[block], factor, factor)
    return Images(pixels)


def is_large(images: Inputs) -> TypeGuard[Images]:
    """Whether there is anything to average."""
    return isinstance(images, Images) and averaging_factor(images.shape) > 1


def remembering(snapshots: Iterator[Snapshot], shape: tuple[int, ...]) -> Iterator[Snapshot]:
    """Let the model at the end know what it was shown."""
    for snapshot in snapshots:
        result = snapshot.result
        if result is None:
            yield snapshot
            continue
        model = State(result.model.arrays, {**result.model.meta, SEEN_FROM: list(shape)})
        yield replace(snapshot, result=replace(result, model=model))


def restored(method: Method, config: Config, state: State, *, device: torch.device) -> Model:
    """Rebuild a fitted model; one that has learned from smaller images gets a shrinking before it."""
    model = method.restore(config, state, device=device)
    if SEEN_FROM not in state.meta:
        return model
    height, width, channels = map(int, state.meta[SEEN_FROM])
    kind = SmallModel
    if isinstance(model, NetworkModel):
        kind = _SmallNetworkModel
    elif isinstance(model, ExportableModel):
        kind = _SmallExportableModel
    return kind(model, (height, width, channels))


class SmallModel:
    """A model that is asked about images of one size, and sees them averaged down."""

    def __init__(self, inner: Any, shape: tuple[int, int, int]) -> None:
        self.inner, self.shape = inner, shape

    def apply(self, images: Any, layer: str = "top") -> Assignment:
        """Return features and soft assignments of images as large as those of the run."""
        check_request(images, self.shape, layer, (layer,))
        found: Assignment = self.inner.apply(smaller(images), layer)
        return found

    def __getattr__(self, name: str) -> Any:
        """Have the parts that the model has, but none of its other ways to be asked: those take smaller images."""
        if name == "inner":  # not there yet, while a copy is made
            raise AttributeError(name)
        found = getattr(self.inner, name)
        if callable(found) and not isinstance(found, nn.Module):
            raise AttributeError(name)
        return found

    def _before(self, module: nn.Module) -> nn.Module:
        return nn.Sequential(Averaged(averaging_factor(self.shape)), module).eval()


class _SmallNetworkModel(SmallModel):
    def network(self) -> nn.Module:
        return self._before(self.inner.network())


class _SmallExportableModel(SmallModel):
    def exported(self) -> nn.Module:
        return self._before(self.inner.exported())
