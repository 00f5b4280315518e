"""A page as the tests want to see it: its elements in order, with their attributes and text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

_VOID = {"br", "hr", "img", "meta", "link", "input"}


@dataclass(eq=False)
class Element:
    tag: str
    attributes: dict[str, str]
    path: tuple[str, ...]
    """Tags around it, outermost first."""
    text: str = ""
    """All text inside, descendants included."""


@dataclass(eq=False)
class Page:
    source: str
    elements: list[Element] = field(default_factory=list)

    def all(self, tag: str, css: str | None = None) -> list[Element]:
        return [
            e for e in self.elements if e.tag == tag and (css is None or css in e.attributes.get("class", "").split())
        ]

    @property
    def ids(self) -> set[str]:
        return {e.attributes["id"] for e in self.elements if "id" in e.attributes}

    @property
    def text_of_all(self) -> str:
        """Everything a reader sees, for parts of a page."""
        return "".join(element.text for element in self.elements if not element.path)

    @property
    def text(self) -> str:
        return next(e for e in self.elements if e.tag == "body").text


class _Parser(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__(convert_charrefs=True)
        self.page, self.open = page, list[Element]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute of <{tag}> is given twice"
        found = Element(tag, {name: value or "" for name, value in attrs}, tuple(e.tag for e in self.open))
        self.page.elements.append(found)
        if tag not in _VOID:
            self.open.append(found)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> inside <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def parse(path: Path) -> Page:
    """Read a page, failing if its elements are not properly nested."""
    return parse_text(path.read_text(encoding="utf-8"))


def parse_text(source: str) -> Page:
    """Read a page or a part of one."""
    page = Page(source)
    parser = _Parser(page)
    parser.feed(page.source)
    parser.close()
    assert not parser.open, f"never closed: {[e.tag for e in parser.open]}"
    return page
