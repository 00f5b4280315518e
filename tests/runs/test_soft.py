from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.runs import soft as module
from selfsort.runs.folder import RunFolder
from selfsort.runs.soft import STRONGEST, WHOLE, read_soft, write_soft
from selfsort.types import F32, Arrays, State


def folder_in(path: Path) -> RunFolder:
    image = {"height": 1, "width": 1, "channels": 1, "fit": "crop"}
    return RunFolder.create(
        path / "run", {"method": "kmeans", "settings": {"n_clusters": 9}, "seed": 0, "image": image}
    )


def assignments(n: int = 40, n_clusters: int = 9) -> F32:
    drawn = np.random.default_rng(0).dirichlet(np.full(n_clusters, 0.3), n)
    return drawn.astype(np.float32)


def test_few_are_stored_whole(tmp_path: Path) -> None:
    folder, given = folder_in(tmp_path), assignments()
    write_soft(folder, given)
    found = read_soft(folder)
    assert found.path.name == WHOLE
    assert found.shape == given.shape
    assert (found.rows(np.array([3, 1])) == given[[3, 1]]).all()
    assert (found.all() == given).all()


def test_of_many_the_strongest_are_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_WHOLE", 100)
    folder, given = folder_in(tmp_path), assignments()
    given[0] = 1 / 9  # ties
    write_soft(folder, given)
    assert not (folder.path / WHOLE).exists()
    assert (folder.path / STRONGEST).stat().st_size < 40 * len(given) + 500
    found = read_soft(folder)
    assert found.shape == given.shape
    dense = found.rows(slice(None))
    assert (dense.argmax(axis=1) == given.argmax(axis=1)).all()
    assert dense.sum(axis=1) == pytest.approx(1, abs=1e-5)
    order = np.argsort(-given, axis=1, kind="stable")
    top = order[:, :5]
    assert (np.take_along_axis(dense, top, 1) == np.take_along_axis(given, top, 1)).all()
    rest = np.take_along_axis(dense, order[:, 5:], 1)
    assert (rest <= np.take_along_axis(given, order[:, 4:5], 1) + 1e-7).all()
    assert (found.rows(np.array([7])) == dense[7]).all()
    assert (found.all() == dense).all()


def test_five_clusters_are_always_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_WHOLE", 0)
    folder = folder_in(tmp_path)
    write_soft(folder, assignments(n_clusters=5))
    assert read_soft(folder).path.name == WHOLE


CLUSTERS, SHARES = np.zeros((3, 5), np.int32), np.full((3, 5), 0.2, np.float32)


@pytest.mark.parametrize(
    ("arrays", "n_clusters"),
    [
        ({"clusters": CLUSTERS}, 9),
        ({"clusters": CLUSTERS, "shares": SHARES[:2]}, 9),
        ({"clusters": CLUSTERS - 1, "shares": SHARES}, 9),
        ({"clusters": CLUSTERS + 9, "shares": SHARES}, 9),
        ({"clusters": CLUSTERS, "shares": SHARES + np.nan}, 9),
        ({"clusters": CLUSTERS.astype(np.int64), "shares": SHARES}, 9),
        ({"clusters": CLUSTERS, "shares": SHARES}, 2**40),
        ({"clusters": CLUSTERS, "shares": SHARES}, "9"),
        ({"clusters": CLUSTERS[:0], "shares": SHARES[:0]}, 9),
    ],
)
def test_a_strangers_file_is_checked(tmp_path: Path, arrays: Arrays, n_clusters: object) -> None:
    folder = folder_in(tmp_path)
    folder.write_state(STRONGEST, State(arrays, {"n_clusters": n_clusters}))
    with pytest.raises(InvalidInput, match="its arrays do not fit together"):
        read_soft(folder)


def test_neither_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"soft\.npy cannot be used"):
        read_soft(folder_in(tmp_path))
