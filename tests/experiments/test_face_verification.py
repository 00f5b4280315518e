from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.face_verification import best_threshold, cosine, main, read_pairs, verify, verify_pictures
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput, MissingData
from selfsort.estimator import ImageClusterer

CSV = "fold,first,second,same\n0,a.png,b.png,1\n1,a.png,c.png,0\n"
LFW = "2 1\nAda 1 2\nAda 1 Bob 3\nCyd 2 4\nCyd 2 Ada 1\n"


class TestPairs:
    def test_csv(self, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text(CSV)
        pairs = read_pairs(tmp_path / "pairs.csv")
        assert pairs.first == ("a.png", "a.png")
        assert pairs.is_same.tolist() == [True, False]
        assert pairs.fold.tolist() == [0, 1]
        assert pairs.pictures == ["a.png", "b.png", "c.png"]

    def test_lfw(self, tmp_path: Path) -> None:
        (tmp_path / "pairs.txt").write_text(LFW)
        pairs = read_pairs(tmp_path / "pairs.txt")
        assert pairs.first[0] == "Ada/Ada_0001.jpg"
        assert pairs.second == ("Ada/Ada_0002.jpg", "Bob/Bob_0003.jpg", "Cyd/Cyd_0004.jpg", "Ada/Ada_0001.jpg")
        assert pairs.is_same.tolist() == [True, False, True, False]
        assert pairs.fold.tolist() == [0, 0, 1, 1]

    @pytest.mark.parametrize(
        "text", ["", "first\nx\n", "2 1\nAda 1\n", "two one\n", "fold,first,second,same\n0,a,b,x\n"]
    )
    def test_damaged(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "pairs").write_text(text)
        with pytest.raises(InvalidInput, match="pairs file must"):
            read_pairs(tmp_path / "pairs")

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match="is not there"):
            read_pairs(tmp_path / "pairs")


class TestThreshold:
    @given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=20))
    @settings(derandomize=True, deadline=None, max_examples=60)
    def test_no_other_threshold_is_better(self, pairs: list[tuple[int, bool]]) -> None:
        similarity = np.array([value for value, _ in pairs], dtype=float)
        same = np.array([is_same for _, is_same in pairs])
        best = ((similarity > best_threshold(similarity, same)) == same).sum()
        others = [((similarity > value) == same).sum() for value in np.arange(-1, 10) + 0.5]
        assert best == max(others)


class TestProtocol:
    def test_cosine(self) -> None:
        rows = np.array([[1, 0], [2, 0], [0, 3], [0, 0]], dtype=np.float32)
        assert cosine(rows, [0, 0, 0], [1, 2, 3]).tolist() == [1.0, 0.0, 0.0]

    def test_threshold_comes_from_the_other_folds(self) -> None:
        # Fold 0 alone would be split at 0.2; the threshold of fold 1 (0.5) gets one of its two pairs wrong.
        similarity = np.array([0.1, 0.3, 0.4, 0.6])
        same = np.array([False, True, False, True])
        found = verify(similarity, same, np.array([0, 0, 1, 1]))
        assert found.threshold.tolist() == [0.5, 0.2]
        assert found.accuracy.tolist() == [0.5, 0.5]
        assert found.mean == 0.5

    def test_one_fold_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="at least 2 folds; got 1"):
            verify(np.zeros(2), np.array([True, False]), np.zeros(2, dtype=np.int64))

    def test_lost_pictures_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text(CSV)
        with pytest.raises(InvalidInput, match=r"1 pictures .* the first is c\.png"):
            verify_pictures(np.ones((2, 2), dtype=np.float32), ["a.png", "b.png"], read_pairs(tmp_path / "pairs.csv"))


def test_pictures_to_accuracy(tmp_path: Path) -> None:
    images, truth = shapes(6, size=16, seed=3, n_classes=2)
    model = ImageClusterer("jule", n_clusters=2, settings={"epochs": 2, "K_s": 4, "batch_size": 12}).fit(images.pixels)
    model.save(tmp_path / "run")
    for row, picture in enumerate(images.pixels):
        Image.fromarray(picture[:, :, 0]).save(tmp_path / f"{row}.png")
    lines = ["fold,first,second,same"]
    for row in range(12):
        for other in range(row + 1, 12):
            lines.append(f"{(row + other) % 10},{row}.png,{other}.png,{int(truth[row] == truth[other])}")
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    found = main([str(tmp_path / "run"), "--faces", str(tmp_path), "--pairs", str(tmp_path / "pairs.csv")])
    assert found["accuracy"] == 1.0
    assert found["folds"] == 10
