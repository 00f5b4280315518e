"""Large images averaged down, once, for methods that learn a network from pixels."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tests.contract.tiny import TINY

from selfsort.contract import CHECKS
from selfsort.data.options import ReadOptions
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.estimator import ImageClusterer, load
from selfsort.improve.around import ImproveConfig, check_improvable, train_improved
from selfsort.improve.pairs import can_be_taught
from selfsort.improve.shrink import smaller
from selfsort.improve.stages import STAGES
from selfsort.methods.registry import METHODS
from selfsort.runs.corrections import learn_corrections
from selfsort.runs.edits import Move
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.journal import Journal
from selfsort.runs.labels import current_labels
from selfsort.runs.launch import launch
from selfsort.runs.model import load_own_model
from selfsort.runs.request import Request
from selfsort.types import Images, Snapshot, State

CPU = torch.device("cpu")
NETWORKS = ("jule", "dbc", "fcae-kmeans", "dac", "gatcluster", "secu", "teach")
LARGE, _ = shapes(8, size=66, n_classes=3, channels=3)
"""Averaged by two: 33 pixels."""


def fitted(name: str, *, shrink: bool = True, images: Images = LARGE) -> ImageClusterer:
    settings = {**TINY[name], "improve.shrink": shrink}
    model = ImageClusterer(name, n_clusters=3, settings=settings, recipe="default", encoder="none", device="cpu")
    return model.fit(images)


def test_images_of_any_shape() -> None:
    assert smaller(LARGE).shape == (33, 33, 3)
    assert smaller(Images(np.zeros((2, 70, 200, 1), np.uint8))).shape == (35, 100, 1)


class TestTraining:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_it_learns_what_it_would_from_smaller_images(self, name: str) -> None:
        found, plain = fitted(name), fitted(name, shrink=False, images=smaller(LARGE))
        np.testing.assert_array_equal(found.labels_, plain.labels_)
        np.testing.assert_array_equal(found.transform(LARGE), plain.transform(smaller(LARGE)))

    def test_small_images_stay_as_they_are(self) -> None:
        images = shapes(8, size=63, n_classes=3)[0]
        found, plain = (fitted("secu", shrink=shrink, images=images) for shrink in (True, False))
        np.testing.assert_array_equal(found.transform(images), plain.transform(images))

    def test_a_warm_start_and_several_starts_see_the_smaller_images(self) -> None:
        config = METHODS["dac"].config.from_json({"n_clusters": 3, **TINY["dac"]})
        improve = ImproveConfig(warm_start=True, warm_passes=2, starts=2, start_length=1, regroup_every=1, shrink=True)
        ends = [
            list(train_improved(METHODS["dac"], images, config, how, device=CPU, seed=0))[-1].result
            for images, how in ((LARGE, improve), (smaller(LARGE), replace(improve, shrink=False)))
        ]
        assert ends[0] is not None
        assert ends[1] is not None
        np.testing.assert_array_equal(ends[0].features, ends[1].features)

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_the_contract_holds(self, check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        large = shapes(6, size=64)[0]
        monkeypatch.setattr("selfsort.contract._images", lambda: large)
        secu = METHODS["secu"]

        def train(
            images: Any, config: Any, *, device: torch.device, seed: int, resume: State | None = None
        ) -> Iterator[Snapshot]:
            improve = ImproveConfig(shrink=True)
            return train_improved(secu, images, config, improve, device=device, seed=seed, resume=resume)

        check(replace(secu, train=train), TINY["secu"], tmp_path)


class TestModel:
    @pytest.mark.parametrize("name", NETWORKS)
    def test_it_sorts_and_exports_images_of_the_size_of_the_run(self, name: str, tmp_path: Path) -> None:
        model = fitted(name)
        model.save(tmp_path / "run")
        again = load(tmp_path / "run")
        new = shapes(5, size=66, n_classes=3, channels=3, seed=9)[0]
        np.testing.assert_array_equal(again.predict(new), model.predict(new))
        folder = RunFolder.open(tmp_path / "run")
        path = export_run(folder, current_labels(folder), "onnx", tmp_path / "model.onnx")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        soft, features = session.run(["soft", "features"], {"pixels": new.pixels})
        np.testing.assert_allclose(soft, model.predict_proba(new), atol=1e-4)
        np.testing.assert_allclose(features, model.transform(new), atol=1e-3)

    def test_another_size_is_refused_by_its_own_name(self) -> None:
        model = fitted("dac")
        own = model._model
        assert own is not None
        with pytest.raises(InvalidInput, match=r"shape \(33, 33, 3\). This model was trained on \(66, 66, 3\)"):
            own.apply(smaller(LARGE))

    def test_a_cut_goes_on_from_it(self) -> None:
        found = fitted("secu").cut(2).predict_proba(LARGE)
        plain = fitted("secu", shrink=False, images=smaller(LARGE)).cut(2).predict_proba(smaller(LARGE))
        np.testing.assert_array_equal(found, plain)

    @pytest.mark.parametrize(("name", "way"), [("dac", "network"), ("jule", "exported")])
    def test_what_it_can_be_handed_on_as_is_its_own(self, name: str, way: str) -> None:
        # From Python 3.12 on `isinstance` does not ask `__getattr__` whether a protocol is kept.
        model = fitted(name)._model
        assert callable(inspect.getattr_static(model, way))
        other = "exported" if way == "network" else "network"
        assert not hasattr(model, other)


class TestGoingOn:
    @pytest.fixture
    def source(self, tmp_path: Path) -> ReadOptions:
        np.savez(tmp_path / "images.npz", images=LARGE.pixels)
        return ReadOptions(path=str(tmp_path / "images.npz"))

    def run(self, source: ReadOptions, out: Path, *, shrink: bool, start: RunFolder | None = None) -> RunFolder:
        settings = {**TINY["secu"], "improve.shrink": shrink}
        asked = Request(
            source=source, clusters=3, method="secu", encoder="none", settings=settings, out=out, start_from=start
        )
        launched = launch(asked)
        launched.fit.run()
        return launched.folder

    @pytest.mark.parametrize("was_shrunk", [True, False])
    def test_a_network_goes_on_with_images_of_the_size_it_knows(
        self, was_shrunk: bool, source: ReadOptions, tmp_path: Path
    ) -> None:
        earlier = self.run(source, tmp_path / "first", shrink=was_shrunk)
        later = self.run(source, tmp_path / "second", shrink=not was_shrunk, start=earlier)
        assert later.config["improve"]["shrink"] is was_shrunk
        shape = [33, 33, 3] if was_shrunk else [66, 66, 3]
        assert later.read_state("model.safetensors").meta["shape"] == shape
        np.testing.assert_array_equal(load(later.path).predict(LARGE), load(later.path).labels_)

    @pytest.mark.parametrize("stage", ["self-label", "teach"])
    def test_a_second_stage_does(self, stage: str, source: ReadOptions, tmp_path: Path) -> None:
        earlier = self.run(source, tmp_path / "first", shrink=True)
        asked = Request(
            source=source, clusters=3, stage=stage, settings=TINY[stage], start_from=earlier, out=tmp_path / "second"
        )
        launch(asked).fit.run()
        assert len(load(tmp_path / "second").predict(LARGE)) == len(LARGE)

    def test_its_network_learns_from_corrections(self, source: ReadOptions, tmp_path: Path) -> None:
        earlier = self.run(source, tmp_path / "first", shrink=True)
        journal = Journal.open(earlier.path)
        journal.add(Move((1,), int(earlier.label_table().labels[-1])))
        journal.close()
        assert can_be_taught(load_own_model(earlier, CPU), earlier.read_state("model.safetensors"))
        made = learn_corrections(earlier, tmp_path / "second", device="cpu")
        before = earlier.read_state("model.safetensors").arrays
        after = made.folder.read_state("started_from/model.safetensors").arrays
        assert any(not np.array_equal(before[name], after[name]) for name in before)
        assert len(load(made.folder.path).predict(LARGE)) == len(LARGE)

    def test_it_can_be_the_encoder_of_another_run(self, source: ReadOptions, tmp_path: Path) -> None:
        earlier = self.run(source, tmp_path / "first", shrink=True)
        model = ImageClusterer("kmeans", n_clusters=3, encoder=str(earlier.path), device="cpu").fit(LARGE)
        np.testing.assert_array_equal(model.predict(LARGE), model.labels_)


@pytest.mark.parametrize("name", ["kmeans", "leiden", "ac-gdl"])
def test_methods_without_a_network_refuse(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"does not go with {name}. Expected a method that learns a network"):
        check_improvable(METHODS[name], ImproveConfig(shrink=True))


def test_stages_refuse() -> None:
    with pytest.raises(InvalidInput, match="does not go with self-label"):
        check_improvable(STAGES["self-label"], ImproveConfig(shrink=True))
