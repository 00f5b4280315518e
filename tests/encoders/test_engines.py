"""onnxruntime and torch, on a network small enough to open in no time."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor, nn

from selfsort.encoders.engines import Engine, open_engine
from selfsort.errors import InvalidInput, MissingData
from selfsort.learning.batches import from_bytes

CPU = torch.device("cpu")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def engine(recorded: str | None = None, device: torch.device = CPU) -> Engine:
    return open_engine(network(), torch.zeros(2, 3, 8, 8), device, recorded)


@pytest.fixture
def images() -> Tensor:
    return torch.rand(11, 8, 8, 3, generator=torch.Generator().manual_seed(1)).permute(0, 3, 1, 2)


def hide(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make importing it fail."""
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("kind", ["onnxruntime", "torch"])
class TestEveryEngine:
    def test_it_gives_what_the_network_gives(self, kind: str, images: Tensor) -> None:
        found = engine(kind)
        assert found.name.split()[0] == kind
        expected = network()(images).detach()
        torch.testing.assert_close(found.run(images), expected, atol=1e-5, rtol=0)

    def test_images_do_not_depend_on_each_other_nor_on_the_threads(self, kind: str, images: Tensor) -> None:
        found = engine(kind)
        together = found.run(images)
        n_threads = torch.get_num_threads()
        try:
            torch.set_num_threads(3)
            apart = torch.cat([found.run(images[:1]), found.run(images[1:8]), found.run(images[8:])])
        finally:
            torch.set_num_threads(n_threads)
        if kind == "onnxruntime":
            assert torch.equal(together, apart)
        torch.testing.assert_close(together, apart, atol=1e-5, rtol=0)

    def test_bytes_give_what_their_floats_give(self, kind: str, images: Tensor) -> None:
        pixels = images.mul(255).byte()
        found, expected = engine(kind).run(pixels), engine(kind).run(from_bytes(pixels))
        assert torch.equal(found, expected)
        assert torch.equal(pixels, images.mul(255).byte())

    def test_floats_are_left_as_they_are(self, kind: str, images: Tensor) -> None:
        before = images.clone().contiguous()
        engine(kind).run(before)
        assert torch.equal(before, images)

    def test_no_images(self, kind: str, images: Tensor) -> None:
        assert engine(kind).run(images[:0]).shape == (0, 5)

    def test_what_comes_out_can_be_learned_from(self, kind: str, images: Tensor) -> None:
        head = nn.Linear(5, 2)
        head(engine(kind).run(images)).sum().backward()
        assert head.weight.grad is not None

    def test_another_version_of_the_same_kind_will_do(self, kind: str) -> None:
        assert engine(f"{kind} 0.1").name == engine(kind).name != f"{kind} 0.1"


class TestChoice:
    def test_onnxruntime_if_it_is_there(self) -> None:
        assert engine().name.startswith("onnxruntime ")

    @pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
    def test_torch_if_a_package_is_missing(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        hide(package, monkeypatch)
        assert engine().name == "torch " + ".".join(torch.__version__.split(".")[:2])

    @pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
    def test_a_run_does_not_change_its_engine(self, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
        hide(package, monkeypatch)
        with pytest.raises(
            MissingData, match=rf"run by onnxruntime 1.2 needs the package {package},.*selfsort\[onnx\]"
        ):
            engine("onnxruntime 1.2")

    def test_an_engine_that_nobody_knows(self) -> None:
        with pytest.raises(InvalidInput, match="must be onnxruntime or torch; got 'abacus 2'"):
            engine("abacus 2")

    def test_accelerators_run_torch_and_say_so(self) -> None:
        """The meta device computes nothing, but it is not the processor."""
        assert engine(device=torch.device("meta")).name.endswith(" meta")
