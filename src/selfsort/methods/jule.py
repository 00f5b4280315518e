"""JULE: cluster the images, train the network on the clusters, cluster again with what it learned, down to k.

Yang, Parikh, Batra, "Joint Unsupervised Learning of Deep Representations and Image Clusters", CVPR 2016.

Good features make good clusters, and good clusters are labels to learn features from. JULE starts from very many,
very small and therefore pure clusters of raw pixels. It trains a small network so that an image lies nearer to its
own cluster than to others (weighted triplet loss), merges the clusters that are then closest on a directed
neighbour graph of the new features (`graph.agglomerate`), and repeats. Each repetition is a period: it ends when a
share eta of its clusters has been merged away. The last one ends at k.

Symbols: K_s neighbours in the graph; K_c clusters in the local structure; lambda its weight; gamma the weight of
the positive distance; eta the unfolding rate. SF are the labels of the last merge; RC (the result) are those of a
new agglomeration on the final features.
Shape letters: N images, B batch, D features, P pairs, M negatives of a pair.

Where we differ from the paper:
- gamma is 1, as in the authors' code (the paper says 2). The margin is 0.2 as there, so that the network does not learn
  the errors of the first clusters by heart; with few images a cluster it is 1.0, the other end of the authors' advice,
  because such clusters are pure, and 0.2 is satisfied at once and teaches nothing.
- The local structure uses the whole affinity matrix and is applied down to k, as the paper has it and its code has not.
- Clusters of a few images would use up the budget of k at the end; `absorb` gives them to their nearest large one.
- The network sees each image with mean 0 and variance 1 (`standardise`), as the graph of pixels sees it with unit norm.
- Features are always taken in evaluation mode; the released code makes those of SF from batch statistics.
- The convolutions have no bias: the batch normalisation behind each of them would take it away.
- The rate runs on from period to period, training comes before the first merge and not after the last, and negatives
  are random, as in the authors' code; `restart_lr`, `order` and `negatives` have the paper's way, as its recipe does.
- When nearest neighbours leave fewer clusters than asked for, merging on pixels makes a finer start.
- Off by default: the first graph may compare images in several views (`neighbours`), and triplets may hold augmented
  images (`augment`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.decomposition import PCA
from torch import Tensor, nn

from selfsort import distributed
from selfsort.augment.policy import gentle
from selfsort.classic.gdl import merge_history, short_graph_note
from selfsort.classic.kmeans import kmeans
from selfsort.classic.method import (
    GraphConfig,
    VoteModel,
    refuse_augmented,
    rows_of,
    search_augmented,
    vote_state,
    wants_augmented,
)
from selfsort.config import setting
from selfsort.graph.absorb import LARGE_SHARE
from selfsort.graph.affinity import digraph, global_scale, unit_rows
from selfsort.graph.agglomerate import Agglomeration, agglomerate, nearest_neighbour_components
from selfsort.graph.approximate import EXACT_LIMIT, find_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.graph.neighbours import Neighbours
from selfsort.learning.batches import shuffled_batches, tensor_of
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, unpack_module
from selfsort.learning.encode import check_request, encode
from selfsort.learning.epoch import EpochStats, run_epoch
from selfsort.learning.finetune import train_along
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.nets.convnet import ARCHITECTURES, LAYERS, ConvNet, plan_blocks
from selfsort.nets.heads import N_EMBEDDED, Compared, EmbeddingHead, PixelRows, unit
from selfsort.types import F32, I64, Arrays, Assignment, Clustering, Images, Inputs, Method, Snapshot, State

# Kept of every stage for its figures: so many images, principal components and neighbours (the paper's curves of
# neighbours that share a class end there).
_N_KEPT, _N_COMPONENTS, _N_NEAR = 1000, 60, 100


@dataclass(frozen=True, kw_only=True)
class JULEConfig(GraphConfig):
    """Settings, under the paper's names."""

    K_s: int = setting(20, "neighbours of an image in the graph, and voters on a new image", "paper")
    a: float = setting(1.0, "width of the affinity: sigma^2 is a times the mean squared neighbour distance", "paper")
    K_c: int = setting(5, "neighbouring clusters in the local structure term", "paper")
    lambda_: float = setting(1.0, "weight of the local structure term; 0 is plain AC-GDL", "paper")
    gamma: float = setting(1.0, "weight of the distance to the positive in a triplet", "code; the paper has 2.0")
    margin: float | Literal["auto"] = setting(
        "auto",
        "how much farther a negative has to be than the positive: 0.2, or 1.0 for few images a cluster",
        "code; from 0.2 to 1.0, the rule is ours",
    )
    negatives: Literal["random", "nearest"] = setting(
        "random",
        "images of other clusters in a triplet: n_neg random ones for every pair, or the K_c nearest in the batch of "
        "an image, with one random image of its cluster",
        "code; nearest is the paper's",
    )
    n_neg: int = setting(20, "random negatives per pair, at most", "code")
    eta: float | Literal["auto"] = setting(
        "auto",
        "share of the clusters merged away in a period: 0.9, or 0.2 for few images a cluster",
        "paper; the rule is ours",
    )
    epochs: int = setting(20, "passes over the images in a period", "paper")
    batch_size: int = setting(100, "images per step", "code")
    lr: float = setting(0.01, "learning rate at the start", "paper")
    momentum: float = setting(0.9, "momentum of SGD", "paper")
    weight_decay: float = setting(5e-5, "weight decay of SGD", "paper")
    lr_gamma: float = setting(1e-4, "the rate falls as (1 + lr_gamma * step) ^ -lr_power", "paper")
    lr_power: float = setting(0.75, "see lr_gamma", "paper")
    restart_lr: bool = setting(False, "begin with lr anew in each period", "code; yes is the paper's")
    order: Literal["train-first", "merge-first"] = setting(
        "train-first",
        "train on the first clusters and stop at the last merge; or merge by pixels first and train after every period",
        "code; merge-first is the paper's Algorithm 1",
    )
    update: Literal["exact", "approx_size", "approx_alpha"] = setting(
        "exact", "how affinities to a merged cluster are found: Eq. 14, or one of two approximations", "paper"
    )
    alpha: float = setting(0.0, "constant of update=approx_alpha", "code")
    init: Literal["knn", "kmeans"] = setting("knn", "first clusters: nearest-neighbour links, or k-means(n/4)", "paper")
    graph: Literal["global", "local"] = setting("global", "one affinity width for all images, or one for each", "paper")
    absorb: bool = setting(True, "give clusters of a few images to their nearest large one at the end", "ours")
    control: Literal["none", "raw", "random"] = setting(
        "none", "controls: merge on raw pixels (AC-GDL with lambda), or on an untrained network", "ours"
    )
    arch: Literal["auto", "coil", "usps", "mnist", "umist", "umist-paper", "faces", "patches"] = setting(
        "auto",
        "network: by the paper's rule from the image size, or that of a data set",
        "paper; the padding of umist is the code's",
    )
    standardise: bool = setting(True, "show the network each image with mean 0 and variance 1", "ours")
    augment: float = setting(
        0.0, "augment the images of triplets; 1: up to 15 degrees, a tenth of the side, a fifth of zoom; 0: as they are"
    )
    embedding_dim: int = setting(0, "learn 2, 10, 30 free features and cluster by pixels only; 0 is off", "paper")
    exact_search_limit: int = setting(
        EXACT_LIMIT, "above this many images, search neighbours approximately (extra approx); 0: never"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("K_s", "K_c", "n_neg", "epochs"):
            self.require(name, getattr(self, name) >= 1, "be at least 1")
        for name in ("a", "gamma", "lr"):
            self.require(name, getattr(self, name) > 0, "be positive")
        counts = ("embedding_dim", "exact_search_limit")
        for name in (*counts, "augment", "lambda_", "weight_decay", "lr_gamma", "lr_power"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("margin", self.margin == "auto" or self.margin >= 0, "be at least 0")
        self.require("eta", self.eta == "auto" or 0 < self.eta < 1, "be between 0 and 1")
        self.require("momentum", 0 <= self.momentum < 1, "be at least 0 and below 1")
        self.require("alpha", self.alpha > -1, "be above -1")
        self.require("batch_size", self.batch_size >= 3, "be at least 3, the size of a triplet")


def has_small_clusters(n_images: int, n_clusters: int) -> bool:
    """Tell sets with few images a cluster, which need other settings, from the rest.

    The paper tells faces from the rest: the same for UMist and CMU-PIE, but FRGC and YTF have more images of a face.
    """
    return n_images < 60 * n_clusters


def unfolding_rate(n_images: int, config: JULEConfig) -> float:
    """Return eta. The paper takes 0.9, and 0.2 for its face sets.

    >>> unfolding_rate(10_000, JULEConfig(n_clusters=10)), unfolding_rate(575, JULEConfig(n_clusters=20))
    (0.9, 0.2)
    """
    if config.eta != "auto":
        return config.eta
    return 0.2 if has_small_clusters(n_images, config.n_clusters) else 0.9


def triplet_margin(n_images: int, config: JULEConfig) -> float:
    """Return the margin, between the two ends of what the authors suggest.

    >>> triplet_margin(10_000, JULEConfig(n_clusters=10)), triplet_margin(575, JULEConfig(n_clusters=20))
    (0.2, 1.0)
    """
    if config.margin != "auto":
        return config.margin
    return 1.0 if has_small_clusters(n_images, config.n_clusters) else 0.2


def plan_periods(n_start: int, n_clusters: int, eta: float) -> tuple[int, ...]:
    """Clusters left after each period, which merges ceil(eta n) of its n clusters, but never below k.

    >>> plan_periods(1762, 10, 0.9)
    (176, 17, 10)
    """
    counts = [n_start]
    while counts[-1] > n_clusters:
        counts.append(max(counts[-1] - math.ceil(eta * counts[-1]), n_clusters))
    return tuple(counts[1:]) or (n_start,)


def learning_rate(step: int, config: JULEConfig) -> float:
    """The "inverse" schedule."""
    return config.lr * float((1 + config.lr_gamma * step) ** -config.lr_power)


class Triplets(NamedTuple):
    """Places in a batch to compare: (P,) anchors, (P,) others of their clusters, (P, M) images of other clusters."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor


def mine_triplets(labels_B: Tensor, n_neg: int, generator: torch.Generator) -> Triplets | None:
    """Every pair i < j of one cluster, each with min(n_neg, clusters in the batch - 1) random negatives.

    None if there is no pair or no second cluster. Each pair's negatives are a uniform random subset of the images
    outside its cluster (Floyd's sampling: no rejection, memory O(P M)).
    """
    order_B = np.argsort(labels_B.numpy(), kind="stable")
    sorted_B = labels_B.numpy()[order_B]
    first_C = np.flatnonzero(np.diff(sorted_B, prepend=sorted_B[0] - 1))  # where each cluster begins
    size_C = np.diff(first_C, append=len(sorted_B))
    anchor_P, positive_P = np.nonzero(np.triu(sorted_B[:, None] == sorted_B, 1))
    n_kept = min(n_neg, len(size_C) - 1)
    if not len(anchor_P) or not n_kept:
        return None
    size_P1, first_P1 = (np.repeat(values_C, size_C)[anchor_P][:, None] for values_C in (size_C, first_C))
    # Pick places among the B - size images outside: column t is drawn from 0..highest_t, and where it has been drawn
    # before, highest_t is taken, which no earlier column can hold.
    highest_PM = len(sorted_B) - size_P1 - n_kept + np.arange(n_kept)
    chance_PM = torch.rand(highest_PM.shape, generator=generator, dtype=torch.float64).numpy()
    place_PM = (chance_PM * (highest_PM + 1)).astype(np.int64)
    for t in range(1, n_kept):
        is_taken_P = (place_PM[:, :t] == place_PM[:, t : t + 1]).any(axis=1)
        place_PM[is_taken_P, t] = highest_PM[is_taken_P, t]
    place_PM += np.where(place_PM >= first_P1, size_P1, 0)  # step over the own cluster
    return Triplets(*(torch.from_numpy(order_B[places]) for places in (anchor_P, positive_P, place_PM)))


def nearest_triplets(
    features_BD: Tensor, labels_B: Tensor, n_nearest: int, generator: torch.Generator
) -> Triplets | None:
    """Each image with one random other of its cluster and its nearest images of other clusters in the batch (A.3).

    None if there is no pair or no second cluster.
    """
    same_BB = labels_B[:, None] == labels_B
    n_kept = min(n_nearest, len(labels_B) - int(same_BB.sum(dim=1).max()))
    others_BB = same_BB & ~torch.eye(len(labels_B), dtype=torch.bool)
    anchor_P = others_BB.any(dim=1).nonzero()[:, 0]
    if not len(anchor_P) or not n_kept:
        return None
    positive_P = torch.multinomial(others_BB[anchor_P].double(), 1, generator=generator)[:, 0]
    rows_BD = features_BD.detach().cpu()
    distance_PB = torch.cdist(rows_BD[anchor_P], rows_BD).masked_fill(same_BB[anchor_P], torch.inf)
    return Triplets(anchor_P, positive_P, distance_PB.topk(n_kept, largest=False).indices)


def triplet_loss(features_BD: Tensor, triplets: Triplets, gamma: float, margin: float) -> Tensor:
    """Eq. (11), (35), by distances: mean over triplets of max(0, gamma d(i, j) - d(i, m) + margin)."""
    norms_B = (features_BD * features_BD).sum(dim=1)
    distance_BB = torch.addmm(norms_B[:, None] + norms_B, features_BD, features_BD.T, alpha=-2)  # ||f_i - f_j||^2
    pull_P = distance_BB[triplets.anchor, triplets.positive]
    push_PM = distance_BB[triplets.anchor[:, None], triplets.negative]
    return F.relu(gamma * pull_P[:, None] - push_PM + margin).mean()


@dataclass(frozen=True, eq=False)
class View:
    """The images as clustering sees them at one stage."""

    features: F32
    neighbours: Neighbours


def view_of(features: F32, config: JULEConfig, device: torch.device) -> View:
    """Find each image's K_s nearest neighbours."""
    limit = config.exact_search_limit or None
    return View(features, find_neighbours(features, config.K_s, device=device, exact_limit=limit, is_shared=True))


def first_view(images: Inputs, config: JULEConfig, device: torch.device) -> View:
    """See the images before anything is learned: pixels, or what an encoder made of them."""
    rows = rows_of(images)
    if not wants_augmented(config):
        return view_of(rows, config, device)
    if not isinstance(images, Images):
        refuse_augmented()
    return View(rows, search_augmented(images, rows, config, device=device))


def merge(view: View, labels: I64, n_clusters: int, config: JULEConfig, *, absorb: bool = False) -> Agglomeration:
    """Merge down to `n_clusters`, each time by least loss, Eq. (7): L(C) = -A1 - lambda / (K_c - 1) sum_q (A1 - Aq)."""
    return agglomerate(
        digraph(view.neighbours, config.graph, config.a),
        labels,
        n_clusters,
        update=config.update,
        alpha=config.alpha,
        structure_weight=config.lambda_,
        n_structure=config.K_c,
        absorb=absorb,
        features=view.features,
    )


def merge_safely(view: View, labels: I64, n_clusters: int, config: JULEConfig) -> Agglomeration:
    """Merge down to `n_clusters`, or to where fewer than k large clusters would be left.

    Near the end of a period tiny outlier clusters may be all that keeps the count up, while real ones are merged.
    """
    merged = merge(view, labels, n_clusters, config)
    sizes = merged.cut.sizes
    is_large = sizes >= LARGE_SHARE * len(labels) / config.n_clusters
    gained = is_large[merged.n_start :].astype(int) - is_large[merged.cut.merges].sum(axis=1)
    is_enough = is_large[: merged.n_start].sum() + np.cumsum(gained) >= config.n_clusters
    if not is_enough.any() or is_enough[-1]:
        return merged
    return merge(view, labels, merged.n_start - int(np.flatnonzero(is_enough)[-1]) - 1, config)


def first_clusters(view: View, config: JULEConfig, seed: int) -> tuple[I64, tuple[str, ...]]:
    """Return the clusters to start from, and what to tell the user about them."""
    n = len(view.features)
    if config.init == "kmeans":
        found = kmeans(view.features, max(n // 4, config.n_clusters), seed=seed, n_restarts=1).labels
        labels = np.unique(found, return_inverse=True)[1].astype(np.int64)  # duplicates leave clusters empty
    else:
        labels = nearest_neighbour_components(view.neighbours)
    n_found = int(labels.max()) + 1
    if n_found >= config.n_clusters:
        return labels, ()
    # Halfway (in size) between single images and k clusters: small enough to be pure, large enough to hold pairs.
    n_start = math.isqrt(n * config.n_clusters)
    return merge(view, np.arange(n), n_start, config).labels, (
        f"So few images hang together in {n_found} groups, fewer than the {config.n_clusters} asked for: the start was "
        f"made from single images, joined to {n_start} groups.",
    )


def build_network(shape: tuple[int, ...], config: JULEConfig) -> ConvNet | EmbeddingHead:
    """Choose the network for images of this height, width and channel count, or the head for so many features."""
    if len(shape) == 1:
        return EmbeddingHead(shape[0], config.embedding_dim or N_EMBEDDED)
    shape = (shape[0], shape[1], shape[2])
    blocks = plan_blocks(*shape[:2]) if config.arch == "auto" else ARCHITECTURES[config.arch]
    return ConvNet(shape, blocks, embedding_dim=config.embedding_dim, standardise=config.standardise)


def encode_layer(net: ConvNet | EmbeddingHead, images: Inputs, device: torch.device, layer: str = "top") -> F32:
    """Return a layer's output for all images; unit rows, except for a low-dimensional top."""
    pixels = tensor_of(images, device)
    chunks = pixels.even_chunks(2**19, at_most=2**19)
    features = encode(net, pixels, chunks, lambda x_BCHW: net.layer(x_BCHW, layer).float())
    is_free = layer == "top" and net.is_embedding
    return features if is_free else unit_rows(features)


_SAVED = Checkpoint(
    generators=("batches", "negatives"),
    counters=("step", "period", "epoch", "iteration"),
    arrays=("labels", "counts"),
)


class _Run:
    """Everything that changes while training; all of it is in the resume state."""

    def __init__(self, images: Inputs, config: JULEConfig, device: torch.device, seed: int) -> None:
        self.images, self.config, self.device = images, config, device
        with seeded_init(seed):
            self.net = build_network(images.shape, config).to(device)
        self.optimizer = torch.optim.SGD(
            self.net.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay
        )
        train_along(self.net, self.optimizer, images)
        self.batches, self.negatives = torch_generator(seed, "batches"), torch_generator(seed, "negatives")
        self.labels: I64 = np.zeros(len(images), dtype=np.int64)
        self.counts: I64 = np.zeros(0, dtype=np.int64)  # clusters to reach, period by period
        self.n_epochs = config.epochs if config.control == "none" else 0
        self.step = self.period = self.epoch = 0  # snapshots and periods done; epochs done in this period
        self.iteration = 0  # optimiser steps done, over all periods

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        _SAVED.restore(self, state)

    def snapshot(self, phase: str, event: Mapping[str, Any], **rest: Any) -> Snapshot:
        self.step += 1
        total = 1 + len(self.counts) * (self.n_epochs + 1) + (self.config.order == "merge-first")
        event = {"phase": phase, "period": self.period, **event}
        return Snapshot(self.step, total, self.labels, event, self.state, **rest)

    def train_epoch(self) -> EpochStats:
        config, labels_N = self.config, torch.from_numpy(self.labels)
        margin = triplet_margin(len(labels_N), config)
        pixels, policy = tensor_of(self.images, self.device), gentle(config.augment)

        def step(batch_B: Tensor) -> Tensor | None:
            is_nearest = config.negatives == "nearest"
            triplets = mine_triplets(labels_N[batch_B], 1 if is_nearest else config.n_neg, self.negatives)
            # Of several processes some may find no triplet; all must count the same steps.
            if triplets is None and distributed.world_size() == 1:
                return None
            self.optimizer.param_groups[0]["lr"] = learning_rate(self.iteration, config)
            self.iteration += 1
            if triplets is None:
                return None
            # Images as they are, unless `augment` says otherwise; of an encoder, any of its views.
            features_BD = self.net(pixels.augmented(batch_B, policy, self.negatives))
            if not config.embedding_dim:
                features_BD = F.normalize(features_BD, eps=1e-8)
            if is_nearest:
                triplets = nearest_triplets(features_BD, labels_N[batch_B], config.K_c, self.negatives)
                assert triplets is not None, "there was a pair and a second cluster"
            triplets = Triplets(*(places.to(self.device) for places in triplets))
            return triplet_loss(features_BD, triplets, config.gamma, margin)

        batches = shuffled_batches(len(labels_N), config.batch_size, self.batches)
        what = f"period {self.period + 1} of {len(self.counts)}, epoch {self.epoch + 1} of {self.n_epochs}"
        distributed.own_stream(self.negatives)
        stats = run_epoch(step, batches, self.optimizer, what=what, total=len(labels_N))
        distributed.average_buffers(self.net)
        return stats


def train(
    images: Inputs, config: JULEConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield a snapshot for the start, each epoch and each merge round; the last one re-runs the clustering (RC)."""
    # The raw control and the low-dimensional embedding never cluster what the network makes of the images.
    is_by_pixels, is_merge_first = config.control == "raw" or config.embedding_dim > 0, config.order == "merge-first"
    run = _Run(images, config, device, seed)
    if resume is None or is_by_pixels or is_merge_first:
        view = first_view(images, config, device)
    if resume is None:
        run.labels, notes = first_clusters(view, config, seed)
        eta = unfolding_rate(len(images), config)
        run.counts = np.array(plan_periods(int(run.labels.max()) + 1, config.n_clusters, eta), dtype=np.int64)
        notes = (*short_graph_note(view.neighbours), *notes)
        yield run.snapshot("start", view.neighbours.event, warnings=notes, history=_stage(view, run.labels))
    else:
        run.load(resume)
    while True:
        if run.period or not is_merge_first:
            while run.epoch < run.n_epochs:
                if config.restart_lr and run.epoch == 0:
                    run.iteration = 0
                stats = run.train_epoch()
                run.epoch += 1
                yield run.snapshot("train", stats.event())
            if not is_by_pixels:
                view = view_of(encode_layer(run.net, images, device), config, device)
        if run.period == len(run.counts):
            break
        is_last, n_left = run.period == len(run.counts) - 1, int(run.counts[run.period])
        if config.absorb and not is_last:
            merged = merge_safely(view, run.labels, n_left, config)
        else:
            merged = merge(view, run.labels, n_left, config, absorb=config.absorb)
        run.labels, run.period, run.epoch = merged.labels, run.period + 1, 0
        event = {"isolated": merged.n_isolated, **view.neighbours.event}
        if is_last:
            event["absorbed_sf"] = merged.n_absorbed
        if is_last and not is_merge_first:
            break
        yield run.snapshot("merge", event, warnings=merged.warnings, history=_stage(view, run.labels))
    # Training after the last merge changes no label: those of that merge are SF in either order.
    yield _finish(run, view, {} if is_merge_first else {"absorbed_sf": merged.n_absorbed})


def _stage(view: View, labels: I64) -> Arrays:
    """Keep what the figures of a stage need: labels, principal components, and who is near whom, of a sample."""
    features, n = view.features, len(view.features)
    with np.errstate(invalid="ignore", divide="ignore"):  # all images alike: no variance to share out
        pca = PCA(min(_N_COMPONENTS, *features.shape), svd_solver="randomized", random_state=0)
        components = pca.fit_transform(features).astype(np.float32)
    rows = np.unique(np.linspace(0, n - 1, min(_N_KEPT, n)).astype(np.int64))
    near = nearest_neighbours(features, _N_NEAR + 1, queries=features[rows]).idx
    others = np.argsort(near == rows[:, None], axis=1, kind="stable")[:, : min(_N_NEAR, n - 1)]  # itself comes last
    return {
        "rows": rows,
        "labels": labels[rows],
        "features": components[rows],
        "neighbours": np.take_along_axis(near, others, axis=1).astype(np.int32),
        "all_labels": labels.astype(np.int32),
        "pca3": components[:, :3].copy(),
    }


def _finish(run: _Run, view: View, last: Mapping[str, int]) -> Snapshot:
    """Re-run the clustering on the final features (RC) and pack the result; the last merge gave SF."""
    config, device, labels_sf = run.config, run.device, run.labels
    start = nearest_neighbour_components(view.neighbours)
    again = merge(view, start, config.n_clusters, config, absorb=config.absorb)
    if again.is_split_start:
        start = np.arange(len(start))
    run.labels = again.labels
    history = {**_stage(view, again.labels), "all_labels_sf": labels_sf.astype(np.int32)}
    if config.embedding_dim:
        view = view_of(encode_layer(run.net, run.images, device), config, device)
    scale = global_scale(view.neighbours, config.a)
    model = vote_state(view.features, again.labels, config.n_clusters, config.K_s, scale)
    model.arrays.update(pack_module("net", run.net))
    model.meta["shape"] = list(run.images.shape)
    extras: Arrays = {"labels_sf": labels_sf, **merge_history(again, start)}
    soft = VoteModel(model, device).assign(view.features)
    result = Clustering(again.labels, soft, view.features, model, extras)
    event = {"isolated": again.n_isolated, "absorbed": again.n_absorbed, **last}
    return run.snapshot("recluster", event, warnings=again.warnings, history=history, result=result)


class JULEModel:
    """The trained network; new images get the affinity-weighted vote of their K_s nearest training images."""

    def __init__(self, config: JULEConfig, state: State, device: torch.device) -> None:
        self.shape, self.device, self.is_raw = saved_shape(state), device, config.control == "raw"
        with seeded_init(0):
            self.net = build_network(self.shape, config).to(device)
        unpack_module("net", self.net, state.arrays)
        self.votes = VoteModel(state, device)

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return the features of a layer (`top`, `top-1`, `top-2`); the vote is always by `top`."""
        check_request(images, self.shape, layer, LAYERS)
        top = rows_of(images) if self.is_raw else encode_layer(self.net, images, self.device)
        features = top if layer == "top" else encode_layer(self.net, images, self.device, layer)
        return Assignment(features, self.votes.assign(top))

    def exported(self) -> nn.Module:
        """Return the network and the vote as one module, with the features of the training images inside."""
        rows = PixelRows() if self.is_raw else _TopRows(self.net)
        return Compared(rows, self.votes.head()).eval()


class _TopRows(nn.Module):
    """The rows that the vote compares."""

    def __init__(self, net: ConvNet | EmbeddingHead) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        rows_BD: Tensor = self.net(x)
        return rows_BD if self.net.is_embedding else unit(rows_BD)


def restore(config: JULEConfig, state: State, *, device: torch.device) -> JULEModel:
    """Rebuild a fitted model."""
    return JULEModel(config, state, device)


METHOD = Method(
    name="jule",
    summary="joint learning of features and clusters: merge, train on the clusters, merge again",
    source="Yang, Parikh, Batra: Joint Unsupervised Learning of Deep Representations and Image Clusters, CVPR 2016",
    config=JULEConfig,
    train=train,
    restore=restore,
    is_inductive=False,
    is_shareable=True,
    learns_on="features",
    finetunes=True,
)
