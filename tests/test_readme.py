"""What the README and the quick starts print works as printed, and no page prints an option that does not exist.

The rule for whoever writes a page. In README.md, docs/sorter.md and docs/researcher.md, from top to bottom:
- Every line of a ```bash block that starts with `selfsort` is run and must end well. A line may go on after a backslash
  and may end in a `# comment`. Lines that start with anything else (`pip`, `make`) are for the reader only.
- Every ```python block is executed; `images`, `new` and `pixels` are arrays of pictures.
- Commands and programs stand in two folders of their own. Each holds `photos` (generated pictures in three subfolders),
  `new-photos` and `digits.npz` (with labels). What is not meant to run goes into a block of another kind (```text).
In the fenced blocks of every page of docs, commands and options must exist.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.cli.test_main import FROZEN
from tests.conftest import Command, write_photos

from selfsort.types import U8

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_PAGES = [ROOT / "README.md", ROOT / "docs" / "sorter.md", ROOT / "docs" / "researcher.md"]
N_DIGITS = 40


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str
    text: str

    def commands(self) -> list[list[str]]:
        """Return the words of each line that starts with selfsort; a line that goes on is one."""
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        return [shlex.split(line, comments=True)[1:] for line in lines if re.match(r"selfsort\s", line)]


def blocks_of(text: str) -> Iterator[Block]:
    for kind, content in re.findall(r"^```([^\n]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield Block(kind.strip(), content)


def blocks_in(page: Path, kind: str) -> list[Block]:
    return [block for block in blocks_of(page.read_text(encoding="utf-8")) if block.kind == kind]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def digits() -> U8:
    pictures: U8 = np.rint(load_digits().images[:N_DIGITS] * (255 / 16)).astype(np.uint8)
    return pictures


@pytest.fixture
def sources(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    write_photos(tmp_path / "new-photos", n_per_class=2, seed=5)
    np.savez(tmp_path / "digits.npz", images=digits(), labels=load_digits().target[:N_DIGITS])


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize("page", RUN_PAGES, ids=name_of)
def test_commands(page: Path, selfsort: Command) -> None:
    commands = [words for block in blocks_in(page, "bash") for words in block.commands()]
    assert commands
    for words in commands:
        done = selfsort(*words)
        assert done.code == 0, f"selfsort {shlex.join(words)}\n{done.err}"


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize("page", [page for page in RUN_PAGES if blocks_in(page, "python")], ids=name_of)
def test_programs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {
        "images": digits(),
        "new": digits()[:5],
        "pixels": digits().astype(np.float32) / 255,
    }
    for block in blocks_in(page, "python"):
        exec(compile(block.text, name_of(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_exist(page: Path) -> None:
    wrong = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        for command, *words in block.commands():
            known = re.split(r"[\s/]+", FROZEN.get(command, ""))
            unknown = [word for word in words if word.startswith("--") and word not in known]
            if command not in FROZEN or unknown:
                wrong.append(f"selfsort {command}: {unknown}")
    assert not wrong


def test_pages_are_read_as_they_are_written() -> None:
    text = (
        "see\n```bash\npip install .\nselfsort fit 'my photos' \\\n    --clusters 3  # three\nselfsort demo\n```\nend"
    )
    (block,) = blocks_of(text)
    assert block.kind == "bash"
    assert block.commands() == [["fit", "my photos", "--clusters", "3"], ["demo"]]
