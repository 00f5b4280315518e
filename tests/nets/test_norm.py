from __future__ import annotations

import pytest
import torch
from torch import nn

from selfsort.nets.norm import Standardise, batch_statistics, refresh_statistics, standardised


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.BatchNorm1d(588)).eval()


class TestStandardise:
    def test_by_hand(self) -> None:
        found = Standardise()(torch.tensor([[[[0.0, 0.4], [0.0, 0.4]]], [[[0.7, 0.7], [0.7, 0.7]]]]))
        torch.testing.assert_close(found[0, 0, 0], torch.tensor([-0.2, 0.2]) / 0.201)
        assert not found[1].any()


class TestEvenLight:
    def test_by_hand(self) -> None:
        # Mean 0.3 and deviation 0.1: 0.5 -+ 0.19 * 0.1 / 0.13.
        found = standardised(torch.tensor([[[[0.2, 0.4], [0.2, 0.4]]], [[[0.7, 0.7], [0.7, 0.7]]]]))
        torch.testing.assert_close(found[0, 0, 0], torch.tensor([0.5 - 0.019 / 0.13, 0.5 + 0.019 / 0.13]))
        torch.testing.assert_close(found[1], torch.full((1, 2, 2), 0.5))

    def test_it_stays_within_bounds(self) -> None:
        x = torch.zeros(1, 3, 8, 8)
        x[0, :, 4, 4] = 1
        found = standardised(x)
        assert float(found.max()) == 1
        assert float(found.min()) > 0.4


class TestBatchStatistics:
    def test_they_are_used_and_not_learned(self) -> None:
        net = network()
        x = torch.rand(8, 1, 16, 16)
        before = {name: value.clone() for name, value in net.state_dict().items()}
        running = net(x)
        with torch.inference_mode(), batch_statistics(net):
            by_batch = net(x)
        assert not torch.allclose(running, by_batch)
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        torch.testing.assert_close(net(x), running)
        torch.testing.assert_close(net.train()(x), by_batch.clone())

    def test_modes_come_back_after_an_error(self) -> None:
        net = network()
        with pytest.raises(ZeroDivisionError), batch_statistics(net):
            _ = 1 / 0
        assert not any(module.training for module in net.modules())


class TestRefreshStatistics:
    def test_they_are_the_mean_over_the_batches(self) -> None:
        net = nn.Sequential(nn.BatchNorm1d(2)).eval()
        first, second = torch.tensor([[0.0, 4.0], [2.0, 8.0]]), torch.tensor([[4.0, 0.0], [4.0, 2.0]])
        refresh_statistics(net, [first, second])
        norm = net[0]
        # Means 1, 6 and 4, 1; variances (of a sample) 2, 8 and 0, 2.
        torch.testing.assert_close(norm.running_mean, torch.tensor([2.5, 3.5]))
        torch.testing.assert_close(norm.running_var, torch.tensor([1.0, 5.0]))
        assert not norm.training
        assert norm.momentum == 0.1

    def test_the_past_is_forgotten(self) -> None:
        net, x = network().train(), torch.rand(8, 1, 16, 16)
        net(100 * x)
        net.eval()
        refresh_statistics(net, [x])
        once = net(x)
        net.train()(-7 * x)
        refresh_statistics(net.eval(), [x])
        torch.testing.assert_close(net(x), once)

    def test_training_goes_on_afterwards(self) -> None:
        net, x = network(), torch.rand(8, 1, 16, 16)
        refresh_statistics(net, [x])
        net.train()(x).sum().backward()
        assert all(parameter.grad is not None for parameter in net.parameters())
        assert net(x).requires_grad


def test_a_network_may_keep_its_statistics() -> None:
    kept, net = network(), network()
    kept.keeps_statistics = True  # type: ignore[assignment]
    both, x = nn.ModuleList([kept, net]), torch.rand(8, 1, 16, 16)
    expected = kept(x)
    with batch_statistics(both):
        torch.testing.assert_close(kept(x), expected)
        assert not torch.allclose(net(x), expected)
