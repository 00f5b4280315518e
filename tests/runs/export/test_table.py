from __future__ import annotations

from pathlib import Path

import pytest
from tests.runs.corrected import corrected

from selfsort.cli.parse import ExportTo
from selfsort.errors import InvalidInput
from selfsort.runs.export.table import EXPORTERS, export_run
from selfsort.runs.labels import current_labels


def test_the_command_line_offers_the_table() -> None:
    assert list(EXPORTERS) == [to.value for to in ExportTo]


def test_a_place_is_named_after_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    folder = corrected(tmp_path / "run")
    assert export_run(folder, current_labels(folder), "csv") == Path("run.csv")
    assert Path("run.csv").read_text().startswith('"name","cluster","confidence","label","path"')


@pytest.mark.parametrize("to", ["csv", "npz", "onnx", "coco", "xmp"])
def test_no_file_among_those_of_the_run(tmp_path: Path, to: str) -> None:
    folder = corrected(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"among the files of the run. Expected another place"):
        export_run(folder, current_labels(folder), to, folder.path / "labels.csv")
