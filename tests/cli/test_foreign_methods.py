"""Methods of other packages on the command line: listed, used, remembered by the run, missed when they are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import foreign
from tests.conftest import Command

import selfsort as package


def rows(selfsort: Command) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(selfsort("methods", "--json").out)["methods"]}


def test_every_method_says_where_it_comes_from(
    selfsort: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign.install(tmp_path / "site", monkeypatch)
    found = rows(selfsort)
    assert (found["kmeans"]["package"], found["kmeans"]["version"]) == ("selfsort", package.__version__)
    assert found["foreign-means"] == {
        "name": "foreign-means",
        "package": "their-package",
        "version": "1.2.3",
        "summary": "k-means of others",
        "source": "them",
    }
    assert "n_restarts" in selfsort("methods", "foreign-means").out


def test_a_broken_one_hides_no_other(selfsort: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign.install(tmp_path / "site", monkeypatch, module="broken_module", entries="broken = broken_module:NOTHING")
    done = selfsort("methods")
    assert done.code == 0
    assert "kmeans" in done.out
    assert "not loadable" in done.out
    assert done.err.startswith("warning: 'broken' of the package their-package 1.2.3 cannot be loaded (AttributeError")
    assert done.err.count("\n") == 1
    assert "AttributeError" in rows(selfsort)["broken"]["error"]
    one = selfsort("methods", "broken")
    assert (one.code, one.err.count("\n")) == (2, 1)


def test_a_run_remembers_the_package_and_misses_it(
    selfsort: Command, npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        foreign.install(tmp_path / "site", patched)
        done = selfsort("fit", npz, "--clusters", "3", "--method", "foreign-means", "--out", "run")
        assert done.code == 0, done.err
        assert selfsort("predict", "run", npz).code == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["method_from"] == {"package": "their-package", "version": "1.2.3"}
    assert selfsort("score", "run").code == 0  # needs no method
    done = selfsort("predict", "run", npz, "--out", "new.csv")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "selfsort: the run run was made with the method 'foreign-means' of the package their-package 1.2.3, which is "
        "not installed. Expected that package beside selfsort. Install their-package if you trust it.\n"
    )


@pytest.mark.parametrize(
    "made_by", [{}, [], "x", {"package": 3}, {"package": "selfsort"}, {"package": "x; rm y"}, {"package": "SelfSort"}]
)
def test_an_odd_origin_hides_no_method_of_ours(selfsort: Command, npz: Path, made_by: object) -> None:
    assert selfsort("fit", npz, "--clusters", "3", "--method", "kmeans", "--out", "run").code == 0
    path = Path("run/config.json")
    config = json.loads(path.read_text())
    assert config["method_from"] == {"package": "selfsort", "version": package.__version__}
    path.write_text(json.dumps(config | {"method_from": made_by}))
    assert selfsort("predict", "run", npz).code == 0
