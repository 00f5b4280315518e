from __future__ import annotations

import warnings

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from selfsort.nets.trace import as_onnx


class Two(nn.Module):
    """Two outputs, and a layer that does something else in training."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.9)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.drop(x).sum(dim=1), x * 2


def test_any_batch_size_in_evaluation_mode() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = as_onnx(Two(), torch.zeros(2, 3), "x", ["total", "twice"])
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    for n in (1, 5):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        total, twice = session.run(["total", "twice"], {"x": x})
        np.testing.assert_allclose(total, x.sum(axis=1))
        np.testing.assert_allclose(twice, x * 2)
