from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from selfsort.data.options import ReadOptions
from selfsort.errors import InvalidInput


class TestReading:
    def test_it_survives_json_from_any_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        reading = ReadOptions(path="photos", labels="~/truth.csv", size=32, channels=3, fit="pad", where="split=1")
        stored = ReadOptions.from_json(json.loads(json.dumps(reading.to_json())))
        assert stored == replace(reading, path=str(tmp_path / "photos"), labels=str(tmp_path / "home" / "truth.csv"))

    @pytest.mark.parametrize(
        "change",
        [
            {"path": 5},
            {"path": None},
            {"path": "nul\0byte"},
            {"labels": "nul\0byte"},
            {"size": "96"},
            {"channels": 2},
            {"channels": True},
            {"fit": "squeeze"},
            {"where": ["split"]},
            {"max_bad": float("nan")},
            {"memory_bytes": 0.5},
            {"labels_from_folders": 1},
            {"unknown": 1},
        ],
    )
    def test_what_was_changed_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match=r"source settings cannot be used .* start a new run"):
            ReadOptions.from_json({**ReadOptions(path="photos").to_json(), **change})

    def test_a_run_that_was_not_made_from_files_says_so(self) -> None:
        with pytest.raises(InvalidInput, match="The run was not made from files"):
            ReadOptions.from_json({"kind": "array", "read": 5})
        with pytest.raises(InvalidInput, match=r"cannot be used \(path\)"):
            ReadOptions.from_json({})
