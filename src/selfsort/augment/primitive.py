"""What all augmentation primitives share: checks, random draws, chance per sample, bytes or floats.

Shape letters: B batch, C channels, H x W pixels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from selfsort.errors import InvalidInput, invalid

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Primitive(ABC):
    """One change of pictures. Called with a batch and a generator; every sample draws its own parameters."""

    p: float = 1.0
    """Probability of the change, per sample."""

    is_exact: ClassVar[bool] = False
    """True if `change` only moves or overwrites values, so that bytes need not become floats."""

    def __post_init__(self) -> None:
        self.require("p", 0 <= self.p <= 1, "be between 0 and 1")

    def __call__(self, batch_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Return the changed batch: a new tensor of the same dtype; the input is left as it was."""
        check_batch(batch_BCHW)
        if self.p >= 1:
            return self._changed(batch_BCHW, generator)
        is_hit_B = uniform(len(batch_BCHW), (0.0, 1.0), generator, batch_BCHW.device) < self.p
        return on_rows(batch_BCHW, is_hit_B, lambda part: self._changed(part, generator))

    def _changed(self, batch_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        if self.is_exact:
            return self.change(batch_BCHW, generator)
        # Channel by channel is the layout that everything here is quickest in; batches of images come pixel by pixel.
        batch_BCHW = batch_BCHW.contiguous()
        if batch_BCHW.dtype != torch.uint8:
            return self.change(batch_BCHW, generator)
        return to_bytes(self.change(batch_BCHW.float().mul_(1 / 255), generator))

    @abstractmethod
    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Change every sample of a batch in [0, 1] (exact primitives: or of bytes)."""

    def require(self, name: str, is_right: bool, requirement: str) -> None:
        """Refuse a parameter in the house's words."""
        if not is_right:
            raise invalid(f"{name} of {type(self).__name__}", requirement, getattr(self, name), f"Change {name}.")

    def require_range(self, name: str, low: float, high: float) -> None:
        """Refuse a pair that is not ordered or leaves low..high."""
        first, last = getattr(self, name)
        self.require(name, low <= first <= last <= high, f"be an ordered pair between {low:g} and {high:g}")


def check_batch(batch_BCHW: Tensor) -> None:
    """Refuse what is not a batch of gray or RGB pictures."""
    is_right = batch_BCHW.ndim == 4 and batch_BCHW.shape[1] in (1, 3)
    if not is_right or not (batch_BCHW.dtype == torch.uint8 or batch_BCHW.is_floating_point()):
        raise InvalidInput(
            f"the batch is {batch_BCHW.dtype} of shape {tuple(batch_BCHW.shape)}. It must be uint8, or floats in "
            "[0, 1], of shape (batch, 1 or 3 channels, height, width). Permute or convert it first."
        )


def to_bytes(x_BCHW: Tensor) -> Tensor:
    """Round values in [0, 1] to uint8."""
    return x_BCHW.mul(255).round_().clamp_(0, 255).to(torch.uint8)


def levels(x_BCHW: Tensor) -> Tensor:
    """Return the 8-bit level of every value, 0..255, as int64."""
    return x_BCHW.mul(255).round_().clamp_(0, 255).long()


def uniform(n: int | tuple[int, ...], within: Range, generator: torch.Generator, device: torch.device) -> Tensor:
    """Draw numbers evenly from a range; drawn where the generator lives, returned on `device`."""
    shape = (n,) if isinstance(n, int) else n
    low, high = within
    return torch.rand(shape, generator=generator, device=generator.device).to(device) * (high - low) + low


def whole(n: int, low: int, high: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Draw whole numbers from low..high, both included."""
    return torch.randint(low, high + 1, (n,), generator=generator, device=generator.device).to(device)


def on_rows(batch_BCHW: Tensor, is_hit_B: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Change some samples and copy the others."""
    rows = is_hit_B.nonzero().squeeze(1)
    if not len(rows):
        return batch_BCHW.clone()
    if len(rows) == len(batch_BCHW):
        return change(batch_BCHW)
    return batch_BCHW.index_copy(0, rows, change(batch_BCHW.index_select(0, rows)))


def per_sample(value_B: Tensor) -> Tensor:
    """Shape one number per sample so that it broadcasts over a batch."""
    return value_B.view(-1, 1, 1, 1)
