from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import write_photos
from tests.explore.runs import half_done
from tests.toy import TOY

from selfsort.errors import InvalidInput
from selfsort.explore import desk as module
from selfsort.explore.desk import Desk
from selfsort.methods import registry
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import resume


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OWN, "toy", TOY)
    monkeypatch.setattr(module, "_LOOK_EVERY", 0.0)


@pytest.fixture
def half(tmp_path: Path) -> Path:
    return half_done(write_photos(tmp_path / "photos"), tmp_path / "run").path


def test_a_stopped_run_can_be_looked_at(half: Path) -> None:
    desk = Desk.open(half)
    assert desk.state == "stopped"
    overview = desk.editor.overview()
    assert sum(cluster.size for cluster in overview.clusters) == 18
    listing = desk.editor.listing(overview.clusters[0].id, "typical")
    assert listing.rows == sorted(listing.rows)
    assert desk.pictures.sheet(listing.rows).missing == ()
    desk.close()


@pytest.mark.parametrize(
    "edit",
    [
        lambda editor: editor.rename(0, "cats"),
        lambda editor: editor.merge([0, 1]),
        lambda editor: editor.split(0, 2),
        lambda editor: editor.move([0], None),
        lambda editor: editor.mark([0], True),
        lambda editor: editor.undo(),
        lambda editor: editor.redo(),
        lambda editor: editor.tree(),
        lambda editor: editor.similar([0], 3),
        lambda editor: editor.current(),
    ],
)
def test_and_nothing_else(half: Path, edit: object) -> None:
    assert callable(edit)
    before = sorted(path.name for path in half.rglob("*"))
    with pytest.raises(InvalidInput, match="not finished, so it can be looked at and nothing else"):
        edit(Desk.open(half).editor)
    assert sorted(path.name for path in half.rglob("*")) == before


def test_it_goes_on_and_becomes_editable_when_the_run_is_done(half: Path) -> None:
    desk = Desk.open(half)
    fit = resume(half).fit
    fit.save_interval = 0
    states = []
    fit.on_snapshot = lambda _: states.append((desk.state, desk.version))
    fit.run()
    assert {state for state, _ in states} == {"running"}
    assert len({version for _, version in states}) > 1
    assert desk.state == "finished"
    desk.editor.rename(0, "cats")
    assert desk.editor.overview().n_edits == 1
    desk.close()


def test_before_there_is_a_run(half: Path) -> None:
    desk = Desk(None, None, lambda: "reading the images, decoding pictures 3 of 18")
    assert (desk.state, desk.line) == ("starting", "reading the images, decoding pictures 3 of 18")
    with pytest.raises(InvalidInput, match="still being read"):
        desk.editor.overview()
    desk.show(half)
    assert (desk.state, len(desk.editor)) == ("running", 18), "by this process"


def test_a_run_that_has_found_nothing_yet(half: Path) -> None:
    (half / "resume/labels.npy").unlink()
    assert [cluster.size for cluster in Desk.open(half).editor.overview().clusters] == [18]


@pytest.mark.parametrize("size", [3, 10**9])
def test_labels_of_a_stranger_that_do_not_fit(half: Path, size: int) -> None:
    import numpy as np

    np.save(half / "resume/labels.npy", np.full(18 if size > 18 else size, size, np.int64))
    with pytest.raises(InvalidInput, match="its labels do not fit the images"):
        RunFolder.open(half).table_so_far()
