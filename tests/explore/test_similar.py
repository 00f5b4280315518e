from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from selfsort.errors import InvalidInput
from selfsort.explore import similar
from selfsort.explore.similar import Features
from selfsort.runs.arrays import read_rows


def slow_nearest(features: np.ndarray, rows: list[int], count: int) -> list[int]:
    """By the definition, one image at a time."""
    unit = [row / np.sqrt((row.astype(float) ** 2).sum()) for row in features]
    query = np.mean([unit[row] for row in rows], axis=0)
    query = query / np.sqrt((query**2).sum())
    scored = [(-float(unit[row] @ query), row) for row in range(len(features)) if row not in rows]
    return [row for _, row in sorted(scored)][:count]


@pytest.mark.parametrize("rows", [[0], [5, 17, 30]])
@pytest.mark.parametrize("count", [1, 10, 39, 500])
def test_nearest_is_exact(rows: list[int], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "_BLOCK_ROWS", 7)
    values = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    found, scores = Features(values).nearest(np.array(rows), count)
    assert found.tolist() == slow_nearest(values, rows, count)
    assert (np.diff(scores) <= 0).all()
    assert np.abs(scores).max() <= 1 + 1e-6


@pytest.mark.parametrize("kept_bytes", [0, 2**29])
@pytest.mark.parametrize("block_rows", [7, 8192])
def test_features_in_memory_and_in_a_file_are_alike(
    kept_bytes: int, block_rows: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    values = np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32)
    values[:4] *= np.array([[1e-25], [1e25], [0], [1]], np.float32)
    unit = values.astype(np.float64) / np.maximum(np.linalg.norm(values.astype(np.float64), axis=1), 1e-300)[:, None]
    np.save(tmp_path / "features.npy", values)
    monkeypatch.setattr(similar, "_KEPT_BYTES", kept_bytes)
    monkeypatch.setattr(similar, "_BLOCK_ROWS", block_rows)
    features = Features(np.load(tmp_path / "features.npy", mmap_mode="r"))
    rows = np.array([0, 1, 2, 3, 10, 11, 12, 30, 31, 32])
    centre = unit[rows].mean(axis=0)
    assert features.closeness(rows) == pytest.approx(unit[rows] @ (centre / np.linalg.norm(centre)), abs=1e-6)
    assert features.nearest(rows[:1], 39)[1][0] == pytest.approx(np.sort(unit @ unit[0])[-2], abs=1e-6)


def test_features_of_a_block_are_read_once_per_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similar, "_KEPT_BYTES", 0)
    asked = []

    def counted(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
        asked.append(rows)
        return read_rows(table, rows)

    monkeypatch.setattr(similar, "read_rows", counted)
    features = Features(np.eye(5, dtype=np.float32))
    features.closeness(np.arange(3))
    assert len(asked) == 1


def test_ties_go_by_number() -> None:
    found, scores = Features(np.array([[1, 0], [0, 1], [2, 0], [3, 0], [0, 5]], np.float32)).nearest(np.array([3]), 2)
    assert found.tolist() == [0, 2]
    assert scores.tolist() == [1, 1]


def test_there_may_be_nothing_else() -> None:
    found, scores = Features(np.ones((1, 3), np.float32)).nearest(np.array([0]), 5)
    assert len(found) == len(scores) == 0


def test_odd_features_do_no_harm() -> None:
    values = np.array([[np.nan, 1], [0, 0], [3e38, 3e38], [1e-30, 0], [np.inf, 1]], np.float32)
    features = Features(values)
    found, scores = features.nearest(np.array([1]), 10)
    assert sorted(found.tolist()) == [0, 2, 3, 4]
    assert np.isfinite(scores).all()
    assert features.nearest(np.array([2]), 1)[0].tolist() != [1]
    assert np.isfinite(features.closeness(np.arange(5))).all()
    assert len(features.closeness(np.empty(0, np.int64))) == 0


def test_closeness_is_the_cosine_with_the_centre() -> None:
    close = Features(np.array([[1, 0], [0, 1], [5, 5]], np.float32)).closeness(np.array([0, 1]))
    assert close == pytest.approx([np.sqrt(0.5)] * 2)


def test_parts_are_found_again_the_largest_first() -> None:
    rng = np.random.default_rng(0)
    centres = np.repeat(np.eye(3), [4, 9, 6], axis=0)
    features = Features((centres + rng.normal(scale=0.01, size=centres.shape)).astype(np.float32))
    rows = np.arange(19)
    assert [part.tolist() for part in features.parts(rows, 3)] == [
        list(range(4, 13)),
        list(range(13, 19)),
        list(range(4)),
    ]
    assert [len(part) for part in features.parts(rows[4:], 2)] == [9, 6]


@pytest.mark.parametrize("n_parts", [0, 1, 4])
def test_a_wrong_number_of_parts(n_parts: int) -> None:
    with pytest.raises(
        InvalidInput, match=r"between 2 and the images of the cluster \(3\); got \d\. Choose fewer parts"
    ):
        Features(np.eye(3, dtype=np.float32)).parts(np.arange(3), n_parts)


def test_equal_images_cannot_be_split() -> None:
    with pytest.raises(InvalidInput, match="all its images have the same features"):
        Features(np.ones((5, 3), np.float32)).parts(np.arange(5), 2)


def test_fewer_different_images_than_parts() -> None:
    values = np.repeat(np.eye(2, dtype=np.float32), 3, axis=0)
    assert [part.tolist() for part in Features(values).parts(np.arange(6), 4)] == [[0, 1, 2], [3, 4, 5]]
