"""What every method promises, as checks that a package of one's own can run: nothing here needs a test runner.

    from selfsort.contract import CHECKS

    @pytest.mark.parametrize("check", CHECKS)
    def test_contract(check, tmp_path):
        check(METHOD, {"epochs": 2}, tmp_path)

Each check takes a method, settings that make it quick, and an empty folder, and raises an AssertionError that says
which promise was broken.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from selfsort.config import describe
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.improve.shrink import restored
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun
from selfsort.runs.model import apply_in_chunks
from selfsort.types import Images, Method, Snapshot, State

Settings: TypeAlias = Mapping[str, Any]
Check: TypeAlias = Callable[[Method, Settings, Path], None]

N_CLUSTERS = 3
_CPU = torch.device("cpu")


def labels_soft_and_features_have_their_form(method: Method, settings: Settings, folder: Path) -> None:
    """Labels are int64 from 0 to K-1; soft assignments and features are float32, and soft rows sum to one."""
    images = _images()
    config = method.config.from_json({"n_clusters": N_CLUSTERS, **settings})
    *_, last = method.train(images, config, device=_CPU, seed=0)
    result, n = last.result, len(images)
    if result is None:
        raise AssertionError("The contract of methods was broken: the last snapshot has the result.")
    _require(result.labels.dtype == np.int64 and result.labels.shape == (n,), "labels are int64, one per image")
    _require(result.labels.min() >= 0 and result.labels.max() < N_CLUSTERS, "labels go from 0 to K-1")
    _require(result.soft.dtype == np.float32 and result.soft.shape == (n, N_CLUSTERS), "soft is float32, (N, K)")
    _require(result.features.dtype == np.float32 and len(result.features) == n, "features are float32, (N, D)")
    _require(np.allclose(result.soft.sum(axis=1), 1, atol=1e-5), "rows of soft sum to one")


def the_same_seed_gives_the_same_result(method: Method, settings: Settings, folder: Path) -> None:
    """Images and the generators of the program stay as they were; images may be read-only."""
    images = _images()
    before, torch_state = images.pixels.copy(), torch.get_rng_state()
    numpy_state = repr(np.random.get_state(legacy=False))  # noqa: NPY002 (it is looked at, not used)
    images.pixels.flags.writeable = False
    first, second = (_fit(method, settings, images, seed=5).run().clustering for _ in range(2))
    _require(np.array_equal(first.labels, second.labels), "the same seed gives the same labels")
    _require(np.array_equal(first.features, second.features), "the same seed gives the same features")
    _require(np.array_equal(images.pixels, before), "images are never changed")
    _require(torch.equal(torch.get_rng_state(), torch_state), "torch's global generator is not used")
    now = repr(np.random.get_state(legacy=False))  # noqa: NPY002
    _require(now == numpy_state, "NumPy's global generator is not used")


def a_run_killed_at_any_step_goes_on_to_the_same_result(method: Method, settings: Settings, folder: Path) -> None:
    """Steps count from 1, and the state of each one is enough to go on from."""
    images, steps = _images(), list[int]()
    whole = _fit(method, settings, images)
    whole.on_snapshot = lambda snapshot: steps.append(snapshot.step)
    expected = whole.run().clustering
    _require(steps == list(range(1, len(steps) + 1)), "steps count from 1")
    for step in steps[:-1]:
        fit = _fit(method, settings, images)
        fit.folder = _new_folder(folder / f"killed-{step}", fit)
        fit.on_snapshot = _killing_at(step)
        with suppress(_Killed):
            fit.run()
        resumed = _fit(method, settings, images)
        resumed.folder = RunFolder.open(fit.folder.path)
        found = resumed.run().clustering
        _require(np.array_equal(found.labels, expected.labels), f"killed at step {step} it ends in the same labels")
        _require(np.array_equal(found.features, expected.features), f"killed at step {step}, the same features")


def a_saved_run_predicts_as_it_was_fitted(method: Method, settings: Settings, folder: Path) -> None:
    """What `restore` makes of the saved state labels the training images as `is_inductive` promises."""
    images = _images()
    fit = _fit(method, settings, images)
    fit.folder = _new_folder(folder / "run", fit)
    result = fit.run().clustering
    saved = RunFolder.open(fit.folder.path).result()
    _require(np.array_equal(saved.labels, result.labels), "labels come back from the run folder")
    model = restored(method, fit.config, saved.model, device=_CPU)
    applied = apply_in_chunks(model, images)
    _require(applied.soft.shape == (len(images), N_CLUSTERS), "apply gives soft assignments (N, K)")
    _require(np.allclose(applied.features, result.features, atol=1e-4), "apply gives the features of the fit")
    agreement = float(np.mean(applied.labels == result.labels))
    least = 1.0 if method.is_inductive else 0.9
    _require(agreement >= least, f"apply gives the labels of the fit back; got {agreement:.2f} of them")


def odd_images_are_no_crash(method: Method, settings: Settings, folder: Path) -> None:
    """Images that are all the same, or black, end in a result, with a warning if clusters are empty."""
    same = Images(np.full((24, 16, 16, 1), 90, dtype=np.uint8))
    outcome = _fit(method, settings, same).run()
    n_found = len(np.unique(outcome.clustering.labels))
    is_told = any(f"{n_found} of the {N_CLUSTERS}" in warning for warning in outcome.warnings)
    _require(n_found == N_CLUSTERS or is_told, "fewer clusters than asked for are warned of")
    pixels = _images().pixels.copy()
    pixels[:4] = 0
    black = _fit(method, settings, Images(pixels)).run().clustering
    _require(bool(np.isfinite(black.features).all()), "black images give finite features")


def nothing_but_images_and_settings_reaches_it(method: Method, settings: Settings, folder: Path) -> None:
    """`train` has no room for labels, and more clusters than images are refused."""
    found = set(inspect.signature(method.train).parameters)
    _require(found == {"images", "config", "device", "seed", "resume"}, "train takes images and settings alone")
    fit = _fit(method, settings, _images())
    fit.config = replace(fit.config, n_clusters=len(fit.images) + 1)
    try:
        fit.run()
    except InvalidInput:
        return
    _require(False, "more clusters than images are refused")


def settings_are_described_and_survive_json(method: Method, settings: Settings, folder: Path) -> None:
    """Each setting has a sentence and a source, and comes back from config.json as it was."""
    config = method.config.from_json({"n_clusters": N_CLUSTERS, **settings})
    _require(method.config.from_json(config.to_json()) == config, "settings survive JSON")
    for setting in describe(method.config):
        _require(bool(setting.doc and setting.source), f"the setting {setting.name} says what it is and where from")


def states_are_arrays_and_json(method: Method, settings: Settings, folder: Path) -> None:
    """Nothing has to be pickled."""
    states = list[State]()
    fit = _fit(method, settings, _images())
    fit.on_snapshot = lambda snapshot: states.append(snapshot.state())
    fit.run()
    arrays = [array for state in states for array in state.arrays.values()]
    _require(all(isinstance(array, np.ndarray) and array.dtype != object for array in arrays), "arrays of numbers")


CHECKS: tuple[Check, ...] = (
    labels_soft_and_features_have_their_form,
    the_same_seed_gives_the_same_result,
    a_run_killed_at_any_step_goes_on_to_the_same_result,
    a_saved_run_predicts_as_it_was_fitted,
    odd_images_are_no_crash,
    nothing_but_images_and_settings_reaches_it,
    settings_are_described_and_survive_json,
    states_are_arrays_and_json,
)


class _Killed(Exception):
    pass


def _killing_at(step: int) -> Callable[[Snapshot], None]:
    def kill(snapshot: Snapshot) -> None:
        if snapshot.step == step:
            raise _Killed

    return kill


def _images() -> Images:
    return shapes(12, size=16, seed=1, n_classes=N_CLUSTERS)[0]


def _fit(method: Method, settings: Settings, images: Images, seed: int = 0) -> FitRun:
    config = method.config.from_json({"n_clusters": N_CLUSTERS, **settings})
    return FitRun(images, method, config, _CPU, seed=seed, save_interval=0.0)


def _new_folder(path: Path, fit: FitRun) -> RunFolder:
    height, width, channels = fit.images.shape
    image = {"height": height, "width": width, "channels": channels, "fit": "crop"}
    described = {"method": fit.method.name, "settings": fit.config.to_json(), "seed": fit.seed, "image": image}
    return RunFolder.create(path, described)


def _require(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(f"The contract of methods was broken: {promise}.")
