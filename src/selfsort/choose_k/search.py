"""How many clusters? One rule on the separation of clusters in the neighbour graph, and what other criteria say.

Copies count once. The graph is narrow at first: 5 neighbours. While clusters hold many times more images than a
list has neighbours, the next width is taken as well: wide lists see past accidents of single images, but not
clusters smaller than themselves. The answer is that of the last width (`separation`).

Data without structure are told by the largest gap alone: the two clusters that are farthest apart must be much
farther apart than those of one cloud that is shaped as the clusters are (a normal distribution with their pooled
covariance), searched in the same way.

The settings of the rule were found with the labels of some data sets in view and checked on others; docs/choose-k.md
says which. No label is used here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from selfsort.choose_k.evidence import Criterion
from selfsort.choose_k.merge_gaps import merge_gaps
from selfsort.choose_k.references import density, silhouette
from selfsort.choose_k.separation import Leaks, accumulate, increments, leaks, separation_tree
from selfsort.choose_k.spectrum import eigengap
from selfsort.choose_k.stability import keep_rows, stability
from selfsort.choose_k.views import view_agreement, view_neighbours
from selfsort.errors import invalid
from selfsort.graph.absorb import member_sums
from selfsort.graph.communities import symmetric_affinities
from selfsort.graph.copies import Distinct, count_once, exact_copies
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.graph.tree import MergeTree
from selfsort.learning.seeds import derive_seed, numpy_generator
from selfsort.types import F32, I64

WIDTHS = (5, 7, 10, 14, 20)
"""Neighbours of an image in the graphs, narrow to wide."""
ROOM = 5
"""A width is taken if clusters hold at least this many times as many images."""
LIST_LENGTH = 40
"""Neighbours that are searched: the widest graph, and room for copies and for samples."""
NEARLY = 0.03
"""Evidence this much below the best is nearly as good."""
GAP_OF_NOISE, MEAN_OF_NOISE = 0.1, 0.5
"""Structure is there if the least leak is below this share of that of a cloud without any, and the mean below that."""

_FEWEST = 12
_FAINTEST = 1e-6
_N_CLOUD, _N_CLOUDS, _N_COLUMNS = 2000, 3, 256
_N_SEEDS, _MANY = 3, 20_000
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
        own = nearest_neighbours(features[first], LIST_LENGTH, device=device)
        distinct = count_once(own)
        group, first = distinct.group[group], first[distinct.first]
    elif neighbours is not None:
        distinct = count_once(neighbours)
        group, first = distinct.group, distinct.first
    if len(first) < _FEWEST:
        return _too_few(group, low)
    rows = features[first]
    graphs, decision = _widen(distinct, rows, seed)
    last = graphs[-1]
    k = _within(decision, low, high)
    is_structureless = decision.answer == 1 or not _has_structure(rows, _cut(last.tree, decision.answer), seed, device)
    if is_structureless and low <= 2:
        k = 1
    ks = np.arange(2, min(max(3 * decision.answer, 12), last.tree.n_start, last.leaks.largest_k + 1) + 1)
    further = [
        _stability(distinct, rows, graphs, ks, seed),
        merge_gaps(last.weights, last.tree.start, rows, int(ks.max(initial=2))),
        eigengap(last.weights, int(ks.max(initial=2)), seed=derive_seed(seed, "eigengap") % 2**32),
        silhouette(last.tree, rows, ks, seed=derive_seed(seed, "silhouette")),
        density(last.tree, distinct.neighbours, ks),
    ]
    if views:
        near_views = view_neighbours(rows, [view[first] for view in views], device)
        further.insert(1, view_agreement(last.tree, near_views, ks))
    near = _nearly_as_good(decision, k, low, high)
    labels: I64 = _cut(last.tree, k)[group]
    return Choice(k, near, (decision, *further), is_structureless, _sentence(k, near, is_structureless), labels)


def _check(features: F32, low: int, high: int | None) -> None:
    if features.ndim != 2 or len(features) == 0:
        raise invalid("features", "be a table of images by values", f"shape {features.shape}", "Flatten each image.")
    if low < 2:
        raise invalid("the fewest clusters", "be at least 2", low, "Raise it; one cluster is found where it is.")
    if high is not None and high < low:
        raise invalid("the most clusters", f"be at least the fewest ({low})", high, "Swap the two.")
    if low > len(features) > 1:
        raise invalid("the fewest clusters", f"be at most the number of images ({len(features)})", low, "Lower it.")


def _widen(distinct: Distinct, rows: F32, seed: int) -> tuple[list[_Graph], Criterion]:
    """Take width after width while clusters have room for it; return the graphs and the decision on the last."""
    graphs: list[_Graph] = []
    decision: Criterion | None = None
    for width in WIDTHS:
        if decision is not None and len(rows) < ROOM * width * max(decision.answer, 2):
            break
        graphs.append(_look(distinct.neighbours, rows, width, seed))
        decision = accumulate(increments(graphs[-1].leaks))
    assert decision is not None
    return graphs, decision


def _look(neighbours: Neighbours, rows: F32, width: int, seed: int, n_seeds: int | None = None) -> _Graph:
    """Build the graph of one width and merge its communities, from finer ones if the answer may need them."""
    weights = symmetric_affinities(neighbours, width)
    seeds = range(n_seeds or (_N_SEEDS if len(rows) <= _MANY else 1))
    resolution = _FINEST
    while True:
        trees = [
            separation_tree(
                weights,
                rows,
                smallest=max(WIDTHS[0], width // 2),
                resolution=resolution,
                seed=derive_seed(seed, f"communities {i}"),
            )
            for i in seeds
        ]
        found = leaks(trees, width)
        is_fine = accumulate(increments(found)).answer * 3 <= trees[0].n_start
        if is_fine or len(found.at) - 1 > found.largest_k or resolution > 1000:
            return _Graph(weights, trees[0], found)
        resolution *= 4


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


def _stability(distinct: Distinct, rows: F32, graphs: list[_Graph], ks: I64, seed: int) -> Criterion:
    """Compare with trees of samples of the images, at the last width."""
    width = graphs[-1].leaks.n_neighbours
    others = []
    for i in range(_N_SAMPLES):
        draw = numpy_generator(seed, f"sample {i}")
        kept = np.sort(draw.permutation(len(rows))[: max(int(_SAMPLE_SHARE * len(rows)), 2)])
        part = _look(keep_rows(distinct.neighbours, kept), rows[kept], width, seed + 1 + i, n_seeds=1)
        others.append((kept, part.tree))
    return stability(graphs[-1].tree, others, ks)


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
