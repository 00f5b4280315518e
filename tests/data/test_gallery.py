"""Choosing a shape, decoding in threads."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import noise, picture, save_many, smooth

from selfsort.data import ImageSpec, read_source
from selfsort.data import gallery as pictures_module
from selfsort.data.decode import probe
from selfsort.data.gallery import Item, check_heic
from selfsort.errors import MissingData
from selfsort.progress import listening


def test_the_common_size_is_taken(tmp_path: Path) -> None:
    save_many(tmp_path, 3, height=20, width=30)
    data = read_source(tmp_path)
    assert data.spec == ImageSpec(20, 30, 3, "crop")
    assert data.ingest["size_reason"] == "the size of every picture"


def test_a_common_size_that_is_large_is_not_taken(tmp_path: Path) -> None:
    for number in range(2):
        smooth(200, 300, number).save(tmp_path / f"{number}.jpg")
    data = read_source(tmp_path)
    assert data.spec.shape == (96, 96, 3)
    assert "300x200 is above 256" in data.ingest["size_reason"]
    assert read_source(tmp_path, size=280).spec.shape == (280, 280, 3)


def test_gray_only_if_every_picture_is(tmp_path: Path) -> None:
    save_many(tmp_path, 2, channels=1)
    assert read_source(tmp_path).spec.channels == 1
    assert read_source(tmp_path, channels=3).images.pixels.shape[3] == 3
    picture(noise()).save(tmp_path / "z.png")
    assert read_source(tmp_path).spec.channels == 3
    gray = read_source(tmp_path, channels=1)
    assert (gray.images.pixels[2, :, :, 0] == np.asarray(picture(noise()).convert("L"))).all()


def test_no_header_is_read_twice_when_everything_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_many(tmp_path, 4)
    looked: list[str] = []

    def counted(stream: Any, **options: Any) -> Any:
        looked.append(stream.name)
        return probe(stream, **options)

    monkeypatch.setattr(pictures_module, "probe", counted)
    read_source(tmp_path, spec=ImageSpec(8, 8, 3))
    assert looked == []
    read_source(tmp_path, size=8)
    assert len(looked) == 1  # the first is in colour, so the answer is known
    read_source(tmp_path)
    assert len(looked) == 1 + 4


class Bar:
    """Counts what a progress bar would show."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {}
        self.names: list[str] = []

    def start(self, what: str, total: int) -> int:
        self.names.append(what)
        self.seen[what] = [total, 0]
        return len(self.names) - 1

    def advance(self, task: int, amount: int) -> None:
        self.seen[self.names[task]][1] += amount

    def finish(self, task: int) -> None:
        self.seen[self.names[task]].append(-1)

    def stage(self, what: str, done: int, total: int) -> None:
        pass


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    save_many(tmp_path, 40)
    bar = Bar()
    with listening(bar):
        read_source(tmp_path)
    assert bar.seen["decoding pictures"] == [40, 40, -1]


def test_an_interruption_leaves_no_thread_behind(tmp_path: Path) -> None:
    save_many(tmp_path, 40)

    class Impatient(Bar):
        def advance(self, task: int, amount: int) -> None:
            if self.names[task] == "decoding pictures":
                raise KeyboardInterrupt

    with listening(Impatient()), pytest.raises(KeyboardInterrupt):
        read_source(tmp_path)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("selfsort-decode")]


class TestTelephones:
    """HEIC on a bare install: one line, and the one command, once."""

    @pytest.fixture(autouse=True)
    def _bare(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("selfsort.data.gallery.can_read_heic", lambda: False)

    def items(self, n_heic: int) -> list[Item]:
        names = [f"{i}.HEIC" for i in range(n_heic)] + [f"{i}.jpg" for i in range(100 - n_heic)]
        return [Item(name, io.BytesIO) for name in names]

    def test_a_few_are_left_out_and_told_once(self) -> None:
        said = check_heic(self.items(3), 0.05, "photos")
        assert said.startswith("3 of the 100 pictures of photos are HEIC")
        assert said.count('pip install "selfsort[heic]"') == 1

    def test_many_are_refused_before_anything_is_decoded(self) -> None:
        with pytest.raises(MissingData, match=r"^80 of the 100 pictures of photos are HEIC") as no:
            check_heic(self.items(80), 0.05, "photos")
        assert str(no.value).count("pip install") == 1

    def test_none_or_a_reader_say_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert check_heic(self.items(0), 0.05, "photos") == ""
        monkeypatch.setattr("selfsort.data.gallery.can_read_heic", lambda: True)
        assert check_heic(self.items(80), 0.05, "photos") == ""
