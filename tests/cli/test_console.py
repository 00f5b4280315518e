"""How commands print; what they print is tested with each of them."""

from __future__ import annotations

import json

import pytest

from selfsort import distributed
from selfsort.cli import console
from selfsort.errors import Interrupted


def test_of_several_processes_the_first_one_speaks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        console.say(f"from {rank}")
        console.print_json({"from": rank})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "from 0"
    assert [json.loads(line) for line in said[1:]] == [{"from": "0"}]


def test_lines_beside_the_answer_do_not_mix_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    console.say_aside("a\nb")
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "a\\nb\n")


def test_no_cell_of_a_table_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_table(("name", "value"), [("[bold]x[/bold]", "[/]")])
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_nobody_looks_at_bars_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    from selfsort.progress import track

    with console.progress_bars():
        assert list(track([1, 2], "work", 2)) == [1, 2]
    assert capsys.readouterr().err == ""


def test_a_job_that_loses_a_process_is_interrupted_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(distributed, "world_size", lambda: 2)
    with pytest.raises(Interrupted, match="Start the same command again"), console.job("cpu"):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:1: Connection reset by peer")
