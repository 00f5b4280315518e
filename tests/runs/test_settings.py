from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import Command

from selfsort import ImageClusterer
from selfsort.data.synthetic import shapes
from selfsort.errors import InvalidInput
from selfsort.improve.around import ImproveConfig
from selfsort.methods.dac import DACConfig
from selfsort.methods.registry import find_method
from selfsort.runs.folder import RunFolder
from selfsort.runs.settings import read_words, settle, stored_settings

CPU = torch.device("cpu")
DAC = find_method("dac")
TINY = {"epochs": 1, "width": 4, "pool_size": 9, "batch_size": 6, "inner_epochs": 1}


def test_settings_beat_the_recipe_and_unknown_ones_name_the_nearest() -> None:
    kmeans = find_method("kmeans")
    settled = settle(kmeans, 4, {"n_restarts": 2}, shape=(8, 8, 1), device=CPU)
    assert settled.config.to_json() == {"n_clusters": 4, "centre": False, "n_restarts": 2, "max_iterations": 0}
    assert settled.choice.reason.startswith("chosen")
    with pytest.raises(InvalidInput, match=r"got 'n_restart'. Did you mean n_restarts\?"):
        settle(kmeans, 4, {"n_restart": 2}, shape=(8, 8, 1), device=CPU)
    with pytest.raises(InvalidInput, match="do not go with kmeans"):  # before any image is read
        settle(kmeans, 4, {"improve.starts": 2}, shape=(8, 8, 1), device=CPU)
    with pytest.raises(InvalidInput, match=r"one that ImproveConfig has; got 'start'. Did you mean starts\?"):
        settle(DAC, 4, {"improve.start": 2}, shape=(8, 8, 1), device=CPU)


def test_a_recipe_may_improve() -> None:
    settled = settle(DAC, 4, {"improve.starts": 2}, recipe="cpu", shape=(8, 8, 1), device=CPU)
    assert settled.improve == ImproveConfig(starts=2, regroup_every=15, warm_start=True, shrink=True)
    # Old names still say it.
    old = settle(DAC, 4, {"starts": 2, "mend_every": 0, "shift": 0.3}, recipe="cpu", shape=(8, 8, 1), device=CPU)
    assert old.improve == ImproveConfig(starts=2, warm_start=True, shrink=True)
    assert isinstance(old.config, DACConfig)
    assert old.config.translate == 0.3


def test_words_of_the_command_line() -> None:
    assert read_words(DAC, ["lr=0.1", "improve.starts=3"]) == ({"lr": 0.1, "improve.starts": 3}, ())
    values, notes = read_words(DAC, ["starts=3", "shift=0.5", "schedule=constant"])
    assert values == {"improve.starts": 3, "translate": 0.5}
    assert len(notes) == 1
    for words, message in (
        (["schedule=cosine"], "schedule='cosine' is gone"),
        (["starts=many"], "starts must be a whole number; got 'many'"),
        (["improve.stats=3"], "Did you mean starts"),
        (["improve"], "--set must have the form key=value; got 'improve'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_words(DAC, words)


def test_what_a_run_stores(tmp_path: Path) -> None:
    described: dict[str, Any] = {"method": "dac", "seed": 0, "image": {}}
    settings = {"n_clusters": 3, "starts": 2, "start_pools": 1, "shift": 0.2, "schedule": "constant"}
    RunFolder.create(tmp_path / "old", {**described, "settings": settings})
    assert stored_settings(DAC, RunFolder.open(tmp_path / "old")) == (
        DACConfig(n_clusters=3, translate=0.2),
        ImproveConfig(starts=2, start_length=1),
    )
    RunFolder.create(tmp_path / "gone", {**described, "settings": {"n_clusters": 3, "schedule": "cosine"}})
    with pytest.raises(InvalidInput, match="schedule='cosine' is gone"):
        stored_settings(DAC, RunFolder.open(tmp_path / "gone"))
    for wrong in ([1], {"starts": "two"}, {"stars": 2}):
        folder = RunFolder.create(
            tmp_path / str(wrong)[:12], {**described, "settings": {"n_clusters": 3}, "improve": wrong}
        )
        with pytest.raises(InvalidInput):
            stored_settings(DAC, RunFolder.open(folder.path))


def test_old_names_are_said_once_on_the_command_line(selfsort: Command, npz: Path) -> None:
    words = [f"--set={name}={value}" for name, value in TINY.items()]
    fit = ("fit", npz, "--clusters", 3, "--method", "dac", "--recipe", "default", "--device", "cpu", *words)
    old = selfsort(*fit, "--set", "starts=2", "--set", "start_pools=1", "--out", "old")
    new = selfsort(*fit, "--set", "improve.starts=2", "--set", "improve.start_length=1", "--out", "new")
    assert (old.code, new.code) == (0, 0), old.err + new.err
    assert old.err == (
        "starts is now improve.starts, start_pools is now improve.start_length; old names work for one release.\n"
    )
    assert new.err == ""
    for name in ("old", "new"):
        config = RunFolder.open(name).config
        assert config["improve"] == ImproveConfig(starts=2, start_length=1).to_json()
        assert "starts" not in config["settings"]
    assert Path("old/labels.csv").read_bytes() == Path("new/labels.csv").read_bytes()
    refused = selfsort("fit", npz, "--clusters", 3, "--method", "jule", "--set", "improve.starts=2", "--out", "never")
    assert refused.code == 2
    assert "do not go with jule" in refused.err
    assert not Path("never").exists()


def test_old_names_in_python_warn(tmp_path: Path) -> None:
    images = shapes(6, size=12, n_classes=3)[0]
    settings = {**TINY, "starts": 2, "start_pools": 1}
    model = ImageClusterer("dac", 3, settings=settings, recipe="default", device="cpu")
    with pytest.warns(FutureWarning, match="starts is now improve.starts"):
        model.fit(images)
    model.save(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").config["improve"]["starts"] == 2
