from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.bench.test_summary import TABLE, encoded_record, record

from selfsort.bench.page import curves, pages, results_page, with_blocks
from selfsort.bench.records import SHIPPED, read_records
from selfsort.bench.scripts import SCRIPTS
from selfsort.bench.summary import summarise
from selfsort.errors import InvalidInput

ROOT = Path(__file__).parents[2]
EMPTY = "before\n<!-- records: classic nmi -->\nold\n<!-- end -->\nafter\n"


def records() -> dict[str, dict[str, object]]:
    more = {"date": "2026-01-02", "cpu": "a processor", "versions": {"selfsort": "1", "torch": "2", "numpy": "3"}}
    return {str(seed): record("kmeans", seed, nmi, **more) for seed, nmi in enumerate((0.5, 0.7))}


def test_the_pages_are_those_of_the_records() -> None:
    stale = [
        path.relative_to(ROOT).as_posix()
        for path, text in pages(ROOT / "docs", read_records([SHIPPED])).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"run `python -m selfsort.bench.page` and commit {', '.join(stale)}"


def test_a_block_is_filled_and_the_rest_stays() -> None:
    text = with_blocks(EMPTY, records())
    assert text == (
        "before\n<!-- records: classic nmi -->\n| method | images seen | UMist |\n|---|---|---|\n"
        "| kmeans | from scratch | .600 ± .100 (.609) |\n<!-- end -->\nafter\n"
    )
    assert with_blocks(text, records()) == text
    assert "| kmeans | from scratch | .300 ± .050 (.419) / 2.0 |" in with_blocks(
        EMPTY.replace("nmi", "acc seconds"), records()
    )
    assert "Nothing was measured yet." in with_blocks(EMPTY, {})


def test_a_block_may_show_one_method() -> None:
    two = {**records(), "other": record("ac-gdl", 0, 0.4)}
    both, one = (with_blocks(EMPTY.replace("nmi", f"nmi{more}"), two) for more in ("", " method=kmeans"))
    assert "ac-gdl" in both
    assert "kmeans" in one
    assert "| ac-gdl" not in one
    with pytest.raises(InvalidInput, match="name methods of classic"):
        with_blocks(EMPTY.replace("nmi", "nmi method=jule"), two)


def test_scripts_stand_on_the_page_with_their_figures() -> None:
    trial = SCRIPTS["jule-13"].trials[0]
    done = {"seed": 0, "scores": {"jule one_nn_error": 0.05}, "cpu_seconds": 7.0, "peak_memory_mb": 90.0}
    page = results_page({trial.key(): done})
    assert "`selfsort bench jule-13`: 1 of 6 commands measured so far." in page
    assert "jule one_nn_error 0.050 (0.067)" in page
    stopped = results_page({trial.key(): {"seed": 0, "refused": "stopped after 15 minutes"}})
    assert "| 2 dimensions | stopped after 15 minutes | - | - |" in stopped


def test_a_table_with_encoders_says_what_each_gives_and_takes() -> None:
    on_encoder: dict[str, Any] = {"encoder": "efficientnet-lite0", "dimension": 1280, "encode_ms": 11.2}
    found = {
        "none": record("ac-gdl", 0, 0.5),
        "slow": encoded_record("kmeans", 0, 0.7, **on_encoder),
        "fast": encoded_record("kmeans", 1, 0.9, **on_encoder | {"encode_ms": 10.04}),
    }
    assert with_blocks("<!-- records: encoders acc nmi -->\n<!-- end -->\n", found).splitlines()[1:-1] == [
        "| method | images seen | dimension | ms per image | UMist |",
        "|---|---|---|---|---|",
        "| ac-gdl | from scratch | pixels | - | .250 / .500 |",
        "| kmeans | with efficientnet-lite0 | 1280 | 10.0 | .400 ± .050 / .800 ± .100 |",
    ]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("<!-- records: clasic -->\n<!-- end -->\n", "Did you mean classic"),
        ("<!-- records: classic speed -->\n<!-- end -->\n", "got 'speed'"),
        ("<!-- records: classic -->\nno end\n", "without an end"),
    ],
)
def test_a_wrong_marker_is_refused(text: str, part: str) -> None:
    with pytest.raises(InvalidInput, match=part):
        with_blocks(text, {})


def test_the_page_of_results_says_what_was_measured_and_with_what() -> None:
    text = results_page(records())
    assert "`selfsort bench classic`: 1 of 196 combinations measured so far." in text
    assert "Measured 2026-01-02 on a processor with numpy 3, selfsort 1, torch 2." in text
    assert "| UMist | 575 | 32x32x1 | 20 | the UMIST" in text
    refused = {"r": {**records()["0"], **record("ac-link", 0, 0.0), "refused": "too many images"}}
    del refused["r"]["scores"]
    assert "- UMist, ac-link: too many images" in results_page({**records(), **refused})


def test_the_command_writes_only_what_differs(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "page.md").write_text(EMPTY)
    words = [sys.executable, "-m", "selfsort.bench.page"]
    first, second = (subprocess.run([*words, docs], capture_output=True, text=True, check=True) for _ in range(2))
    assert {Path(line).name for line in first.stdout.splitlines()} == {"results.md", "page.md"}
    assert second.stdout == ""
    wrong = subprocess.run([*words, tmp_path / "nowhere"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_what_was_stopped_shows_where_it_stood() -> None:
    curve = [{"step": 1, "total": 9, "acc": 0.2, "nmi_geometric": 0.1}]
    curve += [{"step": 5, "total": 9, "acc": 0.25, "nmi_geometric": 0.3}]
    stopped = {**record("kmeans", 0, 0), "refused": "stopped after a minute, at step 5 of 9", "curve": curve}
    del stopped["scores"]
    assert "| kmeans | from scratch | [.300] (.609) |" in with_blocks(EMPTY, {"": stopped})
    (summary,) = summarise(replace(TABLE, rows=TABLE.rows[:1]), {"": stopped})
    assert curves(TABLE, [summary])[-1] == "| UMist | kmeans | 9 | 1: .200, 5: .250 (.419) |"
    assert curves(TABLE, summarise(TABLE, {})) == []
