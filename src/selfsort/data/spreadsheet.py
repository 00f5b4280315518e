"""Texts in tables that people open in a spreadsheet, where a cell that begins like a formula is one.

Such a text gets an apostrophe in front, which every spreadsheet takes for "this is text". One that has apostrophes
there already gets one more, so that two texts never become one and each can be read back.
"""

from __future__ import annotations

import re

# The wide signs count as well: some spreadsheets take them for the narrow ones. So do tab and line breaks: they are
# passed over on the way to the sign behind them.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")  # noqa: RUF001


def as_text(cell: str) -> str:
    """Write a text so that no spreadsheet computes it.

    >>> as_text("=1+1.png"), as_text("'=1+1.png"), as_text("'quoted'.png"), as_text("a=b.png")
    ("'=1+1.png", "''=1+1.png", "'quoted'.png", 'a=b.png')
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def from_text(cell: str) -> str:
    """Take back what `as_text` did.

    >>> from_text("'=1+1.png"), from_text("''=1+1.png"), from_text("'quoted'.png")
    ('=1+1.png', "'=1+1.png", "'quoted'.png")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def is_as_text(cell: str) -> bool:
    """Say whether a text can come from `as_text`."""
    return cell.startswith("'") or not _FORMULA.match(cell)
