from __future__ import annotations

from typing import Any

import pytest

from selfsort.errors import InvalidInput
from selfsort.improve.around import ImproveConfig
from selfsort.runs.model import find_kind
from selfsort.runs.renamed import (
    REMOVED,
    RENAMED,
    SWITCHES,
    VALUES,
    all_settings,
    refuse_removed,
    renamings,
    split,
    today,
    update_config,
)


def names_of(method: str) -> set[str]:
    own = find_kind(method).config.from_json({"n_clusters": 2}).to_json()
    return {*own, *(f"improve.{setting}" for setting in ImproveConfig().to_json())}


def test_the_table_leads_from_names_that_are_gone_to_names_that_are_there() -> None:
    for method, rows in (*RENAMED.items(), *SWITCHES.items()):
        assert set(rows.values()) <= names_of(method)
        assert not set(rows) & names_of(method)
    for method, gone in REMOVED.items():
        assert not set(gone) & names_of(method)
    for method, values in VALUES.items():
        for setting, pairs in values.items():
            for old, new in pairs.items():
                find_kind(method).config.from_json({"n_clusters": 2, setting: new})
                with pytest.raises(InvalidInput):
                    find_kind(method).config.from_json({"n_clusters": 2, setting: old})


@pytest.mark.parametrize(
    ("method", "old", "new"),
    [
        ("dac", {"starts": 4, "start_pools": 30, "mend_every": 15, "shift": 0.2},
         {"improve.starts": 4, "improve.start_length": 30, "improve.regroup_every": 15, "translate": 0.2}),
        ("gatcluster", {"start_iterations": 50, "grey": False, "even_light": True, "bn_eval": "unchanged"},
         {"improve.start_length": 50, "gray": False, "standardise": True, "bn_eval": "refreshed"}),
        ("gatcluster", {"bn_eval": "learned", "bn_targets": "batch"}, {"bn_eval": "running", "bn_targets": "batch"}),
        ("gatcluster", {"TI": False, "w_ti": 5.0, "AM": True, "w_am": 5.0}, {"w_ti": 0.0, "w_am": 5.0}),
        ("gatcluster", {"AM": "off", "EA": "true", "SM": "0"}, {"w_am": 0.0, "w_sm": 0.0}),
        ("ac-gdl", {"start": "kmeans"}, {"init": "kmeans"}),
        ("self-label", {"mend": True}, {"regroup": True}),
        ("dbc", {"noise": 0.0, "feature_scale": 1, "lr": 0.1}, {"lr": 0.1}),
        ("dbc", {"noise": "0", "feature_scale": "1.0"}, {}),
        ("dac", {"schedule": "constant"}, {}),
        ("dac", {"shift": 0.2, "translate": 0.3}, {"translate": 0.3}),
        ("kmeans", {"starts": 4, "anything": []}, {"starts": 4, "anything": []}),
        ("gatcluster", {"bn_eval": [], "TI": {}}, {"bn_eval": []}),
    ],
)  # fmt: skip
def test_names_of_today(method: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    assert today(method, old) == new
    assert today(method, new) == new
    refuse_removed(method, new)


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("dac", {"schedule": "cosine"}),
        ("dbc", {"noise": 0.2}),
        ("dec", {"feature_scale": "3"}),
        ("gatcluster", {"AM": True, "w_am": 0.0}),
    ],
)
def test_what_cannot_be_said_any_more_is_refused(method: str, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"is gone: {method} cannot do it any more. .* Leave it out"):
        refuse_removed(method, today(method, settings))


def test_it_is_said_in_one_line() -> None:
    assert renamings("dac", {"lr": 0.1, "improve.starts": 2}) == ()
    (line,) = renamings(
        "gatcluster", {"grey": True, "starts": 2, "bn_eval": "learned", "TI": True, "schedule": "cosine"}
    )
    assert line == (
        "starts is now improve.starts, grey is now gray, bn_eval=learned is now bn_eval=running, "
        "TI is now w_ti, 0 for off, schedule is gone; old names work for one release."
    )


def test_the_settings_of_a_stored_run() -> None:
    stored = {"method": "dac", "settings": {"n_clusters": 3, "starts": 2, "shift": 0.1}, "seed": 0}
    config = update_config(stored)
    assert config == {
        "method": "dac",
        "settings": {"n_clusters": 3, "translate": 0.1},
        "seed": 0,
        "improve": {"starts": 2},
    }
    assert update_config(config) == config
    assert all_settings(config) == {"n_clusters": 3, "translate": 0.1, "improve.starts": 2}
    assert split(all_settings(config)) == (config["settings"], config["improve"], {})
    assert stored["settings"] == {"n_clusters": 3, "starts": 2, "shift": 0.1}


def test_booleans_that_were_stored_as_words() -> None:
    stored = {"method": "kmeans", "settings": {"n_clusters": 3, "centre": "no", "flip": "on", "graph": "no"}}
    assert update_config(stored)["settings"] == {"n_clusters": 3, "centre": False, "flip": True, "graph": "no"}
    stored["settings"] = {"n_clusters": 3, "centre": [1], "flip": "auto"}
    assert update_config(stored) == stored


def test_a_stranger_may_write_anything() -> None:
    config = {"method": "dac", "settings": {"n_clusters": 3}, "improve": [1]}
    assert update_config(config)["improve"] == [1]
    assert all_settings(config) == {"n_clusters": 3}
