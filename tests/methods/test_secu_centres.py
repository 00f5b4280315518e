from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.oracles import secu as oracle
from torch import Tensor

from selfsort.methods._secu_centres import (
    centre_loss,
    closed_form,
    hardness_sums,
    plain_centre_loss,
    running_mean,
    unit_columns,
)

LABELS = torch.tensor([0, 0, 1, 3, 3, 3])


def unit_rows(n: int, d: int, seed: int = 0) -> Tensor:
    rows = torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1)


@pytest.fixture
def x() -> Tensor:
    return unit_rows(6, 5)


@pytest.fixture
def w() -> Tensor:
    return unit_rows(4, 5, seed=1).T.contiguous()


class TestCentreLoss:
    def test_by_hand(self) -> None:
        # Cosines 1 and 0 at temperature 1: -log(e / (e + 1)).
        found = centre_loss(torch.tensor([[1.0, 0.0]]), torch.eye(2), torch.tensor([0]), 1.0)
        assert found.item() == pytest.approx(np.log(1 + np.exp(-1)))

    @pytest.mark.parametrize("lam", [1.0, 0.2])
    def test_equals_the_definition(self, x: Tensor, w: Tensor, lam: float) -> None:
        expected = oracle.centre_loss(x.numpy(), w.numpy(), LABELS.numpy(), lam)
        assert centre_loss(x, w, LABELS, lam).item() == pytest.approx(expected)
        assert plain_centre_loss(x, w, LABELS, lam).item() == pytest.approx(expected)

    def test_only_assigned_centres_get_a_gradient_and_it_is_the_published_one(self, x: Tensor, w: Tensor) -> None:
        x, w = x.requires_grad_(), w.requires_grad_()
        centre_loss(x, w, LABELS, 0.2).backward()  # type: ignore[no-untyped-call]
        assert w.grad is not None
        assert (w.grad[:, 2] == 0).all()
        expected = oracle.centre_gradient(x.detach().numpy(), w.detach().numpy(), LABELS.numpy(), 0.2)
        np.testing.assert_allclose(w.grad.numpy(), expected, atol=1e-12)
        assert x.grad is None

    def test_plain_cross_entropy_moves_every_centre(self, x: Tensor, w: Tensor) -> None:
        w = w.requires_grad_()
        plain_centre_loss(x, w, LABELS, 0.2).backward()  # type: ignore[no-untyped-call]
        assert w.grad is not None
        assert (w.grad != 0).any(dim=0).all()

    def test_a_centre_without_images_stays_even_through_normalisation(self, x: Tensor, w: Tensor) -> None:
        raw = (2.0 * w).requires_grad_()
        centre_loss(x, unit_columns(raw), LABELS, 0.2).backward()  # type: ignore[no-untyped-call]
        assert raw.grad is not None
        assert (raw.grad[:, 2] == 0).all()

    def test_gradcheck(self, x: Tensor, w: Tensor) -> None:
        # Plain cross-entropy in all centres; the centre loss stops gradients, so finite differences cannot judge it.
        assert torch.autograd.gradcheck(lambda c: plain_centre_loss(x, c, LABELS, 0.5), (w.requires_grad_(),))


class TestClosedForm:
    def test_equals_the_definition(self, x: Tensor, w: Tensor) -> None:
        found = closed_form(w, *hardness_sums(x, w, LABELS, 0.2))
        np.testing.assert_allclose(found.numpy(), oracle.closed_form(x.numpy(), w.numpy(), LABELS.numpy(), 0.2))

    def test_it_is_one_step_of_size_one(self, x: Tensor, w: Tensor) -> None:
        """On unit vectors minus the cosine is half the squared distance; weigh each by its share of 1 - p."""
        p = torch.softmax(x @ w / 0.2, dim=1).gather(1, LABELS[:, None])[:, 0]
        hard = 1 - p
        shares = hard / torch.zeros(4).double().index_add_(0, LABELS, hard)[LABELS]
        centres = w.clone().requires_grad_()
        loss = (shares * 0.5 * (x - centres.T[LABELS]).square().sum(dim=1)).sum()
        (gradient,) = torch.autograd.grad(loss, centres)
        stepped = unit_columns(w - 1.0 * gradient)
        torch.testing.assert_close(closed_form(w, *hardness_sums(x, w, LABELS, 0.2)), stepped)

    def test_sums_over_batches_add_up(self, x: Tensor, w: Tensor) -> None:
        whole = hardness_sums(x, w, LABELS, 0.2)
        parts = [hardness_sums(x[rows], w, LABELS[rows], 0.2) for rows in (slice(0, 2), slice(2, 6))]
        for i in range(2):
            torch.testing.assert_close(whole[i], parts[0][i] + parts[1][i])


class TestRunningMean:
    def test_by_hand(self) -> None:
        w, x = torch.eye(2), torch.tensor([[0.0, 1.0], [0.6, 0.8]])
        # Centre 0 has seen 1 image: (1/3) (1, 0) + ((0, 1) + (0.6, 0.8)) / 3 points along (1.6, 1.8).
        found, counts = running_mean(w, torch.tensor([1.0, 0.0]), x, torch.tensor([0, 0]))
        torch.testing.assert_close(found[:, 0], torch.tensor([1.6, 1.8]) / np.hypot(1.6, 1.8))
        torch.testing.assert_close(found[:, 1], w[:, 1])
        assert counts.tolist() == [3.0, 0.0]

    def test_the_first_batch_of_an_epoch_forgets_the_old_centre(self, x: Tensor, w: Tensor) -> None:
        found, _ = running_mean(w, torch.zeros(4).double(), x, LABELS)
        mean = x[LABELS == 3].mean(dim=0)
        torch.testing.assert_close(found[:, 3], mean / mean.norm())
