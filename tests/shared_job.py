"""What the tests of `selfsort.distributed` run in two processes: torchrun tests/shared_job.py JOB [FOLDER].

A job raises where something is wrong; torchrun then ends with an error.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from tests.contract.tiny import IMPROVED, TINY
from torch import Tensor, nn

from selfsort import distributed
from selfsort.cli import main as cli
from selfsort.data.synthetic import shapes
from selfsort.graph.approximate import approximate_neighbours
from selfsort.graph.knn import nearest_neighbours
from selfsort.improve.around import ImproveConfig
from selfsort.learning.epoch import _one_step, run_epoch
from selfsort.methods.registry import METHODS
from selfsort.runs import loop as fitting
from selfsort.runs.loop import FitRun
from selfsort.types import Snapshot

CPU = torch.device("cpu")


def agree_on(name: str, array: np.ndarray[Any, Any]) -> None:
    """Refuse if the processes hold different bits."""
    mine = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1).copy()).float()
    first = mine.clone()
    dist.broadcast(first, src=0)
    assert torch.equal(mine, first), f"{name} differs between processes"


def primitives() -> None:
    """The building blocks, on numbers that can be checked by hand."""
    rank = distributed.rank()
    assert distributed.world_size() == 2
    assert distributed.share(torch.arange(5)).tolist() == [[0, 1, 2], [3, 4]][rank]
    assert distributed.gather_rows(distributed.share(torch.arange(5))).tolist() == [0, 1, 2, 3, 4]
    assert distributed.average(torch.tensor([float(rank)])).tolist() == [0.5]
    assert distributed.agree(f"from {rank}") == "from 0"
    rows, none = distributed.rows_in_shares(
        torch.split(torch.arange(7), 2),
        7,
        lambda idx: [torch.stack([idx, idx**2], 1).float(), idx.new_zeros(len(idx), 0)],
    )
    np.testing.assert_array_equal(rows, np.stack([np.arange(7), np.arange(7) ** 2], axis=1))
    assert none.shape == (7, 0)
    generator = torch.Generator().manual_seed(3)
    untouched = torch.Generator().manual_seed(3)
    distributed.own_stream(generator)
    drawn = torch.rand(1, generator=generator)
    assert (rank == 0) == bool(torch.equal(drawn, torch.rand(1, generator=untouched)))


def gradients() -> None:
    """Steps of two processes on shares are steps of one process on whole batches."""
    data, goal = torch.randn(22, 3, generator=torch.Generator().manual_seed(0)), torch.arange(22.0)
    batches = [torch.arange(0, 9), torch.arange(9, 20), torch.arange(20, 22)]  # the last is too small for two

    def weights_after(is_shared: bool) -> Tensor:
        torch.manual_seed(0)
        net = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(batch: Tensor) -> Tensor | None:
            return nn.functional.mse_loss(net(data[batch])[:, 0], goal[batch])

        if is_shared:
            stats = run_epoch(step, batches, optimizer)
            assert (stats.steps, stats.skipped) == (2, 1)
        else:
            for batch in batches[:2]:
                _one_step(step, optimizer)(batch)
        return torch.cat([weight.detach().flatten() for weight in net.parameters()])

    torch.testing.assert_close(weights_after(True), weights_after(False), rtol=1e-5, atol=1e-5)


def empty_shares() -> None:
    """A process without anything to learn from must not hold up the other; if none has anything, nothing moves."""
    for found_by, expected in (({0}, (1, 0)), (set(), (0, 1))):
        net = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(batch: Tensor, net: nn.Module = net, found_by: set[int] = found_by) -> Tensor | None:
            return net(torch.ones(len(batch), 2)).mean() if distributed.rank() in found_by else None

        before = net.weight.detach().clone()
        stats = run_epoch(step, [torch.arange(8)], optimizer)
        assert (stats.steps, stats.skipped) == expected
        assert torch.equal(before, net.weight.detach()) == (not found_by)
        agree_on("weights", net.weight.detach().numpy())


def train_method(name: str, **changes: object) -> None:
    """Train in two processes; every array of every state, and the result, must be the same in both."""
    images = shapes(12, size=16, seed=1, n_classes=3)[0]
    method = METHODS[name]
    config = method.config.from_json({"n_clusters": 3, **TINY.get(name, {}), **changes})
    improve = ImproveConfig(**IMPROVED) if method.improvable is not None else ImproveConfig()
    fit = FitRun(images, method, config, CPU, improve=improve)
    own = {"viewing", "moving", "corrupting", "negatives"}  # generators that differ on purpose

    def compare(snapshot: Snapshot) -> None:
        agree_on(f"{name} labels", snapshot.labels)
        for key, array in snapshot.state().arrays.items():
            if key.removeprefix("now.").removeprefix("best.") not in own:  # several starts have several states
                agree_on(f"{name} {key}", np.atleast_1d(array))

    fit.on_snapshot = compare
    result = fit.run().clustering
    agree_on(f"{name} features", result.features)
    assert np.isfinite(result.soft).all()


def search() -> None:
    """Neighbours found together are those found alone, bit for bit; also by more processes than there are blocks."""
    draw = np.random.default_rng(0)
    for n_items, block_bytes in ((3000, 4 * 3000 * 400), (40, 2**28)):
        features = draw.standard_normal((n_items, 12)).astype(np.float32)
        alone = nearest_neighbours(features, 10)
        together = nearest_neighbours(features, 10, block_bytes=block_bytes, is_shared=True)
        np.testing.assert_array_equal(together.idx, alone.idx)
        np.testing.assert_array_equal(together.sq_dist, alone.sq_dist)
        alone, together = (approximate_neighbours(features, 10, is_shared=shared) for shared in (False, True))
        np.testing.assert_array_equal(together.idx, alone.idx)
        np.testing.assert_array_equal(together.sq_dist, alone.sq_dist)
        assert together.recall == alone.recall
        agree_on("neighbours", together.idx)


def secu() -> None:
    """Every constraint and every rule for centres."""
    for changes in ({"gamma_upper": 1.5}, {"constraint": "entropy"}, {"centre_update": "closed_form"}):
        train_method("secu", **changes)


def others() -> None:
    """The other methods that several processes can train."""
    for name in ("dbc", "jule", "dac", "gatcluster", "leiden", "ac-gdl"):
        if METHODS[name].is_shareable:
            train_method(name)


def deserted(*words: str) -> None:
    """The command line, in which the second process kills itself after two snapshots."""
    whole = fitting.FitRun._event

    def event(self: FitRun, snapshot: Snapshot, elapsed: float) -> Any:
        if snapshot.step == 3 and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        self.save_interval = 0.0
        return whole(self, snapshot, elapsed)

    fitting.FitRun._event = event  # type: ignore[method-assign]
    sys.argv = ["selfsort", *words]
    cli.main()


if __name__ == "__main__":
    job, *rest = sys.argv[1:]
    if job == "deserted":
        deserted(*rest)
    else:
        with distributed.joined("cpu"):
            for part in job.split(","):
                {f.__name__: f for f in (primitives, gradients, empty_shares, search, secu, others)}[part]()
    if rest and job != "deserted":
        Path(rest[0]).touch()
