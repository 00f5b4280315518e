from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.conftest import Command

from selfsort.errors import InvalidInput
from selfsort.explore.editor import Editor
from selfsort.report.build import write_report
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.runs.suggested import load_suggestions, still_meant, suggestions_of

COLOURS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (20, 40, 220)}

DAMAGED = (
    "[]",
    "{",
    '{"0": 3}',
    '{"x": {"name": "a", "source": "look", "share": 1}}',
    '{"0": {"name": "a\\nb", "source": "look", "share": 1}}',
    '{"0": {"name": "", "source": "look", "share": 1}}',
    '{"0": {"name": "a", "source": "guess", "share": 1}}',
    '{"0": {"name": "a", "source": "look", "share": 7}}',
    '{"0": {"name": "a", "source": "look"}}',
    '{"0": {"name": "a", "source": "place", "share": 1, "about": 3}}',
)


def write_pictures(folder: Path, place: str = "{number:02d}-{colour}.jpg") -> Path:
    """Draw twelve pictures of each colour; the green ones were taken on one day, and the red ones in one month."""
    rng = np.random.default_rng(0)
    for colour, mean in COLOURS.items():
        for number in range(12):
            noise = rng.normal(0, 12, (16, 16, 3))
            path = folder / place.format(number=number, colour=colour)
            path.parent.mkdir(parents=True, exist_ok=True)
            exif = Image.Exif()
            if colour != "blue":
                day = 12 if colour == "green" else 1 + number
                exif.get_ifd(0x8769)[0x9003] = f"2023:0{7 if colour == 'green' else 8}:{day:02d} 10:00:{number:02d}"
            picture = Image.fromarray((np.array(mean) + noise).clip(0, 255).astype(np.uint8))
            picture.save(path, quality=95, exif=exif)
    return folder


def fit(selfsort: Command, source: Path) -> RunFolder:
    done = selfsort(
        *("fit", source, "--clusters", 3, "--method", "kmeans", "--encoder", "none", "--color", "--out", "run")
    )
    assert done.code == 0, done.err
    return RunFolder.open("run")


@pytest.fixture
def run(selfsort: Command, tmp_path: Path) -> RunFolder:
    return fit(selfsort, write_pictures(tmp_path / "pictures"))


def told(folder: RunFolder) -> dict[str, str]:
    return {one.name: one.source for one in (load_suggestions(folder) or {}).values()}


class TestDerived:
    """A run that was made from another one has names of its own."""

    def test_a_cut(self, run: RunFolder, selfsort: Command) -> None:
        assert selfsort("cut", run.path, "--clusters", 2, "--out", "two").code == 0
        names = told(RunFolder.open("two"))
        assert names
        assert len(names) < 3

    def test_an_update(self, run: RunFolder, selfsort: Command, tmp_path: Path) -> None:
        write_pictures(tmp_path / "more", "more {number}-{colour}.jpg")
        assert selfsort("update", run.path, "more", "--out", "larger").code == 0
        assert set(told(RunFolder.open("larger"))) == {"12 July 2023", "2023-08", "blue"}


def test_places(selfsort: Command, tmp_path: Path) -> None:
    for colour, mean in COLOURS.items():
        for number in range(12):
            exif = Image.Exif()
            if colour != "red":
                gps = exif.get_ifd(0x8825)
                gps[1], gps[2] = "N", (47.0 if colour == "green" else 60.0, 0.5 * number, 0.0)
                gps[3], gps[4] = "E", (8.0, 30.0, 0.0)
            pixels = np.array(mean) + np.random.default_rng(number).normal(0, 12, (16, 16, 3))
            path = tmp_path / "pictures" / f"{colour}{number}.jpg"
            path.parent.mkdir(exist_ok=True)
            Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=95, exif=exif)
    found = fit(selfsort, tmp_path / "pictures")
    assert {one.about for one in suggestions_of(found).values() if one.source == "place"} == {
        "47-48°N 8-9°E",
        "60-61°N 8-9°E",
    }
    assert "(place, 47-48°N 8-9°E, 100.0 % of it)" in selfsort("names", "run").out


class TestFit:
    def test_dates_and_colours(self, run: RunFolder) -> None:
        assert told(run) == {"12 July 2023": "date", "2023-08": "date", "blue": "look"}
        table = run.label_table()
        for cluster, one in suggestions_of(run).items():
            colour = {"12 July 2023": "green", "2023-08": "red"}.get(one.name, one.name)
            inside = [name for name, label in zip(table.names, table.labels, strict=True) if label == cluster]
            assert all(colour in name for name in inside)
            assert one.share == 1

    def test_folders_come_first(self, selfsort: Command, tmp_path: Path) -> None:
        source = write_pictures(tmp_path / "pictures", "all/holidays {colour}/{number}.jpg")
        assert told(fit(selfsort, source)) == {f"holidays {colour}": "folder" for colour in COLOURS}

    def test_screens(self, selfsort: Command, tmp_path: Path) -> None:
        source = write_pictures(tmp_path / "pictures")
        for path in source.glob("*-blue.jpg"):
            with Image.open(path) as picture:
                picture.resize((1280, 720)).save(path)
        assert told(fit(selfsort, source))["screens 1280x720"] == "screen"

    def test_an_array_gets_none(self, selfsort: Command, npz: Path) -> None:
        assert selfsort("fit", npz, "--clusters", 3, "--method", "kmeans", "--out", "run").code == 0
        assert not Path("run/names.json").exists()
        assert suggestions_of(RunFolder.open("run")) == {}


class TestKept:
    def test_an_older_run_gets_them_now_even_if_the_pictures_are_gone(self, run: RunFolder, tmp_path: Path) -> None:
        before = suggestions_of(run)
        (run.path / "names.json").unlink()
        assert load_suggestions(run) is None
        assert suggestions_of(run) == before == load_suggestions(run)
        (run.path / "names.json").unlink()
        (tmp_path / "pictures").rename(tmp_path / "elsewhere")
        suggestions_of(run)
        assert told(run) == dict.fromkeys(COLOURS, "look")

    def test_a_damaged_file_is_refused(self, run: RunFolder) -> None:
        for text in DAMAGED:
            (run.path / "names.json").write_text(text, encoding="utf-8")
            with pytest.raises(InvalidInput, match=r"names\.json cannot be used"):
                current_labels(run)


class TestUse:
    def test_folders_of_an_export(self, selfsort: Command, run: RunFolder) -> None:
        assert selfsort("export", run.path, "--to", "folders", "--out", "sorted").code == 0
        assert {path.name for path in Path("sorted").iterdir()} == {"12 July 2023", "2023-08", "blue"}

    def test_numbers_stay_in_label_files(self, selfsort: Command, run: RunFolder) -> None:
        assert selfsort("export", run.path, "--to", "csv", "--out", "labels.csv").code == 0
        rows = [line.split(",") for line in Path("labels.csv").read_text(encoding="utf-8").splitlines()[1:]]
        assert {row[1] for row in rows} == {"0", "1", "2"}
        assert {row[3].strip('"') for row in rows} == {"12 July 2023", "2023-08", "blue"}

    def test_titles_of_the_report(self, run: RunFolder) -> None:
        page = write_report([run.path], None).read_text(encoding="utf-8")
        assert all(f"</i>{name}</h3>" in page for name in ("12 July 2023", "2023-08", "blue"))

    def test_a_person_is_always_right(self, selfsort: Command, run: RunFolder) -> None:
        blue = next(cluster for cluster, one in suggestions_of(run).items() if one.name == "blue")
        editor = Editor.open(run.path)
        try:
            assert {one.name for one in editor.overview().clusters} == {"12 July 2023", "2023-08", "blue"}
            editor.rename(blue, "sea")
            assert {one.name for one in editor.overview().clusters} == {"12 July 2023", "2023-08", "sea"}
            assert editor.current().name(blue) == current_labels(run).name(blue) == "sea"
            editor.rename(blue, "")
            assert editor.current().name(blue) == current_labels(run).name(blue) == "blue"
            assert editor.current().names == {}
        finally:
            editor.close()

    def test_what_was_merged_is_not_called_after_a_part(self, run: RunFolder) -> None:
        editor = Editor.open(run.path)
        try:
            editor.merge([0, 1], 0)
            for labels in (editor.current(), current_labels(run)):
                assert labels.name(0) == "Cluster 0"
                assert labels.name(2) == suggestions_of(run)[2].name
            editor.undo()
            assert editor.current().name(0) == suggestions_of(run)[0].name
        finally:
            editor.close()

    def test_a_few_pictures_more_or_less_change_no_name(self) -> None:
        original = np.repeat([0, 1], 10)
        labels = original.copy()
        labels[10:12] = 0
        assert still_meant({0: "sea", 1: "wood"}, original, labels) == {0: "sea", 1: "wood"}
        labels[12] = 0
        assert still_meant({0: "sea", 1: "wood"}, original, labels) == {1: "wood"}


class TestCommand:
    def test_names(self, selfsort: Command, run: RunFolder) -> None:
        shown = selfsort("names", run.path)
        assert shown.code == 0
        assert ": blue (look, 100.0 % of it)" in shown.out
        answer = json.loads(selfsort("names", run.path, "--json").out)
        assert sorted(one["name"] for one in answer["names"].values()) == ["12 July 2023", "2023-08", "blue"]

    def test_none(self, selfsort: Command, npz: Path) -> None:
        assert selfsort("fit", npz, "--clusters", 3, "--method", "kmeans", "--out", "run").code == 0
        assert selfsort("names", "run").out.startswith("No name is suggested")
        assert json.loads(selfsort("names", "run", "--json").out)["names"] == {}
