"""The encoder of a run as something that learns along with a method, and as what became of it.

While it learns, its network is a part of the method's (`learning.finetune`), so that states are saved and restored with
both. In the finished model its weights stand beside the method's own, as `encoder.0.NAME` and so on.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from selfsort.data import Fit
from selfsort.encoders._batch import checked_batch, checked_features
from selfsort.encoders.encode import fit_of
from selfsort.encoders.fitted import FittedEncoder, Part
from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput
from selfsort.learning.checkpoint import unpack_module
from selfsort.learning.finetune import TUNED
from selfsort.types import Arrays, Clustering, Encoded, Images, Method, NetworkEncoder, Snapshot, State, Tunable

PREFIX = "encoder."
_LEARNED = f"net.{TUNED}."
"""Before what a method saves of the encoder that is part of its network."""


def check_tunable(method: Method, parts: tuple[Part, ...], config: EncodeConfig) -> None:
    """Refuse to train an encoder that is no network, or with a method that has nothing to teach it."""
    if config.finetune == "none":
        return
    if not method.finetunes:
        raise InvalidInput(
            f"{method.name} cannot train its encoder, as encoder.finetune={config.finetune} asks. "
            "Expected a method such as dac, gatcluster, jule or secu. Choose one, or leave the setting out."
        )
    for part in parts:
        if not isinstance(part.source, NetworkEncoder):
            raise InvalidInput(
                f"{part.source.name} cannot be trained further: it is a table, an ONNX file or a run. Expected a "
                "network such as efficientnet-lite0 or a Hugging Face model. Name one, or leave encoder.finetune out."
            )
        if config.finetune == "last" and not hasattr(part.source.network(), "last_weights"):
            raise InvalidInput(
                f"{part.source.name} does not say what its last stage is. Expected an encoder that does. "
                "Use encoder.finetune=all."
            )


def tunable(fitted: FittedEncoder, encoded: Encoded, images: Images) -> Tunable:
    """Return images together with the network that is to learn; what is not to be trained stands still."""
    network = fitted.network(images.shape).requires_grad_(False)
    for part in cast(nn.ModuleList, network.networks):
        weights = part.parameters() if fitted.config.finetune == "all" else cast(Any, part).last_weights()
        for weight in weights:
            weight.requires_grad_(True)
    return Tunable(encoded.features, images=images, network=network.to(fitted.device), rate=fitted.config.finetune_rate)


def finetuning(method: Method) -> Method:
    """Return a method whose every training begins with a copy of its own of the encoder, and which gives it away."""

    def train(images: Tunable, config: Any, **rest: Any) -> Iterator[Snapshot]:
        for snapshot in method.train(_own(images), config, **rest):
            yield snapshot if snapshot.result is None else replace(snapshot, result=_named(snapshot.result))

    def open_own(images: Tunable, config: Any, **rest: Any) -> Any:
        assert method.improvable is not None
        return method.improvable.open(_own(images), config, **rest)

    improvable = None if method.improvable is None else replace(method.improvable, open=open_own)
    return replace(method, train=train, improvable=improvable)


def _own(images: Tunable) -> Tunable:
    return replace(images, network=copy.deepcopy(images.network))


def _named(result: Clustering) -> Clustering:
    """Take the encoder out of the network of a method."""
    arrays: Arrays = {}
    networks = f"{_LEARNED}networks."
    for name, array in result.model.arrays.items():
        if name.startswith(networks):
            arrays[PREFIX + name.removeprefix(networks)] = array
        elif not name.startswith(_LEARNED):
            arrays[name] = array
    return replace(result, model=State(arrays, result.model.meta))


@dataclass(frozen=True, eq=False)
class TunedEncoder:
    """An encoder with other weights than it came with."""

    base: NetworkEncoder
    tuned: nn.Module
    digest: str
    device: torch.device

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.base.name

    @property
    def engine(self) -> str:
        """What computes it: that by which it was trained."""
        return f"torch {torch.__version__}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images it takes."""
        return self.base.shape

    @property
    def dim(self) -> int:
        """How many features it gives."""
        return self.base.dim

    @property
    def fit(self) -> Fit:
        """What has to be done about another aspect ratio."""
        return fit_of(self.base)

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D) of images in [0, 1], on the device they came from."""
        x = checked_batch(x_BCHW, self.shape, self.name).to(self.device)
        with torch.no_grad():
            found: Tensor = self.tuned(x)
        return checked_features(found, self.name).to(x_BCHW.device)

    def network(self) -> nn.Module:
        """Return a copy."""
        return copy.deepcopy(self.tuned)


def tuned(fitted: FittedEncoder, model: State) -> FittedEncoder:
    """Return an encoder as a finished model has left it, if that has trained it at all."""
    if not any(name.startswith(PREFIX) for name in model.arrays):
        return fitted
    parts = []
    for i, part in enumerate(fitted.parts):
        base = part.source
        if not isinstance(base, NetworkEncoder):
            raise InvalidInput(
                f"{base.name} cannot have been trained further. Expected the network that the run was made with. "
                "Say with --encoder where it is."
            )
        network, prefix = base.network(), f"{PREFIX}{i}"
        unpack_module(prefix, network, model.arrays)
        digest = hashlib.sha256(base.digest.encode())
        for name, array in sorted(model.arrays.items()):
            if name.startswith(f"{prefix}."):
                digest.update(array.tobytes())
        source = TunedEncoder(base, network.to(fitted.device).eval(), digest.hexdigest(), fitted.device)
        parts.append(Part(source, part.is_general))
    return replace(fitted, parts=tuple(parts))
