"""A stand-in for a method's training, as several starts and regrouping see it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from selfsort.augment.policy import Policy
from selfsort.improve.stability import Probe
from selfsort.learning.batches import PixelTensor
from selfsort.types import Snapshot, State


@dataclass(eq=False)
class Pupil:
    """Answers by a function; may only be taught if it has a network."""

    probe: Probe
    pixels: PixelTensor
    policy: Policy
    net: nn.Module = field(default_factory=nn.Identity)
    lr: float = 1.0
    batch_size: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        weights = list(self.net.parameters()) or [nn.Parameter(torch.zeros(1))]
        self.optimizer = torch.optim.Adam(weights, lr=self.lr)

    def begin_teaching(self) -> int:
        self.seed += 1
        return self.seed - 1

    def teaching_loss(self, rows_B: Tensor, labels_B: Tensor) -> Tensor:
        assert not isinstance(self.net, nn.Identity), "there is nothing to teach"
        return nn.functional.cross_entropy(self.net(self.pixels.floats(rows_B)), labels_B)

    def retake(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def state(self) -> State:
        return State()
