from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tiny_run import files_of
from tests.toy import TOY

from selfsort.data.options import ReadOptions
from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.methods import registry
from selfsort.runs import launch as session
from selfsort.runs.encoder import find_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import Launched, launch, resume
from selfsort.runs.request import Request


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.OWN, "toy", TOY)
    monkeypatch.chdir(tmp_path)


def request_for(source: Path, **changes: Any) -> Request:
    return replace(Request(source=ReadOptions(path=str(source)), clusters=3, method="toy"), **changes)


def start(request: Request, out: Path | None) -> Launched:
    return launch(replace(request, out=out))


class TestWords:
    def test_a_second_run_gets_a_number(self, npz: Path) -> None:
        names = [start(request_for(npz), None).folder.path.name for _ in range(3)]
        assert names == ["shapes-toy-k3-seed0", "shapes-toy-k3-seed0-2", "shapes-toy-k3-seed0-3"]


class TestAutoMethod:
    def test_the_images_choose_and_the_run_says_so(self, npz: Path, tmp_path: Path) -> None:
        launched = start(request_for(npz, method="auto", encoder="none"), tmp_path / "run")
        assert launched.fit.method.name == "jule"
        choice = launched.folder.config["method_choice"]
        assert choice == {"asked": "auto", "reason": "18 images in 3 clusters, from their pixels"}

    def test_the_folder_is_named_after_the_choice(self, npz: Path) -> None:
        assert start(request_for(npz, method="auto"), None).folder.path.name.startswith("shapes-jule-k3")


class TestStart:
    def test_the_folder_is_ready_before_training(self, npz: Path, tmp_path: Path) -> None:
        ready = start(request_for(npz, settings=("steps=2",), seed=7), tmp_path / "run")
        folder = RunFolder.open(tmp_path / "run")
        assert folder.config["settings"] == {"n_clusters": 3, "steps": 2}
        assert folder.config["seed"] == 7
        assert folder.config["source"]["path"] == str(npz)
        assert folder.config["recipe"]["reason"].startswith("chosen")
        assert ready.recipe.startswith("default, chosen")
        assert folder.read_json("ingest.json")["read"] == 18
        truth = folder.truth()
        assert truth is not None
        assert sorted(set(truth.tolist())) == [0, 1, 2]
        assert not folder.is_finished

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"method": "toys"}, r"got 'toys'. Did you mean toy\?"),
            ({"settings": ("step=2",)}, r"got 'step'. Did you mean steps\?"),
            ({"settings": ("n_clusters=2",)}, "Use --clusters"),
            ({"settings": ("steps=many",)}, "steps must be a whole number"),
            ({"recipe": "mnist"}, r"--recipe must be one that toy has"),
            ({"device": "abacus"}, r"device 'abacus' cannot be used here .* Try --device cpu"),
            ({"clusters": 19}, r"n_clusters must be between 2 and the number of images \(18\); got 19"),
            ({"clusters": 1}, "n_clusters must be at least 2"),
        ],
    )
    def test_a_wrong_request_leaves_nothing(self, npz: Path, changes: Any, message: str, tmp_path: Path) -> None:
        before = files_of(tmp_path)
        with pytest.raises(InvalidInput, match=message):
            start(request_for(npz, **changes), None)
        assert files_of(tmp_path) == before
        assert not Path("selfsort-runs").exists()

    def test_a_full_disk_leaves_nothing(self, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for written in range(3):  # of ingest.json, truth.npy and config.json
            budget = iter(range(written))

            def limited(handle: int, budget: Iterator[int] = budget) -> None:
                if next(budget, None) is None:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            monkeypatch.setattr("os.fsync", limited)
            with pytest.raises(CannotWrite, match="No space left on device"):
                start(request_for(npz), tmp_path / "run")
            assert not (tmp_path / "run").exists()
        monkeypatch.undo()
        monkeypatch.setitem(registry.OWN, "toy", TOY)
        assert len(files_of(start(request_for(npz), tmp_path / "run").folder.path)) == 3


class TestFeatures:
    def test_the_other_run_must_be_a_finished_one(self, npz: Path, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match="is not a run folder"):
            start(request_for(npz, method="kmeans", encoder=str(tmp_path / "nowhere")), None)
        start(request_for(npz), tmp_path / "half")
        with pytest.raises(MissingData, match="half is not finished"):
            start(request_for(npz, method="kmeans", encoder=str(tmp_path / "half")), None)

    def test_a_layer_may_follow_a_colon(self, npz: Path, tmp_path: Path) -> None:
        for name in ("run", "odd:name"):
            start(request_for(npz), tmp_path / name).fit.run()
        for text, path, layer in [
            ("run", "run", "top"),
            ("run:conv2", "run", "conv2"),
            ("odd:name", "odd:name", "top"),
        ]:
            folder, found = find_run(text)
            assert (str(folder.path), found) == (path, layer)

    def test_the_network_is_copied_before_the_run_counts_as_one(
        self, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start(request_for(npz), tmp_path / "first").fit.run()

        def killed(folder: RunFolder, source: RunFolder, name: str) -> None:
            assert not (folder.path / "config.json").exists()
            raise KeyboardInterrupt

        monkeypatch.setattr(session, "embed", killed)
        with pytest.raises(KeyboardInterrupt):
            start(request_for(npz, method="kmeans", encoder="first"), tmp_path / "second")
        assert not (tmp_path / "second").exists()

    def test_a_run_on_features_resumes_on_features(self, npz: Path, tmp_path: Path) -> None:
        start(request_for(npz), tmp_path / "first").fit.run()
        start(request_for(npz, method="kmeans", encoder="first"), tmp_path / "second")
        resumed = resume(tmp_path / "second")
        assert resumed.fit.encoded is not None
        np.testing.assert_array_equal(
            resumed.fit.run().clustering.features, RunFolder.open(tmp_path / "first").result().features
        )


class TestResume:
    def test_a_finished_run_is_refused(self, npz: Path, tmp_path: Path) -> None:
        start(request_for(npz), tmp_path / "run").fit.run()
        with pytest.raises(InvalidInput, match=r"is finished already. Expected an unfinished run. See it with"):
            resume(tmp_path / "run")

    def test_a_damaged_state_is_refused_and_nothing_deleted(self, npz: Path, tmp_path: Path) -> None:
        """Also when nothing was logged yet, so that the run looks as if its images had been refused at the start."""
        folder = start(request_for(npz), tmp_path / "run").folder
        (folder.path / "resume").mkdir()
        for name in ("thesis.txt", "resume/state.safetensors"):
            (folder.path / name).write_text("all of it")
        before = files_of(folder.path)
        with pytest.raises(InvalidInput, match=r"state.safetensors cannot be used .* restore it"):
            resume(folder.path).fit.run()
        assert files_of(folder.path) == before | {"resume/lock": b""}

    @pytest.mark.parametrize("is_resumed", [True, False])
    def test_images_refused_by_the_method_take_only_a_new_run_away(
        self, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_resumed: bool
    ) -> None:
        def refuse(*arguments: Any, **options: Any) -> Iterator[Any]:
            raise InvalidInput("these images are too dull.")

        monkeypatch.setitem(registry.OWN, "toy", replace(TOY, train=refuse))
        ready = start(request_for(npz), tmp_path / "run")
        (tmp_path / "run" / "thesis.txt").write_text("all of it")
        before = files_of(tmp_path / "run")
        with pytest.raises(InvalidInput, match="too dull"):
            (resume(tmp_path / "run") if is_resumed else ready).fit.run()
        kept = before | {"resume/lock": b"", "events.jsonl": b""} if is_resumed else {"thesis.txt": b"all of it"}
        assert files_of(tmp_path / "run") == kept

    def test_a_run_finished_by_another_process_while_the_source_was_read(self, npz: Path, tmp_path: Path) -> None:
        start(request_for(npz), tmp_path / "run")
        late = resume(tmp_path / "run")
        resume(tmp_path / "run").fit.run()
        before = files_of(tmp_path / "run")
        with pytest.raises(InvalidInput, match="is finished already"):
            late.fit.run()
        assert files_of(tmp_path / "run") == before

    def test_it_computes_with_as_many_threads_as_before(
        self, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads = torch.get_num_threads()
        folder = start(request_for(npz), tmp_path / "run").folder
        assert resume(folder.path).notes == ()
        folder.write_json("config.json", {**folder.config, "threads": threads + 1})
        limits: list[int] = []
        monkeypatch.setattr(session, "threadpool_limits", limits.append)
        try:
            (remark,) = resume(folder.path).notes
            assert torch.get_num_threads() == threads + 1
        finally:
            torch.set_num_threads(threads)
        assert limits == [threads + 1]
        assert remark.startswith(f"threads: {threads + 1}, as the run was started with, and not {threads}, as")

    @pytest.mark.parametrize("threads", [0, -1, 10**6, 10**30, "2", None, True, 1.5])
    def test_threads_that_cannot_be_are_refused(self, npz: Path, tmp_path: Path, threads: object) -> None:
        folder = start(request_for(npz), tmp_path / "run").folder
        folder.write_json("config.json", {**folder.config, "threads": threads})
        with pytest.raises(InvalidInput, match="threads"):
            resume(folder.path)

    def test_other_pixels_are_refused(self, npz: Path, tmp_path: Path) -> None:
        start(request_for(npz), tmp_path / "run")
        np.savez(npz, images=np.zeros((18, 12, 12), dtype=np.uint8))
        with pytest.raises(InvalidInput, match=r"are not those the run .* was started with. Expected the same pixels"):
            resume(tmp_path / "run")

    def test_a_source_that_has_moved_can_be_named(self, npz: Path, tmp_path: Path) -> None:
        start(request_for(npz), tmp_path / "run")
        moved = npz.rename(tmp_path / "moved.npz")
        with pytest.raises(MissingData, match="is not there"):
            resume(tmp_path / "run")
        assert resume(tmp_path / "run", source=str(moved)).fit.seed == 0

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("source", None),
            ("source", {"path": 5}),
            ("fingerprint", 5),
            ("device", None),
            ("device", "abacus"),
            ("method", "gone"),
            ("settings", {"n_clusters": 3, "gone": 1}),
            ("settings", {"n_clusters": 3, "steps": "many"}),
            ("settings", {}),
        ],
    )
    def test_a_changed_config_is_refused(self, npz: Path, tmp_path: Path, key: str, value: object) -> None:
        folder = start(request_for(npz), tmp_path / "run").folder
        folder.write_json("config.json", {**folder.config, key: value})
        with pytest.raises(InvalidInput):
            resume(tmp_path / "run")

    def test_a_changed_recipe_is_refused_when_it_is_shown(self, npz: Path, tmp_path: Path) -> None:
        folder = start(request_for(npz), tmp_path / "run").folder
        folder.write_json("config.json", {**folder.config, "recipe": "mine"})
        with pytest.raises(InvalidInput, match="'recipe' is missing or of the wrong type"):
            _ = resume(tmp_path / "run").recipe
