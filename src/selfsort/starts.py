"""Several random starts, of which the steadiest goes on; ours, off unless asked for.

A method that learns from its own guesses inherits what its random network guessed first: classes joined then stay
joined. Which start was lucky can be told without labels. Change every image twice, by chance: where clusters follow
what the images have in common, both copies get the same label, and where all clusters are in use that label says much.
Both together is the mutual information of the two labels, at most log K. It is least, 0, if all images share a cluster.

Shape letters: B batch, K clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from selfsort import distributed, training
from selfsort.data.augment import Policy, augment
from selfsort.types import Images, Snapshot, State

_N_JUDGED, _BLOCK = 4000, 200

Net = TypeVar("Net", bound=nn.Module)

Begin = Callable[[int, State | None], Iterator[Snapshot]]
"""A method's training, given a seed and the state to go on from."""


def mutual_information(first: Tensor, second: Tensor, n_clusters: int) -> float:
    """Return what two labels of the same images tell of each other, in nats.

    >>> round(mutual_information(torch.tensor([0, 1, 0, 1]), torch.tensor([1, 0, 1, 0]), 2), 4)
    0.6931
    """
    joint_KK = torch.bincount(first * n_clusters + second, minlength=n_clusters**2).double().view(n_clusters, -1)
    joint_KK = joint_KK / joint_KK.sum()
    independent_KK = joint_KK.sum(dim=1, keepdim=True) * joint_KK.sum(dim=0, keepdim=True)
    is_used = joint_KK > 0
    return float((joint_KK[is_used] * (joint_KK[is_used] / independent_KK[is_used]).log()).sum())


def steadiness(
    label: Callable[[Tensor], Tensor], pixels: training.PixelTensor, policy: Policy, n_clusters: int
) -> float:
    """Return the mutual information of the labels of two changed copies of some images.

    `label` takes images (B, C, H, W) in [0, 1] to clusters (B,). The copies are the same for every start.
    """
    chance = training.torch_generator(0, "steadiness", pixels.device)
    rows = torch.randperm(len(pixels), generator=training.torch_generator(0, "judged"))[:_N_JUDGED]
    with torch.inference_mode():
        first, second = (
            torch.cat([label(augment(pixels.floats(idx), policy, chance)) for idx in torch.split(rows, _BLOCK)])
            for _ in range(2)
        )
    found = mutual_information(first, second, n_clusters)
    # Processes that share a training must prefer the same start, also where their machines round differently.
    return float(distributed.average(torch.tensor(found, device=pixels.device)))


def judge_by(
    build: Callable[[], Net],
    label: Callable[[Net, Tensor], Tensor],
    images: Images,
    policy: Policy,
    n_clusters: int,
    device: torch.device,
) -> Callable[[State], float]:
    """Return what tells the steadiness of a saved state.

    `build` makes the network the state belongs to, `label` takes it and images to scores (B, K).
    """

    def judge(state: State) -> float:
        with training.seeded_init(0):
            net = build().to(device)
        training.unpack_module("net", net, state.arrays)
        net.eval()
        pixels = training.PixelTensor(images, device)
        return steadiness(lambda x_BCHW: label(net, x_BCHW).argmax(dim=1), pixels, policy, n_clusters)

    return judge


@dataclass(frozen=True, eq=False)
class _Contest:
    """How far the starts are; all of it is in the resume state."""

    number: int = 0
    """The start in training; as many as there are starts once the best of them goes on."""
    n_done: int = 0
    """Its snapshots."""
    now: State | None = None
    best: int = 0
    best_value: float = -1.0
    best_state: State | None = None

    def pack(self, now: State | None) -> State:
        """Join the states of the start in training and of the best one so far."""
        now, best = now or State(), self.best_state or State()
        arrays = {f"now.{name}": array for name, array in now.arrays.items()}
        arrays |= {f"best.{name}": array for name, array in best.arrays.items()}
        counters = {"number": self.number, "n_done": self.n_done, "best": self.best, "best_value": self.best_value}
        return State(arrays, {"contest": counters, "now": now.meta, "best": best.meta})

    @classmethod
    def unpack(cls, saved: State) -> _Contest:
        now, best = (_part(saved, name) for name in ("now", "best"))
        return cls(now=now, best_state=best, **saved.meta["contest"])


def _part(saved: State, name: str) -> State | None:
    meta, prefix = saved.meta[name], f"{name}."
    arrays = {key.removeprefix(prefix): array for key, array in saved.arrays.items() if key.startswith(prefix)}
    return State(arrays, meta) if meta else None


def train_steadiest(
    begin: Begin,
    judge: Callable[[State], float],
    *,
    n_starts: int,
    n_steps: int,
    n_total: int,
    seed: int,
    resume: State | None,
) -> Iterator[Snapshot]:
    """Train every start for `n_steps` of its `n_total` snapshots, then the one that `judge` finds steadiest to the end.

    The first start is what a run without others would be. Every event names its start, so that figures can leave out
    those that did not go on.
    """
    n_steps = min(n_steps, n_total - 1)
    if n_starts == 1 or n_steps < 1:
        yield from begin(seed, resume)
        return
    ahead = (n_starts - 1) * n_steps
    contest = _Contest() if resume is None else _Contest.unpack(resume)
    while contest.number < n_starts:
        for inner in begin(_seed_of_start(seed, contest.number), contest.now):
            number, n_done = contest.number, contest.n_done + 1
            event = {**inner.event, "start": number + 1}
            if n_done < n_steps:
                contest = replace(contest, n_done=n_done)
                state = partial(_pack_later, contest, inner.state)
            else:
                event["steadiness"] = value = judge(inner.state())
                if value > contest.best_value:
                    contest = replace(contest, best=number, best_value=value, best_state=inner.state())
                contest = replace(contest, number=number + 1, n_done=0, now=None)
                state = partial(contest.pack, None)
            step, total = number * n_steps + n_done, ahead + n_total
            yield Snapshot(step, total, inner.labels, event, state, history=inner.history)
            if n_done == n_steps:
                break
    for inner in begin(_seed_of_start(seed, contest.best), contest.now or contest.best_state):
        chosen = replace(contest, best_state=None)
        yield replace(
            inner,
            step=ahead + inner.step,
            total=ahead + n_total,
            event={**inner.event, "start": contest.best + 1},
            state=partial(_pack_later, chosen, inner.state),
        )


def _pack_later(contest: _Contest, now: Callable[[], State]) -> State:
    return contest.pack(now())


def _seed_of_start(seed: int, number: int) -> int:
    return seed if number == 0 else training.derive_seed(seed, f"start {number}")
