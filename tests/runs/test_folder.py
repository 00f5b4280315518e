"""The run folder: written whole, read back, resumed."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiny_run import CONFIG, NAMES, RESULT, SOFT, files_of, fill, read_everything

import selfsort.runs.files
from selfsort.data.store import limit_memory
from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.table import label_csv
from selfsort.types import Arrays, State


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return fill(RunFolder.create(tmp_path / "run", CONFIG))


# --- round trips ---------------------------------------------------------------------------------------------


def test_everything_comes_back(run: RunFolder) -> None:
    opened = RunFolder.open(run.path)
    assert opened.config == {"format": 1, **CONFIG}
    assert opened.n_clusters == 2
    assert opened.is_finished
    result = opened.result()
    for name in ("labels", "soft", "features"):
        np.testing.assert_array_equal(getattr(result, name), getattr(RESULT, name))
    np.testing.assert_array_equal(result.model.arrays["centroids"], RESULT.model.arrays["centroids"])
    assert result.model.meta == {"variance": 0.5}
    np.testing.assert_array_equal(result.extras["labels_sf"], [1, 1, 0, 0])
    assert opened.label_table().names == NAMES
    np.testing.assert_array_equal(opened.label_table().confidence, SOFT[np.arange(4), RESULT.labels])
    assert [event.get("step") for event in opened.events()] == [1, 2, None]
    np.testing.assert_array_equal(opened.history()[1]["labels"], RESULT.labels)
    assert opened.truth_names() == ["cat", "dog"]
    np.testing.assert_array_equal(opened.truth(), [0, 1, 0, 1])
    thumbnails = opened.thumbnails()
    assert thumbnails is not None
    assert thumbnails.rows.tolist() == [0, 2]
    assert opened.load_resume() is None  # a finished run has nothing to go on from


def test_a_fresh_run_has_none_of_the_optional_files(tmp_path: Path) -> None:
    run = RunFolder.open(RunFolder.create(tmp_path / "run", CONFIG).path)
    assert not run.is_finished
    assert (run.events(), run.history(), run.load_resume()) == ([], {}, None)
    assert (run.truth(), run.truth_names(), run.thumbnails()) == (None, None, None)
    with pytest.raises(MissingData, match=r"is not finished .* selfsort fit --resume"):
        run.result()


def test_asking_whether_a_run_is_finished_reads_no_labels(run: RunFolder) -> None:
    (run.path / "labels.csv").write_text("whatever its size")
    run.require_finished()
    (run.path / "labels.csv").unlink()
    with pytest.raises(MissingData, match="is not finished"):
        run.require_finished()


@pytest.mark.parametrize(
    "array",
    [
        np.float64(3.5) * np.ones(()),  # a single number, as optimisers keep their step count
        np.zeros((0, 3)),
        np.array(True),
        np.arange(12.0).reshape(3, 4).T,
        np.arange(3, dtype=">i4"),
        np.arange(6, dtype=np.uint8)[::2],
    ],
    ids=["single", "empty", "truth", "transposed", "big-endian", "strided"],
)
def test_arrays_of_any_form_come_back_as_they_were(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.write_state("state.safetensors", State({"a": array}))
    back = run.read_state("state.safetensors").arrays["a"]
    assert back.shape == array.shape
    np.testing.assert_array_equal(back, array)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["\r", "a\r\nb", '"', "\0"])))
def test_any_name_survives_the_label_table(names: list[str]) -> None:
    n = len(names)
    text = label_csv(names, np.arange(n), np.ones(n, dtype=np.float32)).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[0] for row in rows[1:]] == names
    assert [row[1:] for row in rows[1:]] == [[str(i), "1.000000"] for i in range(n)]


def test_names_that_are_not_utf8_keep_their_bytes(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    name = os.fsdecode(b"caf\xe9.png")
    run.write_labels("labels.csv", [name], np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32))
    assert (run.path / "labels.csv").read_bytes() == b"name,cluster,confidence\ncaf\xe9.png,0,1.000000\n"
    assert run.label_table().names == (name,)


def test_a_stored_run_of_format_1_stays_readable() -> None:
    stored = RunFolder.open(Path(__file__).parents[1] / "golden" / "tiny-run")
    assert stored.config["format"] == 1
    assert stored.config["method"] == "kmeans"
    read_everything(stored.path)
    result, truth, thumbnails = stored.result(), stored.truth(), stored.thumbnails()
    assert truth is not None
    assert thumbnails is not None
    # The two clusterings name their groups differently and agree on everything else.
    assert len(set(zip(result.labels.tolist(), truth.tolist(), strict=True))) == 3
    assert sorted(stored.history()) == [1]
    assert [event.get("kind") for event in stored.events()] == [None, "end"]

    from selfsort import load

    model = load(stored.path)
    np.testing.assert_array_equal(model.labels_, result.labels)
    # The pictures are so small and few that their thumbnails are the pictures themselves.
    np.testing.assert_array_equal(model.predict(thumbnails.pixels), result.labels[thumbnails.rows])


# --- written whole or not at all -----------------------------------------------------------------------------


def disk_full(*arguments: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


WRITERS: dict[str, Callable[[RunFolder], None]] = {
    "json": lambda run: run.write_json("metrics.json", {"acc": 1}),
    "text": lambda run: run.write_text("report.html", "new"),
    "array": lambda run: run.write_array("features.npy", np.zeros((9, 9), dtype=np.float32)),
    "state": lambda run: run.write_state("model.safetensors", State()),
    "labels": lambda run: run.write_labels("labels.csv", ["z"], np.array([0]), np.ones(1, dtype=np.float32)),
    "truth": lambda run: run.save_truth(np.array([9]), ["x"]),
    "thumbnails": lambda run: run.save_thumbnails(Thumbnails(np.array([1]), np.ones((1, 2, 2, 1), dtype=np.uint8))),
    "history": lambda run: run.save_history(1, {"labels": np.zeros(1)}),
    "resume": lambda run: run.save_resume(2, State()),
    "events": lambda run: run.keep_events_until(1),
}


@pytest.mark.parametrize("fails", ["os.fsync", "os.replace"])
@pytest.mark.parametrize("writer", WRITERS)
def test_a_full_disk_leaves_the_old_files_and_nothing_else(
    run: RunFolder, writer: str, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(run.path)
    with monkeypatch.context() as patch:
        patch.setattr(fails, disk_full)
        with pytest.raises(
            CannotWrite, match=r"could not be written \(No space left on device\)\. Expected .* Free some space"
        ) as caught:
            WRITERS[writer](run)
    assert caught.value.exit_code == 2
    assert files_of(run.path) == before
    WRITERS[writer](run)
    assert files_of(run.path) != before


def test_an_interrupt_while_writing_leaves_nothing_either(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(run.path)

    def interrupt(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run.write_text("report.html", "half")
    assert files_of(run.path) == before


def test_a_torn_write_of_an_event_is_taken_back(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (run.path / "events.jsonl").read_bytes()

    class Tight(io.FileIO):
        def write(self, data: Any) -> int:
            written: int = super().write(bytes(data)[:10])
            return written

    monkeypatch.setattr(Path, "open", lambda path, *rest, **options: Tight(path, "ab"))
    with pytest.raises(CannotWrite, match="No space left on device"):
        run.append_event({"step": 3, "total": 3, "elapsed": 2.0})
    monkeypatch.undo()
    assert (run.path / "events.jsonl").read_bytes() == before


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        run = RunFolder.create(tmp_path / "run", CONFIG)
    finally:
        os.umask(previous)
    assert (run.path / "config.json").stat().st_mode & 0o777 == 0o640


# --- creating ------------------------------------------------------------------------------------------------


def test_an_occupied_place_is_refused_and_left_alone(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("all of it")
    with pytest.raises(InvalidInput, match=r"holds files that are not a run. It must be new or empty. Choose another"):
        RunFolder.create(taken, CONFIG)
    with pytest.raises(InvalidInput, match=r"is a file. It must be a folder. Choose another --out."):
        RunFolder.create(taken / "thesis.txt", CONFIG)
    existing = RunFolder.create(tmp_path / "run", CONFIG)
    with pytest.raises(InvalidInput, match=r"holds a run already. .* --resume"):
        RunFolder.create(existing.path, CONFIG)
    with pytest.raises(CannotWrite):
        RunFolder.create(taken / "thesis.txt" / "run", CONFIG)
    with pytest.raises(CannotWrite):
        RunFolder.create(tmp_path / ("x" * 300), CONFIG)
    assert files_of(taken) == {"thesis.txt": b"all of it"}


def test_config_json_comes_last(tmp_path: Path) -> None:
    with RunFolder.creating(tmp_path / "run", CONFIG) as run:
        run.write_json("ingest.json", {})
        assert not (run.path / "config.json").exists()
    assert (run.path / "config.json").is_file()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_failed_start_takes_its_folder_away(tmp_path: Path, is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run"
    if is_there:  # an empty folder of the user's, perhaps a mounted disk
        path.mkdir()
    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(CannotWrite):
        RunFolder.create(path, CONFIG)
    assert path.is_dir() == is_there
    assert files_of(tmp_path) == {}


def test_of_two_runs_that_start_at_once_one_gets_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Path.mkdir

    def late(path: Path, **options: Any) -> None:
        monkeypatch.undo()
        RunFolder.create(path, CONFIG)
        make(path, **options)

    monkeypatch.setattr(Path, "mkdir", late)
    with pytest.raises(CannotWrite, match="File exists"):
        RunFolder.create(tmp_path / "run", {"method": "late"})
    assert RunFolder.open(tmp_path / "run").config["method"] == "kmeans"


class Killed(BaseException):
    pass


@pytest.fixture
def half_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as a kill before config.json leaves it: nothing was taken back."""
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "discard", lambda run: None)
        with suppress(Killed), RunFolder.creating(tmp_path / "run", CONFIG) as run:
            run.write_json("ingest.json", {})
            run.write_json("features_from/config.json", {})
            run.save_truth(np.arange(3), None)
            (run.path / "features_from" / ".0123456789abcdef.part").write_text("half of something")
            raise Killed
    assert len(files_of(tmp_path / "run")) == 5
    return tmp_path / "run"


def test_a_killed_start_can_be_started_again(half_begun: Path) -> None:
    with pytest.raises(MissingData, match=r"has no config.json.* It was stopped before it began: start it again"):
        RunFolder.open(half_begun)
    RunFolder.refuse_occupied(half_begun)
    run = RunFolder.create(half_begun, CONFIG)
    # Labels of the start that was killed may be others than those of this one.
    assert list(files_of(run.path)) == ["config.json"]
    assert [entry.name for entry in run.path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("name", ["thesis.txt", "features_from/thesis.txt", "config.json", "empty/"])
def test_a_killed_start_among_other_files_is_left_alone(half_begun: Path, name: str) -> None:
    if name.endswith("/"):
        (half_begun / name).mkdir()
    else:
        (half_begun / name).write_text("all of it")
    before = files_of(half_begun)
    with pytest.raises(InvalidInput, match="It must be new or empty"):
        RunFolder.create(half_begun, CONFIG)
    assert files_of(half_begun) == before
    assert (half_begun / name).exists()


@pytest.mark.parametrize("name", [".starting", "features_from", "ingest.json"])
def test_a_killed_start_with_a_link_in_it_deletes_nothing(half_begun: Path, tmp_path: Path, name: str) -> None:
    """A stranger's list of names must not reach outside of the folder."""
    outside = tmp_path / "outside"
    moved = (half_begun / name).rename(outside)
    (half_begun / name).symlink_to(moved)
    before = files_of(tmp_path)
    with pytest.raises(InvalidInput, match="It must be new or empty"):
        RunFolder.create(half_begun, CONFIG)
    assert files_of(tmp_path) == before


def test_two_processes_do_not_start_in_one_folder(half_begun: Path) -> None:
    with RunFolder.creating(half_begun, CONFIG) as run:
        run.write_json("ingest.json", {})
        with pytest.raises(InvalidInput, match="another process is working on"):
            RunFolder.create(half_begun, {"method": "late"})
        assert (half_begun / "ingest.json").exists()
    assert RunFolder.open(half_begun).config["method"] == "kmeans"


def test_of_two_runs_in_an_empty_folder_the_second_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = RunFolder.refuse_occupied

    def late(path: Path) -> None:
        look(path)
        monkeypatch.undo()
        RunFolder.create(path, CONFIG)

    monkeypatch.setattr(RunFolder, "refuse_occupied", late)
    with pytest.raises(InvalidInput, match="holds a run already"):
        RunFolder.create(tmp_path, {"method": "late"})
    assert RunFolder.open(tmp_path).config["method"] == "kmeans"
    assert list(files_of(tmp_path)) == ["config.json"]


# --- resuming ------------------------------------------------------------------------------------------------


def test_a_line_torn_by_a_kill_is_left_out(run: RunFolder) -> None:
    path = run.path / "events.jsonl"
    whole = run.events()
    text = path.read_text()
    for cut in range(1, len(text.splitlines()[-1])):
        path.write_text(text[: -cut - 1])
        assert run.events() == whole[:-1]
    path.write_bytes(text.encode()[:-5] + b"\xff\xfe")
    assert run.events() == whole[:-1]


def test_events_of_work_to_be_done_again_are_forgotten(run: RunFolder) -> None:
    with (run.path / "events.jsonl").open("a") as file:
        file.write('{"step": 3, "tot')
    run.keep_events_until(1)
    assert run.events() == [{"step": 1, "total": 2, "elapsed": 0.5, "loss": 1.5}]
    run.append_event({"step": 2})
    assert [event["step"] for event in run.events()] == [1, 2]
    run.keep_events_until(0)
    assert run.events() == []


def test_losses_that_are_not_numbers_survive_a_resume(run: RunFolder) -> None:
    run.append_event({"step": 2, "loss": float("nan")})
    run.keep_events_until(2)
    assert np.isnan(run.events()[-1]["loss"])


def test_the_state_to_go_on_from_is_replaced_as_a_whole(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    for step in (1, 2):
        run.save_resume(step, State({"weights": np.full(2, step)}, {"epoch": step}))
    found = RunFolder.open(run.path).load_resume()
    assert found is not None
    step, state = found
    assert (step, state.meta, state.arrays["weights"].tolist()) == (2, {"epoch": 2}, [2, 2])
    assert list(files_of(run.path / "resume")) == ["state.safetensors"]


def test_finishing_sweeps_up_what_kills_have_left(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    run.save_history(1, {"labels": RESULT.labels})
    for left in (".0123456789abcdef.part", "history/.fedcba9876543210.part"):
        (run.path / left).write_text("half of something")
    fill(run)
    assert not list(run.path.rglob(".*"))
    assert not (run.path / "resume").exists()


def test_finishing_leaves_what_is_not_ours(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    (run.path / "resume").mkdir()
    theirs = (".download.part", "resume/notes.txt", "history.txt")
    for name in theirs:
        (run.path / name).write_text("mine")
    fill(run)
    assert {name: content for name, content in files_of(run.path).items() if content == b"mine"}.keys() == {*theirs}
    assert list(files_of(run.path / "resume")) == ["notes.txt"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_run_is_taken_back_without_what_others_have_put_there(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "run"
    if is_there:
        path.mkdir()
    run = RunFolder.create(path, CONFIG)
    with run.held():
        run.save_history(1, {"labels": RESULT.labels})
        run.append_event({"step": 1})
        (path / "thesis.txt").write_text("all of it")
        run.discard()
    assert files_of(path) == {"thesis.txt": b"all of it"}
    assert [entry.name for entry in path.iterdir()] == ["thesis.txt"]
    (path / "thesis.txt").unlink()
    run.discard()
    assert path.exists() == is_there


def test_a_run_that_was_there_before_is_never_taken_back(tmp_path: Path) -> None:
    opened = RunFolder.open(RunFolder.create(tmp_path / "run", CONFIG).path)
    with opened.held():
        opened.append_event({"step": 1})
        before = files_of(opened.path)
        opened.discard()
    assert files_of(opened.path) == before


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", CONFIG)
    with run.held(), pytest.raises(InvalidInput, match=r"another process is working on .* Wait for it to end"):
        RunFolder.open(run.path).held().__enter__()
    with RunFolder.open(run.path).held():
        pass  # let go: the next one gets it


def test_a_run_that_another_process_has_finished_meanwhile_is_refused(run: RunFolder, tmp_path: Path) -> None:
    before = files_of(run.path)
    with pytest.raises(InvalidInput, match=r"is finished already. Expected an unfinished run. See it with"):
        run.held().__enter__()
    assert files_of(run.path) == before
    assert not (run.path / "resume").exists()


def test_a_lock_that_was_removed_keeps_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process took its new run back between our opening of the lock and our taking it."""
    run, late = RunFolder.create(tmp_path / "run", CONFIG), selfsort.runs.files.take_lock

    def removed(file: Any) -> bool:
        run.discard()
        (run.path / "resume" / "lock").unlink()
        return late(file)

    monkeypatch.setattr("selfsort.runs.files.take_lock", removed)
    with pytest.raises(InvalidInput, match="another process is working on"):
        RunFolder.open(run.path).held().__enter__()


def test_many_features_are_kept_at_half_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfsort.runs.folder._FULL_PRECISION_BYTES", 10)
    run = fill(RunFolder.create(tmp_path / "run", CONFIG))
    assert run.features().dtype == np.float16
    assert run.result().features.dtype == np.float32
    np.testing.assert_array_equal(run.result().features, RESULT.features)
    large = replace(RESULT, features=RESULT.features + 1e5)
    run.save_result(large, NAMES)
    np.testing.assert_array_equal(run.result().features, large.features)


@pytest.mark.parametrize("dtype", [None, np.float16])
def test_arrays_are_written_in_blocks_as_numpy_does(tmp_path: Path, monkeypatch: Any, dtype: Any) -> None:
    monkeypatch.setattr("selfsort.pages._PASS_BYTES", 100)
    run = RunFolder.create(tmp_path / "run", CONFIG)
    for array in (RESULT.features, np.arange(600.0).reshape(100, 3, 2)[:, ::-1], np.zeros((0, 3)), np.arange(5)):
        run.write_array("x.npy", array, dtype)
        expected = io.BytesIO()
        np.save(expected, np.ascontiguousarray(array, dtype))
        assert (run.path / "x.npy").read_bytes() == expected.getvalue()


def test_large_arrays_of_a_model_keep_to_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("selfsort.runs.files._LARGE_BYTES", 1000)
    monkeypatch.setattr("selfsort.pages._PASS_BYTES", 300)
    run = RunFolder.create(tmp_path / "run", CONFIG)
    draw = np.random.default_rng(0)
    arrays: Arrays = {"rows": draw.random((40, 9), np.float32), "labels": np.arange(40), "more": draw.random((200, 3))}
    run.write_state("state.safetensors", State(arrays, {"k": 3}))
    limit_memory(2000)
    try:
        back = run.read_state("state.safetensors")
    finally:
        limit_memory(None)
    assert [name for name, array in back.arrays.items() if isinstance(array, np.memmap)] == ["more"]
    assert back.meta == {"k": 3}
    for name, array in arrays.items():
        assert back.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(back.arrays[name], array)
