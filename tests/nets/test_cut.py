from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from selfsort.nets.cut import Cut, leaking
from selfsort.nets.labelnet import LabelNet, plan_network


def test_only_the_gradient_of_what_is_cut_off_changes() -> None:
    x = torch.tensor([-2.0, -0.5, 0.0, 3.0], requires_grad=True)
    cut = Cut()
    for leak, slope in ((0.0, 0.0), (0.1, 0.1)):
        with leaking(cut, leak):
            found = cut(x)
            (gradient,) = torch.autograd.grad(found.sum(), x)
        torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 0.0, 3.0]))
        torch.testing.assert_close(gradient[[0, 1, 3]], torch.tensor([slope, slope, 1.0]))
    assert cut.leak == 0, "no longer than asked for"


def test_a_dead_cluster_can_be_taught() -> None:
    """A cluster whose number is cut off for every image learns only from what leaks."""
    x, labels = torch.rand(32, 1, 16, 16), torch.arange(32) % 4
    risen = []
    for leak in (0.0, 0.1):
        torch.manual_seed(0)
        net = LabelNet(1, 5, plan_network(16, 16, "code", 2))
        norm = net.head[-2]
        assert isinstance(norm, nn.BatchNorm1d)
        with torch.no_grad():
            norm.bias[0] = -10
        with leaking(net, leak):
            (gradient,) = torch.autograd.grad(F.cross_entropy(net(x), labels), norm.bias)
        risen.append(-float(gradient[0]))
    assert risen[0] == 0
    assert risen[1] > 0
