"""How many clusters? One rule on the neighbour graph, and what other criteria say.

Copies count once. The graph is as wide as its clusters allow: lists of a seventh of their size, 5 to 40 neighbours.
Wide lists see past accidents of single images, but not clusters smaller than themselves. In that graph two criteria
are added: the separation of the merged clusters, which is sure where there are gaps, and the number of communities by
modularity, which is good where there are none. The number with the largest sum is the answer.

Data without structure are told by the largest gap alone: the two clusters that are farthest apart must be much
farther apart than those of one cloud that is shaped as the clusters are (a normal distribution with their pooled
covariance), searched in the same way.

The settings of the rule were found with labels in view; docs/choose-k.md says which, and what the rule says of others.
No label is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from selfsort.choose_k.evidence import Criterion
from selfsort.choose_k.merge_gaps import merge_gaps
from selfsort.choose_k.modularity import modularity, n_communities
from selfsort.choose_k.references import density, silhouette
from selfsort.choose_k.separation import Leaks, leaks, separation, separation_tree
from selfsort.choose_k.spectrum import eigengap
from selfsort.choose_k.stability import keep_rows, stability
from selfsort.choose_k.views import view_agreement, view_neighbours
from selfsort.errors import invalid
from selfsort.graph.absorb import member_sums
from selfsort.graph.approximate import find_neighbours
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.copies import Distinct, count_once, exact_copies
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import MergeTree
from selfsort.learning.seeds import derive_seed, numpy_generator
from selfsort.types import F32, I64

WIDTHS = (5, 7, 10, 14, 20, 28, 40)
"""Neighbours of an image in the graphs, narrow to wide."""
ROOM = 7
"""A width is taken if clusters hold at least this many times as many images."""
LIST_LENGTH = 60
"""Neighbours that are searched: the widest graph, and room for copies and for samples."""
NEARLY = 0.05
"""Evidence this much below the best is nearly as good."""
GAP_OF_NOISE, MEAN_OF_NOISE = 0.19, 0.5
"""Structure is there if the least leak is below this share of that of a cloud without any, and the mean below that."""

_FEWEST = 12
_FAINTEST = 1e-6
_N_CLOUD, _N_CLOUDS, _N_COLUMNS = 2000, 3, 256
# Trees and communities of several seeds are averaged: eight of a small data set, one of a large one.
_MOST_SEEDS, _ROWS_OF_SEEDS = 8, 50_000
# Of more images than this, only what decides is computed: the others cost as much again, and change nothing.
_MANY = 20_000
_FIRST_WIDTH = 10
_FINEST = 12.0
_SAMPLE_SHARE, _N_SAMPLES = 0.8, 2


@dataclass(frozen=True, eq=False)
class Choice:
    """A number of clusters, and why."""

    k: int
    near: tuple[int, ...]
    """Other numbers that are nearly as good, the best first."""
    evidence: tuple[Criterion, ...]
    """What each criterion says; the first is the one that decides."""
    is_structureless: bool
    """True if nothing speaks for more than one cluster."""
    sentence: str
    """The answer in words."""
    labels: I64
    """(N,) the k clusters of the graph the number was read from."""


@dataclass(frozen=True, eq=False)
class _Graph:
    """One width of the neighbour graph, and what was found in it."""

    weights: csr_array
    tree: MergeTree
    leaks: Leaks

    @property
    def width(self) -> int:
        return self.leaks.n_neighbours


def choose_k(
    features: F32,
    *,
    low: int = 2,
    high: int | None = None,
    seed: int,
    device: torch.device,
    neighbours: Neighbours | None = None,
    views: Sequence[F32] | None = None,
) -> Choice:
    """Find the number of clusters in feature rows.

    Args:
        features: (N, D) rows to be compared by their distance.
        low: fewest clusters to answer with. With 2, data without structure are answered with 1.
        high: most clusters to answer with; None for as many as can be told apart.
        seed: decides every random choice.
        device: where neighbours are searched.
        neighbours: of the rows, if somebody has searched already (about 40 each); None to search.
        views: features of augmented images, one table like `features` for each augmentation, as further evidence.
    """
    _check(features, low, high)
    group, first = exact_copies(features)
    if neighbours is None and len(first) > 1:
        own = find_neighbours(features[first], LIST_LENGTH, device=device)
        distinct = count_once(own)
        group, first = distinct.group[group], first[distinct.first]
    elif neighbours is not None:
        distinct = count_once(neighbours)
        group, first = distinct.group, distinct.first
    if len(first) < _FEWEST:
        return _too_few(group, low)
    rows = features[first]
    width, number = _settle_width(distinct, seed)
    graph = _look(distinct.neighbours, rows, width, seed, n_expected=number)
    apart = separation(graph.leaks)
    communities = modularity(number, apart.ks)
    decision = _together(apart, communities)
    k = _within(decision, low, high)
    is_structureless = not _has_structure(rows, _cut(graph.tree, decision.answer), seed, device)
    if is_structureless and low <= 2:
        k = 1
    further = [apart, communities]
    if len(rows) <= _MANY:
        ks = np.arange(2, min(max(3 * decision.answer, 12), graph.tree.n_start, graph.leaks.largest_k + 1) + 1)
        further += _others(distinct, rows, graph, ks, seed)
        if views:
            near_views = view_neighbours(rows, [view[first] for view in views], device)
            further.append(view_agreement(graph.tree, near_views, ks))
    near = _nearly_as_good(decision, k, low, high)
    labels: I64 = _cut(graph.tree, k)[group]
    return Choice(k, near, (decision, *further), is_structureless, _sentence(k, near, is_structureless), labels)


def width_for(n_images: int, n_clusters: float) -> int:
    """Return how many neighbours images have in the graph of clusters of this size.

    >>> width_for(1000, 10), width_for(100, 10), width_for(70_000, 10)
    (14, 5, 40)
    """
    return max((width for width in WIDTHS if width * ROOM * n_clusters <= n_images), default=WIDTHS[0])


def smallest_start(width: int) -> int:
    """Return how many images the communities hold, at the least, that a tree of this width begins with."""
    return max(WIDTHS[0], width // 2)


def _check(features: F32, low: int, high: int | None) -> None:
    if features.ndim != 2 or len(features) == 0:
        raise invalid("features", "be a table of images by values", f"shape {features.shape}", "Flatten each image.")
    if low < 2:
        raise invalid("the fewest clusters", "be at least 2", low, "Raise it; one cluster is found where it is.")
    if high is not None and high < low:
        raise invalid("the most clusters", f"be at least the fewest ({low})", high, "Swap the two.")
    if low > len(features) > 1:
        raise invalid("the fewest clusters", f"be at most the number of images ({len(features)})", low, "Lower it.")


def _seeds(n_rows: int, seed: int) -> list[int]:
    n_seeds = int(np.clip(_ROWS_OF_SEEDS // n_rows, 1, _MOST_SEEDS))
    return [derive_seed(seed, f"communities {i}") for i in range(n_seeds)]


def _settle_width(distinct: Distinct, seed: int) -> tuple[int, float]:
    """Let the width follow from the size of clusters, and the clusters from the width, until both agree."""
    width, seen = _FIRST_WIDTH, set[int]()
    while True:
        seen.add(width)
        number = n_communities(symmetric_affinities(distinct.neighbours, width), _seeds(len(distinct), seed))
        fitting = width_for(len(distinct), number)
        if fitting in seen:
            return width, number
        width = fitting


def _together(apart: Criterion, communities: Criterion) -> Criterion:
    """Add what the two say; where images are too few for the first, the second decides."""
    if len(apart.ks) == 0:
        return Criterion("together", apart.ks, apart.values, communities.answer)
    values = apart.values + communities.values
    return Criterion("together", apart.ks, values, int(apart.ks[values.argmax()]))


def _look(
    neighbours: Neighbours, rows: F32, width: int, seed: int, n_seeds: int | None = None, n_expected: float = 2
) -> _Graph:
    """Build the graph of one width and merge its communities, from finer ones if the answer may need them."""
    weights = symmetric_affinities(neighbours, width)
    seeds = _seeds(len(rows), seed)[:n_seeds]
    smallest = smallest_start(width)
    resolution = _FINEST
    while True:
        trees = [separation_tree(weights, rows, smallest=smallest, resolution=resolution, seed=one) for one in seeds]
        found = leaks(trees, width)
        is_fine = max(separation(found).answer, n_expected) * 3 <= trees[0].n_start
        if is_fine or len(found.at) - 1 > found.largest_k or resolution > 1000:
            return _Graph(weights, trees[0], found)
        resolution *= 4


def _others(distinct: Distinct, rows: F32, graph: _Graph, ks: I64, seed: int) -> list[Criterion]:
    """Ask the criteria that have no vote."""
    largest = int(ks.max(initial=2))
    return [
        _stability(distinct, rows, graph, ks, seed),
        merge_gaps(graph.weights, graph.tree.start, rows, largest),
        eigengap(graph.weights, largest, seed=derive_seed(seed, "eigengap") % 2**32),
        silhouette(graph.tree, rows, ks, seed=derive_seed(seed, "silhouette")),
        density(graph.tree, distinct.neighbours, ks),
    ]


def _has_structure(rows: F32, labels: I64, seed: int, device: torch.device) -> bool:
    """Compare the leaks of a sample with those of clouds that are shaped as its clusters are."""
    draw = numpy_generator(seed, "cloud")
    drawn = np.sort(draw.permutation(len(rows))[:_N_CLOUD])
    sample, label, k = _fewer_columns(rows[drawn], draw), labels[drawn], int(labels.max()) + 1
    means = member_sums(sample, label, k) / np.maximum(np.bincount(label, minlength=k), 1)[:, None]
    centred = sample - means[label].astype(np.float32)
    tables = [sample]
    for _ in range(_N_CLOUDS):
        mixing = draw.standard_normal((len(sample), len(sample)), dtype=np.float32)
        tables.append(mixing @ centred / np.float32(np.sqrt(len(sample))))
    width = WIDTHS[0] if len(sample) < 300 else WIDTHS[2]
    logs = []
    for table in tables:
        found = _look(nearest_neighbours(table, width, device=device), table, width, seed, n_seeds=1).leaks
        logs.append(np.log(np.maximum(found.at[2 : k + 1], _FAINTEST)))
    n_numbers = min(map(len, logs))  # numbers that all of them have
    if n_numbers == 0:
        return False
    own, *clouds = (log[:n_numbers] for log in logs)
    is_apart = own.min() < np.log(GAP_OF_NOISE) + min(cloud.min() for cloud in clouds)
    return bool(is_apart and own.mean() < np.log(MEAN_OF_NOISE) + np.mean(clouds))


def _fewer_columns(rows: F32, draw: np.random.Generator) -> F32:
    """Project to a few hundred random directions, which keeps distances well enough to compare clouds."""
    if rows.shape[1] <= _N_COLUMNS:
        return rows
    directions = draw.standard_normal((rows.shape[1], _N_COLUMNS), dtype=np.float32)
    projected: F32 = rows @ directions / np.float32(np.sqrt(_N_COLUMNS))
    return projected


def _stability(distinct: Distinct, rows: F32, graph: _Graph, ks: I64, seed: int) -> Criterion:
    """Compare with trees of samples of the images."""
    others = []
    for i in range(_N_SAMPLES):
        draw = numpy_generator(seed, f"sample {i}")
        kept = np.sort(draw.permutation(len(rows))[: max(int(_SAMPLE_SHARE * len(rows)), 2)])
        part = _look(keep_rows(distinct.neighbours, kept), rows[kept], graph.width, seed + 1 + i, n_seeds=1)
        others.append((kept, part.tree))
    return stability(graph.tree, others, ks)


def _within(decision: Criterion, low: int, high: int | None) -> int:
    """Return the number with the most evidence in a range; its nearer end if nothing in it was looked at."""
    top = high if high is not None else max(int(decision.ks.max(initial=low)), low)
    inside = (decision.ks >= low) & (decision.ks <= top)
    if not inside.any():
        return low if decision.answer < low else top
    return int(decision.ks[inside][decision.values[inside].argmax()])


def _nearly_as_good(decision: Criterion, k: int, low: int, high: int | None) -> tuple[int, ...]:
    """Return other peaks of the evidence, close below the best in the range."""
    inside = (decision.ks >= low) & (decision.ks <= (high or np.inf))
    ks, values = decision.ks[inside], decision.values[inside]
    if k == 1 or len(ks) == 0:
        return ()
    around = np.pad(values, 1, constant_values=-np.inf)
    is_peak = (values >= around[:-2]) & (values >= around[2:])
    is_beside = np.abs(ks - k) == 1
    is_near = (values >= values.max() - NEARLY) & (is_peak | is_beside) & (ks != k)
    order = np.argsort(-values[is_near], kind="stable")
    return tuple(int(found) for found in ks[is_near][order][:3])


def _cut(tree: MergeTree, k: int) -> I64:
    return tree.cut(min(max(k, tree.n_clusters), tree.n_start))


def _too_few(group: I64, low: int) -> Choice:
    n_pictures = int(group.max()) + 1
    sentence = f"{n_pictures} different images are too few to find a number of clusters; ask for one."
    k = 1 if low <= 2 else min(low, n_pictures)
    return Choice(k, (), (), True, sentence, np.minimum(group, k - 1))


def _sentence(k: int, near: tuple[int, ...], is_structureless: bool) -> str:
    if is_structureless:
        return "No groups were found that stand apart: the images look like one cluster."
    if not near:
        return f"{k} clusters found."
    *most, last = map(str, sorted(near))
    if not most:
        return f"{k} clusters found ({last} is nearly as good)."
    return f"{k} clusters found ({', '.join(most)} and {last} are nearly as good)."
