from __future__ import annotations

import ast
import contextlib
import copy
import gc
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from tests.conftest import Command
from tests.contract.tiny import TINY
from tests.encoders.onnx_files import conv_model
from tests.encoders.small import blobs
from tests.runs.test_update import write as write_pictures
from torch.utils.data import DataLoader, TensorDataset

import selfsort
from selfsort import ImageClusterer, load
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.runs.edits import Merge, Move
from selfsort.runs.journal import Journal
from selfsort.runs.train_on import drawn

# scikit-learn's checks feed tables of numbers. `image_shape=(1, -1)` reads each row as one line of pixels and
# `value_range="auto"` takes black and white from the data; what then still fails, fails for these reasons.
_NEEDS_ONE_CLUSTER = "the check sets n_clusters=1, which is no clustering: selfsort asks for at least 2"
EXPECTED_FAILURES = {
    "check_dont_overwrite_parameters": _NEEDS_ONE_CLUSTER,
    "check_methods_subset_invariance": _NEEDS_ONE_CLUSTER,
    "check_fit2d_1sample": _NEEDS_ONE_CLUSTER,
    "check_fit2d_1feature": _NEEDS_ONE_CLUSTER,
    "check_fit2d_predict1d": _NEEDS_ONE_CLUSTER,
    "check_dtype_object": "arrays of Python objects are refused: they come from ragged lists of images",
    "check_estimators_empty_data_messages": "an empty array is refused in our words about images, not about features",
}


def test_scikit_learn_estimator_checks() -> None:
    results = check_estimator(
        ImageClusterer("kmeans", n_clusters=3, image_shape=(1, -1), value_range="auto", device="cpu"),
        expected_failed_checks=EXPECTED_FAILURES,
        on_fail=None,
        on_skip=None,
    )
    failed = {result["check_name"]: str(result["exception"]) for result in results if result["status"] == "failed"}
    assert failed == {}
    still_failing = {result["check_name"] for result in results if result["status"] == "xfail"}
    assert still_failing == set(EXPECTED_FAILURES), "a check named as an expected failure passes now: remove it"
    assert sum(result["status"] == "passed" for result in results) >= 30


@pytest.fixture(scope="module")
def pixels() -> Any:
    return shapes(10, size=12, seed=0, n_classes=3)[0].pixels


class TestTrainOn:
    def test_the_model_of_some_images_sorts_all_and_the_run_says_so(self, pixels: Any, tmp_path: Path) -> None:
        model = ImageClusterer("kmeans", n_clusters=3, encoder="none", train_on=18, seed=2).fit(pixels)
        learned = drawn(len(pixels), 18, 2)
        assert learned is not None
        alone = ImageClusterer("kmeans", n_clusters=3, encoder="none", seed=2).fit(pixels[learned])
        np.testing.assert_array_equal(alone.labels_, model.labels_[learned])
        np.testing.assert_array_equal(alone.predict(pixels), model.labels_)
        assert any("Learned from 18 of 30 images" in warning for warning in model.warnings_)
        model.save(tmp_path / "run")
        assert json.loads((tmp_path / "run" / "config.json").read_text())["train_on"] == 18
        assert load(tmp_path / "run").train_on == 18

    def test_as_many_as_there_are_is_all(self, pixels: Any) -> None:
        some, whole = (ImageClusterer("kmeans", 3, encoder="none", train_on=n).fit(pixels) for n in (500, None))
        np.testing.assert_array_equal(some.labels_, whole.labels_)
        assert not any("Learned from" in warning for warning in some.warnings_)

    @pytest.mark.parametrize("wrong", [1, 0, -3, 2.5, "20", True])
    def test_what_is_no_number_of_images_is_refused(self, pixels: Any, wrong: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^train_on must be a whole number of at least 2; got "):
            ImageClusterer("kmeans", n_clusters=3, encoder="none", train_on=wrong).fit(pixels)

    def test_fewer_than_clusters_are_refused_in_words_of_python(self, pixels: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^train_on must be at least the number of clusters \(3\); got 2"):
            ImageClusterer("kmeans", n_clusters=3, encoder="none", train_on=2).fit(pixels)


def test_every_layout_gives_the_same_labels(pixels: Any) -> None:
    expected = ImageClusterer("kmeans", n_clusters=3).fit_predict(pixels)
    gray = pixels[:, :, :, 0]
    for variant in (gray, gray[:, None], gray / 255, (gray / 255).astype(np.float32)):
        np.testing.assert_array_equal(ImageClusterer("kmeans", n_clusters=3).fit_predict(variant), expected)
    flat = ImageClusterer("kmeans", n_clusters=3, image_shape=(12, 12))
    np.testing.assert_array_equal(flat.fit_predict(gray.reshape(30, -1)), expected)


def test_flat_arrays_need_an_image_shape(pixels: Any) -> None:
    with pytest.raises(InvalidInput, match="image_shape"):
        ImageClusterer("kmeans", n_clusters=3).fit(pixels.reshape(30, -1))


def test_parameters_clone_and_not_fitted(pixels: Any) -> None:
    model = ImageClusterer("kmeans", n_clusters=4, seed=7, settings={"n_restarts": 2})
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        model.predict(pixels)
    with pytest.raises(NotFittedError):
        model.save("nowhere")


def test_predict_transform_and_save(pixels: Any, tmp_path: Path) -> None:
    model = ImageClusterer("kmeans", n_clusters=3).fit(pixels)
    assert model.labels_.dtype == np.int64
    np.testing.assert_array_equal(model.predict(pixels), model.labels_)
    np.testing.assert_allclose(model.predict_proba(pixels).sum(axis=1), 1, atol=1e-6)
    assert model.transform(pixels).shape == (30, 144)
    model.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(pixels), model.labels_)
    assert loaded.get_params()["n_clusters"] == 3
    with pytest.raises(InvalidInput, match="loaded from a run folder"):
        loaded.save(tmp_path / "other")


def test_a_loaded_run_predicts_with_its_corrections_as_the_command_does(pixels: Any, tmp_path: Path) -> None:
    model = ImageClusterer("kmeans", n_clusters=3).fit(pixels)
    model.save(tmp_path / "run")
    journal = Journal.open(tmp_path / "run")
    journal.add(Merge((0, 1), 0))
    journal.close()
    loaded = load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(pixels), np.where(model.labels_ == 1, 0, model.labels_))
    np.testing.assert_array_equal(loaded.predict(pixels, original=True), model.labels_)
    with pytest.raises(InvalidInput, match="original must be True or False"):
        loaded.predict(pixels, original="no")  # type: ignore[arg-type]


def test_new_images_of_another_size_are_brought_to_the_trained_one(pixels: Any) -> None:
    model = ImageClusterer("kmeans", n_clusters=3).fit(pixels)
    doubled = pixels.repeat(2, axis=1).repeat(2, axis=2)
    np.testing.assert_array_equal(model.predict(doubled), model.labels_)
    np.testing.assert_array_equal(model.predict(pixels.repeat(3, axis=3)), model.labels_)


def test_folders_and_lists_of_files(pixels: Any, tmp_path: Path) -> None:
    files = []
    for number, image in enumerate(pixels):
        files.append(tmp_path / f"{number:02d}.png")
        Image.fromarray(image[:, :, 0]).save(files[-1])
    from_folder = ImageClusterer("kmeans", n_clusters=3).fit(tmp_path)
    from_list = ImageClusterer("kmeans", n_clusters=3).fit(files)
    np.testing.assert_array_equal(from_folder.labels_, from_list.labels_)
    np.testing.assert_array_equal(from_folder.predict(files[:1]), from_folder.labels_[:1])


def test_value_range_is_remembered(pixels: Any, tmp_path: Path) -> None:
    shifted = pixels.astype(np.float64) * 2 - 100
    model = ImageClusterer("kmeans", n_clusters=3, value_range="auto").fit(shifted)
    np.testing.assert_array_equal(model.predict(shifted[:5]), model.labels_[:5])
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(load(tmp_path / "run").predict(shifted[:5]), model.labels_[:5])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 1}, "n_clusters must be a whole number of at least 2; got 1"),
        ({"n_clusters": 2.5}, "n_clusters must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"method": "kmean"}, "Did you mean kmeans"),
        ({"settings": {"restarts": 3}}, "Did you mean n_restarts"),
        ({"value_range": 3}, "value_range must be two numbers or 'auto'; got 3"),
        ({"n_clusters": 31}, r"between 2 and the number of images \(30\); got 31"),
    ],
)
def test_wrong_parameters_are_worded(pixels: Any, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ImageClusterer(**{"method": "kmeans", "n_clusters": 3, **parameters}).fit(pixels)


def test_the_encoder_of_another_run(tmp_path: Path) -> None:
    images, _ = shapes(8, size=12, n_classes=3)
    ImageClusterer("kmeans", 3).fit(images).save(tmp_path / "first")
    model = ImageClusterer("ac-link", 3, encoder=str(tmp_path / "first")).fit(images)
    model.save(tmp_path / "second")
    assert (load(tmp_path / "second").predict(images) == model.predict(images)).all()
    assert (model.transform(images) == load(tmp_path / "first").transform(images)).all()


def test_a_fit_is_the_one_of_the_command_line(tmp_path: Path) -> None:
    """Both go through `launch`: the same settings, recipe and description, and the same labels."""
    from selfsort.data import as_dataset
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.launch import launch
    from selfsort.runs.request import Request

    images, _ = shapes(8, size=12, n_classes=3)
    model = ImageClusterer("kmeans", 3, seed=5).fit(images)
    model.save(tmp_path / "run")
    launched = launch(Request(source=as_dataset(images), clusters=3, method="kmeans", seed=5))
    assert (launched.fit.run().clustering.labels == model.labels_).all()
    kept = RunFolder.open(tmp_path / "run").config
    assert {name: kept[name] for name in launched.described} == launched.described


def test_the_number_of_clusters_is_said_once() -> None:
    images, _ = shapes(8, size=12, n_classes=3)
    with pytest.raises(InvalidInput, match="says twice how many clusters to find"):
        ImageClusterer("kmeans", 3, settings={"n_clusters": 4}).fit(images)


class TestEncoders:
    """What Python does with an encoder is what the command line does."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Pictures of different sizes."""
        (tmp_path / "pictures").mkdir()
        for i, pixels in enumerate(blobs(24, 40).pixels):
            Image.fromarray(pixels).resize((40 + i, 44)).save(tmp_path / "pictures" / f"{i:02d}.png")
        return tmp_path / "pictures"

    def test_pictures_are_read_in_the_size_of_the_encoder(self, folder: Path, tmp_path: Path) -> None:
        onnx.save(conv_model(("batch", 3, 20, 20)), str(tmp_path / "m.onnx"))
        model = ImageClusterer("kmeans", n_clusters=3, encoder=str(tmp_path / "m.onnx")).fit(folder)
        assert model._spec.shape == (20, 20, 3)
        np.testing.assert_array_equal(model.predict(folder), model.labels_)
        model.save(tmp_path / "run")
        (tmp_path / "m.onnx").rename(tmp_path / "n.onnx")
        again = load(tmp_path / "run", encoder=str(tmp_path / "n.onnx"))
        np.testing.assert_array_equal(again.predict(folder), model.labels_)
        np.testing.assert_allclose(again.transform(folder), model.features_, atol=1e-5)
        assert again.get_params()["encoder"] == str(tmp_path / "m.onnx")

    def test_a_table_knows_pictures_by_their_names(self, folder: Path, tmp_path: Path) -> None:
        names = [f"{i:02d}.png" for i in range(24)]
        vectors = blobs(24, 40).pixels.mean(axis=(1, 2))
        np.savez(tmp_path / "v.npz", features=vectors[::-1], names=names[::-1])
        model = ImageClusterer("kmeans", n_clusters=3, encoder=str(tmp_path / "v.npz")).fit(folder)
        np.testing.assert_array_equal(model.predict(folder), model.labels_)
        model.save(tmp_path / "run")
        files = [str(folder / name) for name in names[:3]]
        np.savez(tmp_path / "new.npz", features=vectors[:3], names=files)
        again = load(tmp_path / "run", encoder=str(tmp_path / "new.npz"))
        np.testing.assert_array_equal(again.predict(files), model.labels_[:3])
        with pytest.raises(InvalidInput, match="no row for"):
            again.predict(folder)


class TestCut:
    def test_a_cut_of_a_cut_is_a_cut(self, pixels: Any, tmp_path: Path) -> None:
        model = ImageClusterer("kmeans", n_clusters=3, encoder="none").fit(pixels)
        again, direct = model.cut(6).cut(2), model.cut(2)
        np.testing.assert_array_equal(again.labels_, direct.labels_)
        np.testing.assert_allclose(again.predict_proba(pixels), direct.predict_proba(pixels), atol=1e-5)
        again.save(tmp_path / "cut")
        np.testing.assert_array_equal(load(tmp_path / "cut").labels_, direct.labels_)
        np.testing.assert_array_equal(model.cut(3).labels_, model.labels_)

    def test_a_loaded_model_is_cut_and_saved(self, pixels: Any, tmp_path: Path) -> None:
        model = ImageClusterer("kmeans", n_clusters=3, encoder="none").fit(pixels)
        model.save(tmp_path / "run")
        cut = load(tmp_path / "run").cut(5)
        np.testing.assert_array_equal(cut.labels_, model.cut(5).labels_)
        cut.save(tmp_path / "cut")
        again = load(tmp_path / "cut")
        np.testing.assert_array_equal(again.predict(pixels), cut.predict(pixels))
        for number in (2, 9):  # a cut that was loaded, too, goes back to what was trained
            np.testing.assert_array_equal(again.cut(number).labels_, model.cut(number).labels_)
            found, wanted = (one.cut(number).predict_proba(pixels) for one in (again, model))
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        with pytest.raises(InvalidInput, match="holds a run already"):
            cut.save(tmp_path / "cut")

    @pytest.mark.parametrize("number", [3, 6])
    def test_corrections_of_a_loaded_run_hold_in_a_cut_as_they_do_in_selfsort_cut(
        self, pixels: Any, tmp_path: Path, number: int
    ) -> None:
        model = ImageClusterer("kmeans", n_clusters=4, encoder="none").fit(pixels)
        model.save(tmp_path / "run")
        rows = np.flatnonzero(model.labels_ == 3)
        with contextlib.closing(Journal.open(tmp_path / "run")) as journal:
            journal.add(Merge((0, 1), 0))
            journal.add(Move(tuple(rows[: len(rows) // 2].tolist()), 2))
        cut = load(tmp_path / "run").cut(number)
        cut.save(tmp_path / "cut")
        corrected, plain = (load(tmp_path / "cut").predict(pixels, original=original) for original in (False, True))
        assert (corrected != plain).any()
        np.testing.assert_array_equal(cut.predict(pixels), corrected)
        np.testing.assert_array_equal(cut.predict(pixels, original=True), plain)
        np.testing.assert_array_equal(cut.cut(4).predict(pixels), load(tmp_path / "run").predict(pixels))

    @pytest.mark.parametrize("number", [1, 0, 2.5, "auto", 10**6])
    def test_a_number_that_cannot_be(self, pixels: Any, number: Any) -> None:
        model = ImageClusterer("kmeans", n_clusters=3, encoder="none").fit(pixels)
        with pytest.raises(InvalidInput, match="n_clusters must be"):
            model.cut(number)


class TestPython:
    @pytest.fixture
    def model(self) -> ImageClusterer:
        return ImageClusterer("kmeans", n_clusters=3, encoder="none").fit(shapes(6, size=12, n_classes=3)[0].pixels)

    def test_the_public_names(self) -> None:
        assert dir(selfsort) == ["ImageClusterer", "__version__", "duplicates", "load"]

    def test_errors_name_arguments(self, pixels: Any) -> None:
        with pytest.raises(InvalidInput, match=r"^method must be auto or one of"):
            ImageClusterer("kmean", n_clusters=3).fit(pixels)
        with pytest.raises(InvalidInput) as refused:
            ImageClusterer("kmeans", n_clusters="500:600").fit(pixels)
        assert "--" not in str(refused.value)

    def test_a_report_and_a_page_in_a_notebook(self, model: ImageClusterer, tmp_path: Path) -> None:
        assert model.report(tmp_path / "page.html") == tmp_path / "page.html"
        page = (tmp_path / "page.html").read_text()
        shown = model.show(height=300)._repr_html_()
        assert shown.startswith("<iframe srcdoc=")
        assert 'sandbox="allow-scripts"' in shown
        assert html.unescape(shown).count("<img") == page.count("<img") > 0
        model.save(tmp_path / "run")
        load(tmp_path / "run").report(tmp_path / "again.html")
        assert (tmp_path / "again.html").exists()

    def test_not_fitted(self) -> None:
        with pytest.raises(NotFittedError):
            ImageClusterer().show()

    def test_verbose_says_what_it_does(self, pixels: Any, capsys: pytest.CaptureFixture[str]) -> None:
        ImageClusterer("kmeans", n_clusters=3, encoder="none").fit(pixels)
        assert capsys.readouterr().err == ""
        ImageClusterer("kmeans", n_clusters=3, encoder="none", verbose=True).fit(pixels)
        assert "judging the clusters" in capsys.readouterr().err

    def test_lists_and_loaders(self, pixels: Any) -> None:
        whole = ImageClusterer("kmeans", n_clusters=3, encoder="none").fit(pixels)
        loader = DataLoader(TensorDataset(torch.from_numpy(pixels), torch.arange(len(pixels))), shuffle=True)
        for given in (list(pixels), loader):
            np.testing.assert_array_equal(clone(whole).fit(given).labels_, whole.labels_)
            np.testing.assert_array_equal(whole.predict(given), whole.predict(pixels))

    def test_the_notebook_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """As Jupyter would, cell after cell; the last value of a cell must be something it can show."""
        cells = json.loads((Path(__file__).parents[1] / "examples/notebook.ipynb").read_text())["cells"]
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {}
        shown = []
        for cell in (cell for cell in cells if cell["cell_type"] == "code"):
            *lines, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(lines, []), "cell", "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
            else:
                exec(compile(ast.Module([last], []), "cell", "exec"), names)
        assert sum(hasattr(value, "_repr_html_") for value in shown) >= 1
        assert Path("report.html").exists()


def test_what_was_chosen_is_no_warning(recwarn: pytest.WarningsRecorder, capsys: pytest.CaptureFixture[str]) -> None:
    pixels = shapes(20, size=12, n_classes=3)[0].pixels
    model = ImageClusterer("kmeans", encoder="none", verbose=True).fit(pixels)
    assert model.get_params()["n_clusters"] == "auto"
    assert not [one for one in recwarn if issubclass(one.category, FutureWarning)]
    assert model.notes_
    assert model.notes_[0] in capsys.readouterr().err


class TestRefine:
    """What `selfsort refine` and `selfsort update` do, from Python."""

    WORDS = ("--encoder", "none", "--recipe", "default", "--device", "cpu")

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        path = tmp_path / "shapes.npz"
        np.savez(path, images=shapes(12, size=16, n_classes=3)[0].pixels)
        return path

    def fitted(self, images: Any, seed: int = 0) -> ImageClusterer:
        settings = TINY["dac"]
        model = ImageClusterer("dac", n_clusters=3, settings=settings, recipe="default", encoder="none", seed=seed)
        return model.fit(images)

    def test_a_stage_is_that_of_the_command_and_the_model_stays(
        self, source: Path, tmp_path: Path, selfsort: Command
    ) -> None:
        model = self.fitted(source)
        before = model.labels_.copy()
        refined = model.refine("self-label", recipe="default", settings=TINY["self-label"])
        words = [f"--set={name}={value}" for name, value in {**TINY["dac"]}.items()]
        run = tmp_path / "run"
        assert selfsort("fit", source, "--clusters", 3, "--method", "dac", *words, *self.WORDS, "--out", run).code == 0
        words = [f"--set={name}={value}" for name, value in {**TINY["self-label"]}.items()]
        done = selfsort("refine", run, "--recipe", "default", "--device", "cpu", *words, "--out", tmp_path / "two")
        assert done.code == 0, done.err
        command = load(tmp_path / "two")
        np.testing.assert_array_equal(refined.labels_, command.labels_)
        np.testing.assert_array_equal(refined.features_, command.features_)
        np.testing.assert_array_equal(model.labels_, before)
        np.testing.assert_array_equal(
            load(run).refine("self-label", recipe="default", settings=TINY["self-label"]).labels_, command.labels_
        )

    def test_it_can_be_saved_and_refined_again(self, tmp_path: Path) -> None:
        images = shapes(12, size=16, n_classes=3)[0]
        refined = self.fitted(images).refine("self-label", settings=TINY["self-label"])
        refined.save(tmp_path / "run")
        np.testing.assert_array_equal(load(tmp_path / "run").predict(images), refined.predict(images))
        again = refined.refine("teach", settings=TINY["teach"])
        assert again.labels_.shape == refined.labels_.shape

    def test_a_run_saved_from_python_reads_its_images_again_or_takes_them(self, source: Path, tmp_path: Path) -> None:
        settings = TINY["self-label"]
        model = self.fitted(source)
        expected = model.refine("self-label", settings=settings).labels_
        model.save(tmp_path / "from-file")
        np.testing.assert_array_equal(
            load(tmp_path / "from-file").refine("self-label", settings=settings).labels_, expected
        )
        images = shapes(12, size=16, n_classes=3)[0].pixels
        self.fitted(images).save(tmp_path / "from-array")
        loaded = load(tmp_path / "from-array")
        with pytest.raises(InvalidInput, match="was made from an array, which it does not keep"):
            loaded.refine("self-label", settings=settings)
        refined = loaded.refine("self-label", images=images, settings=settings)
        np.testing.assert_array_equal(refined.labels_, expected)

    def test_a_copy_can_be_saved_when_the_original_is_gone(self, tmp_path: Path) -> None:
        images = shapes(12, size=16, n_classes=3)[0]
        refined = self.fitted(images).refine("self-label", settings=TINY["self-label"])
        labels, copied = refined.labels_, copy.deepcopy(refined)
        del refined
        gc.collect()
        copied.save(tmp_path / "run")
        np.testing.assert_array_equal(load(tmp_path / "run").labels_, labels)

    def test_several_models_make_one(self, tmp_path: Path, selfsort: Command) -> None:
        images = shapes(12, size=16, n_classes=3)[0]
        models = [self.fitted(images, seed) for seed in (0, 1)]
        found = models[0].refine("consensus", models[1])
        runs = [tmp_path / str(seed) for seed in (0, 1)]
        for model, run in zip(models, runs, strict=True):
            model.save(run)
        np.savez(tmp_path / "images.npz", images=images.pixels)
        words = ("--stage", "consensus", "--device", "cpu", "--out", tmp_path / "both")
        done = selfsort("refine", *runs, tmp_path / "images.npz", *words)
        assert done.code == 0, done.err
        np.testing.assert_array_equal(found.labels_, load(tmp_path / "both").labels_)
        other = self.fitted(images.subset(slice(0, 30)))
        with pytest.raises(InvalidInput, match="fitted to different images"):
            models[0].refine("consensus", other)
        with pytest.raises(InvalidInput, match="each of the others must be a fitted ImageClusterer"):
            models[0].refine("consensus", "run")  # type: ignore[arg-type]

    def test_corrections_and_new_pictures(self, tmp_path: Path, selfsort: Command) -> None:
        for kind in range(3):
            write_pictures(tmp_path / "photos", kind, 20)
        model = ImageClusterer("kmeans", n_clusters=3, encoder="none", device="cpu").fit(tmp_path / "photos")
        with pytest.raises(InvalidInput, match="only a run on disk can learn from corrections"):
            model.refine("corrections")
        with pytest.raises(InvalidInput, match="only a run on disk can let pictures join"):
            model.update(tmp_path / "photos")
        with pytest.raises(InvalidInput, match="corrections are those of one run"):
            model.refine("corrections", settings={"lr": 1})
        words = ("--clusters", 3, "--method", "kmeans", *self.WORDS, "--out", tmp_path / "run")
        assert selfsort("fit", tmp_path / "photos", *words).code == 0
        loaded = load(tmp_path / "run")
        journal = Journal.open(tmp_path / "run")
        journal.add(Move((1,), int(loaded.labels_[-1])))
        journal.close()
        assert load(tmp_path / "run").refine("corrections").labels_[1] == loaded.labels_[-1]
        write_pictures(tmp_path / "more", 1, 4, first=40)
        with pytest.raises(InvalidInput, match="source must be a text or a path"):
            loaded.update(np.zeros((2, 24, 24)))  # type: ignore[arg-type]
        joined = loaded.update(tmp_path / "more", tmp_path / "joined")
        assert len(joined.labels_) == 64
        assert set(joined.labels_[60:].tolist()) == {int(loaded.labels_[25])}
