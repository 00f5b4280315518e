"""The outer loop, driven by a toy method whose every step is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from selfsort.config import Config, setting
from selfsort.errors import Interrupted, InvalidInput, TrainingFailed
from selfsort.progress import track
from selfsort.runs.folder import RunFolder
from selfsort.runs.loop import FitRun, pick_thumbnails, shrink
from selfsort.types import Clustering, Images, Method, Snapshot, State

CPU = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class ToyConfig(Config):
    steps: int = setting(4, "snapshots to yield")
    is_broken: bool = setting(False, "end in features that are not numbers")
    is_collapsing: bool = setting(False, "put everything into one cluster at step 2, and recover")


def toy_train(
    images: Images, config: Any, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    step = 0 if resume is None else resume.meta["step"]
    total = np.zeros(1) if resume is None else resume.arrays["total"]
    while step < config.steps:
        step += 1
        total = total + step
        labels = np.arange(len(images)) % config.n_clusters
        if config.is_collapsing and step == 2:
            labels = np.zeros_like(labels)
        state = State({"total": total}, {"step": step})
        result = None
        if step == config.steps:
            soft = np.eye(config.n_clusters, dtype=np.float32)[labels]
            value = np.nan if config.is_broken else total[0]
            features = np.full((len(images), 2), value, dtype=np.float32)
            result = Clustering(labels, soft, features, State(), {"labels_sf": labels[::-1].copy()})
        yield Snapshot(
            step=step,
            total=config.steps,
            labels=labels,
            event={"loss": 1 / step},
            state=lambda state=state: state,  # type: ignore[misc]
            result=result,
            warnings=("the toy is tired.",) if step == 1 else (),
            history={"total": total},
        )


def toy_restore(config: Any, state: State, *, device: torch.device) -> Any:
    return None


TOY = Method("toy", "counts", "nobody", ToyConfig, toy_train, toy_restore, is_inductive=True)
IMAGES = Images(np.zeros((12, 8, 8, 1), dtype=np.uint8))
DESCRIBED = {"method": "toy", "settings": {}, "seed": 0, "image": {}}


def make(
    folder: RunFolder | None = None, truth: Any = None, max_seconds: float | None = None, **settings: Any
) -> FitRun:
    config = ToyConfig(n_clusters=3, **settings)
    return FitRun(IMAGES, TOY, config, CPU, folder=folder, truth=truth, max_seconds=max_seconds, save_interval=0)


def test_events_carry_step_sizes_and_scores() -> None:
    outcome = make(truth=np.arange(12) % 3).run()
    assert [event["step"] for event in outcome.events] == [1, 2, 3, 4]
    first = outcome.events[0]
    assert first["clusters"] == 3
    assert first["size_entropy"] == pytest.approx(np.log(3), abs=1e-5)
    assert first["acc"] == 1.0
    assert outcome.metrics is not None
    assert set(outcome.metrics) == {"acc", "nmi_geometric", "nmi_arithmetic", "nmi_max", "ari"}
    assert outcome.metrics_sf is not None


def test_without_truth_nothing_is_scored() -> None:
    outcome = make().run()
    assert outcome.metrics is None
    assert "acc" not in outcome.events[0]


def test_the_folder_tells_the_whole_story(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", DESCRIBED)
    make(folder, truth=np.arange(12) % 3).run()
    assert folder.is_finished
    assert not (folder.path / "resume").exists()
    *steps, end = folder.events()
    assert [event["step"] for event in steps] == [1, 2, 3, 4]
    assert end["kind"] == "end"
    assert end["clusters_found"] == 3
    assert end["warnings"] == ["the toy is tired."]
    assert folder.read_json("metrics.json")["acc"] == 1.0
    assert "acc" in folder.read_json("metrics.json")["metrics_sf"]
    assert {step: arrays["total"][0] for step, arrays in folder.history().items()} == {1: 1, 2: 3, 3: 6, 4: 10}
    np.testing.assert_array_equal(folder.result().features, np.full((12, 2), 10, dtype=np.float32))


def test_time_up_saves_and_resumes_to_the_same_result(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", DESCRIBED)
    for expected_step in (1, 2, 3):
        with pytest.raises(Interrupted, match=rf"at step {expected_step} of 4, as asked"):
            make(folder, max_seconds=0).run()
        assert not folder.is_finished
    outcome = make(folder, max_seconds=0).run()
    assert outcome.clustering.features[0, 0] == 10
    assert outcome.warnings == ("the toy is tired.",)
    assert [event.get("step") for event in folder.events()] == [1, 2, 3, 4, None]


class TestTimeInsideOfSteps:
    """A step of the toy takes 300 seconds, in 300 batches."""

    @pytest.fixture(autouse=True)
    def _clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def slow(self, folder: RunFolder, max_seconds: float) -> FitRun:
        def train(*given: Any, **named: Any) -> Iterator[Snapshot]:
            steps = toy_train(*given, **named)
            while True:
                for _ in track(range(300), "batches", 300):
                    self.now += 1
                try:
                    yield next(steps)
                except StopIteration:
                    return

        fit = make(folder, max_seconds=max_seconds)
        fit.method = replace(TOY, train=train)
        return fit

    def test_a_step_that_cannot_end_in_time_is_given_up(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path / "run", DESCRIBED)
        with pytest.raises(Interrupted, match=r"in the middle of the step after 1 of 4, which begins again"):
            self.slow(folder, 400).run()
        assert 400 <= self.now <= 440, "within a tenth"
        assert [event["step"] for event in folder.events()] == [1]
        outcome = self.slow(folder, 5000).run()
        assert outcome.clustering.features[0, 0] == 10

    def test_a_step_that_ends_a_little_late_is_kept(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path / "run", DESCRIBED)
        with pytest.raises(Interrupted, match=r"at step 2 of 4, as asked"):
            self.slow(folder, 590).run()

    def test_time_for_no_step_is_told(self, tmp_path: Path) -> None:
        folder = RunFolder.create(tmp_path / "run", DESCRIBED)
        with pytest.raises(Interrupted, match=r"none of toy ended within the 1.7 minutes.* or nothing is gained"):
            self.slow(folder, 100).run()
        assert self.now <= 110


def test_collapse_on_the_way_is_logged_and_forgiven_when_healed() -> None:
    outcome = make(is_collapsing=True).run()
    assert any("Only 1 of the 3" in sentence for sentence in outcome.events[1]["collapse"])
    assert "collapse" not in outcome.events[2]
    assert outcome.warnings == ("the toy is tired.",)


def test_results_that_are_not_numbers_are_refused_and_leave_no_labels(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", DESCRIBED)
    with pytest.raises(TrainingFailed, match="not finite numbers"):
        make(folder, is_broken=True).run()
    assert not folder.is_finished


def test_truth_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"labels must have one entry per image \(12\); got 5"):
        make(truth=np.zeros(5, dtype=np.int64)).run()


def test_thumbnails_show_every_cluster_and_are_small() -> None:
    pixels = np.arange(60, dtype=np.uint8)[:, None, None, None] * np.ones((1, 130, 100, 3), dtype=np.uint8)
    labels = np.arange(60) % 2
    soft = np.where(np.eye(2)[labels] > 0, 0.9, 0.1).astype(np.float32)
    result = Clustering(labels, soft, np.zeros((60, 1), dtype=np.float32), State())
    thumbnails = pick_thumbnails(Images(pixels), result, per_kind=3, spread=5)
    assert 5 < len(thumbnails.rows) <= 5 + 2 * 2 * 3
    assert thumbnails.pixels.shape[1:] == (43, 33, 3)
    assert set(labels[thumbnails.rows]) == {0, 1}
    # Constant pictures stay what they are.
    np.testing.assert_array_equal(thumbnails.pixels[:, 0, 0, 0], thumbnails.rows)


def test_thumbnails_keep_the_surest_mistakes() -> None:
    labels = np.repeat([0, 1], 50)
    truth = labels.copy()
    truth[[7, 61]] = [1, 0]
    soft = np.where(np.eye(2)[labels] > 0, 0.9, 0.1).astype(np.float32)
    result = Clustering(labels, soft, np.zeros((100, 1), dtype=np.float32), State())
    images = Images(np.zeros((100, 8, 8, 1), dtype=np.uint8))
    without = pick_thumbnails(images, result, per_kind=1, spread=2)
    assert not {7, 61} & set(without.rows.tolist())
    assert {7, 61} <= set(pick_thumbnails(images, result, truth, per_kind=1, spread=2).rows.tolist())


@pytest.mark.parametrize(("height", "width"), [(1, 66), (66, 1), (5000, 1), (1, 10_000), (2, 20_000), (100, 10_000)])
def test_shrinking_leaves_something_of_a_thin_picture(height: int, width: int) -> None:
    small = shrink(np.full((2, height, width, 1), 9, np.uint8))
    assert max(small.shape[1:3]) <= 64
    assert min(small.shape[1:3]) >= 1
    assert (small == 9).all()


def test_shrinking_averages_blocks() -> None:
    pixels = np.array([[0, 10], [20, 30]], dtype=np.uint8).repeat(2, axis=0)[None, :, :, None]
    np.testing.assert_array_equal(shrink(pixels, side=2)[0, :, 0, 0], [5, 25])
    assert shrink(pixels, side=4) is pixels
