"""Each layout is read back: by the library itself where it is installed, by its documented form in any case."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.conftest import Command

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Edit, Mark, Move, Rename
from selfsort.runs.export.layouts import sidecar
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import RunLabels, current_labels


@pytest.fixture
def run(photos: Path, tmp_path: Path, selfsort: Command) -> RunFolder:
    """Return a run with a name, an image marked wrong, and one that was moved."""
    words = ("--method", "kmeans", "--clusters", 3, "--encoder", "none", "--out", tmp_path / "run")
    assert selfsort("fit", photos, *words).code == 0
    folder = RunFolder.open(tmp_path / "run")
    target = int(folder.label_table().labels[0])
    moved = int(np.flatnonzero(folder.label_table().labels != target)[0])
    edits: list[Edit] = [Rename(target, "cats & <dogs>"), Mark((2,), True), Move((moved,), target)]
    journal = Journal.open(folder.path)
    for edit in edits:
        journal.add(edit)
    journal.close()
    return folder


def exported(run: RunFolder, to: str) -> tuple[Path, RunLabels]:
    labels = current_labels(run)
    return export_run(run, labels, to, Path(to)), labels


def test_coco(run: RunFolder) -> None:
    path, labels = exported(run, "coco")
    told = json.loads(path.read_text())
    assert len(told["images"]) == len(told["annotations"]) == 17
    names = {one["id"]: one["name"] for one in told["categories"]}
    assert "cats & -dogs-" in names.values()
    by_image = {one["image_id"]: one for one in told["annotations"]}
    for image in told["images"]:
        row = labels.table.names.index(image["file_name"])
        assert (image["width"], image["height"]) == (12, 12)
        cluster = int(labels.table.labels[row])
        assert names[by_image[image["id"]]["category_id"]] == labels.name(cluster).replace("<dogs>", "-dogs-")


@pytest.mark.skipif(find_spec("pycocotools") is None, reason="pycocotools is not installed; the test above reads it")
def test_coco_is_read_by_its_own_library(run: RunFolder) -> None:
    from pycocotools.coco import COCO

    path, labels = exported(run, "coco")
    found = COCO(str(path))
    assert len(found.getImgIds()) == 17
    for category in found.loadCats(found.getCatIds()):
        assert len(found.getImgIds(catIds=[category["id"]])) > 0
    assert sum(len(found.getImgIds(catIds=[one])) for one in found.getCatIds()) == 17
    assert labels.n_edits == 3


def test_fiftyone(run: RunFolder) -> None:
    """`fiftyone.types.FiftyOneImageClassificationDataset`: data/NAME.EXT, and labels.json by NAME."""
    tree, _ = exported(run, "fiftyone")
    told = json.loads((tree / "labels.json").read_text())
    stems = {path.stem for path in (tree / "data").iterdir()}
    assert stems == set(told["labels"])
    assert len(stems) == 17
    assert all(0 <= one["label"] < len(told["classes"]) for one in told["labels"].values())
    assert max(one["confidence"] for one in told["labels"].values()) == 1.0


def test_imagefolder_is_read_by_datasets(run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    tree, labels = exported(run, "imagefolder")
    found = datasets.load_dataset("imagefolder", data_dir=str(tree), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == 17
    classes = found.features["label"].names
    assert sorted(classes) == sorted({path.name for path in (tree / "train").iterdir()})
    counts = np.bincount(found["label"], minlength=len(classes))
    kept = labels.table.labels[~labels.is_wrong]
    assert sorted(counts.tolist()) == sorted(np.bincount(kept)[np.bincount(kept) > 0].tolist())


def test_arrays_become_pictures(npz: Path, tmp_path: Path, selfsort: Command) -> None:
    out = tmp_path / "run"
    assert selfsort("fit", npz, "--method", "kmeans", "--clusters", 3, "--encoder", "none", "--out", out).code == 0
    run = RunFolder.open(out)
    for to in ("imagefolder", "fiftyone"):
        tree, _ = exported(run, to)
        pictures = list(tree.rglob("*.png"))
        assert len(pictures) == 18
        with Image.open(pictures[0]) as picture:
            assert picture.size == (12, 12)
    told = json.loads(exported(run, "coco")[0].read_text())
    assert told["images"][0]["width"] == 12
    with pytest.raises(InvalidInput, match="XMP files stand beside picture files"):
        exported(run, "xmp")


def test_sidecars(run: RunFolder) -> None:
    tree, labels = exported(run, "xmp")
    found = {path.relative_to(tree).as_posix() for path in tree.rglob("*.xmp")}
    kept = [name for name, wrong in zip(labels.table.names, labels.is_wrong, strict=True) if not wrong]
    assert found == {f"{name}.xmp" for name in kept}
    texts = [ET.parse(tree / f"{name}.xmp").getroot() for name in kept]
    words = [root.find(".//{http://purl.org/dc/elements/1.1/}subject//*[.='cats & -dogs-']") for root in texts]
    assert sum(word is not None for word in words) == int(
        (labels.table.labels[~labels.is_wrong] == labels.table.labels[0]).sum()
    )


def test_a_keyword_is_text() -> None:
    root = ET.fromstring(sidecar("a<b>&|c").encode())
    items = root.iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}li")
    assert [item.text for item in items] == ["a<b>&|c", "selfsort|a<b>&-c"]


def test_a_place_that_is_taken_is_refused(run: RunFolder) -> None:
    exported(run, "imagefolder")
    with pytest.raises(InvalidInput, match="exists already"):
        exported(run, "imagefolder")
