"""What every entry of METHODS and of STAGES promises. A new one inherits all of it by being listed."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.contract.tiny import IMPROVED, TINY, WARM
from tests.encoders.small import TinyConvEncoder
from tests.encoders.test_registry import CARD

from selfsort.config import describe
from selfsort.data.synthetic import shapes
from selfsort.encoders import registry
from selfsort.encoders.finetune import tunable, tuned
from selfsort.encoders.fitted import FittedEncoder, Part, fit_encoder
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.errors import InvalidInput
from selfsort.estimator import ImageClusterer, load
from selfsort.improve.around import ImproveConfig
from selfsort.improve.stages import STAGES
from selfsort.methods.registry import METHODS
from selfsort.runs.encoder import ENCODER_FILE, EncodedModel, Opened
from selfsort.runs.encoder import describe as describe_encoder
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun
from selfsort.runs.model import STARTED_FROM, apply_in_chunks, load_model
from selfsort.types import Clustering, FinishedRun, Images, Method, Model, Snapshot, State, Tunable

K = 3
CPU = torch.device("cpu")
IMPROVABLE = [f"improved {name}" for name, method in METHODS.items() if method.improvable is not None]
WARMED = [f"warm {name}" for name, method in METHODS.items() if method.improvable is not None]
AFTER = [f"{name} after a run" for name, method in METHODS.items() if method.train_after is not None]
every_method = pytest.mark.parametrize("name", METHODS)
every_kind = pytest.mark.parametrize("name", [*METHODS, *STAGES, *AFTER])
FINETUNED = [f"finetuned {name}" for name, method in METHODS.items() if method.finetunes]
every_training = pytest.mark.parametrize("name", [*METHODS, *STAGES, *AFTER, *IMPROVABLE, *WARMED, *FINETUNED])


@pytest.fixture(scope="module")
def images() -> Images:
    return shapes(12, size=16, seed=1, n_classes=K)[0]


@functools.cache
def first_run() -> State:
    """Return the model of a run that stages go on from."""
    result = make_fit("secu", shapes(12, size=16, seed=1, n_classes=K)[0]).run().clustering
    return result.model


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    card = dataclasses.replace(CARD, name="conv", is_installed=lambda: True, open=lambda *_: TinyConvEncoder())
    monkeypatch.setitem(registry.OWN, "conv", card)


def encode(method: Method, images: Images) -> tuple[FittedEncoder, Tunable]:
    """Return an encoder that is to learn along with a method, and what it makes of images."""
    part, config = Part(TinyConvEncoder(), is_general=True), EncodeConfig(finetune="last")
    assert method.learns_on is not None
    pictures = Pictures(images, (), None)
    fitted, found = fit_encoder(
        (part,), pictures, config, on=method.learns_on, with_views=False, device=CPU, folder=None
    )
    return fitted, tunable(fitted, found, images)


def find(name: str) -> Method:
    """Return a method, or a stage, or a method that is one, after a small run of SeCu."""
    if name in METHODS:
        return METHODS[name]
    secu = METHODS["secu"]
    config = secu.config.from_json({"n_clusters": K, **TINY["secu"]})
    run = FinishedRun("secu", secu.restore(config, first_run(), device=CPU))
    if name in STAGES:
        return STAGES[name].after(run)
    method = METHODS[name.removesuffix(" after a run")]
    assert method.train_after is not None
    return dataclasses.replace(method, train=functools.partial(method.train_after, run))


def make_fit(name: str, images: Images, *, seed: int = 0, folder: RunFolder | None = None) -> FitRun:
    around = IMPROVED if name in IMPROVABLE else WARM if name in WARMED else {}
    improve = ImproveConfig(**around)
    method = find(re.sub("^(improved|warm|finetuned) ", "", name))
    config = method.config.from_json({"n_clusters": K, **TINY.get(method.name, {})})
    fit = FitRun(images, method, config, CPU, seed=seed, folder=folder, improve=improve, save_interval=0.0)
    if name in FINETUNED:
        fit.encoded = encode(method, images)[1]
    return fit


def global_numpy_state() -> str:
    return repr(np.random.get_state(legacy=False))  # noqa: NPY002 (methods must not touch the global generator)


def new_folder(path: Path, fit: FitRun) -> RunFolder:
    height, width, channels = fit.images.shape
    image = {"height": height, "width": width, "channels": channels, "fit": "crop"}
    folder = RunFolder.create(
        path, {"method": fit.method.name, "settings": fit.config.to_json(), "seed": fit.seed, "image": image}
    )
    if fit.method.name in STAGES:
        settings = {"n_clusters": K, **TINY["secu"]}
        before = {"method": "secu", "settings": settings, "seed": 0, "image": image}
        RunFolder.create(path / STARTED_FROM, before).write_state("model.safetensors", first_run())
    if fit.encoded is not None:
        fitted, _ = encode(fit.method, fit.images)
        told = describe_encoder(Opened("conv", fitted.parts, ({"kind": "name", "at": "conv"},)), fitted, "")
        folder.write_json("config.json", {**folder.config, "encoder": told})
        folder.write_state(ENCODER_FILE, fitted.state)
    return RunFolder.open(path)


def restored(fit: FitRun, result: Clustering) -> Model:
    own = fit.method.restore(fit.config, result.model, device=CPU)
    if fit.encoded is None:
        return own
    return EncodedModel(tuned(encode(fit.method, fit.images)[0], result.model), own)


@every_kind
def test_labels_soft_and_features_have_their_form(name: str, images: Images) -> None:
    result = make_fit(name, images).run().clustering
    assert result.labels.dtype == np.int64
    assert result.labels.shape == (len(images),)
    assert result.labels.min() >= 0
    assert result.labels.max() < K
    assert result.soft.dtype == result.features.dtype == np.float32
    assert result.soft.shape == (len(images), K)
    assert result.features.shape[0] == len(images)
    np.testing.assert_allclose(result.soft.sum(axis=1), 1, atol=1e-5)


@every_training
def test_same_seed_same_result_and_input_untouched(name: str, images: Images) -> None:
    before = images.pixels.copy()
    torch_state = torch.get_rng_state()
    numpy_state = global_numpy_state()
    first, second = (make_fit(name, images, seed=5).run().clustering for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.features, second.features)
    np.testing.assert_array_equal(images.pixels, before)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert global_numpy_state() == numpy_state


@every_kind
def test_read_only_memory_is_enough(name: str, images: Images) -> None:
    pixels = images.pixels.copy()
    pixels.flags.writeable = False
    result = make_fit(name, Images(pixels)).run().clustering
    np.testing.assert_array_equal(result.labels, make_fit(name, images).run().clustering.labels)


class Killed(Exception):
    pass


@every_training
def test_killed_at_any_snapshot_it_resumes_to_the_same_bits(name: str, images: Images, tmp_path: Path) -> None:
    whole = make_fit(name, images)
    steps: list[int] = []
    whole.on_snapshot = lambda snapshot: steps.append(snapshot.step)
    expected = whole.run()
    assert steps == list(range(1, len(steps) + 1))
    for step in steps:
        fit = make_fit(name, images)
        fit.folder = folder = new_folder(tmp_path / f"killed-{step}", fit)

        def kill(snapshot: Snapshot, at: int = step) -> None:
            if snapshot.step == at:
                raise Killed

        fit.on_snapshot = kill
        with pytest.raises(Killed):
            fit.run()
        assert not folder.is_finished
        resumed = make_fit(name, images, folder=RunFolder.open(folder.path)).run()
        np.testing.assert_array_equal(resumed.clustering.labels, expected.clustering.labels)
        np.testing.assert_array_equal(resumed.clustering.features, expected.clustering.features)
        logged = [event["step"] for event in folder.events() if "step" in event]
        assert logged == steps


@every_training
def test_saved_and_loaded_it_predicts_the_same(name: str, images: Images, tmp_path: Path) -> None:
    fit = make_fit(name, images)
    fit.folder = folder = new_folder(tmp_path / "run", fit)
    result = fit.run().clustering
    saved = RunFolder.open(folder.path).result()
    np.testing.assert_array_equal(saved.labels, result.labels)
    np.testing.assert_array_equal(saved.features, result.features)
    applied = apply_in_chunks(load_model(folder, CPU), images)
    again = apply_in_chunks(restored(fit, result), images)
    np.testing.assert_array_equal(applied.soft, again.soft)
    assert applied.soft.shape == (len(images), K)
    np.testing.assert_allclose(applied.features, result.features, atol=1e-4)
    if fit.method.is_inductive:
        np.testing.assert_array_equal(applied.labels, result.labels)
    else:
        # A vote may outvote a border image; on separable shapes it hardly ever does.
        assert np.mean(applied.labels == result.labels) >= 0.9


@every_method
def test_estimator_round_trip(name: str, images: Images, tmp_path: Path) -> None:
    model = ImageClusterer(name, n_clusters=K, settings=TINY.get(name), recipe="default", device="cpu").fit(images)
    model.save(tmp_path / "run")
    loaded = load(tmp_path / "run", device="cpu")
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    np.testing.assert_array_equal(loaded.predict(images.pixels), model.predict(images.pixels))


@every_method
def test_it_can_be_cut_at_another_number_and_saved_so(name: str, images: Images, tmp_path: Path) -> None:
    model = ImageClusterer(name, n_clusters=K, settings=TINY.get(name), recipe="default", device="cpu").fit(images)
    n_found = len(np.unique(model.labels_))
    for number in (2, 6):
        cut = model.cut(number)
        assert (len(np.unique(cut.labels_)), cut.n_clusters) == (number, number)
        assert len(np.unique(np.stack([model.labels_, cut.labels_]), axis=1)[0]) == max(number, n_found), "nested"
        cut.save(tmp_path / str(number))
        loaded = load(tmp_path / str(number), device="cpu")
        np.testing.assert_array_equal(loaded.labels_, cut.labels_)
        np.testing.assert_array_equal(loaded.predict(images.pixels), cut.predict(images.pixels))


@every_kind
def test_images_that_are_all_the_same_end_in_a_warning_not_a_crash(name: str) -> None:
    same = Images(np.full((24, 16, 16, 1), 90, dtype=np.uint8))
    outcome = make_fit(name, same).run()
    found = len(np.unique(outcome.clustering.labels))
    if found < K:
        assert any(f"{found} of the {K}" in warning for warning in outcome.warnings)
    assert np.isfinite(outcome.clustering.soft).all()


@every_kind
def test_black_images_among_others_are_harmless(name: str, images: Images) -> None:
    pixels = images.pixels.copy()
    pixels[:4] = 0
    outcome = make_fit(name, Images(pixels)).run()
    assert np.isfinite(outcome.clustering.features).all()


@every_kind
def test_too_many_clusters_are_refused_in_the_house_wording(name: str, images: Images) -> None:
    fit = make_fit(name, images)
    fit.config = dataclasses.replace(fit.config, n_clusters=len(images) + 1)
    with pytest.raises(InvalidInput, match=r"n_clusters must be between 2 and the number of images \(36\); got 37"):
        fit.run()
    with pytest.raises(InvalidInput, match="n_clusters must be at least 2; got 1"):
        fit.method.config(n_clusters=1)


@every_kind
def test_no_label_can_reach_a_method(name: str, images: Images) -> None:
    """`train` takes images and settings alone, and truth given for scoring changes nothing but the scores."""
    assert set(inspect.signature(find(name).train).parameters) == {"images", "config", "device", "seed", "resume"}
    truth = np.arange(len(images)) % K
    fit = make_fit(name, images)
    fit.truth = truth
    scored = fit.run()
    assert scored.metrics is not None
    np.testing.assert_array_equal(scored.clustering.labels, make_fit(name, images).run().clustering.labels)


@every_kind
def test_settings_are_described_and_survive_json(name: str) -> None:
    kind = find(name).config
    config = kind(n_clusters=K)
    assert kind.from_json(config.to_json()) == config
    for setting in describe(kind):
        assert setting.doc
        assert setting.source


def test_states_are_arrays_and_json_only(images: Images) -> None:
    for name in (*METHODS, *STAGES, *AFTER, *IMPROVABLE, *WARMED, *FINETUNED):
        fit = make_fit(name, images)
        states: list[State] = []
        fit.on_snapshot = lambda snapshot, into=states: into.append(snapshot.state())
        fit.run()
        for state in states:
            assert all(isinstance(array, np.ndarray) and array.dtype != object for array in state.arrays.values())
