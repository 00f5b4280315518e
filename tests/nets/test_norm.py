from __future__ import annotations

import pytest
import torch
from torch import nn

from selfsort.nets.norm import batch_statistics


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.BatchNorm1d(588)).eval()


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
