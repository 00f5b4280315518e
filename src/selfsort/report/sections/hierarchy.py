"""The tree of the clusters: which are alike, and into what each would fall next; branches open and close."""

from __future__ import annotations

import numpy as np

from selfsort.report.read import RunData
from selfsort.report.render.axes import colour
from selfsort.report.render.html import Html, element
from selfsort.report.sections.pictures import Pictures
from selfsort.runs.branches import Branches, branches_of, coarser_levels
from selfsort.runs.tree import tree_of
from selfsort.text import plural, shorten
from selfsort.types import F32

MOST_CLUSTERS = 500
"""Of more clusters no tree is drawn; `selfsort cut` makes fewer of them."""
MOST_PICTURES = 6
_NAMED = 4
"""Clusters that a branch which joins several is called by."""


def hierarchy(run: RunData, pictures: Pictures, *, budget: int, anchor: str = "") -> Html | None:
    """Draw the tree from its coarsest groups to the parts of single clusters."""
    n_own = len(np.unique(run.labels.original))
    if not 2 <= n_own <= MOST_CLUSTERS:
        return None
    tree = tree_of(run.folder)
    n_parts = min(tree.n_leaves, 2 * n_own)
    levels = [*coarser_levels(tree), n_own, n_parts]
    affordable = int(budget / (pictures.mean_bytes() * len(levels) * n_parts)) if len(pictures.rows()) else 0
    shown = branches_of(tree, n_parts, _priority(run, pictures), min(MOST_PICTURES, affordable))
    note = (
        "Clusters that are most alike stand together; below a cluster are the parts that it would fall into first. "
        "selfsort cut makes a run with any other number of clusters out of this tree, without training again."
    )
    if run.labels.n_edits:
        note += " The tree is that of the method: corrections by hand are not in it."
    draw = _Drawing(run, pictures, shown, levels, anchor)
    twigs = [draw.twig(node, 0) for node in shown.at(levels[0])]
    return element("div", {}, element("p", {"class": "note"}, note), element("ul", {"class": "twigs"}, twigs))


class _Drawing:
    """What every branch needs to be drawn."""

    def __init__(self, run: RunData, pictures: Pictures, shown: Branches, levels: list[int], anchor: str) -> None:
        self.run, self.pictures, self.shown, self.levels, self.anchor = run, pictures, shown, levels, anchor
        self.clusters = set(shown.at(levels[-2]))

    def twig(self, node: int, level: int) -> Html:
        """Draw a branch and all below it."""
        inner = [node]
        while inner == [node] and level + 1 < len(self.levels):  # it falls apart further down, or not at all
            level += 1
            inner = self.shown.below(node, self.levels[level])
        if inner == [node]:
            return element("li", {}, element("div", {"class": "twig"}, self._words(node)))
        is_open = self.shown.nodes[node].cluster is None
        below = element("ul", {"class": "twigs"}, [self.twig(child, level) for child in inner])
        # Read aloud, the names of six pictures would come before what it is.
        summary = element("summary", {"class": "twig", "aria-label": self._spoken(node)}, self._words(node))
        return element("li", {}, element("details", {"open": is_open}, summary, below))

    def _words(self, node: int) -> list[Html]:
        branch = self.shown.nodes[node]
        few = element("span", {"class": "few"}, [self.pictures.image(row) for row in branch.pictures])
        size = element("span", {"class": "note"}, plural(branch.size, "image"))
        if branch.cluster is None:
            return [few, element("b", {}, self._joined(node)), size]
        dot = element("i", {"class": f"dot {colour(branch.cluster)}"})
        if node not in self.clusters:
            return [few, dot, size]
        name = element("a", {"href": f"#{self.anchor}cluster-{branch.cluster}"}, self.run.labels.name(branch.cluster))
        return [few, dot, element("b", {}, name), size]

    def _spoken(self, node: int) -> str:
        branch = self.shown.nodes[node]
        name = self._joined(node) if branch.cluster is None else self.run.labels.name(branch.cluster)
        is_part = branch.cluster is not None and node not in self.clusters
        return f"{'Part of ' if is_part else ''}{name}, {plural(branch.size, 'image')}"

    def _joined(self, node: int) -> str:
        inside = [self.shown.nodes[inner] for inner in self.shown.below(node, self.levels[-2])]
        ranked = sorted(inside, key=lambda branch: -branch.size)
        names = [self.run.labels.name(branch.cluster) for branch in ranked[:_NAMED] if branch.cluster is not None]
        more = len(ranked) - len(names)
        return shorten(", ".join(names), 90) + (f" and {more} more" if more else "")


def _priority(run: RunData, pictures: Pictures) -> F32:
    """Let the surest images stand for others, of those there are thumbnails of."""
    found: F32 = np.full(run.n_images, -np.inf, dtype=np.float32)
    rows = pictures.rows()
    found[rows] = run.table.confidence[rows]
    return found
