from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.boosting import VARIANTS, curves, main

from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.learning.device import choose_device
from selfsort.methods.dbc import DBCConfig, train

SETTINGS = ["ae_epochs=8", "batch_size=16", "n_restarts=2", "epochs=2"]


def test_every_variant_is_what_a_run_of_its_own_would_be() -> None:
    images, truth = shapes(8, size=16, seed=0)
    config = DBCConfig(n_clusters=4, ae_epochs=2, batch_size=16, n_restarts=2, epochs=2, lr=0.01)
    points = list(curves(images, truth, config, seed=3))
    assert [p.variant for p in points if p.epoch == 0] == ["default", "ae_init=half", "ae_init=random"]
    alone = DBCConfig(n_clusters=4, ae_epochs=2, batch_size=16, n_restarts=2, epochs=2, lr=0.01, alpha=4.0)
    kl = [s.event["kl"] for s in train(images, alone, device=choose_device(), seed=3) if s.event["phase"] == "boost"]
    assert [p.kl for p in points if p.variant == "alpha=4"] == kl


def test_table_and_curves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, truth = shapes(10, size=16, seed=0)
    np.savez(tmp_path / "a.npz", images=images.pixels[:, :, :, 0], labels=truth)
    table = main([str(tmp_path / "a.npz"), "--clusters", "4", "--curves", str(tmp_path / "c.csv"), "--set", *SETTINGS])
    assert list(table) == list(VARIANTS)
    assert table["default"]["acc"] == 1.0
    assert "nmi_max" in capsys.readouterr().out
    header, first, *_ = (tmp_path / "c.csv").read_text().splitlines()
    assert header == "variant,epoch,acc,nmi_max,kl,changed"
    assert first.startswith("default,0,")


def test_labels_are_needed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=shapes(5, size=16)[0].pixels[:, :, :, 0])
    with pytest.raises(InvalidInput, match="has no labels"):
        main([str(tmp_path / "a.npz"), "--clusters", "4"])
