"""Stacks of duplicates: the best of each, and beside it what is spare and why."""

from __future__ import annotations

from collections import Counter

from selfsort.report.read import RunData
from selfsort.report.render.html import Html, element
from selfsort.report.sections.pictures import Pictures
from selfsort.runs.stacks import load_stacks
from selfsort.text import plural, shorten

MAX_STACKS = 60
MAX_OTHERS = 11


def stacks(run: RunData, pictures: Pictures, *, budget: int) -> Html | None:
    """Show the stacks of a run, the largest first, if somebody has looked for them and there are some."""
    found = load_stacks(run.folder, run.n_images)
    if not found:
        return None
    counted: Counter[str] = Counter(one.kind for stack in found for one in stack.others)
    note = (
        f"{plural(len(found), 'stack')}; {plural(sum(counted.values()), 'picture')} "
        f"{'is' if counted.total() == 1 else 'are'} spare ({_words(counted)}). The best of each comes first."
    )
    n_bytes = pictures.mean_bytes()
    cards = []
    for stack in found[:MAX_STACKS]:
        rows = stack.rows[: MAX_OTHERS + 1]
        new = [row for row in rows if row in pictures and not pictures.is_shown(row)]
        if len(new) * n_bytes > budget:
            break
        budget -= round(len(new) * n_bytes)
        kind: dict[int, str] = {one.row: one.kind for one in stack.others}
        shown = [_picture(run, pictures, row, kind.get(row, "best")) for row in rows]
        more = len(stack.rows) - len(rows)
        cards.append(
            element(
                "div",
                {"class": "strip"},
                element("h4", {}, f"The best, {_words(Counter(kind.values()))}", f", {more} more" if more else ""),
                element("div", {"class": "thumbs"}, shown),
            )
        )
    if len(cards) < len(found):
        note += f" Not shown: {len(found) - len(cards):,}. selfsort duplicates RUN --out FILE.csv writes all."
    return element("div", {}, element("p", {"class": "note"}, note), element("div", {"class": "piles"}, cards))


def _picture(run: RunData, pictures: Pictures, row: int, kind: str) -> Html:
    name = run.table.names[row]
    if row not in pictures:
        return element("span", {"class": "note"}, f"{shorten(name, 40)} ({kind})")
    return pictures.image(row, f"{shorten(name)}: {kind}")


def _words(counted: Counter[str]) -> str:
    """Say how many there are of each kind: 2 copies, 1 in other light."""
    words = {"other light": "in other light", "burst": "from a burst"}
    many = words | {"copy": "copies"}
    return ", ".join(f"{n:,} {(words if n == 1 else many).get(kind, kind)}" for kind, n in sorted(counted.items()))
