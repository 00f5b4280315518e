from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.transfer import features_by_layer, learn, main

from selfsort.data.synthetic import shapes
from selfsort.methods.jule import JULEConfig

QUICK = JULEConfig(n_clusters=4, epochs=1, batch_size=20, K_s=8)


def test_other_size_and_channels_are_brought_to_the_networks_own() -> None:
    model = learn(shapes(8, size=16, seed=0)[0], QUICK, seed=0)
    features = features_by_layer(model, shapes(3, size=24, seed=1, channels=3)[0])
    assert {layer: rows.shape for layer, rows in features.items()} == {
        "data": (12, 24 * 24 * 3),
        "top": (12, 160),
        "top-1": (12, 1800),
        "top-2": (12, 7200),
    }


def test_table_of_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, size in (("a", 16), ("b", 20)):
        images, truth = shapes(12, size=size, seed=size)
        np.savez(tmp_path / f"{name}.npz", images=images.pixels[:, :, :, 0], labels=truth)
    table = main([str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--clusters", "4", "4", "--epochs", "2"])
    assert list(table) == ["data", "top", "top-1", "top-2"]
    assert all(row["acc"] == 1.0 for row in table.values())
    assert "nmi_geometric" in capsys.readouterr().out
