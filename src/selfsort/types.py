"""The nouns every room of the house shares: small frozen dataclasses, no behaviour.

Shape letters: N images, H x W pixels, C channels, D features, K clusters.

`Images` carries no ground truth. Methods receive `Images` and nothing else,
so no label can reach them; scoring happens in the loop outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from selfsort.config import Config
from selfsort.errors import invalid

if TYPE_CHECKING:
    import torch
    from torch import nn

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]
Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Images:
    """Decoded pictures, all of one size: uint8, shape (N, H, W, C), C = 1 (gray) or 3 (RGB)."""

    pixels: U8

    def __post_init__(self) -> None:
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 4:
            raise invalid(
                "pixels",
                "be a uint8 array of shape (images, height, width, channels)",
                f"{self.pixels.dtype} of shape {self.pixels.shape}",
                "Use selfsort.data.from_array to convert other layouts.",
            )
        if self.pixels.shape[3] not in (1, 3):
            raise invalid(
                "the channel count", "be 1 (gray) or 3 (RGB)", self.pixels.shape[3], "Convert the images first."
            )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image."""
        height, width, channels = self.pixels.shape[1:]
        return height, width, channels

    def subset(self, rows: npt.NDArray[Any] | slice) -> Images:
        """Return the images at these rows."""
        return Images(self.pixels[rows])


@dataclass(frozen=True, eq=False)
class Encoded:
    """Images as an encoder sees them: what a method gets in place of `Images` when a run has an encoder."""

    features: F32
    """(N, D), or (N, C, h, w) feature maps, of the images as they are."""
    views: npt.NDArray[np.float16] | None = None
    """(N, V, ...) the same of V augmented copies of each image, for those that learn from views."""

    def __len__(self) -> int:
        return len(self.features)

    @property
    def shape(self) -> tuple[int, ...]:
        """(D,), or the height, width and channels of maps."""
        if self.features.ndim == 2:
            return (self.features.shape[1],)
        channels, height, width = self.features.shape[1:]
        return height, width, channels

    def subset(self, rows: npt.NDArray[Any] | slice) -> Encoded:
        """Return the images at these rows."""
        return Encoded(self.features[rows], None if self.views is None else self.views[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class Tunable(Encoded):
    """Images whose encoder learns along with a method; `features` are those that it gave at the beginning."""

    images: Images
    network: nn.Module
    """From images in [0, 1] to what `features` holds; its `augmented` does the same to augmented copies of them."""
    rate: float
    """What part of each step of the method the encoder takes."""

    def subset(self, rows: npt.NDArray[Any] | slice) -> Tunable:
        """Return the images at these rows, seen by the same network."""
        return Tunable(self.features[rows], images=self.images.subset(rows), network=self.network, rate=self.rate)


Inputs = Images | Encoded
"""What a method learns from. Shapes of one number are features, of three pixels or (from an encoder) maps."""


@dataclass(frozen=True, eq=False)
class State:
    """Anything that has to survive on disk: named arrays (safetensors) and JSON. Never pickled."""

    arrays: Arrays = field(default_factory=dict)
    meta: Json = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a fitted model says about some images."""

    features: F32
    """(N, D) the representation the clusters live in."""
    soft: F32
    """(N, K) how strongly each image belongs to each cluster; rows sum to one."""

    @property
    def labels(self) -> I64:
        """The strongest cluster of each image; ties go to the lowest number."""
        labels: I64 = np.argmax(self.soft, axis=1).astype(np.int64)
        return labels


class Model(Protocol):
    """A fitted method, ready to sort images it has never seen."""

    def apply(self, images: Any, layer: str = "top") -> Assignment:
        """Return features of the named layer and soft assignments of images, or of what its encoder makes of them."""
        ...


class FeatureModel(Model, Protocol):
    """A fitted method that can also judge ready-made features."""

    def assign(self, features: F32) -> F32:
        """Return soft assignments (N, K) of feature rows."""
        ...


@runtime_checkable
class NetworkModel(Model, Protocol):
    """A model that is one network: it can be exported, and go through a second stage."""

    def network(self) -> nn.Module:
        """Return a module from images (B, C, H, W) in [0, 1] to soft assignments (B, K) and features (B, D)."""
        ...


@runtime_checkable
class ExportableModel(Model, Protocol):
    """A model that is no network to be trained, but can be written as one: it compares with what it has stored."""

    def exported(self) -> nn.Module:
        """Return a module from images (B, C, H, W) in [0, 1], or features, to soft assignments and features."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """What turns images into features before a method starts. Shape letters: B batch, C channels, D features."""

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of its weights and of all that is done to an image; equal digests mean equal features."""
        ...

    @property
    def engine(self) -> str:
        """What computes it: engines round differently."""
        ...

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images it takes."""
        ...

    @property
    def dim(self) -> int:
        """How many features it gives."""
        ...

    def features(self, x_BCHW: torch.Tensor) -> torch.Tensor:
        """Return features (B, D) of images in [0, 1], of its own shape; mean and deviation are its own affair."""
        ...


@runtime_checkable
class NetworkEncoder(Encoder, Protocol):
    """An encoder that is one network: it can be exported, trained further, and asked for its last feature map."""

    def network(self) -> nn.Module:
        """Return a module from images (B, C, H, W) in [0, 1] to features (B, D), whose `maps` gives (B, D, h, w)."""
        ...


@dataclass(frozen=True, eq=False)
class Clustering:
    """The result of a finished run."""

    labels: I64
    """(N,) cluster of each training image, 0..K-1; read from a run that looked for outliers, -1 for these."""
    soft: F32
    """(N, K) soft assignments; the confidence of an image is its label's entry."""
    features: F32
    """(N, D) features of the training images."""
    model: State
    """What the method's `restore` turns back into a Model."""
    extras: Arrays = field(default_factory=dict)
    """Further arrays worth keeping: merge history, second labelling, attention maps."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Where a method stands after one epoch or merge round."""

    step: int
    """Counts from 1."""
    total: int
    """How many steps are expected as far as is known now."""
    labels: I64
    """(N,) current labels; there may be more of them than clusters asked for."""
    event: Mapping[str, float | int | str]
    """Losses and counters for events.jsonl."""
    state: Callable[[], State]
    """Everything needed to go on from here; call it before advancing the generator."""
    result: Clustering | None = None
    """Set on the last snapshot only: the last iterate is the result."""
    warnings: tuple[str, ...] = ()
    """Plain sentences the user must see."""
    history: Arrays = field(default_factory=dict)
    """Arrays of this stage to keep for the report's figures."""


class Train(Protocol):
    """The shape of every method's `train`. A method that learns on encoders gets `Encoded` from them."""

    def __call__(
        self,
        images: Any,
        config: Any,
        *,
        device: torch.device,
        seed: int,
        resume: State | None = None,
    ) -> Iterator[Snapshot]:
        """Yield a snapshot per epoch or merge round; the last one carries the result."""
        ...


class TrainFrom(Protocol):
    """How a method goes on from a finished run of its own."""

    def __call__(
        self,
        start: State,
        images: Any,
        config: Any,
        *,
        device: torch.device,
        seed: int,
        resume: State | None = None,
    ) -> Iterator[Snapshot]:
        """Same as `Train`, beginning with that run's model."""
        ...


class TrainOnFeatures(Protocol):
    """How the classical methods cluster features somebody else has made."""

    def __call__(
        self,
        features: F32,
        config: Any,
        *,
        device: torch.device,
        seed: int,
        resume: State | None = None,
    ) -> Iterator[Snapshot]:
        """Same as `Train`, from an (N, D) array."""
        ...


class Restore(Protocol):
    """The shape of every method's `restore`."""

    def __call__(self, config: Any, state: State, *, device: torch.device) -> Model:
        """Rebuild a fitted model from what was saved."""
        ...


@dataclass(frozen=True)
class Improvable:
    """How what is around a method reaches into one whose network labels the images while it trains."""

    open: Callable[..., Any]
    """`(images, config, *, device, seed, state)` gives a `learning.trainee.Trainee`: the training as it was saved, or
    before its first step if the state is None."""
    unit: str
    """What the training is counted in, in the plural: pools, large batches, epochs."""
    done: Callable[[Any, int], int]
    """(config, step) -> how many of these are done at that snapshot; the last snapshot tells how many there are."""
    total: Callable[[Any, int], int]
    """(config, number of images) -> how many snapshots a whole training has."""


@dataclass(frozen=True)
class Method:
    """One entry of METHODS."""

    name: str
    summary: str
    """One line for `selfsort methods`."""
    source: str
    """Citation."""
    config: type[Config]
    train: Train
    restore: Restore
    is_inductive: bool
    """True if `apply` on the training images gives back exactly the fitted labels."""
    train_on_features: TrainOnFeatures | None = None
    """Given by the classical methods; their models are `FeatureModel`s."""
    train_from: TrainFrom | None = None
    """Given by methods that can begin with the model of an earlier run."""
    train_after: TrainStage | None = None
    """Given by methods that can also begin with a finished run of any method, as a stage does."""
    is_shareable: bool = False
    """True if several processes can train it together (torchrun)."""
    improvable: Improvable | None = None
    """Given by methods that can have several starts and be regrouped."""
    learns_on: Literal["features", "maps"] | None = None
    """What of an encoder it takes in place of pixels; None: it works on pixels only."""
    needs_views: bool = False
    """True if it learns from augmented copies of the images, which a table of features does not have."""
    finetunes: bool = False
    """True if it can train its encoder too: it calls `learning.finetune.train_along`."""
    check: Callable[[], None] | None = None
    """Raises if a package that it cannot do without is missing; asked before any image is read."""


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """What a second stage gets of the run it goes on from."""

    method: str
    model: Model
    others: tuple[Model, ...] = ()
    """Models of further runs on the same images, for a stage that takes several."""


class TrainStage(Protocol):
    """The shape of every stage's `train`."""

    def __call__(
        self,
        run: FinishedRun,
        images: Any,
        config: Any,
        *,
        device: torch.device,
        seed: int,
        resume: State | None = None,
    ) -> Iterator[Snapshot]:
        """Same as `Train`, going on from a finished run, which stays as it is."""
        ...


class RestoreStage(Protocol):
    """The shape of every stage's `restore`."""

    def __call__(self, run: FinishedRun, config: Any, state: State, *, device: torch.device) -> Model:
        """Rebuild the model of a stage, given the run it went on from."""
        ...


@dataclass(frozen=True)
class Stage:
    """One entry of STAGES: what can be done after any run."""

    name: str
    summary: str
    source: str
    config: type[Config]
    train: TrainStage
    restore: RestoreStage
    is_inductive: bool
    is_shareable: bool = False
    made_by: str = ""
    """The command that makes it where it needs more of a run folder than its model."""
    takes_several: bool = False
    """True if it makes one clustering of several runs."""

    def after(self, run: FinishedRun) -> Method:
        """Return the stage as a method: given a run, it takes images and yields snapshots like any other."""
        return Method(
            self.name,
            self.summary,
            self.source,
            self.config,
            partial(self.train, run),
            partial(self.restore, run),
            is_inductive=self.is_inductive,
            is_shareable=self.is_shareable,
        )
