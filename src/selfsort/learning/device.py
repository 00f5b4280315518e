"""Where to compute."""

from __future__ import annotations

import os

import torch

from selfsort import distributed
from selfsort.errors import InvalidInput


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
