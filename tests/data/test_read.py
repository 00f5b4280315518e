"""The whole way in: shape, store, labels, account."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.samples import noise, picture, save_many, smooth

from selfsort.data import ImageSpec, conform, read_source
from selfsort.data import pictures as pictures_module
from selfsort.data.decode import probe
from selfsort.errors import InvalidInput, MissingData, SelfsortError
from selfsort.progress import listening
from selfsort.types import Images


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


@pytest.mark.parametrize("fit", ["crop", "stretch", "pad"])
def test_files_and_arrays_are_fitted_alike(tmp_path: Path, fit: Any) -> None:
    made = save_many(tmp_path, 3, height=20, width=30)
    spec = ImageSpec(16, 12, 1, fit)
    from_files = read_source(tmp_path, spec=spec)
    from_pixels = conform(Images(np.stack(made)), spec)
    assert (from_files.images.pixels == from_pixels.pixels).all()
    assert from_files.spec == spec


def test_spec_overrides_the_rest_and_survives_json(tmp_path: Path) -> None:
    save_many(tmp_path, 2)
    spec = ImageSpec.from_json(json.loads(json.dumps(ImageSpec(10, 14, 1, "pad").to_json())))
    assert read_source(tmp_path, size=50, channels=3, fit="crop", spec=spec).images.shape == (10, 14, 1)


def test_the_account_is_json_and_complete(tmp_path: Path) -> None:
    save_many(tmp_path, 3)
    account = json.loads(json.dumps(read_source(tmp_path, size=8, fit="pad").ingest))
    assert account["source"] == str(tmp_path)
    assert account["size"] == [8, 8]
    assert account["size_reason"] == "asked for"
    assert account["stored"] == "memory"
    assert account["bytes"] == 3 * 8 * 8 * 3
    assert account["seconds"] >= 0
    assert account["settings"] == {
        "size": 8,
        "channels": None,
        "fit": "pad",
        "where": None,
        "max_bad": 0.05,
        "memory_bytes": None,
        "spec": None,
        "labels": None,
        "labels_from_folders": False,
    }


def test_the_fingerprint_sees_pixels_and_order_not_names(tmp_path: Path) -> None:
    save_many(tmp_path / "a", 3)
    first = read_source(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    for path in sorted((tmp_path / "b").iterdir()):
        path.rename(path.with_name("renamed-" + path.name))
    assert read_source(tmp_path / "b").fingerprint == first.fingerprint
    Image.fromarray(noise(seed=99)).save(tmp_path / "b" / "renamed-001.png")
    assert read_source(tmp_path / "b").fingerprint != first.fingerprint


def test_above_the_budget_the_images_are_mapped_and_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_many(tmp_path / "source", 5)
    (tmp_path / "source" / "001.png").write_text("broken")  # rows after it move up in the mapped file
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    inside = read_source(tmp_path / "source", max_bad=0.5)
    mapped = read_source(tmp_path / "source", max_bad=0.5, memory_bytes=100)
    assert (inside.ingest["stored"], mapped.ingest["stored"]) == ("memory", "memory-mapped")
    assert isinstance(mapped.images.pixels, np.memmap)
    assert (mapped.images.pixels == inside.images.pixels).all()
    assert mapped.fingerprint == inside.fingerprint
    assert list(scratch.iterdir()) == []  # removed already, so nothing can be left behind


def test_disk_full_is_an_error_before_anything_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_many(tmp_path / "source", 3)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)

    def full(descriptor: int, start: int, length: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InvalidInput, match=r"disk of .*scratch must have room for the decoded images .*No space left"):
        read_source(tmp_path / "source", memory_bytes=0)
    assert list(scratch.iterdir()) == []


def test_unwritable_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_many(tmp_path / "source", 2)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(InvalidInput, match=r"must be writable for decoded images; got No such file.*Set TMPDIR"):
        read_source(tmp_path / "source", memory_bytes=0)


def test_labels_from_folders(tmp_path: Path) -> None:
    for name in ("train/dog", "train/cat", "test/dog"):
        save_many(tmp_path / name, 2)
    data = read_source(tmp_path, labels_from_folders=True)
    assert data.names[0] == "test/dog/000.png"
    assert data.label_names == ("cat", "dog")
    assert data.labels is not None
    assert data.labels.dtype == np.int64
    assert data.labels.tolist() == [1, 1, 0, 0, 1, 1]
    with pytest.raises(InvalidInput, match=r"--labels-from-folders must find at least two folders in .*; got 1"):
        read_source(tmp_path / "test", labels_from_folders=True)


def test_labels_never_enter_images(tmp_path: Path) -> None:
    for name in ("dog", "cat"):
        save_many(tmp_path / name, 1)
    data = read_source(tmp_path, labels_from_folders=True)
    assert vars(data.images).keys() == {"pixels"}


def test_where_is_refused_for_plain_pictures(tmp_path: Path) -> None:
    save_many(tmp_path, 2)
    with pytest.raises(InvalidInput, match="--where must be used with a source that has named arrays; got 'split'"):
        read_source(tmp_path, where="split=1")


@pytest.mark.parametrize("where", ["split", "=1", "split=", ""])
def test_where_has_a_form(tmp_path: Path, where: str) -> None:
    with pytest.raises(InvalidInput, match="--where must have the form NAME=VALUE"):
        read_source(tmp_path, where=where)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "height must be a whole number between 1 and 65500; got 0"),
        ({"size": -3}, "got -3"),
        ({"size": 10**9}, "got 1000000000"),
        ({"channels": 2}, "channels must be 1 .gray. or 3 .RGB.; got 2"),
        ({"fit": "squeeze"}, "fit must be crop, stretch or pad; got 'squeeze'"),
        ({"max_bad": 2}, "--max-bad must be a share between 0 and 1; got 2"),
        ({"memory_bytes": -1}, "--memory must not be negative; got -1"),
    ],
)
def test_wrong_wishes(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    save_many(tmp_path, 2)
    with pytest.raises(InvalidInput, match=message):
        read_source(tmp_path, **options)


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"The source .*nowhere is not there. Expected a folder of pictures, .*Check"):
        read_source(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.bin", bytes(1000), "1000 bytes, which is no whole number of CIFAR or STL-10 images"),
        ("a", b"", "an empty file"),
        ("a.gz", b"\x1f\x8b" + bytes(30), "a gzip file that is no idx file. Unpack it first"),
        ("a.dat", bytes(range(40)), "bytes of no known format"),
        ("a.npz", b"this is text", "bytes of no known format"),
        ("a.jpg", b"\xff\xd8\xff\xe0" + bytes(40), "the single picture .*Name the folder"),
    ],
)
def test_files_of_no_use(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput, match=message):
        read_source(tmp_path / name)


def test_folders_of_no_use(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="must hold pictures; got nothing"):
        read_source(tmp_path)
    np.savez(tmp_path / "a.npz", images=np.zeros((2, 2, 2), np.uint8))
    with pytest.raises(InvalidInput, match=r"must hold pictures; got a.npz. Name that file as the source"):
        read_source(tmp_path)
    (tmp_path / "batches.meta").touch()
    with pytest.raises(InvalidInput, match=r'be in the binary version; got pickled files. Get the "binary version"'):
        read_source(tmp_path)


def test_every_error_has_exit_code_2(tmp_path: Path) -> None:
    with pytest.raises(SelfsortError) as caught:
        read_source(tmp_path / "nowhere")
    assert caught.value.exit_code == 2


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


def test_reading_needs_no_torch() -> None:
    code = "import sys, selfsort.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
