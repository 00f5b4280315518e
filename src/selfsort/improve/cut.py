"""Another number of clusters from a finished run, without training again.

The tree of the run (`grow`) is cut at the number. With fewer clusters, whole ones are joined and the run's soft
assignments added up: a new image goes where the joined shares are largest. With more, single ones fall apart, and the
nearest of the run's own images vote on the part a new image belongs to. A part never takes an image that the run would
put into another cluster: the likeliest part of a cluster keeps the strength of the whole, the others less, and rows
are brought back to a sum of one.

Shape letters: B batch, D features, K clusters of the run, I of them with images or joined, J clusters wanted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.classic.method import N_VOTERS
from selfsort.config import Config
from selfsort.errors import invalid
from selfsort.graph.hierarchy import Hierarchy
from selfsort.graph.knn import nearest_neighbours
from selfsort.improve.grow import grow
from selfsort.learning.encode import apply_in_blocks
from selfsort.nets.heads import VoteHead
from selfsort.types import (
    F32,
    I64,
    Arrays,
    Assignment,
    Clustering,
    ExportableModel,
    FinishedRun,
    Inputs,
    Model,
    NetworkModel,
    Snapshot,
    Stage,
    State,
)

_BLOCK = 1024


@dataclass(frozen=True, kw_only=True)
class CutConfig(Config):
    """The number of clusters, and nothing else."""


class CutHead(nn.Module):
    """From a run's soft assignments and features to those of the cut."""

    def __init__(self, state: State) -> None:
        super().__init__()
        into, first = state.arrays["into"].astype(np.int64), state.arrays["first"].astype(np.int64)
        self.n_clusters = int(state.meta["n_clusters"])
        n_parts = np.diff([*first, self.n_clusters])
        if first[0] != 0 or n_parts.min() < 1 or into.min() < 0 or into.max() >= len(first):
            raise ValueError("its clusters do not fit together")
        self.register_buffer("joined", torch.eye(len(first))[torch.from_numpy(into)])
        self.n_parts: list[int] = n_parts.tolist()
        self.votes = nn.ModuleDict()
        for i in np.flatnonzero(n_parts > 1).tolist():
            mine = state.arrays["row_clusters"] == i
            rows = torch.from_numpy(state.arrays["rows"][mine].astype(np.float32))
            parts = torch.from_numpy(state.arrays["row_labels"][mine].astype(np.int64) - first[i])
            self.votes[str(i)] = VoteHead(rows, parts, int(n_parts[i]), N_VOTERS, float(state.arrays["sigma_sq"][i]))

    def forward(self, soft_BK: Tensor, features_BD: Tensor) -> Tensor:
        """Return soft assignments (B, J)."""
        soft_BI = soft_BK @ self.get_buffer("joined")
        if not len(self.votes):
            return soft_BI
        columns = []
        for i in range(len(self.n_parts)):
            share_B1 = soft_BI[:, i : i + 1]
            if str(i) in self.votes:
                vote_BP = self.votes[str(i)](features_BD)
                share_B1 = share_B1 * (vote_BP / vote_BP.max(dim=1, keepdim=True).values)
            columns.append(share_B1)
        soft_BJ = torch.cat(columns, dim=1)
        return soft_BJ / soft_BJ.sum(dim=1, keepdim=True)


def cut_clustering(
    labels: I64, soft: F32, features: F32, tree: Hierarchy, n_clusters: int, device: torch.device
) -> Clustering:
    """Cut the tree of a clustering; its model is what `CutHead` needs, to stand behind the model of the run."""
    check_number(n_clusters, tree)
    found = tree.cut(n_clusters)
    first_leaf = np.searchsorted(labels[tree.rows], tree.clusters)
    of_cluster = found[tree.rows[first_leaf]]
    if n_clusters <= tree.n_clusters:
        into, first = _all_columns(of_cluster, tree.clusters, soft), np.arange(n_clusters)
        arrays: Arrays = {}
    else:
        into, first = _all_columns(np.arange(tree.n_clusters), tree.clusters, soft), of_cluster
        arrays = _voters(labels, found, features, tree, first)
    model = State({"into": into, "first": first, **arrays}, {"n_clusters": n_clusters})
    return Clustering(found, _assign(CutHead(model), soft, features, device), features, model)


def check_number(n_clusters: int, tree: Hierarchy, name: str = "n_clusters") -> None:
    """Refuse a number that no cut of the tree has."""
    if not 2 <= n_clusters <= tree.n_leaves:
        n_images = len(tree.tree.start)
        most = "the number of images" if tree.n_leaves == n_images else f"the finest parts of these {n_images:,} images"
        raise invalid(name, f"be between 2 and {most} ({tree.n_leaves:,})", n_clusters, f"Give for example {name} 10.")


def _all_columns(into: I64, clusters: I64, soft: F32) -> I64:
    """Say where every column of the run's assignments goes; one without images, where it is named beside most often."""
    columns = np.empty(soft.shape[1], dtype=np.int64)
    columns[clusters] = into
    unused = np.setdiff1d(np.arange(soft.shape[1]), clusters)
    if len(unused):
        beside = soft[:, unused].T @ soft[:, clusters]
        columns[unused] = into[beside.argmax(axis=1)]
    return columns


def _voters(labels: I64, found: I64, features: F32, tree: Hierarchy, first: I64) -> Arrays:
    """Return the images that vote on parts: the leaves of all clusters that fall apart."""
    of_leaf = np.searchsorted(tree.clusters, labels[tree.rows])
    n_parts = np.diff([*first, int(found.max()) + 1])
    is_voter = n_parts[of_leaf] > 1
    rows, clusters = tree.rows[is_voter], of_leaf[is_voter]
    sigma_sq = np.ones(len(first))
    for i in np.unique(clusters):
        near = nearest_neighbours(features[rows[clusters == i]], N_VOTERS)
        # All images the same: any width then gives every neighbour the same vote.
        sigma_sq[i] = float(near.sq_dist.mean(dtype=np.float64)) or 1.0
    return {"rows": features[rows], "row_labels": found[rows], "row_clusters": clusters, "sigma_sq": sigma_sq}


def _assign(head: CutHead, soft: F32, features: F32, device: torch.device) -> F32:
    head.to(device).eval()
    blocks = []
    with torch.inference_mode():
        for start in range(0, len(soft), _BLOCK):
            some = slice(start, start + _BLOCK)
            given = (torch.from_numpy(np.array(table[some])).to(device) for table in (soft, features))
            blocks.append(head(*given).cpu().numpy())
    found: F32 = np.concatenate(blocks)
    return found


class CutModel:
    """The model of a run, and the cut behind it."""

    def __init__(self, inner: Model, state: State, device: torch.device) -> None:
        self.inner, self.head, self.device = inner, CutHead(state), device

    def apply(self, images: Any, layer: str = "top") -> Assignment:
        """Ask the run's model, then join or part its clusters."""
        top = self.inner.apply(images)
        features = top.features if layer == "top" else self.inner.apply(images, layer).features
        return Assignment(features, _assign(self.head, top.soft, top.features, self.device))


class _CutNetworkModel(CutModel):
    inner: NetworkModel

    def network(self) -> nn.Module:
        return _Cut(self.inner.network(), self.head.cpu()).eval()


class _CutExportableModel(CutModel):
    inner: ExportableModel

    def exported(self) -> nn.Module:
        return _Cut(self.inner.exported(), self.head.cpu()).eval()


class _Cut(nn.Module):
    def __init__(self, network: nn.Module, head: CutHead) -> None:
        super().__init__()
        self.network, self.head = network, head

    def forward(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        soft_BK, features_BD = self.network(x_BCHW)
        return self.head(soft_BK, features_BD), features_BD


def cut_model(inner: Model, state: State, device: torch.device) -> CutModel:
    """Put a cut behind a model; what could be exported before can be so after."""
    if isinstance(inner, NetworkModel):
        return _CutNetworkModel(inner, state, device)
    if isinstance(inner, ExportableModel):
        return _CutExportableModel(inner, state, device)
    return CutModel(inner, state, device)


def train(
    run: FinishedRun,
    images: Inputs,
    config: CutConfig,
    *,
    device: torch.device,
    seed: int,
    resume: State | None = None,
) -> Iterator[Snapshot]:
    """Let the run's model sort images, and cut the tree of what it found; the only snapshot."""
    given = apply_in_blocks(run.model, images, block=_BLOCK)
    tree = grow(given.features, given.labels, device)
    result = cut_clustering(given.labels, given.soft, given.features, tree, config.n_clusters, device)
    yield Snapshot(1, 1, result.labels, {}, State, result)


def restore(run: FinishedRun, config: CutConfig, state: State, *, device: torch.device) -> CutModel:
    """Put the cut behind the model of the run."""
    return cut_model(run.model, state, device)


STAGE = Stage(
    "cut",
    "another number of clusters, from the tree of the run",
    "ours",
    CutConfig,
    train,
    restore,
    is_inductive=False,
)
