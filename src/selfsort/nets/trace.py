"""Networks as ONNX graphs."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

_OPSET = 17


def as_onnx(
    network: nn.Module, example: Tensor, given: str, found: Sequence[str], *, has_weights: bool = True
) -> bytes:
    """Return a network as a graph for batches of any size; it needs the package onnx.

    Args:
        network: takes one tensor; runs as if in evaluation mode.
        example: a batch of two; all but its length is fixed by it.
        given: name of the input.
        found: names of the outputs.
        has_weights: whether they are in the graph; if not, they are further inputs of it, named as in `state_dict`.
    """
    # Constants that were folded, or weights that were merged, would no longer be those of `state_dict`.
    mode = torch.onnx.TrainingMode.EVAL if has_weights else torch.onnx.TrainingMode.PRESERVE
    written = io.BytesIO()
    with warnings.catch_warnings():
        # The newer exporter, which this one's warning recommends, needs a further package and gains us nothing.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network.eval(),
            (example,),
            written,  # type: ignore[arg-type]  # a buffer will do, so no place to write is needed
            input_names=[given],
            output_names=list(found),
            dynamic_axes={name: {0: "batch"} for name in (given, *found)},
            opset_version=_OPSET,
            export_params=has_weights,
            do_constant_folding=has_weights,
            training=mode,
            dynamo=False,
        )
    return written.getvalue()
