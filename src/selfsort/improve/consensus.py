"""One clustering from several: runs of other seeds, methods or graph widths vote on which images belong together.

Pairs of neighbours vote, and no others: an image asks its nearest ones, in the features of each run. The weight of a
pair is the share of runs that have both images in one cluster; the communities of that graph are the clusters (after
Strehl and Ghosh, "Cluster ensembles", JMLR 2002, with a sparse table in place of all pairs). A class that one run cut
in two is held together by the others, and what one run joined the others keep apart.

Where an image belongs is then put to the vote: each run answers with its own cluster, which counts for the clusters of
the consensus as that run's images are spread over them. The mean over the runs is the soft assignment, its largest
share how far the runs agree. New images are sorted in the same way, so the runs' models are all that is needed.

Shape letters: N images, R runs, K clusters of the consensus, C clusters of one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.sparse import csr_array

from selfsort.choose_k.search import width_for
from selfsort.config import Config, setting
from selfsort.graph.communities import find_n_communities
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.learning.encode import apply_in_blocks
from selfsort.types import F32, I64, Assignment, Clustering, FinishedRun, Inputs, Model, Snapshot, Stage, State


@dataclass(frozen=True, kw_only=True)
class ConsensusConfig(Config):
    """Settings."""

    n_neighbours: int | Literal["auto"] = setting(
        "auto", "nearest images that an image asks in the features of each run; auto: by the size of clusters"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("n_neighbours", self.n_neighbours == "auto" or self.n_neighbours >= 1, "be auto or at least 1")


def agreement_graph(near: Sequence[Neighbours], votes_RN: I64) -> csr_array:
    """Return the (N, N) share of runs that have two images in one cluster, for pairs that are neighbours in some run.

    >>> chain = Neighbours(np.array([[1], [2], [1]]), np.zeros((3, 1), np.float32))
    >>> agreement_graph([chain], np.array([[0, 0, 1], [0, 0, 0]])).toarray()
    array([[0. , 1. , 0. ],
           [1. , 0. , 0.5],
           [0. , 0.5, 0. ]])
    """
    n = votes_RN.shape[1]
    first = np.concatenate([np.repeat(np.arange(n), lists.idx.shape[1]) for lists in near])
    second = np.concatenate([lists.idx.ravel() for lists in near])
    is_there = (second >= 0) & (first != second)
    low, high = np.minimum(first, second)[is_there], np.maximum(first, second)[is_there]
    pair = np.unique(low * n + high)
    low, high = pair // n, pair % n
    share = np.zeros(len(pair))
    for votes_N in votes_RN:
        share += votes_N[low] == votes_N[high]
    share /= len(votes_RN)
    agreed = share > 0
    low, high, share = low[agreed], high[agreed], share[agreed]
    both = np.concatenate([low, high]), np.concatenate([high, low])
    graph = csr_array((np.concatenate([share, share]), both), shape=(n, n))
    graph.sort_indices()
    return graph


def spread(votes_N: I64, labels_N: I64, n_own: int, n_clusters: int) -> F32:
    """Return (C, K): how the images of each cluster of a run are spread over the consensus; unused ones over all.

    >>> spread(np.array([0, 0, 0, 0, 1]), np.array([0, 0, 0, 1, 1]), 3, 2).round(2).tolist()
    [[0.75, 0.25], [0.0, 1.0], [0.5, 0.5]]
    """
    counts = np.bincount(votes_N * n_clusters + labels_N, minlength=n_own * n_clusters).reshape(n_own, n_clusters)
    sizes = counts.sum(axis=1, keepdims=True)
    shares: F32 = np.where(sizes > 0, counts / np.maximum(sizes, 1), 1 / n_clusters).astype(np.float32)
    return shares


def put_to_vote(votes_RN: I64, spreads: Sequence[F32]) -> F32:
    """Return soft assignments (N, K): what the runs say together."""
    total = np.zeros((votes_RN.shape[1], spreads[0].shape[1]))
    for votes_N, spread_CK in zip(votes_RN, spreads, strict=True):
        total += spread_CK[votes_N]
    soft: F32 = (total / len(spreads)).astype(np.float32)
    return soft


def find_consensus(
    votes_RN: I64, near: Sequence[Neighbours], features: F32, n_clusters: int, *, seed: int
) -> tuple[I64, tuple[str, ...]]:
    """Cluster the agreement graph.

    Args:
        votes_RN: the clusters of each run.
        near: neighbours of the images, in the features of each run or only of some.
        features: (N, D) by which images without any agreement find their place.
        n_clusters: how many clusters to find.
        seed: decides the order in which images are visited.

    Returns:
        (N,) clusters, and what to warn of.
    """
    found, _ = find_n_communities(agreement_graph(near, votes_RN), n_clusters, features, seed=seed)
    return found.labels, found.warnings


class ConsensusModel:
    """The models of all runs, and how their clusters count."""

    def __init__(self, models: Sequence[Model], state: State) -> None:
        self.models = tuple(models)
        # One for each run: with a run missing, the others would be heard as if nothing were.
        self.spreads = [state.arrays[f"spread {i}"].astype(np.float32) for i in range(len(state.arrays))]
        if len(self.spreads) != len(self.models) or len({spread.shape[1] for spread in self.spreads}) != 1:
            raise ValueError("its runs do not fit together")

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Ask every run; the features are those of the first."""
        said = [model.apply(images) for model in self.models]
        features = said[0].features if layer == "top" else self.models[0].apply(images, layer).features
        return Assignment(features, put_to_vote(np.stack([one.labels for one in said]), self.spreads))


def train(
    run: FinishedRun,
    images: Inputs,
    config: ConsensusConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Ask all runs and settle what they agree on; the only snapshot."""
    votes, near, sizes = [], [], []
    features: F32 | None = None
    width = width_for(len(images), config.n_clusters) if config.n_neighbours == "auto" else config.n_neighbours
    for model in (run.model, *run.others):
        said = apply_in_blocks(model, images)
        votes.append(said.labels)
        sizes.append(said.soft.shape[1])
        near.append(nearest_neighbours(said.features, min(width, len(images) - 1), device=device))
        features = said.features if features is None else features
    assert features is not None
    votes_RN = np.stack(votes)
    labels, warnings = find_consensus(votes_RN, near, features, config.n_clusters, seed=seed)
    spreads = [spread(votes_N, labels, n_own, config.n_clusters) for votes_N, n_own in zip(votes, sizes, strict=True)]
    soft = put_to_vote(votes_RN, spreads)
    state = State({f"spread {i}": one for i, one in enumerate(spreads)})
    found = Assignment(features, soft)
    event = {"runs": len(votes), "agreement": float(soft.max(axis=1).mean(dtype=np.float64))}
    result = Clustering(found.labels, soft, features, state)
    yield Snapshot(1, 1, found.labels, event, State, result, warnings=warnings)


def restore(run: FinishedRun, config: ConsensusConfig, state: State, *, device: torch.device) -> ConsensusModel:
    """Put the models of the runs together again."""
    return ConsensusModel((run.model, *run.others), state)


STAGE = Stage(
    "consensus",
    "one clustering from several runs, by what they agree on",
    "ours, after Strehl and Ghosh, JMLR 2002",
    ConsensusConfig,
    train,
    restore,
    is_inductive=True,
    takes_several=True,
)
