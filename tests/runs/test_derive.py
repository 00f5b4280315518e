from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.runs.corrected import corrected
from tests.tiny_run import RESULT

from selfsort.errors import InvalidInput
from selfsort.runs.derive import Derived, base_of, derive, names_and_marks
from selfsort.runs.edits import Mark, Move, Rename
from selfsort.runs.labels import current_labels


def test_names_and_marks_are_said_again_for_clusters_in_use(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run", Rename(0, "a"), Rename(1, "gone"), Move((1,), 0), Mark((2,), True))
    assert names_and_marks(current_labels(folder)) == [Rename(0, "a"), Mark((2,), True)]


def test_a_run_without_any_cluster_is_refused(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run")
    made = Derived(
        stage="update",
        names=("x", "y"),
        labels=np.array([-1, -1]),
        confidence=np.ones(2, np.float32),
        features=RESULT.features[:2],
        edits=(),
        ingest={},
    )
    with pytest.raises(InvalidInput, match="no image is left in any cluster"):
        derive(folder, made, None)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_of_its_own_is_its_own_base(tmp_path: Path) -> None:
    folder = corrected(tmp_path / "run")
    assert base_of(folder) is folder
