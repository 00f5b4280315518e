"""Several random starts, of which the most stable goes on; ours, off unless asked for.

A method that learns from its own guesses inherits what its random network guessed first: classes joined then stay
joined. Which start was lucky can be told without labels, by the stability of its clusters under augmentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from selfsort.learning.seeds import derive_seed
from selfsort.types import Snapshot, State

Begin = Callable[[int, State | None], Iterator[Snapshot]]
"""A method's training, given a seed and the state to go on from."""


@dataclass(frozen=True, eq=False)
class _Contest:
    """How far the starts are; all of it is in the resume state, under these names."""

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


def train_most_stable(
    begin: Begin,
    judge: Callable[[int, State], float],
    is_over: Callable[[int], bool],
    *,
    n_starts: int,
    seed: int,
    resume: State | None,
) -> Iterator[Snapshot]:
    """Train every start until it `is_over` (a snapshot's step tells), then the one that `judge` prefers to the end.

    `judge` takes a start's seed and state. The first start is what a run without others would be. A start always
    leaves its last snapshot to do; where there is only one, there are no starts. Every event names its start, so that
    figures can leave out those that did not go on.
    """
    contest = _Contest() if resume is None else _Contest.unpack(resume)
    while contest.number < n_starts:
        number = contest.number
        for inner in begin(_seed_of_start(seed, number), contest.now):
            if inner.total == 1:
                yield inner
                return
            n_steps = _length_of_start(is_over, inner.total)
            event = {**inner.event, "start": number + 1}
            n_done = contest.n_done + 1
            if n_done < n_steps:
                contest = replace(contest, n_done=n_done)
                state = partial(_pack_later, contest, inner.state)
            else:
                event["stability"] = value = judge(_seed_of_start(seed, number), inner.state())
                if value > contest.best_value:
                    contest = replace(contest, best=number, best_value=value, best_state=inner.state())
                contest = replace(contest, number=number + 1, n_done=0, now=None)
                state = partial(contest.pack, None)
            step, total = number * n_steps + n_done, (n_starts - 1) * n_steps + inner.total
            yield Snapshot(step, total, inner.labels, event, state, history=inner.history)
            if n_done == n_steps:
                break
    for inner in begin(_seed_of_start(seed, contest.best), contest.now or contest.best_state):
        ahead = (n_starts - 1) * _length_of_start(is_over, inner.total)
        chosen = replace(contest, best_state=None)
        yield replace(
            inner,
            step=ahead + inner.step,
            total=ahead + inner.total,
            event={**inner.event, "start": contest.best + 1},
            state=partial(_pack_later, chosen, inner.state),
        )


def _length_of_start(is_over: Callable[[int], bool], n_total: int) -> int:
    """Return the snapshots of a start, of as many as a whole training has."""
    return next((step for step in range(1, n_total) if is_over(step)), n_total - 1)


def _pack_later(contest: _Contest, now: Callable[[], State]) -> State:
    return contest.pack(now())


def _seed_of_start(seed: int, number: int) -> int:
    return seed if number == 0 else derive_seed(seed, f"start {number}")
