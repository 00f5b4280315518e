"""Networks, optimisers and generators as named arrays, for files and for going on."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from selfsort.errors import InvalidInput, invalid
from selfsort.types import Arrays, State


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


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What of a training survives an interruption, named by its attributes, which may be replaced while it goes on.

    They are saved under the same names, without the letters of a shape: `assigned_NH` is saved as `assigned`.
    """

    net: str = "net"
    optimizer: str = "optimizer"
    generators: tuple[str, ...] = ()
    counters: tuple[str, ...]
    """Numbers; saved as JSON, the others as arrays."""
    arrays: tuple[str, ...] = ()
    """Arrays and tensors. A mapping is saved as `name.key`."""

    def pack(self, run: object) -> State:
        """Copy everything that `restore` needs to go on from here."""
        arrays = pack_module(self.net, getattr(run, self.net))
        arrays |= pack_optimizer(self.optimizer, getattr(run, self.optimizer))
        arrays |= {name: to_numpy(getattr(run, name).get_state()) for name in self.generators}
        for name in self.arrays:
            value, saved_as = getattr(run, name), _without_shape(name)
            if isinstance(value, MutableMapping):
                arrays |= {f"{saved_as}.{key}": _copied(part) for key, part in value.items()}
            else:
                arrays[saved_as] = _copied(value)
        return State(arrays, {name: getattr(run, name) for name in self.counters})

    def restore(self, run: object, state: State) -> None:
        """Put a training, built from the same settings, where `pack` found it."""
        arrays = state.arrays
        for name in self.counters:
            setattr(run, name, type(getattr(run, name))(state.meta[name]))
        unpack_module(self.net, getattr(run, self.net), arrays)
        unpack_optimizer(self.optimizer, getattr(run, self.optimizer), arrays)
        for name in self.generators:
            getattr(run, name).set_state(borrow(arrays[name]).clone())
        for name in self.arrays:
            value, saved_as = getattr(run, name), _without_shape(name)
            if isinstance(value, MutableMapping):
                saved = {key[len(saved_as) + 1 :] for key in arrays if key.startswith(saved_as + ".")}
                for key in saved | value.keys():
                    value[key] = _restored(key, value.get(key), arrays[f"{saved_as}.{key}"])
            else:
                setattr(run, name, _restored(name, value, arrays[saved_as]))


def _without_shape(name: str) -> str:
    return re.sub(r"_[A-Z0-9]+$", "", name)


def _copied(value: np.ndarray[Any, Any] | Tensor) -> np.ndarray[Any, Any]:
    return to_numpy(value) if isinstance(value, Tensor) else value.copy()


def _restored(name: str, value: np.ndarray[Any, Any] | Tensor | None, array: np.ndarray[Any, Any]) -> Any:
    """Return a saved array as what it was; an empty one only stands for what comes."""
    if value is not None and 0 not in value.shape and value.shape != array.shape:
        raise invalid(
            f"the saved {name}",
            f"have the shape {tuple(value.shape)}",
            array.shape,
            "The run folder was changed or damaged; train again.",
        )
    if not isinstance(value, Tensor):
        return array.copy()
    if not value.numel():
        return borrow(array).clone().to(value.device)
    with torch.no_grad():
        return value.copy_(borrow(array))  # in place: an optimiser or a rule of assignment may hold it too


def pack_module(prefix: str, module: nn.Module) -> Arrays:
    """Name every parameter and buffer of a network for a safetensors file."""
    return {f"{prefix}.{name}": to_numpy(value) for name, value in module.state_dict().items()}


def unpack_module(prefix: str, module: nn.Module, arrays: Arrays) -> None:
    """Load what `pack_module` wrote, refusing anything that does not fit."""
    found = {name[len(prefix) + 1 :]: borrow(a).clone() for name, a in arrays.items() if name.startswith(prefix + ".")}
    try:
        module.load_state_dict(found)
    except RuntimeError as error:
        raise invalid(
            f"the saved weights of {prefix!r}",
            "fit the network that the run's settings describe",
            str(error).splitlines()[-1].strip(),
            "The run folder was changed or damaged; train again.",
        ) from error


def saved_shape(state: State) -> tuple[int, ...]:
    """Return the shape a saved network was trained on: height, width, channels; or that of features."""
    shape = tuple(int(side) for side in state.meta["shape"])
    if len(shape) not in (1, 3) or min(shape) < 1:
        raise ValueError(f"no images have the shape {shape}")
    return shape


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
            state.setdefault(int(index), {})[slot] = borrow(array).clone()
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def to_numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Copy a tensor to a NumPy array on the host."""
    array: np.ndarray[Any, Any] = tensor.detach().cpu().contiguous().numpy().copy()
    return array


def borrow(array: np.ndarray[Any, Any]) -> Tensor:
    """Wrap an array as a tensor without copying."""
    with warnings.catch_warnings():
        # torch warns that a read-only array (a memory map) could be written through the tensor; nobody does.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
