"""The whole way in: shape, store, labels, account."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.samples import noise, save_many

from selfsort.data import ImageSpec, conform, read_source
from selfsort.errors import InvalidInput, SelfsortError
from selfsort.types import Images


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
        "side": None,
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
    del mapped
    assert list(scratch.iterdir()) == []


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "--size must be between 1 and 65500 pixels; got 0"),
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


def test_every_error_has_exit_code_2(tmp_path: Path) -> None:
    with pytest.raises(SelfsortError) as caught:
        read_source(tmp_path / "nowhere")
    assert caught.value.exit_code == 2


def test_reading_needs_no_torch() -> None:
    code = "import sys, selfsort.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
