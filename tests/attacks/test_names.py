"""Names of files made to be taken for others, or for formulas."""

from __future__ import annotations

import csv
import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.conftest import Command, write_photos
from tests.explore.runs import fitted
from tests.tiny_run import files_of

from selfsort.data import read_labels, read_source
from selfsort.explore.editor import Editor
from selfsort.explore.exports import export
from selfsort.runs.export.folders import export_folders
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.text import printable

ALIKE = [
    b"a\xe9.png",
    b"a\xe8.png",
    rb"a\xe9.png",
    rb"a\x5cxe9.png",
    rb"a\x5cx5cxe9.png",
    b"a\xef\xbf\xbd.png",
    b"a.png",
]
FORMULAS = [
    "=1+1.png",
    "'=1+1.png",
    "''=1+1.png",
    "+1.png",
    "-1.png",
    "@SUM(A1).png",
    "\t=1.png",
    "a;=1.png",
    "it's.png",
]


def draw(folder: Path, names: list[str]) -> Path:
    """Draw a picture of its own for every name."""
    folder.mkdir()
    for row, name in enumerate(names):
        Image.new("RGB", (8, 8), (255 * (row % 2), 20 * row, 0)).save(folder / name, format="PNG")
    return folder


@pytest.fixture
def alike(tmp_path: Path) -> RunFolder:
    photos = draw(tmp_path / "photos", [os.fsdecode(name) for name in ALIKE])
    return fitted(photos, tmp_path / "run", clusters=2)


@pytest.fixture
def formulas(tmp_path: Path) -> RunFolder:
    return fitted(draw(tmp_path / "photos", FORMULAS), tmp_path / "run", clusters=2)


class TestAlike:
    def test_every_image_has_a_name_of_its_own(self, alike: RunFolder) -> None:
        names = alike.label_table().names
        assert len(set(names)) == len(ALIKE)
        assert len({printable(name) for name in names}) == len(ALIKE)

    def test_no_image_is_lost_in_folders(self, alike: RunFolder, tmp_path: Path) -> None:
        out = export_folders(alike, tmp_path / "sorted")
        assert sorted(files_of(out).values()) == sorted(files_of(tmp_path / "photos").values())

    def test_labels_go_to_the_right_image(self, alike: RunFolder, tmp_path: Path) -> None:
        names = alike.label_table().names
        plain = tmp_path / "plain.csv"
        plain.write_text("".join(f"{name},{row}\n" for row, name in enumerate(names)))
        assert read_labels(plain, names).tolist() == list(range(len(names)))

    def test_names_that_an_older_run_kept_as_bytes_are_told_apart_on_a_page(self) -> None:
        assert printable(os.fsdecode(b"a\xe9")) != printable(os.fsdecode(b"a\xe8"))

    def test_classes_in_a_shard(self, tmp_path: Path) -> None:
        picture = io.BytesIO()
        Image.new("RGB", (8, 8)).save(picture, format="PNG")
        with tarfile.open(tmp_path / "shard.tar", "w") as archive:
            for row, text in enumerate([b"caf\xe9", b"caf\xe8", b"caf\xe9"]):
                for suffix, content in ((".png", picture.getvalue()), (".cls", text)):
                    member = tarfile.TarInfo(f"{row}{suffix}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        data = read_source(tmp_path / "shard.tar", min_images=1)
        assert data.labels is not None
        assert data.labels.tolist() == [1, 0, 1]
        assert data.label_names == (r"caf\xe8", r"caf\xe9")

    def test_classes_in_an_array(self, tmp_path: Path) -> None:
        classes = np.array([b"caf\xe9", b"caf\xe8"])
        np.savez(tmp_path / "a.npz", images=np.zeros((2, 8, 8), np.uint8), labels=classes)
        assert read_source(tmp_path / "a.npz", min_images=1).label_names == (r"caf\xe8", r"caf\xe9")


def cells(path: Path, separator: str) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [cell for row in csv.reader(file, delimiter=separator) for cell in row]


class TestFormulas:
    @pytest.mark.parametrize("separator", [",", ";", "\t"])  # which one a spreadsheet takes depends on the country
    def test_no_cell_of_an_export_is_computed(self, formulas: RunFolder, tmp_path: Path, separator: str) -> None:
        editor = Editor.open(formulas.path)
        editor.rename(0, "=cmd|' /C calc'!A0")
        plain = export_run(formulas, current_labels(formulas), "csv", tmp_path / "plain.csv")
        written = [
            plain,
            export(editor, "labels"),
        ]
        editor.close()
        for path in written:
            found = cells(path, separator)
            assert not [cell for cell in found if cell.lstrip().startswith(("=", "+", "-", "@"))]
            assert any(cell.startswith("'=1+1.png") for cell in found)

    def test_tables_for_programs_say_what_the_files_are_called(
        self, formulas: RunFolder, tmp_path: Path, selfsort: Command
    ) -> None:
        done = selfsort("predict", formulas.path, tmp_path / "photos", "--out", "new.csv")
        assert done.code == 0, done.err
        for path in (formulas.path / "labels.csv", Path("new.csv")):
            assert sorted(cells(path, ",")[3::3]) == sorted(FORMULAS)

    def test_exports_are_read_back(self, formulas: RunFolder, tmp_path: Path, selfsort: Command) -> None:
        """By their names: among them one with an apostrophe of its own before the sign."""
        table = formulas.label_table()
        editor = Editor.open(formulas.path)
        plain = export_run(formulas, current_labels(formulas), "csv", tmp_path / "plain.csv")
        written = [
            plain,
            export(editor, "labels"),
            formulas.path / "labels.csv",
        ]
        editor.close()
        for path in written:
            assert read_labels(path, table.names).tolist() == table.labels.tolist()
            done = selfsort("score", formulas.path, "--labels", path)
            assert done.code == 0, done.err
            assert "ACC 1.0000" in done.out

    @pytest.mark.parametrize(
        ("content", "names", "expected"),
        [
            ("=a,0\n'=a,1\n", ["=a", "'=a"], [0, 1]),
            ("=a,0\n'=a,1\n''=a,1\n", ["=a"], [0]),
            ("'=a,0\n''=a,1\n", ["=a", "'=a"], [0, 1]),
            ("'=a,0\nb,1\n", ["'=a", "b"], [0, 1]),
        ],
    )
    def test_a_table_written_by_hand_is_not_taken_for_an_export(
        self, tmp_path: Path, content: str, names: list[str], expected: list[int]
    ) -> None:
        (tmp_path / "labels.csv").write_text(content)
        assert read_labels(tmp_path / "labels.csv", names).tolist() == expected

    def test_line_breaks_in_a_name_are_kept(self, tmp_path: Path) -> None:
        (tmp_path / "labels.csv").write_bytes('"a\rb",0\r\n"a\nb",1\r\na\u2028b,2\r\n'.encode())
        assert read_labels(tmp_path / "labels.csv", ["a\rb", "a\nb", "a\u2028b"]).tolist() == [0, 1, 2]

    def test_a_field_without_end_is_refused(self, formulas: RunFolder, selfsort: Command) -> None:
        Path("endless.csv").write_text('"' + "x" * 200_000)
        done = selfsort("score", formulas.path, "--labels", "endless.csv")
        assert done.code == 2
        assert "must be a csv" in done.err


@pytest.mark.parametrize("out", ["loop", "loop/x"])
@pytest.mark.parametrize("command", ["export", "predict", "report"])
def test_a_link_to_itself_is_no_place(selfsort: Command, command: str, out: str, tmp_path: Path) -> None:
    run = fitted(write_photos(tmp_path / "photos"), tmp_path / "run").path
    (tmp_path / "loop").symlink_to("loop")
    more: dict[str, list[str | Path]] = {"export": ["--to", "csv"], "predict": [tmp_path / "photos"]}
    rest = more.get(command, [])
    done = selfsort(command, run, *rest, "--out", out)
    if out == "loop" and done.code == 0:
        assert (tmp_path / "loop").is_file(), "a link is replaced, like any file"
        return
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("selfsort: ")
