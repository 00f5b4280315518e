"""The built page is committed, so that nobody needs Node to install or to test. It has to be fresh and whole."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from explorer.typescript import TYPES, current, types_of

SOURCES = Path(__file__).parents[2] / "explorer"
STATIC = Path(__file__).parents[2] / "src/selfsort/explore/static"


def digest() -> str:
    """As `vite.config.ts` makes it."""
    named = ["index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"]
    found = [f"{folder}/{path.name}" for folder in ("public", "src") for path in (SOURCES / folder).iterdir()]
    whole = hashlib.sha256()
    for name in sorted(named + found):
        whole.update(f"{name}\0".encode() + (SOURCES / name).read_bytes() + b"\0")
    return whole.hexdigest()


def test_the_built_page_is_that_of_the_sources() -> None:
    built = (STATIC / "sources.sha256").read_text().strip()
    assert built == digest(), "run `make explorer` and commit src/selfsort/explore/static"


def test_the_types_of_the_page_are_those_of_the_server() -> None:
    written = TYPES.read_text(encoding="utf-8")
    assert written == current(), "run `make explorer` and commit explorer/src/types.ts and src/selfsort/explore/static"


def test_a_form_without_typescript_is_refused() -> None:
    schema = {"description": "New.", "properties": {"when": {"type": "object"}}}
    with pytest.raises(ValueError, match="No TypeScript is known"):
        types_of({"components": {"schemas": {"New": schema}}, "paths": {}})


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text(encoding="utf-8")
        foreign = [found for found in re.findall(r"https?://[^\s\"')]+", text) if "www.w3.org" not in found]
        assert foreign == [], path.name


def test_the_policy_allows_what_the_page_does() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)", page), "no script inside the page"
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)


@pytest.mark.parametrize(
    "word", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"]
)
def test_no_text_can_become_markup(word: str) -> None:
    for path in (SOURCES / "src").glob("*.ts"):
        assert word not in path.read_text(encoding="utf-8"), path.name
    assert word not in (STATIC / "explorer.js").read_text(encoding="utf-8")
