from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from experiments.softmax_finetune import FineTuning, finetune, main
from PIL import Image

from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.estimator import ImageClusterer
from selfsort.methods.jule import JULEModel
from selfsort.nets.convnet import ConvNet, plan_blocks
from selfsort.runs.encoder import load_run_encoder
from selfsort.runs.folder import RunFolder

CPU = torch.device("cpu")


def fresh_net() -> ConvNet:
    torch.manual_seed(0)
    return ConvNet((16, 16, 1), plan_blocks(16, 16))


def test_labels_are_learned() -> None:
    images, truth = shapes(10, size=16, seed=0)
    losses = finetune(fresh_net(), images, truth * 7, FineTuning(epochs=8, batch_size=10), device=CPU, seed=0)
    assert losses[0] > 0.3
    assert losses[-1] < 0.05


def test_same_seed_same_weights() -> None:
    images, truth = shapes(5, size=16, seed=0)
    nets = [fresh_net(), fresh_net()]
    for net in nets:
        finetune(net, images, truth, FineTuning(epochs=1, batch_size=8), device=CPU, seed=4)
    assert torch.equal(nets[0].ip.weight, nets[1].ip.weight)


def test_labels_of_another_set_are_refused() -> None:
    images, truth = shapes(5, size=16, seed=0)
    with pytest.raises(InvalidInput, match="labels must have one entry per image"):
        finetune(fresh_net(), images, truth[:-1], FineTuning(), device=CPU, seed=0)


@pytest.mark.parametrize("extra", [[], ["--truth"]], ids=["clusters", "truth"])
def test_run_to_accuracy(tmp_path: Path, extra: list[str]) -> None:
    images, truth = shapes(6, size=16, seed=3, n_classes=2)
    np.savez(tmp_path / "faces.npz", images=images.pixels[:, :, :, 0], labels=truth)
    ImageClusterer("jule", n_clusters=2, settings={"epochs": 1, "K_s": 4, "batch_size": 12}).fit(images.pixels).save(
        tmp_path / "run"
    )
    for row in range(4):
        Image.fromarray(images.pixels[row, :, :, 0]).save(tmp_path / f"{row}.png")
    pairs = [(row, other) for row in range(4) for other in range(row)]
    lines = [f"{n % 2},{i}.png,{j}.png,{int(truth[i] == truth[j])}" for n, (i, j) in enumerate(pairs)]
    (tmp_path / "pairs.csv").write_text("\n".join(["fold,first,second,same", *lines]))
    where = ["--faces", str(tmp_path), "--pairs", str(tmp_path / "pairs.csv"), "--epochs", "3"]
    found = main([str(tmp_path / "run"), str(tmp_path / "faces.npz"), *where, *extra])
    assert found["accuracy"] == 1.0


@pytest.mark.parametrize("is_control", [False, True])
def test_the_control_starts_from_a_fresh_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_control: bool
) -> None:
    images, truth = shapes(6, size=16, seed=3, n_classes=2)
    np.savez(tmp_path / "faces.npz", images=images.pixels[:, :, :, 0], labels=truth)
    fitted = ImageClusterer("jule", n_clusters=2, settings={"epochs": 1, "K_s": 4, "batch_size": 12}).fit(images.pixels)
    fitted.save(tmp_path / "run")
    learned = load_run_encoder(RunFolder.open(tmp_path / "run"), CPU).model
    assert isinstance(learned, JULEModel)
    assert isinstance(learned.net, ConvNet)
    first: list[torch.Tensor] = []

    def watch(net: ConvNet, *rest: Any, **named: Any) -> list[float]:
        first.append(net.ip.weight.detach().clone())
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.softmax_finetune.finetune", watch)
    (tmp_path / "pairs.csv").write_text("fold,first,second,same\n0,a,b,1")
    where = ["--faces", str(tmp_path), "--pairs", str(tmp_path / "pairs.csv")]
    with pytest.raises(KeyboardInterrupt):
        main([str(tmp_path / "run"), str(tmp_path / "faces.npz"), *where, *(["--truth"] if is_control else [])])
    assert torch.equal(first[0], learned.net.ip.weight) is not is_control
