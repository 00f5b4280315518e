"""The pages say what the code says: generated parts are fresh, links lead somewhere, names of functions exist.

Whether the site builds is for `make docs`, which needs tools of its own; what is here needs none.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from docs import generate
from tests.test_house import FLOORS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
METHOD_PAGES = sorted((DOCS / "methods").glob("*.md"))
MODULES = {
    "jule": ["methods.jule"],
    "dbc": ["methods.dbc"],
    "dac": ["methods.dac", "methods._dac_settings"],
    "gatcluster": ["methods.gatcluster", "methods._gatcluster_settings"],
    "secu": ["methods.secu"],
    "teach": ["methods.teach", "methods._teach_head"],
    "self-label": ["improve.self_label"],
    "classic": ["classic"],
}
"""Where the functions live that a page names without their module."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def section(text: str, title: str) -> str:
    found = re.search(rf"^## {title}[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title}"
    return found[1]


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as Markdown readers make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def exists(dotted: str) -> bool:
    """Tell whether a dotted name leads from the package through modules to something in them."""
    parts = ["selfsort", *dotted.split(".")]
    for depth in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(parts[:depth]))
        except ModuleNotFoundError:
            continue
        for part in parts[depth:]:
            if not hasattr(thing, part) and part not in getattr(thing, "__annotations__", {}):
                return False
            thing = getattr(thing, part, None)
        return True
    return False


class TestGenerated:
    @pytest.mark.parametrize(("page", "text"), generate.texts().items(), ids=map(name_of, generate.texts()))
    def test_pages_are_fresh(self, page: Path, text: str) -> None:
        assert page.read_text(encoding="utf-8") == text, "run: python docs/generate.py"

    def test_a_stale_part_is_written_anew(self) -> None:
        stale = "before\n<!-- generated: settings jule -->\n| K_s | 21 |\n<!-- end -->\nafter\n"
        fresh = generate.refreshed(stale)
        assert "`K_s` 20" in fresh
        assert "21" not in fresh
        assert (fresh[:7], fresh[-6:]) == ("before\n", "after\n")
        assert generate.refreshed(fresh) == fresh

    def test_marks_of_markdown_are_text_in_a_cell(self) -> None:
        assert generate.cell("DAC*, a | b, x_y") == r"DAC\*, a \| b, x\_y"

    @pytest.mark.parametrize("page", METHOD_PAGES, ids=name_of)
    def test_every_method_page_has_its_settings(self, page: Path) -> None:
        assert f"<!-- generated: settings {page.stem} -->" in section(page.read_text(encoding="utf-8"), "Settings")


def typed_figures(text: str) -> list[str]:
    """Return the lines that hold a score, written as `.97`, and are not made from records."""
    typed = re.sub(r"^<!-- (?:generated|records): .*?^<!-- end -->$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [line for line in typed.splitlines() if re.search(r"(?<![\w.])\.\d\d", line)]


class TestFigures:
    @pytest.mark.parametrize("page", [*sorted(DOCS.glob("*.md")), *METHOD_PAGES], ids=name_of)
    def test_none_is_typed_by_hand(self, page: Path) -> None:
        """Pages of experiments are dated and have the command beside; docs/results.md is made as a whole."""
        if page.name != "results.md":
            assert typed_figures(page.read_text(encoding="utf-8")) == []

    def test_a_typed_one_is_found(self) -> None:
        made = "<!-- records: classic acc -->\n| kmeans | .567 |\n<!-- end -->\n"
        assert typed_figures(f"{made}| jule | .950 / .977 |\nversion 1.25, rate 0.05\n") == ["| jule | .950 / .977 |"]


class TestMethodPages:
    @pytest.mark.parametrize("page", METHOD_PAGES, ids=name_of)
    def test_at_most_two_screens(self, page: Path) -> None:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert len(" ".join(lines).split()) <= 1400
        assert len(" ".join(line for line in lines if not line.startswith("|")).split()) <= 1100

    @pytest.mark.parametrize("page", [*METHOD_PAGES, DOCS / "classic.md"], ids=name_of)
    def test_functions_beside_the_equations_exist(self, page: Path) -> None:
        rows = re.findall(r"^\|.*\| ([^|]+) \|$", section(page.read_text(encoding="utf-8"), "Equation"), re.MULTILINE)
        missing = []
        for row in rows:
            places = [f"{module}." for module in MODULES[page.stem]] + ["", "methods."]
            for name in re.findall(r"`([\w.]+)`", row):
                if not any(exists(place + name) for place in places):
                    missing.append(name)
                # In `nets.convnet.ARCHITECTURES`, `plan_blocks` the second is a neighbour of the first.
                places += [f"{room}{name.rpartition('.')[0]}." for room in ("", "methods.", "classic.")]
        assert rows
        assert not missing

    @pytest.mark.parametrize(
        "page", [page for page in METHOD_PAGES if (ROOT / "examples" / f"{page.stem}.py").exists()], ids=name_of
    )
    def test_the_example_is_an_excerpt(self, page: Path) -> None:
        excerpt = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert excerpt
        program = (ROOT / "examples" / f"{page.stem}.py").read_text(encoding="utf-8")
        assert all(part in program for part in excerpt)

    @pytest.mark.parametrize(
        ("name", "is_there"),
        [
            ("methods.jule.train", True),
            ("methods.jule.JULEModel.apply", True),
            ("methods.jule.trian", False),
            ("nets.nothing.plan", False),
        ],
    )
    def test_names_are_looked_up(self, name: str, is_there: bool) -> None:
        assert exists(name) is is_there


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=name_of)
    def test_links_lead_somewhere(self, page: Path) -> None:
        broken = []
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists() or (anchor and anchor not in anchors_of(target.read_text(encoding="utf-8"))):
                broken.append(link)
        assert not broken


class TestArchitecture:
    def test_the_drawing_has_every_room_on_its_floor(self) -> None:
        drawing = (DOCS / "assets" / "architecture.svg").read_text(encoding="utf-8")
        drawn = re.findall(r'class="name" x="\d+" y="(\d+)">(\w+)<', drawing)
        floors: dict[int, set[str]] = {}
        for height, room in drawn:
            floors.setdefault(-int(height), set()).add(room)
        assert [floors[height] for height in sorted(floors)] == FLOORS

    def test_the_modules_of_the_walk_exist(self) -> None:
        text = (DOCS / "architecture.md").read_text(encoding="utf-8")
        rooms = "|".join(sorted(set().union(*FLOORS)))
        names = re.findall(rf"`((?:{rooms})\.(?!json)\w+)`", text)
        assert len(names) > 10
        assert [name for name in names if not exists(name)] == []
