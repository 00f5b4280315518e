"""Several processes at one training: who am I, which share is mine, what do the others say.

`torchrun` starts the processes and says so in the environment; without it every function here does nothing and costs
nothing. All processes hold the same network, labels and plans and make the same decisions. They differ in two things
only: each works on its own share of every batch, and the first one writes. After each batch gradients are averaged by
PyTorch's DistributedDataParallel, so that a step is that of the whole batch.

Shape letters: B batch, N images.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from selfsort.errors import Interrupted, SelfsortError, invalid
from selfsort.types import F32

_PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others before it gives up; clustering between epochs is not shared."""


def is_launched() -> bool:
    """Whether torchrun has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(device: str = "auto") -> Iterator[None]:
    """Meet the other processes for the duration of a block; nothing happens if there are none."""
    if not is_launched() or dist.is_initialized():
        yield
        return
    uses_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    dist.init_process_group("nccl" if uses_gpu else "gloo", timeout=_PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def company(advice: str = "") -> Iterator[None]:
    """Turn the error of a lost process into one that says so, and what to do."""
    try:
        yield
    except RuntimeError as error:
        if world_size() > 1 and _is_desertion(error):
            told = "another process of this job has ended, so this one cannot go on."
            raise Interrupted(f"{told} {advice}".strip()) from error
        raise


def _is_desertion(error: RuntimeError) -> bool:
    """Tell the errors of a lost connection from our own."""
    words = ("closed by peer", "connection reset", "broken pipe", "timed out", "nccl", "gloo", "read error")
    return not isinstance(error, SelfsortError) and any(word in str(error).lower() for word in words)


def world_size() -> int:
    """How many processes take part."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def is_main() -> bool:
    """Whether this is the process that writes."""
    return rank() == 0


def share(batch_B: Tensor) -> Tensor:
    """This process's part of a batch: consecutive, and of about the same length for all."""
    return batch_B if world_size() == 1 else torch.tensor_split(batch_B, world_size())[rank()]


def gather_rows(rows: Tensor) -> Tensor:
    """Put the rows of all processes together, in the order of the batch they are shares of."""
    if world_size() == 1:
        return rows
    home, rows = rows.device, _within_reach(rows)
    lengths = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(world_size())]
    dist.all_gather(lengths, torch.tensor([len(rows)], device=rows.device))
    longest = max(int(length) for length in lengths)
    padded = torch.zeros(longest, *rows.shape[1:], dtype=rows.dtype, device=rows.device)
    padded[: len(rows)] = rows
    found = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(found, padded)
    return torch.cat([part[: int(length)] for part, length in zip(found, lengths, strict=True)]).to(home)


def _within_reach(rows: Tensor) -> Tensor:
    """Bring rows to where processes can exchange them: those that meet on GPUs exchange nothing else."""
    return rows.cuda() if dist.get_backend() == "nccl" else rows


def rows_in_shares(chunks: Iterable[Tensor], n: int, compute: Callable[[Tensor], Sequence[Tensor]]) -> tuple[F32, ...]:
    """Compute rows for all images, each process some of the chunks; every process gets all of them, bit for bit."""
    found: list[Tensor] | None = None
    n_chunks = 0
    for i, idx in enumerate(chunks):
        n_chunks += 1
        if i % world_size() != rank():
            continue
        parts = [part.detach() for part in compute(idx)]
        if found is None:
            found = [torch.zeros(n, *part.shape[1:], dtype=part.dtype, device=part.device) for part in parts]
        for rows, part in zip(found, parts, strict=True):
            rows[idx] = part
    if not n_chunks:
        raise invalid("images", "be at least one", 0, "Give some images.")
    if n_chunks < world_size():  # some have had no chunk, and do not know how wide a row is
        forms = agree(None if found is None else [(rows.shape, rows.dtype, rows.device.type) for rows in found])
        found = found or [torch.zeros(shape, dtype=dtype, device=_own(kind)) for shape, dtype, kind in forms]
    assert found is not None, "there is a chunk for everyone"
    return tuple((add_up(rows) if rows.numel() else rows).cpu().numpy() for rows in found)


def _own(kind: str) -> torch.device:
    """Return this process's device of a kind."""
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


def average(numbers: Tensor) -> Tensor:
    """Mean over the processes."""
    if world_size() == 1:
        return numbers
    total = numbers.detach().clone()
    dist.all_reduce(total)
    return total / world_size()


def add_up(rows: Tensor) -> Tensor:
    """Sum over the processes, in place: whole, if each has filled in its own rows and left the others zero."""
    if world_size() > 1:
        total = _within_reach(rows)
        dist.all_reduce(total)
        if total is not rows:
            rows.copy_(total)
    return rows


def average_buffers(module: nn.Module) -> None:
    """Make statistics of batch normalisation, which each process took from its own shares, the same everywhere."""
    if world_size() == 1:
        return
    for buffer in module.buffers():
        if buffer.is_floating_point():
            buffer.copy_(average(buffer))


def own_stream(generator: torch.Generator) -> None:
    """Let each process draw its own numbers from here on; the first one goes on with the generator as it is.

    Called at the start of an epoch: a resumed run, which knows the first process's generator only, draws the same.
    """
    if world_size() == 1:
        return
    state = generator.get_state()
    on_device = state.to("cuda") if dist.get_backend() == "nccl" else state
    dist.broadcast(on_device, src=0)
    if rank():
        digest = hashlib.sha256(on_device.cpu().numpy().tobytes() + bytes([rank() % 256, rank() // 256])).digest()
        generator.manual_seed(int.from_bytes(digest[:6], "little"))


def agree(value: Any) -> Any:
    """Return what the first process says."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


class SharedStep(nn.Module):
    """One training step as DistributedDataParallel wants it: the loss of this process's share of a batch."""

    def __init__(self, step: Callable[[Tensor], Tensor | None], weights: list[nn.Parameter]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(weights)
        self.compute = step

    def forward(self, batch_B: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss, and how many processes found something to learn from."""
        mine_B = share(batch_B)
        loss = self.compute(mine_B)
        n_learning = torch.tensor(float(loss is not None), device=self.weights[0].device)
        dist.all_reduce(n_learning)
        if loss is None:  # the others wait for a gradient; zero is the honest one
            return sum((weight.sum() for weight in self.weights), torch.tensor(0.0)) * 0.0, n_learning
        # Shares may differ by one image; means over them must not weigh the same then.
        return loss * (len(mine_B) * world_size() / len(batch_B)), n_learning


def shared_step(
    step: Callable[[Tensor], Tensor | None], optimizer: torch.optim.Optimizer
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Wrap a step so that its gradients are averaged over all processes."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    wrapped: Callable[[Tensor], tuple[Tensor, Tensor]] = nn.parallel.DistributedDataParallel(
        SharedStep(step, weights), find_unused_parameters=True
    )
    return wrapped


def synchronised(module: nn.Module) -> nn.Module:
    """Let batch normalisation see the whole batch instead of this process's share; on GPUs only."""
    if world_size() == 1:
        return module
    if dist.get_backend() != "nccl":
        raise invalid("sync_bn", "be off without GPUs: PyTorch offers it for CUDA only", "on", "Leave sync_bn out.")
    converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
    return converted
