from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.tiny_run import CONFIG, files_of

from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.runs.export.move import can_move_to, is_interrupted, move_pictures, undo_moves
from selfsort.runs.folder import RunFolder
from selfsort.runs.moved import JOURNAL, Moves

CALLS = ("link", "unlink", "rename", "replace", "mkdir", "rmdir", "fsync")
N = 3


class Album:
    """Pictures of a run, and how to move them."""

    def __init__(self, root: Path) -> None:
        self.photos, self.out = root / "photos", root / "new" / "sorted"
        self.names = [f"in/{i}.png" for i in range(N - 1)] + ["odd \udce9.png"]
        self.paths = [self.photos / name for name in self.names]
        for i, path in enumerate(self.paths):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (4, 4), (i, 0, 0)).save(path)
        self.places = [Path(f"cluster-{i % 2}", path.name) for i, path in enumerate(self.paths)]
        self.run = RunFolder.create(root / "run", CONFIG)
        self.before = files_of(self.photos)

    def move(self) -> None:
        move_pictures(self.run, self.out, self.paths, self.names, self.places)

    def is_moved(self) -> bool:
        found = {path.name: path.read_bytes() for path in self.out.rglob("*.png")}
        return found == {Path(name).name: content for name, content in self.before.items()} and not files_of(
            self.photos
        )

    def is_back(self) -> bool:
        return files_of(self.photos) == self.before


@pytest.fixture
def album(tmp_path: Path) -> Album:
    return Album(tmp_path)


def dies(job: Callable[[], object], at: int) -> bool:
    """Do something in a child that is killed before its n-th change of the disk; False if it came to its end."""
    child = os.fork()
    if child == 0:
        left = at

        def watched(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*arguments: Any, **options: Any) -> Any:
                nonlocal left
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*arguments, **options)

            return counted

        for name in CALLS:
            setattr(os, name, watched(getattr(os, name)))
        try:
            job()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.fixture(params=["one disk", "two disks"])
def disks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "two disks":

        def no_link(*_: Any, **__: Any) -> None:
            raise OSError(errno.EXDEV, "other disk")

        monkeypatch.setattr(os, "link", no_link)


@pytest.mark.usefixtures("disks")
class TestKills:
    def test_a_move_that_is_killed_can_be_undone(self, tmp_path: Path) -> None:
        for at in range(1, 200):
            album = Album(tmp_path / str(at))
            if not dies(album.move, at):
                break
            if (album.out / JOURNAL).is_file():
                assert undo_moves(album.out).n_back == N
                assert not album.out.exists()
            assert album.is_back(), at
            album.move()
            assert album.is_moved(), at
        assert 8 < at < 199

    def test_a_move_that_is_killed_goes_on(self, tmp_path: Path) -> None:
        for at in range(1, 200):
            album = Album(tmp_path / str(at))
            if not dies(album.move, at):
                break
            if can_move_to(album.run, album.out):  # else it was killed after its end was written
                album.move()
            assert album.is_moved(), at
            assert not is_interrupted(album.run, album.out)
            assert not list(album.out.rglob(".selfsort-*.part"))
        assert 8 < at < 199

    def test_an_undo_that_is_killed_goes_on(self, tmp_path: Path) -> None:
        for at in range(1, 200):
            album = Album(tmp_path / str(at))
            album.move()
            if not dies(lambda album=album: undo_moves(album.out), at):  # type: ignore[misc]
                break
            if (album.out / JOURNAL).is_file():
                assert undo_moves(album.out).is_whole
            assert album.is_back(), at
            assert not files_of(album.out)
        assert 8 < at < 199


def test_there_and_back(album: Album) -> None:
    album.move()
    assert album.is_moved()
    assert Moves.read(album.out).is_done
    done = undo_moves(album.out)
    assert (done.n_back, done.is_whole) == (N, True)
    assert album.is_back()
    assert not album.out.exists()
    with pytest.raises(MissingData, match="no journal of moved files"):
        undo_moves(album.out)


def test_what_a_person_has_put_there_stays(album: Album) -> None:
    album.move()
    (album.out / "cluster-0" / "note.txt").write_text("mine")
    undo_moves(album.out)
    assert album.is_back()
    assert (album.out / "cluster-0" / "note.txt").read_text() == "mine"


def test_nothing_is_replaced_on_the_way_back(album: Album) -> None:
    album.move()
    album.paths[0].write_bytes(b"somebody's new file")
    gone = album.out / album.places[1]
    gone.unlink()
    done = undo_moves(album.out)
    assert (done.n_back, done.blocked, done.missing) == (1, (album.names[0],), (album.names[1],))
    assert album.paths[0].read_bytes() == b"somebody's new file"
    album.paths[0].unlink()
    assert undo_moves(album.out).n_back == 2


def test_a_place_that_is_taken_is_left_alone(album: Album) -> None:
    album.out.mkdir(parents=True)
    (album.out / "mine.txt").touch()
    assert not can_move_to(album.run, album.out)


def test_a_file_in_the_way_stops_the_move(album: Album) -> None:
    def blocked(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "broken disk", "x")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", blocked)
        with pytest.raises(CannotWrite, match="nothing is lost"):
            album.move()
    assert undo_moves(album.out).is_whole
    assert album.is_back()


def test_links_and_files_named_twice_are_refused(album: Album, tmp_path: Path) -> None:
    link = tmp_path / "link.png"
    link.symlink_to(album.paths[0])
    for paths in ([link, *album.paths[1:]], [album.paths[0], album.paths[0], album.paths[2]]):
        with pytest.raises(InvalidInput, match="Use --mode copy"):
            move_pictures(album.run, album.out, paths, album.names, album.places)
    assert album.is_back()
    assert not album.out.exists()


def test_a_foreign_journal_puts_no_program_anywhere(album: Album, tmp_path: Path) -> None:
    album.move()
    (album.out / album.places[0]).write_bytes(b"#!/bin/sh\n")
    album.paths[0].unlink(missing_ok=True)
    assert undo_moves(album.out).blocked == (album.names[0],)
    assert not album.paths[0].exists()
