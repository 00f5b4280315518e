"""What the methods share while training: seeds, device, pixels to tensors, the inner epoch, packed state.

Only the inner loop is common. The outer loops of the five papers differ in kind (JULE merges, DAC moves
thresholds, DBC and GATCluster recompute targets, SeCu updates duals) and stay in the method files.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from selfsort import distributed
from selfsort.errors import InvalidInput, TrainingFailed, invalid
from selfsort.nets.norm import even_light
from selfsort.progress import track
from selfsort.types import Arrays, Images, State


def choose_device(name: str = "auto") -> torch.device:
    """Return the device to compute on; `auto` takes an accelerator if there is one."""
    if name == "auto":
        if torch.cuda.is_available():
            # Of several processes on one machine each takes its own accelerator.
            return (
                torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
                if distributed.is_launched()
                else (torch.device("cuda"))
            )
        if torch.backends.mps.is_available():
            return torch.device("mps")
        return torch.device("cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps"):  # others compute nothing, or not what the methods need
            raise RuntimeError("no device to train on")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(
            f"device {name!r} cannot be used here ({reason}). "
            "It must be auto, cpu, cuda, cuda:N or mps. Try --device cpu."
        ) from error
    return device


def derive_seed(seed: int, purpose: str) -> int:
    """Give every consumer of randomness its own stream, so that adding one does not move the others."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:6], "little")


def torch_generator(seed: int, purpose: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a torch generator for one purpose of one run."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, purpose))


def numpy_generator(seed: int, purpose: str) -> np.random.Generator:
    """Return a NumPy generator for one purpose of one run."""
    return np.random.default_rng(derive_seed(seed, purpose))


@contextmanager
def weights_within(n_bytes: int) -> Iterator[None]:
    """Refuse to build a larger network than a file of saved weights can fill.

    The settings of a run folder from a stranger may describe a network that no machine has room for.
    """
    left = 2 * n_bytes + 64 * 2**20  # a small file may describe what is not saved, such as a decoder

    def count(module: nn.Module, name: str, weight: nn.Parameter) -> None:
        nonlocal left
        left -= 0 if weight is None else weight.nbytes
        if left < 0:
            raise InvalidInput(
                "the run's settings describe a larger network than its saved weights can fill. Expected those that "
                "selfsort fit wrote. The run folder was changed or damaged; train again."
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def seeded_init(seed: int, purpose: str = "weights") -> Iterator[None]:
    """Build networks reproducibly inside this block without touching the caller's global generator."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, purpose))
        yield


def from_bytes(bytes_BCHW: Tensor) -> Tensor:
    """Scale bytes to [0, 1], in torch's default precision, which is that of a new network."""
    return bytes_BCHW.to(torch.get_default_dtype()).mul_(1 / 255)


class PixelTensor:
    """The decoded images as seen by a network: NCHW batches of floats, cut from uint8 on demand.

    The uint8 array is never copied as a whole; a permuted view makes each batch channels-last for free,
    which is the faster layout for convolutions on a CPU.
    """

    def __init__(self, images: Images, device: torch.device, *, is_even: bool = False) -> None:
        """Borrow the images; with `is_even` their brightness and contrast are made the same."""
        self._bytes_NHWC = _borrow(images.pixels)
        self.device, self.is_even = device, is_even

    def __len__(self) -> int:
        return len(self._bytes_NHWC)

    def bytes(self, idx: Tensor) -> Tensor:
        """Return the uint8 batch (B, C, H, W) at these indices."""
        return self._bytes_NHWC[idx.cpu()].to(self.device, non_blocking=True).permute(0, 3, 1, 2)

    def floats(self, idx: Tensor) -> Tensor:
        """Return the batch scaled to [0, 1]."""
        x_BCHW = from_bytes(self.bytes(idx))
        return even_light(x_BCHW) if self.is_even else x_BCHW

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Walk over all images in order: index tensors of at most `size`."""
        yield from torch.split(torch.arange(len(self)), size)


def shuffled_batches(
    n: int, batch_size: int, generator: torch.Generator, *, drop_last: bool = False
) -> Iterator[Tensor]:
    """Yield a random partition of 0..n-1 as index tensors."""
    for batch in torch.split(torch.randperm(n, generator=generator), batch_size):
        if len(batch) == batch_size or not drop_last:
            yield batch


@dataclass(frozen=True)
class EpochStats:
    """What one pass over the data came to."""

    loss: float
    """Mean over the steps taken; 0 if none was."""
    steps: int
    skipped: int
    """Batches that held nothing to learn from."""
    seconds: float
    images: int

    def event(self) -> dict[str, float | int]:
        """The common columns of events.jsonl."""
        return {
            "loss": self.loss,
            "skipped_batches": self.skipped,
            "seconds": round(self.seconds, 3),
            "images_per_second": round(self.images / max(self.seconds, 1e-9), 1),
        }


def run_epoch(
    step: Callable[[Tensor], Tensor | None],
    batches: Iterable[Tensor],
    optimizer: torch.optim.Optimizer,
    *,
    what: str = "training",
    total: int = 0,
) -> EpochStats:
    """Train on every batch once.

    `step` turns a batch of indices into a loss, or None when the batch holds nothing to learn from.
    The loss is read back from the device only once, at the end, so that an accelerator never waits.
    """
    started = time.perf_counter()
    loss_sum: Tensor | float = 0.0
    steps = skipped = images = 0
    take = _one_step if distributed.world_size() == 1 else _shared_step
    step_once = take(step, optimizer)
    for batch in track(batches, what, total, weigh=len):
        images += len(batch)
        loss = step_once(batch)
        if loss is None:
            skipped += 1
            continue
        loss_sum = loss_sum + loss
        steps += 1
    mean_loss = float(loss_sum) / max(steps, 1)
    if not math.isfinite(mean_loss):
        raise TrainingFailed(
            f"the loss became {mean_loss} during {what}. It must stay a finite number. "
            "Lower the learning rate with --set, or look for broken images; the last good state can be resumed."
        )
    return EpochStats(mean_loss, steps, skipped, time.perf_counter() - started, images)


_Step = Callable[[Tensor], Tensor | None]


def _one_step(step: _Step, optimizer: torch.optim.Optimizer) -> _Step:
    def once(batch: Tensor) -> Tensor | None:
        loss = step(batch)
        if loss is None:
            return None
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return once


def _shared_step(step: _Step, optimizer: torch.optim.Optimizer) -> _Step:
    """The same over several processes; a batch too small for two images each is skipped by all of them."""
    share_loss = distributed.shared_step(step, optimizer)

    def once(batch: Tensor) -> Tensor | None:
        if len(batch) < 2 * distributed.world_size():
            return None
        optimizer.zero_grad(set_to_none=True)
        loss, n_learning = share_loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        if not n_learning:
            return None
        optimizer.step()
        return distributed.average(loss)

    return once


def half_cosine(progress: float) -> float:
    """Return the share of a learning rate that is left: 1 at 0, 0 from 1 on, along half a cosine.

    >>> [round(half_cosine(progress), 3) for progress in (0.0, 0.5, 1.0, 2.0)]
    [1.0, 0.5, 0.0, 0.0]
    """
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


def set_rate(optimizer: torch.optim.Optimizer, lr: float, progress: float) -> None:
    """Lower the learning rate along half a cosine, from `lr` at 0 to nothing at 1."""
    for group in optimizer.param_groups:
        group["lr"] = lr * half_cosine(progress)


def pack_module(prefix: str, module: nn.Module) -> Arrays:
    """Name every parameter and buffer of a network for a safetensors file."""
    return {f"{prefix}.{name}": to_numpy(value) for name, value in module.state_dict().items()}


def unpack_module(prefix: str, module: nn.Module, arrays: Arrays) -> None:
    """Load what `pack_module` wrote, refusing anything that does not fit."""
    found = {name[len(prefix) + 1 :]: _borrow(a).clone() for name, a in arrays.items() if name.startswith(prefix + ".")}
    try:
        module.load_state_dict(found)
    except RuntimeError as error:
        raise invalid(
            f"the saved weights of {prefix!r}",
            "fit the network that the run's settings describe",
            str(error).splitlines()[-1].strip(),
            "The run folder was changed or damaged; train again.",
        ) from error


def saved_shape(state: State) -> tuple[int, int, int]:
    """Return the height, width and channels of the images a saved network was trained on."""
    height, width, channels = (int(side) for side in state.meta["shape"])
    return height, width, channels


def check_request(
    images: Images, shape: tuple[int, int, int], layer: str = "top", layers: tuple[str, ...] = ("top",)
) -> None:
    """Refuse images that a trained network cannot take, and layers that it does not give."""
    if images.shape != shape:
        raise InvalidInput(
            f"the images have shape {images.shape}. This model was trained on {shape} (height, width, "
            "channels). Bring them to that size with selfsort.data.conform."
        )
    if layer in layers:
        return
    if len(layers) == 1:
        raise invalid("the layer", f"be {layers[0]}, the only one this network gives", repr(layer), "Leave it out.")
    raise invalid("the layer", f"be one of {', '.join(layers)}", repr(layer), "Name one of them.")


def pack_optimizer(prefix: str, optimizer: torch.optim.Optimizer) -> Arrays:
    """Name every tensor of an optimiser's state; hyper-parameters come from the config."""
    arrays: Arrays = {}
    for index, slots in optimizer.state_dict()["state"].items():
        for slot, value in slots.items():
            if value is not None:
                arrays[f"{prefix}.{index}.{slot}"] = to_numpy(torch.as_tensor(value))
    return arrays


def unpack_optimizer(prefix: str, optimizer: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Load what `pack_optimizer` wrote."""
    state: dict[int, dict[str, Any]] = {}
    for name, array in arrays.items():
        if name.startswith(prefix + "."):
            index, slot = name[len(prefix) + 1 :].split(".", 1)
            state.setdefault(int(index), {})[slot] = _borrow(array).clone()
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def pack_generator(generator: torch.Generator) -> np.ndarray[Any, Any]:
    """Return a generator's position as bytes."""
    return to_numpy(generator.get_state())


def unpack_generator(generator: torch.Generator, array: np.ndarray[Any, Any]) -> None:
    """Put a generator where `pack_generator` found it."""
    generator.set_state(_borrow(array).clone())


def to_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Copy a tensor to a NumPy array on the host."""
    array: np.ndarray[Any, Any] = tensor.detach().cpu().contiguous().numpy().copy()
    return array


def _borrow(array: np.ndarray[Any, Any]) -> Tensor:
    """Wrap an array as a tensor without copying."""
    with warnings.catch_warnings():
        # torch warns that a read-only array (a memory map) could be written through the tensor; nobody does.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
