from __future__ import annotations

import torch
from torch import nn

from selfsort.nets.heads import deep_projection, predictor, projection, unit


def layers(module: nn.Sequential) -> list[str]:
    return [type(layer).__name__ for layer in module]


def test_layers_are_the_published_ones() -> None:
    assert layers(projection(512, 128)) == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert layers(deep_projection(64, 8)) == ["Linear", "BatchNorm1d", "ReLU"] * 2 + ["Linear", "BatchNorm1d"]
    assert layers(predictor(128)) == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert predictor(128)[0].weight.shape == (2048, 128)
    assert projection(512, 128)[0].weight.shape == (512, 512)


def test_shapes() -> None:
    x = torch.rand(3, 16)
    assert projection(16, 4)(x).shape == deep_projection(16, 4)(x).shape == (3, 4)
    assert predictor(16, 8)(x).shape == (3, 16)


def test_unit_rows() -> None:
    torch.testing.assert_close(unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]])), torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
