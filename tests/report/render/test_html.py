from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from selfsort.report.render.html import Html, data_block, element, join

HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;"


def test_plain_strings_become_text_wherever_they_stand() -> None:
    page = element("p", {"title": HOSTILE}, HOSTILE, [HOSTILE, None, 3])
    assert "<img" not in page
    assert "</script" not in page
    seen: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            assert (tag, attrs) == ("p", [("title", HOSTILE)])

        def handle_data(self, data: str) -> None:
            seen.append(data)

    Reader().feed(page)
    assert "".join(seen) == f"{HOSTILE}{HOSTILE}3"


def test_markup_put_into_a_string_loses_its_right_to_be_markup() -> None:
    assert join([f"{element('b', {}, 'x')}"]) == "&lt;b&gt;x&lt;/b&gt;"
    assert join([Html("<b>x</b>")]) == "<b>x</b>"


def test_attributes_can_be_absent_or_bare() -> None:
    assert (
        element("div", {"hidden": True, "id": None, "title": False, "tabindex": 0}) == '<div hidden tabindex="0"></div>'
    )


@pytest.mark.parametrize("bad", ["\x00", "\x1b", "\ud800", "\u202e", "\x85", "\ufffe"])
def test_what_no_page_can_show_is_replaced(bad: str) -> None:
    assert bad not in element("i", {"title": bad}, bad)


def test_no_value_can_close_a_data_block() -> None:
    block = data_block("d", {"name": HOSTILE})
    assert block.count("<") == 2
    inside = block.partition(">")[2].rpartition("</script>")[0]
    assert json.loads(inside) == {"name": HOSTILE}


def test_a_data_block_refuses_what_is_not_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        data_block("d", [float("nan")])
