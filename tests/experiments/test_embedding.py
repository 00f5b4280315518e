from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.embedding import compare, main, read_part

from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.methods.jule import JULEConfig


def test_unseen_pictures_are_placed_with_their_kind() -> None:
    config = JULEConfig(n_clusters=4, embedding_dim=2, eta=0.5, epochs=15, batch_size=20, K_s=8)
    found = compare(*shapes(15, size=16, seed=0), *shapes(15, size=16, seed=1), config, seed=0)
    assert found["jule"].one_nn_error == 0.0
    assert set(found) == {"jule", "pca"}
    assert all(0.5 < quality.trustworthiness <= 1 for quality in found.values())


def test_parts_of_an_archive(tmp_path: Path) -> None:
    images, truth = shapes(5, size=16, seed=0)
    split = np.repeat([0, 1], 10)
    np.savez(tmp_path / "set.npz", images=images.pixels[:, :, :, 0], labels=truth, split=split)
    part, labels = read_part(str(tmp_path / "set.npz"), "split=1:4")
    np.testing.assert_array_equal(part.pixels, images.pixels[10:14])
    assert len(labels) == 4
    np.savez(tmp_path / "bare.npz", images=images.pixels[:, :, :, 0], split=split)
    with pytest.raises(InvalidInput, match="has no labels"):
        read_part(str(tmp_path / "bare.npz"), "split=0")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, truth = shapes(24, size=16, seed=0)
    np.savez(tmp_path / "set.npz", images=images.pixels[:, :, :, 0], labels=truth, split=np.arange(96) % 2)
    found = main([str(tmp_path / "set.npz"), "--clusters", "4", "--epochs", "1", "--eta", "0.9", "--dim", "3"])
    assert found["pca"].keys() == {"one_nn_error", "trustworthiness"}
    assert '"jule"' in capsys.readouterr().out
