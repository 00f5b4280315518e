from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import secu as oracle
from torch import Tensor

from selfsort.errors import InvalidInput
from selfsort.methods._secu_balance import (
    EntropyPrice,
    Greedy,
    SizeBounds,
    entropy_increments,
    raise_lower,
    raise_upper,
)

CPU = torch.device("cpu")


def blobs(n: int, shares: tuple[float, ...], seed: int = 0) -> Tensor:
    """Costs of images whose nearest clusters come in these shares."""
    rng = np.random.default_rng(seed)
    nearest = rng.choice(len(shares), n, p=shares)
    cost = rng.uniform(0, 0.5, (n, len(shares)))
    cost[np.arange(n), nearest] -= 0.6
    return torch.from_numpy(cost.astype(np.float32))


def settle(bounds: SizeBounds, cost: Tensor, epochs: int = 60, batch: int = 50) -> Tensor:
    """Assign in batches until the duals rest; return the sizes of the last epoch."""
    k = cost.shape[1]
    for _ in range(epochs):
        sizes = torch.zeros(k, dtype=torch.int64)
        for rows in torch.split(torch.arange(len(cost)), batch):
            new = bounds.assign(cost[rows], torch.full((len(rows),), -1))
            bounds.update(new, new)
            sizes += torch.bincount(new, minlength=k)
            assert bounds.gamma == 1 or (bounds.lower_K >= 0).all()
            assert (bounds.upper_K >= 0).all()
    return sizes


class TestDuals:
    def test_by_hand(self) -> None:
        rho, share = torch.tensor([0.1, 0.0]), torch.tensor([0.75, 0.25])
        # 0.1 - 0.2 (0.75 - 0.45) = 0.04 and 0 - 0.2 (0.25 - 0.45) = 0.04
        torch.testing.assert_close(raise_lower(rho, share, 0.9, 0.2), torch.tensor([0.04, 0.04]))
        # 0.1 + 0.2 (0.75 - 0.6) = 0.13 and 0 + 0.2 (0.25 - 0.6) < 0
        torch.testing.assert_close(raise_upper(rho, share, 1.2, 0.2), torch.tensor([0.13, 0.0]))

    def test_gamma_one_is_an_equality_and_is_not_cut_off(self) -> None:
        rho, share = torch.zeros(2), torch.tensor([1.0, 0.0])
        torch.testing.assert_close(raise_lower(rho, share, 1.0, 0.2), torch.tensor([-0.1, 0.1]))
        torch.testing.assert_close(raise_lower(rho, share, 0.999, 0.2)[0], torch.tensor(0.0))

    def test_without_duals_it_is_greedy(self) -> None:
        cost = blobs(40, (0.5, 0.3, 0.2))
        old = torch.full((40,), -1)
        torch.testing.assert_close(SizeBounds(3, 0.9, None, 0.1, CPU).assign(cost, old), cost.argmin(dim=1))
        torch.testing.assert_close(Greedy().assign(cost, old), cost.argmin(dim=1))

    @pytest.mark.parametrize("gamma", [0.5, 0.8, 0.9])
    def test_the_smallest_cluster_reaches_its_bound(self, gamma: float) -> None:
        cost = blobs(1000, (0.7, 0.2, 0.1))
        assert torch.bincount(cost.argmin(dim=1)).min() < 150
        sizes = settle(SizeBounds(3, gamma, None, 0.05, CPU), cost)
        assert sizes.min() >= 0.93 * gamma * 1000 / 3
        assert sizes.max() > 1000 / 3 * 1.05

    def test_gamma_one_makes_sizes_equal(self) -> None:
        sizes = settle(SizeBounds(3, 1.0, None, 0.02, CPU), blobs(1000, (0.7, 0.2, 0.1)), epochs=100)
        assert (sizes - 1000 / 3).abs().max() < 35

    def test_the_upper_bound_holds_the_largest_cluster(self) -> None:
        cost = blobs(1000, (0.7, 0.2, 0.1))
        free = settle(SizeBounds(3, 0.2, None, 0.05, CPU), cost)
        held = settle(SizeBounds(3, 0.2, 1.3, 0.05, CPU), cost)
        assert free.max() > 600
        assert held.max() <= 1.07 * 1.3 * 1000 / 3


class TestEntropy:
    def test_by_hand(self) -> None:
        # Two clusters of 2 and 1: moving the one image of the second makes them 3 and 0.
        found = entropy_increments(torch.tensor([2, 1]), torch.tensor([1]))
        before = 2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3)
        np.testing.assert_allclose(found.numpy(), [[0 - before, 0.0]])

    @given(st.lists(st.integers(0, 30), min_size=2, max_size=6), st.integers(0, 5))
    @settings(derandomize=True, deadline=None, max_examples=40)
    def test_equals_brute_force(self, counts: list[int], place: int) -> None:
        olds = [-1, *(j for j, count in enumerate(counts) if count)]
        old = olds[place % len(olds)]
        found = entropy_increments(torch.tensor(counts), torch.tensor([old]))[0]
        expected = [oracle.entropy_change(counts, old, new) for new in range(len(counts))]
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)

    def test_counts_follow_the_labels_and_never_go_below_zero(self) -> None:
        price = EntropyPrice(3, alpha=12.0, device=CPU)
        cost = blobs(100, (0.8, 0.1, 0.1))
        labels = torch.full((100,), -1)
        for _ in range(5):
            for rows in torch.split(torch.arange(100), 10):
                new = price.assign(cost[rows], labels[rows])
                price.update(new, labels[rows])
                labels[rows] = new
                seen = labels[labels >= 0]
                assert price.counts_K.tolist() == torch.bincount(seen, minlength=3).tolist()
        with pytest.raises(InvalidInput, match="the old labels must be"):
            price.update(torch.tensor([0]), torch.tensor([2]).repeat(200)[:1].repeat(200))

    def test_a_higher_price_means_more_even_sizes(self) -> None:
        cost, spread = blobs(1000, (0.7, 0.2, 0.1)), []
        for alpha in (0.0, 120.0, 500.0):
            price, labels = EntropyPrice(3, alpha, CPU), torch.full((1000,), -1)
            for _ in range(10):
                for rows in torch.split(torch.arange(1000), 50):
                    new = price.assign(cost[rows], labels[rows])
                    price.update(new, labels[rows])
                    labels[rows] = new
            spread.append(int(price.counts_K.max() - price.counts_K.min()))
        assert spread[0] > spread[1] > spread[2]

    def test_to_first_order_it_is_the_logarithm_of_the_ratio_of_sizes(self) -> None:
        found = entropy_increments(torch.tensor([9000, 3000]), torch.tensor([0]))[0, 1].item()
        assert found == pytest.approx(np.log(3000 / 9000) / 12000, rel=1e-3)
