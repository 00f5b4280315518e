from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tests.conftest import Command
from tests.contract.tiny import TINY

from selfsort.data import conform
from selfsort.data.synthetic import shapes
from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.estimator import ImageClusterer
from selfsort.methods.registry import METHODS
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.types import F32, Images

NETWORKS = list(METHODS)


def saved(name: str, images: Images, path: Path, recipe: str = "default") -> ImageClusterer:
    model = ImageClusterer(name, n_clusters=3, settings=TINY.get(name), recipe=recipe, device="cpu").fit(images)
    model.save(path)
    return model


def export_onnx(folder: RunFolder, out: Path) -> Path:
    return export_run(folder, current_labels(folder), "onnx", out)


def run_onnx(path: Path, images: Images) -> list[F32]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found: list[F32] = session.run(["soft", "features"], {"pixels": images.pixels})
    return found


@pytest.mark.parametrize(
    ("name", "recipe"), [*((name, "default") for name in NETWORKS), ("dbc", "whitened"), ("fcae-kmeans", "whitened")]
)
def test_it_says_what_predict_proba_says(name: str, recipe: str, tmp_path: Path) -> None:
    trained_on = shapes(12, size=16, n_classes=3, channels=3)[0]
    model = saved(name, trained_on, tmp_path / "run", recipe)
    path = export_onnx(RunFolder.open(tmp_path / "run"), tmp_path / "model.onnx")
    if recipe == "whitened":  # nmf-d, for one, labels new images by another rule
        np.testing.assert_array_equal(model.predict(trained_on), model.labels_)
    new = shapes(34, size=16, n_classes=3, channels=3, seed=9)[0].subset(slice(0, 100))
    soft, features = run_onnx(path, new)
    assert soft.shape == (100, 3)
    np.testing.assert_allclose(soft, model.predict_proba(new), atol=1e-4)
    np.testing.assert_allclose(features, model.transform(new), atol=1e-3)
    for n in (1, 7):  # the batch is dynamic
        np.testing.assert_allclose(run_onnx(path, new.subset(slice(0, n)))[0], soft[:n], atol=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "run"
    saved("fcae-kmeans", shapes(12, size=20, n_classes=3)[0], path)
    return path


def test_preprocessing_is_in_the_metadata(run: Path, tmp_path: Path) -> None:
    folder = RunFolder.open(run)
    graph = onnx.load(export_onnx(folder, tmp_path / "model.onnx"))
    metadata = {entry.key: entry.value for entry in graph.metadata_props}
    assert metadata["method"] == "fcae-kmeans"
    assert metadata["n_clusters"] == "3"
    preprocessing = json.loads(metadata["preprocessing"])
    assert {key: preprocessing[key] for key in ("height", "width", "channels", "fit")} == folder.config["image"]
    assert preprocessing["values"].startswith("uint8, 0..255")
    assert [entry.name for entry in graph.graph.input] == ["pixels"]
    batch, *rest = graph.graph.input[0].type.tensor_type.shape.dim
    assert batch.dim_param == "batch"
    assert [side.dim_value for side in rest] == [20, 20, 1]


def test_following_the_metadata_gives_the_labels_of_the_run(run: Path, tmp_path: Path) -> None:
    from selfsort.data import ImageSpec
    from selfsort.learning.device import choose_device
    from selfsort.runs.model import apply_in_chunks, load_model

    folder = RunFolder.open(run)
    path = export_onnx(folder, tmp_path / "model.onnx")
    wide = Images(np.pad(shapes(3, size=30, n_classes=3, seed=4)[0].pixels, ((0, 0), (0, 0), (5, 5), (0, 0))))
    ready = conform(wide, ImageSpec.from_json(folder.config["image"]))
    expected = apply_in_chunks(load_model(folder, choose_device("cpu")), ready)
    np.testing.assert_array_equal(run_onnx(path, ready)[0].argmax(axis=1), expected.labels)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if protobuf could hold a kilobyte."""
    monkeypatch.setattr("selfsort.runs.export.onnx._MOST_BYTES", 1000)


def data_of(path: Path) -> set[str]:
    graph = onnx.load(path, load_external_data=False)
    assert {given.name for given in graph.graph.input} == {"pixels"}
    return {entry.value for part in graph.graph.initializer for entry in part.external_data if entry.key == "location"}


@pytest.mark.parametrize("name", ["dac", "gatcluster", "jule", "kmeans", "ac-gdl", "umap-kmeans"])
def test_weights_above_the_limit_lie_beside_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, new = (shapes(12, size=16, n_classes=3, channels=3, seed=seed)[0] for seed in (0, 9))
    saved(name, images, tmp_path / "run")
    (tmp_path / "out").mkdir()
    folder = RunFolder.open(tmp_path / "run")
    expected = run_onnx(export_onnx(folder, tmp_path / "whole.onnx"), new)
    monkeypatch.setattr("selfsort.runs.export.onnx._MOST_BYTES", 1000)
    path = export_onnx(folder, tmp_path / "out" / "model.onnx")
    for found, same in zip(run_onnx(path, new), expected, strict=True):
        np.testing.assert_allclose(found, same, atol=1e-5)
    assert data_of(path) == {other.name for other in path.parent.iterdir()} - {path.name}
    onnx.checker.check_model(str(path))


@pytest.mark.usefixtures("large")
def test_a_model_in_two_files_replaces_another(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    path, other = tmp_path / "out" / "model.onnx", tmp_path / "other"
    saved("dac", shapes(12, size=20, n_classes=3)[0], other)
    first = data_of(export_onnx(RunFolder.open(other), path))
    (path.parent / "model.onnx.data").write_bytes(b"of somebody else")
    assert data_of(export_onnx(RunFolder.open(run), path)).isdisjoint(first)
    assert {found.name for found in path.parent.iterdir()} == {"model.onnx", "model.onnx.data", *data_of(path)}
    assert run_onnx(path, shapes(1, size=20, n_classes=3)[0])[0].shape == (3, 3)


@pytest.mark.usefixtures("large")
def test_a_model_that_cannot_be_written_leaves_the_one_before(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    path = export_onnx(RunFolder.open(run), tmp_path / "out" / "model.onnx")
    before = {found.name: found.read_bytes() for found in path.parent.iterdir()}
    saved("dac", shapes(12, size=20, n_classes=3)[0], tmp_path / "other")
    replace = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if Path(target).suffix == ".onnx":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(CannotWrite, match="No space left"):
        export_onnx(RunFolder.open(tmp_path / "other"), path)
    assert before == {found.name: found.read_bytes() for found in path.parent.iterdir()}


@pytest.mark.usefixtures("large")
@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_two_files_do_not_go_into_a_pipe(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match=r"is two files, and .* takes one"):
        export_onnx(RunFolder.open(run), tmp_path / "pipe")


def test_a_place_inside_the_run_is_refused(run: Path) -> None:
    with pytest.raises(InvalidInput, match="would lie among the files of the run"):
        export_onnx(RunFolder.open(run), run / "model.onnx")


def test_a_missing_package_is_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingData, match=r'needs the package onnx, .* pip install "selfsort\[onnx\]"'):
        export_onnx(RunFolder.open(run), tmp_path / "model.onnx")


def test_the_command(selfsort: Command, run: Path) -> None:
    done = selfsort("export", run, "--to", "onnx")
    assert (done.code, done.out) == (0, "written: run.onnx\n")
    assert run_onnx(Path("run.onnx"), shapes(1, size=20, n_classes=3)[0])[0].shape == (3, 3)
