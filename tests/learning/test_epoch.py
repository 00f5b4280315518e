from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from selfsort.errors import TrainingFailed
from selfsort.learning.epoch import run_epoch


def test_run_epoch_is_plain_sgd_and_counts_what_it_skips() -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(batch: Tensor) -> Tensor | None:
        return None if 3 in batch else (weight**2).sum()

    stats = run_epoch(step, [torch.tensor([0, 1]), torch.tensor([3]), torch.tensor([2])], optimizer)
    # Two steps of w <- w - 0.1 * 2w from 2.0: losses 4.00 and 2.56, mean 3.28.
    assert weight.item() == pytest.approx(2.0 * 0.8**2)
    assert stats.loss == pytest.approx(3.28)
    assert (stats.steps, stats.skipped, stats.images) == (2, 1, 4)
    assert set(stats.event()) == {"loss", "skipped_batches", "seconds", "images_per_second"}


def test_an_epoch_without_a_single_step_has_loss_zero() -> None:
    weight = nn.Parameter(torch.zeros(1))
    assert run_epoch(lambda batch: None, [torch.tensor([0])], torch.optim.SGD([weight], lr=1.0)).loss == 0


def test_a_loss_that_is_not_a_number_is_said_in_plain_words() -> None:
    weight = nn.Parameter(torch.tensor([1.0]))
    with pytest.raises(TrainingFailed, match=r"the loss became nan during training\. It must stay a finite number"):
        run_epoch(lambda b: (weight * float("nan")).sum(), [torch.tensor([0])], torch.optim.SGD([weight], 0.1))
