"""A network in the middle of its training, as those see it that work around any method."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from selfsort.augment.policy import Policy
from selfsort.learning.batches import InputTensor
from selfsort.types import Snapshot, State


class Trainee(Protocol):
    """A training that can be asked about images and taught labels. Shape letters: B batch, C, H, W image, D features.

    A method opens one from a saved state (`Improvable.open`); training goes on from the state it is left in.
    """

    @property
    def net(self) -> nn.Module:
        """The network."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Its optimiser, as the method left it."""
        ...

    @property
    def pixels(self) -> InputTensor:
        """All images."""
        ...

    @property
    def policy(self) -> Policy:
        """How the method augments images while it trains."""
        ...

    @property
    def batch_size(self) -> int:
        """Images per step."""
        ...

    def probe(self, x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return clusters (B,) and features (B, D) of images in [0, 1]."""
        ...

    def begin_teaching(self) -> int:
        """Get ready to be taught; returns the seed of the order of images."""
        ...

    def teaching_loss(self, rows_B: Tensor, labels_B: Tensor) -> Tensor:
        """Return what is to be made small so that augmented copies of these images get these labels."""
        ...

    def retake(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with labels and figures of the network as it is now, which the state will hold."""
        ...

    def state(self) -> State:
        """Return what the method's `train` goes on from."""
        ...
