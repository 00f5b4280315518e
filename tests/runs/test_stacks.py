from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from selfsort.errors import InvalidInput
from selfsort.runs.folder import RunFolder
from selfsort.runs.stacks import load_stacks, save_stacks, stored_representatives
from selfsort.stacks.stack import Member, Stack


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", {"method": "kmeans", "settings": {}, "seed": 0, "image": {}})


def test_what_is_saved_is_read(folder: RunFolder) -> None:
    assert load_stacks(folder, 5) is None
    stacks = [Stack(1, (Member(0, "copy"), Member(4, "burst")))]
    save_stacks(folder, stacks)
    assert load_stacks(folder, 5) == stacks
    assert stored_representatives(folder, 5) is None  # it was made without
    folder.config["stack_duplicates"] = True
    found = stored_representatives(folder, 5)
    assert found is not None
    assert found.tolist() == [1, 1, 2, 3, 1]


@pytest.mark.parametrize(
    "told",
    [
        1,
        [1],
        [{"best": 0}],
        [{"best": 0, "others": []}],
        [{"best": 0, "others": [[99, "copy"]]}],
        [{"best": 0, "others": [[0, "copy"]]}],
        [{"best": 0, "others": [[1, "twin"]]}],
        [{"best": True, "others": [[2, "copy"]]}],
    ],
)
def test_a_changed_file_is_refused(folder: RunFolder, told: object) -> None:
    (folder.path / "stacks.json").write_text(json.dumps({"stacks": told}))
    with pytest.raises(InvalidInput, match="cannot be used"):
        load_stacks(folder, 19)


def test_a_run_of_stacks_cannot_go_on_without_them(folder: RunFolder) -> None:
    folder.config["stack_duplicates"] = True
    with pytest.raises(InvalidInput, match="is missing"):
        stored_representatives(folder, 5)


def test_reading_them_needs_no_torch() -> None:
    code = "import sys, selfsort.runs.stacks; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
