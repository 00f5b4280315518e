"""GATCluster: a network says directly which cluster an image belongs to, and teaches itself by four tasks.

Niu, Zhang, Wang, Liang, "GATCluster: Self-Supervised Gaussian-Attention Network for Image Clustering", ECCV 2020.

The label features l of an image are a softmax over the clusters. Two steps alternate. Step 1 computes them for a large
batch without gradients and makes targets of them. Step 2 trains on augmented images of the same batch, a few at a time:
each should be labelled as its original was (TI), pairs within a cluster of k-means alike and others differently
(SM), all clusters should be used (EA), and what lies under one Gaussian bump should be enough to say a sharpened form
of the same (AM), so that the network looks at objects. Memory depends on the small batches alone.

Symbols: l, la label features of the label and the attention module; t, ta targets for them; z cluster sizes; c clusters
of k-means; r relation of a pair; p, q mean label features; M, m1, m2 images of a large batch, of a part of step 1, of a
part of step 2.
Shape letters: N images, M large batch, B small batch, D features, K clusters, h x w positions of the attention map.

Where we differ from the paper and its code:
- mu_x, mu_y and delta are three parameters; the released code ties the last two by mistake (`tied`).
- The last iterate is the result; the released code keeps the best one by accuracy against the truth.
- Cosines are kept within [1e-5, 1 - 1e-5], so that no pair weighs without bound.
- Images that come gray are not mirrored unless asked for (`flip`); the paper has only colour photographs.
- Off by default and ours: `bn_targets=batch`, `bn_eval=refreshed`, `kmeans_on=features`, `standardise`.
- Convolutions have no bias, which the batch normalisation behind each of them takes away.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort import distributed
from selfsort.classic.kmeans import kmeans
from selfsort.learning.batches import from_bytes, shuffled_batches, tensor_of
from selfsort.learning.checkpoint import Checkpoint, pack_module, saved_shape, to_numpy, unpack_module
from selfsort.learning.encode import check_request, encode_several
from selfsort.learning.epoch import run_epoch
from selfsort.learning.finetune import train_along
from selfsort.learning.seeds import derive_seed, seeded_init, torch_generator
from selfsort.learning.trainee import Trainee
from selfsort.methods._gatcluster_settings import GATClusterConfig, view_policy
from selfsort.nets.attention import GATNet, LabelPath, Plan, Prepare, plan_network
from selfsort.nets.cut import leaking
from selfsort.nets.norm import batch_statistics, refresh_statistics
from selfsort.types import (
    F32,
    Arrays,
    Assignment,
    Clustering,
    Encoded,
    Images,
    Improvable,
    Inputs,
    Method,
    Snapshot,
    State,
)

__all__ = ["METHOD", "GATClusterConfig", "GATClusterModel", "restore", "train", "view_policy"]

_EPS = 1e-5
"""In norms, balancing denominators, and under every logarithm (released code)."""
# Kept for the figures: images of a stage, images of each cluster whose attention is shown.
_N_KEPT, _N_EXAMPLES = 1000, 4
# Images that fresh statistics are taken from.
_N_MEASURED = 4000


# --- equations -----------------------------------------------------------------------------------------------------


def balanced_target(l_MK: Tensor, power: int) -> Tensor:
    """Eq. (5), (11): l^power / z, rows scaled to sum to one: t with power 1, the sharper ta with power 2.

    z_h is the size of cluster h in the large batch; dividing by it keeps large clusters from growing.
    """
    weighed_MK = l_MK.pow(power) / (l_MK.sum(dim=0) + _EPS)
    # A plain quotient: rows must sum to one even where every entry is tiny.
    return weighed_MK / weighed_MK.sum(dim=1, keepdim=True).clamp(min=1e-30)


def comparable(features_MD: Tensor) -> Tensor:
    """Give each feature mean 0 and deviation 1 over a large batch, then each image unit length; ours."""
    centred_MD = features_MD - features_MD.mean(dim=0)
    return F.normalize(centred_MD / (centred_MD.square().mean(dim=0).sqrt() + _EPS), dim=1)


def trusted_clusters(c_M: Tensor, n_clusters: int, min_share: float) -> tuple[Tensor, bool]:
    """Guard k-means: if a cluster is missing or tiny, every image stands for itself. Also tells if that is so.

    A share of 0 trusts k-means as it is, like the paper.
    """
    if min_share == 0:
        return c_M, False
    sizes = torch.bincount(c_M, minlength=n_clusters)
    is_sound = int(sizes.min()) > 0 and float(sizes.min()) >= min_share * len(c_M) / n_clusters
    return (c_M, False) if is_sound else (torch.arange(len(c_M), device=c_M.device), True)


def relations(c_B: Tensor) -> Tensor:
    """Eq. (6), r_ij: 1 if two images share a cluster or are the same, else 0."""
    return (c_B[:, None] == c_B).float()


def similarity_loss(l_BK: Tensor, t_BK: Tensor) -> Tensor:
    """TI, Eq. (4): minus the mean of l_i . t_i."""
    return -(l_BK * t_BK).sum(dim=1).mean()


def relation_loss(l_BK: Tensor, r_BB: Tensor) -> Tensor:
    """SM, Eq. (7): cross-entropy between r_ij and cos(l_i, l_j), averaged over the pairs i >= j."""
    unit_BK = l_BK / (l_BK.norm(dim=1, keepdim=True) + _EPS)
    cosine_BB = (unit_BK @ unit_BK.T).clamp(_EPS, 1 - _EPS)
    entropy_BB = F.binary_cross_entropy(cosine_BB, r_BB.to(cosine_BB.dtype), reduction="none")
    n = len(l_BK)
    # The table is symmetric: half of everything and of the diagonal is its lower triangle.
    return (entropy_BB.sum() + entropy_BB.diagonal().sum()) / (n * (n + 1))


def attention_loss(la_BK: Tensor, ta_BK: Tensor) -> Tensor:
    """AM, Eq. (10): cross-entropy between ta and l^a, each entry a yes or no of its own."""
    return F.binary_cross_entropy(la_BK.clamp(_EPS, 1 - _EPS), ta_BK)


def entropy_loss(l_BK: Tensor, earlier_K: Tensor | None = None, share: float = 1.0) -> Tensor:
    """EA, Eq. (8): sum p log p, least where all clusters are used alike.

    With `earlier_K`, the mean label features of earlier batches, p gives this batch only `share`; dividing by it keeps
    the pull on its images what it was.
    """
    p_K = l_BK.mean(dim=0)
    if earlier_K is not None:
        p_K = share * p_K + (1 - share) * earlier_K
    p_K = p_K.clamp(min=_EPS)
    return (p_K * p_K.log()).sum() / share


# --- network and views ---------------------------------------------------------------------------------------------


def build_network(shape: tuple[int, ...], config: GATClusterConfig, *, on_maps: bool = False) -> GATNet:
    """Build all modules for images of this height, width and channel count.

    An encoder's feature maps take the place of the image module's, and nothing is done to them before.
    """
    height, width, channels = shape
    if on_maps:
        plan, prepare = Plan(()), Prepare(False, (0.0,), (1.0,))
    else:
        is_gray = config.gray or channels == 1
        mean, std = (values if not is_gray else values[:1] for values in (config.mean, config.std))
        plan = plan_network(height, width, config.arch, config.map_side).scaled(config.width)
        prepare = Prepare(is_gray, mean, std, is_standardised=config.standardise)
    return GATNet(
        (height, width, channels),
        plan,
        config.n_clusters,
        prepare=prepare,
        label_relu=config.label_relu,
        has_attention=config.w_am > 0,
        attention_kind=config.attention,
        attention_conv=config.attention_conv,
        a0=config.a0,
        tied=config.tied,
        modules=config.modules,
    )


@dataclass(frozen=True, eq=False)
class Seen:
    """What a network makes of images, in evaluation mode."""

    soft: F32
    """(N, K) label features."""
    features: F32
    """(N, D) mean of the image module's last map."""
    parameters: F32
    """(N, 3) mu_x, mu_y and delta; (N, 0) without a Gaussian."""
    attention: F32
    """(N, h, w) the attention maps where asked for, else (N, 0, 0)."""


def probe(net: GATNet, images: Inputs, device: torch.device, *, with_maps: bool = False) -> Seen:
    """Apply a network to all images."""
    pixels, attention = tensor_of(images, device, is_standardised=net.prepare.is_standardised), net.attention

    def compute(x_BCHW: Tensor) -> tuple[Tensor, ...]:
        l_BK, features_BD, map_BKhw = net.describe(x_BCHW)
        parameters, maps = features_BD[:, :0], features_BD.new_zeros(len(x_BCHW), 0, 0)
        if attention is not None and attention.kind == "gaussian":
            parameters = attention.parameters_of(map_BKhw)
        if attention is not None and with_maps:
            maps = attention.attention_map(map_BKhw)
        return l_BK, features_BD, parameters, maps

    return Seen(*encode_several(net, pixels, pixels.even_chunks(2**19, at_most=2**10), compute))


# --- training ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pool:
    """A large batch with its targets; what step 2 learns from."""

    rows: Tensor
    t: Tensor
    ta: Tensor
    c: Tensor
    is_guarded: bool
    views: Tensor | None
    """The augmented images as bytes, unless they are augmented anew for every small batch."""


_SAVED = Checkpoint(counters=("iteration", "step"), arrays=("usage_2K",))


class _Run:
    """Everything that changes while training; all of it is in the resume state.

    Each large batch draws from generators of its own, named by its number, so no generator has to be saved.
    """

    def __init__(self, images: Inputs, config: GATClusterConfig, device: torch.device, seed: int) -> None:
        self.images, self.config, self.device, self.seed = images, config, device, seed
        self.pixels = tensor_of(images, device, is_standardised=config.standardise)
        self.policy = view_policy(config, images.shape[2])
        with seeded_init(seed):
            self.net = build_network(images.shape, config, on_maps=isinstance(images, Encoded)).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=config.lr)
        train_along(self.net, self.optimizer, images)
        self.n_pool = min(config.M, len(images))
        self.batch_size = min(config.m2, self.n_pool)
        self.usage_2K = torch.full((2, config.n_clusters), 1 / config.n_clusters, device=device)
        """Mean label features of both modules over the batches before, for `entropy_batch`."""
        self.iteration = self.step = self.n_guarded = 0
        self.sums: dict[str, Tensor] = {}
        self.pool: Pool | None = None
        self.views = torch.Generator()

    def state(self) -> State:
        return _SAVED.pack(self)

    def load(self, state: State) -> None:
        """Go on from a saved state."""
        _SAVED.restore(self, state)

    def large_batch(self, iteration: int) -> Tensor:
        """Cut epochs, shuffled anew each, into large batches; what is left of one is dropped."""
        epoch, place = divmod(iteration, len(self.images) // self.n_pool)
        order = torch.randperm(len(self.images), generator=torch_generator(self.seed, f"epoch {epoch}"))
        return order[place * self.n_pool : (place + 1) * self.n_pool]

    def label_features(self, rows_M: Tensor) -> Tensor:
        """Step 1: label features of images as they are."""
        return self.of_originals(rows_M, self.net.label)

    def all_features(self, rows_M: Tensor) -> tuple[Tensor, Tensor]:
        """Step 1: label features and features of the image module, of images as they are."""
        found = self.of_originals(rows_M, lambda x_BCHW: torch.cat(self.net.describe(x_BCHW)[:2], dim=1))
        return found[:, : self.config.n_clusters], found[:, self.config.n_clusters :]

    def of_originals(self, rows_M: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Compute something of images as they are, in parts of m1, in evaluation mode."""
        self.net.eval()
        is_own = self.config.bn_targets == "batch"
        with torch.inference_mode(), batch_statistics(self.net) if is_own else nullcontext():
            # Parts of equal size where an image's label depends on the others: none may be tiny.
            n_parts = max(1, len(rows_M) // self.config.m1)
            parts = torch.tensor_split(rows_M, n_parts) if is_own else torch.split(rows_M, self.config.m1)
            found = torch.cat([compute(self.pixels.floats(rows)) for rows in parts])
        # A copy made outside may take part in what is differentiated later.
        return found.clone()

    def augmented(self, rows_B: Tensor) -> Tensor:
        """Return augmented copies of images, gray where the network wants gray."""
        return self.net.prepare.gray(self.pixels.augmented(rows_B, self.policy, self.views))

    def original_batches(self) -> Iterator[Tensor]:
        """Walk over some images as they are, in parts of equal size."""
        rows = torch.randperm(len(self.images), generator=torch_generator(self.seed, "statistics"))[:_N_MEASURED]
        for part in torch.tensor_split(rows, max(1, len(rows) // self.config.m1)):
            yield self.pixels.floats(part)

    def prepare_pool(self, iteration: int) -> Pool:
        """Step 1: targets of a large batch, and its augmented images."""
        config, rows_M = self.config, self.large_batch(iteration)
        self.views = torch_generator(self.seed, f"views {iteration}", self.device)
        is_once = config.augment_once and isinstance(self.images, Images)  # an encoder's views are ready
        if not is_once:  # else all processes make all views
            distributed.own_stream(self.views)
        if config.kmeans_on == "features":
            l_MK, features_MD = self.all_features(rows_M)
            seen_M = comparable(features_MD)
        else:
            l_MK = self.label_features(rows_M)
            seen_M = balanced_target(l_MK, 2) if config.kmeans_on == "ta" else l_MK
        t_MK, ta_MK = balanced_target(l_MK, 1), balanced_target(l_MK, 2)
        c_M, is_guarded = torch.arange(len(rows_M), device=self.device), False
        if config.w_sm:
            points: F32 = to_numpy(seen_M)
            seed = derive_seed(self.seed, f"k-means {iteration}")
            found = kmeans(points, config.n_clusters, seed=seed, n_restarts=config.n_restarts).labels
            c_M, is_guarded = trusted_clusters(
                torch.from_numpy(found).to(self.device), config.n_clusters, config.min_share
            )
        return Pool(rows_M, t_MK, ta_MK, c_M, is_guarded, self.views_of(rows_M) if is_once else None)

    def views_of(self, rows_M: Tensor) -> Tensor:
        """Change a large batch once and keep it as bytes: all that grows with M beside label features."""
        height, width, channels = self.images.shape
        shape = (len(rows_M), 1 if self.net.prepare.is_gray else channels, height, width)
        # Filled in place: parts joined at the end would be held twice.
        views = torch.empty(shape, dtype=torch.uint8, device=self.device)
        for part, rows in zip(torch.split(views, self.config.m1), torch.split(rows_M, self.config.m1), strict=True):
            part.copy_(self.augmented(rows).mul_(255).round_())
        return views

    def small_batches(self, n_pools: int) -> Iterator[Tensor]:
        """Walk over large batches: step 1 for each, then its repeats, cut into small batches."""
        for iteration in range(self.iteration, self.iteration + n_pools):
            distributed.average_buffers(self.net)
            self.pool = self.prepare_pool(iteration)
            self.n_guarded += self.pool.is_guarded
            self.net.train()
            order = torch_generator(self.seed, f"order {iteration}")
            for _ in range(self.config.repeats):
                yield from shuffled_batches(self.n_pool, self.batch_size, order, drop_last=True)

    def loss(self, batch_B: Tensor) -> Tensor:
        """Step 2: the weighted tasks on one small batch of the pool."""
        pool, config = self.pool, self.config
        assert pool is not None
        idx_B = batch_B.to(self.device)
        l_BK, la_BK = self.net(
            self.augmented(pool.rows[batch_B]) if pool.views is None else from_bytes(pool.views[idx_B])
        )
        weighed = []
        if config.w_ti:
            weighed.append(("similarity", config.w_ti, similarity_loss(l_BK, pool.t[idx_B])))
        if config.w_sm:
            weighed.append(("relation", config.w_sm, relation_loss(l_BK, relations(pool.c[idx_B]))))
        if la_BK is not None:
            weighed.append(("attention", config.w_am, attention_loss(la_BK, pool.ta[idx_B])))
        if config.w_ea:
            weighed.append(("entropy", config.w_ea, self.entropy(l_BK, la_BK)))
        for name, _, loss in weighed:
            self.sums[name] = self.sums.get(name, 0.0) + loss.detach()
        return torch.stack([weight * loss for _, weight, loss in weighed]).sum()

    def entropy(self, l_BK: Tensor, la_BK: Tensor | None) -> Tensor:
        """EA over the label features and those of attention."""
        both = [l_BK] if la_BK is None else [l_BK, la_BK]
        share = min(1.0, len(l_BK) / (self.config.entropy_batch or len(l_BK)))
        if share == 1:
            return torch.stack([entropy_loss(found) for found in both]).sum()
        losses = [entropy_loss(found, earlier, share) for found, earlier in zip(both, self.usage_2K, strict=False)]
        for i, found in enumerate(both):
            self.usage_2K[i] = self.usage_2K[i].lerp(found.detach().mean(dim=0), share)
        return torch.stack(losses).sum()

    def learn(self) -> dict[str, float | int | str]:
        """Go through the large batches up to the next look at all images; return the event."""
        config = self.config
        n_pools = min(config.eval_every, config.iterations - self.iteration)
        self.sums, self.n_guarded = {}, 0
        stats = run_epoch(
            self.loss,
            self.small_batches(n_pools),
            self.optimizer,
            what=f"large batches {self.iteration + 1} to {self.iteration + n_pools} of {config.iterations}",
            total=n_pools * config.repeats * (self.n_pool // self.batch_size) * self.batch_size,
        )
        distributed.average_buffers(self.net)
        self.usage_2K = distributed.average(self.usage_2K)
        self.iteration, self.step = self.iteration + n_pools, self.step + 1
        means = {name: float(total) / max(stats.steps, 1) for name, total in self.sums.items()}
        return {**stats.event(), **means, "iteration": self.iteration, "guarded": self.n_guarded}

    def refresh(self) -> None:
        """Take the statistics of batch normalisation from images as they are, where that is asked for."""
        if self.config.bn_eval == "refreshed":
            refresh_statistics(self.net, self.original_batches())

    def snapshot(self, event: Mapping[str, float | int | str]) -> Snapshot:
        """Look at all images."""
        is_last = self.iteration >= self.config.iterations
        seen = probe(self.net, self.images, self.device)
        event = {**event, "sureness": float(seen.soft.max(axis=1).mean())}
        if seen.parameters.size:
            event["mean_delta"] = float(seen.parameters[:, 2].mean())
        return Snapshot(
            step=self.step,
            total=count_snapshots(self.config),
            labels=seen.soft.argmax(axis=1).astype(np.int64),
            event=event,
            state=self.state,
            result=_result(self, seen) if is_last else None,
            history=_stage(seen) if is_last or self.step.bit_count() == 1 else {},
        )

    # What `Trainee` asks for beyond that.

    def probe(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        l_BK, features_BD, _ = self.net.describe(x_BCHW)
        return l_BK.argmax(dim=1), features_BD

    def begin_teaching(self) -> int:
        stream = f"mending {self.iteration}"  # older than our name for the thing
        self.views = torch_generator(self.seed, stream, self.device)
        distributed.own_stream(self.views)
        return derive_seed(self.seed, stream)

    def teaching_loss(self, rows_B: Tensor, labels_B: Tensor) -> Tensor:
        with leaking(self.net):
            both = [found for found in self.net(self.augmented(rows_B)) if found is not None]
        # Not _EPS: who is surely wrong has the most to learn, and what is clamped has no gradient.
        return torch.stack([F.nll_loss(found.clamp(min=1e-30).log(), labels_B) for found in both]).sum()

    def retake(self, snapshot: Snapshot) -> Snapshot:
        self.refresh()
        return self.snapshot(snapshot.event)


def count_snapshots(config: GATClusterConfig) -> int:
    """Return the snapshots of a training: one after every `eval_every` large batches."""
    return -(-config.iterations // config.eval_every)


def open_trainee(
    images: Inputs, config: GATClusterConfig, *, device: torch.device, seed: int, state: State | None
) -> Trainee:
    """Return the training as it was saved, or before its first step."""
    run = _Run(images, config, device, seed)
    if state is not None:
        run.load(state)
    return run


def train(
    images: Inputs, config: GATClusterConfig, *, device: torch.device, seed: int, resume: State | None = None
) -> Iterator[Snapshot]:
    """Yield a snapshot after every `eval_every` large batches."""
    run = _Run(images, config, device, seed)
    if resume is not None:
        run.load(resume)
    while run.iteration < config.iterations:
        event = run.learn()
        run.refresh()
        yield run.snapshot(event)


# --- figures and result --------------------------------------------------------------------------------------------


def _stage(seen: Seen) -> Arrays:
    """Keep label features and attention parameters of evenly spaced images."""
    n = len(seen.soft)
    rows = np.unique(np.linspace(0, n - 1, min(_N_KEPT, n)).astype(np.int64))
    stage: Arrays = {"rows": rows, "soft": seen.soft[rows], "labels": seen.soft[rows].argmax(axis=1).astype(np.int64)}
    if seen.parameters.size:
        stage["attention_parameters"] = seen.parameters[rows]
    return stage


def _examples(seen: Seen) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the surest images, one of each cluster, then a second of each, and so on."""
    labels, confidence = seen.soft.argmax(axis=1), seen.soft.max(axis=1)
    ranked = []
    for cluster in range(seen.soft.shape[1]):
        members = np.flatnonzero(labels == cluster)
        if not len(members):
            continue
        off_centre = ((seen.features[members] - seen.features[members].mean(axis=0)) ** 2).sum(axis=1)
        ranked.append(members[np.lexsort((off_centre, -confidence[members]))][:_N_EXAMPLES].tolist())
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*ranked))
    return np.array([row for row in in_turn if row is not None], dtype=np.int64)


def _result(run: _Run, seen: Seen) -> Clustering:
    shown = _examples(seen)
    extras: Arrays = {"example_rows": shown}
    if run.net.attention is not None:
        extras["attention_rows"] = shown
        extras["attention"] = probe(run.net, run.images.subset(shown), run.device, with_maps=True).attention
        if seen.parameters.size:
            extras["attention_parameters"] = seen.parameters
    on_maps = {"on_maps": True} if isinstance(run.images, Encoded) else {}
    model = State(pack_module("net", run.net), {"shape": list(run.images.shape), **on_maps})
    return Clustering(seen.soft.argmax(axis=1).astype(np.int64), seen.soft, seen.features, model, extras)


class GATClusterModel:
    """The network: new images get the label features the training images got."""

    def __init__(self, config: GATClusterConfig, state: State, device: torch.device) -> None:
        self.shape, self.device = saved_shape(state), device
        with seeded_init(0):
            self.net = build_network(self.shape, config, on_maps=bool(state.meta.get("on_maps"))).to(device)
        unpack_module("net", self.net, state.arrays)
        self.net.eval()

    def apply(self, images: Inputs, layer: str = "top") -> Assignment:
        """Return image features and label features."""
        check_request(images, self.shape, layer)
        seen = probe(self.net, images, self.device)
        return Assignment(seen.features, seen.soft)

    def attention(self, images: Inputs) -> F32:
        """Return the attention maps (N, h, w) of images; (N, 0, 0) for a model without them."""
        return probe(self.net, images, self.device, with_maps=True).attention

    def network(self) -> nn.Module:
        """Return images (B, C, H, W) in [0, 1] to label features and image features as one module, for export."""
        return LabelPath(self.net).eval()


def restore(config: GATClusterConfig, state: State, *, device: torch.device) -> GATClusterModel:
    """Rebuild a fitted model."""
    return GATClusterModel(config, state, device)


METHOD = Method(
    "gatcluster",
    "a network with Gaussian attention labels images directly, taught by four tasks of its own",
    "Niu, Zhang, Wang, Liang: GATCluster: Self-Supervised Gaussian-Attention Network for Image Clustering, ECCV 2020",
    GATClusterConfig,
    train,
    restore,
    is_inductive=True,
    is_shareable=True,
    improvable=Improvable(
        open_trainee,
        "large batches",
        lambda config, step: min(max(step, 0) * config.eval_every, config.iterations),
        lambda config, n_images: count_snapshots(config),
    ),
    learns_on="maps",
    needs_views=True,
    finetunes=True,
)
