"""Networks, optimisers and generators as named arrays, for files and for going on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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


def saved_shape(state: State) -> tuple[int, int, int]:
    """Return the height, width and channels of the images a saved network was trained on."""
    height, width, channels = (int(side) for side in state.meta["shape"])
    return height, width, channels


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


def pack_generator(generator: torch.Generator) -> np.ndarray[Any, Any]:
    """Return a generator's position as bytes."""
    return to_numpy(generator.get_state())


def unpack_generator(generator: torch.Generator, array: np.ndarray[Any, Any]) -> None:
    """Put a generator where `pack_generator` found it."""
    generator.set_state(borrow(array).clone())


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
