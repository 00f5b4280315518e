"""Small ONNX models, written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from selfsort.types import F32

Axes = Sequence[int | str | None]
FLOAT = TensorProto.FLOAT
DIM = 5


def weights(channels: int = 3, dim: int = DIM) -> F32:
    """Of a convolution over 2 x 2 pixels."""
    return np.random.default_rng(0).normal(size=(dim, channels, 2, 2)).astype(np.float32)


def graph_model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: Sequence[onnx.TensorProto] = (),
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def conv_model(axes: Axes = ("batch", 3, 8, 8), *, dtype: int = FLOAT, is_last: bool = False) -> onnx.ModelProto:
    """A convolution, its average over all places (`features`), and a map of it; what comes last is class scores."""
    channels = axes[3] if is_last else axes[1]
    n_channels = channels if isinstance(channels, int) else 3
    x, nodes = "pixels", []
    if dtype != FLOAT:
        nodes.append(helper.make_node("Cast", [x], ["floats"], to=FLOAT))
        x = "floats"
    if is_last:
        nodes.append(helper.make_node("Transpose", [x], ["first"], perm=[0, 3, 1, 2]))
        x = "first"
    nodes += [
        helper.make_node("Conv", [x, "w"], ["map"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["map"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["features"]),
        helper.make_node("Softmax", ["features"], ["scores"]),
    ]
    named: dict[str, Axes | None] = {"features": ["n", DIM], "scores": ["n", DIM], "map": None}
    return graph_model(
        nodes,
        [helper.make_tensor_value_info("pixels", dtype, axes)],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in named.items()],
        [numpy_helper.from_array(weights(n_channels), "w")],
    )


def keep_outputs(model: onnx.ModelProto, *names: str) -> onnx.ModelProto:
    """Leave only these outputs, in this order."""
    kept = {output.name: output for output in model.graph.output}
    del model.graph.output[:]
    model.graph.output.extend(kept[name] for name in names)
    return model


def saved(model: onnx.ModelProto, path: Path) -> Path:
    path.write_bytes(model.SerializeToString())
    return path
