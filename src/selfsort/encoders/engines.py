"""What computes a network that is no longer trained: onnxruntime if it is there, else torch.

Both give the same features within 1e-4, and a run goes on with the kind of engine it began with. With onnxruntime the
features of an image depend neither on the images around it nor on the number of threads, to the last bit.

Shape letters: B batch, C channels, H x W pixels, D features.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfsort.errors import invalid, missing_extra
from selfsort.learning.batches import from_bytes
from selfsort.nets.trace import as_onnx
from selfsort.types import F32

# Images that torch computes at a time on a processor. CPU time an image, EfficientNet-Lite0, one thread, busy machine:
# 31 ms alone, 22 to 24 by two and four, 28 to 34 by eight and more. With more threads it has not been measured at rest.
_TORCH_BATCH = 4


@dataclass(frozen=True, eq=False)
class Engine:
    """A network that is ready to run."""

    name: str
    """Its kind and version, and the accelerator if there is one: onnxruntime 1.31, torch 2.13, torch 2.13 cuda."""
    run: Callable[[Tensor], Tensor]
    """Images (B, C, H, W), bytes or floats in [0, 1], to features (B, D)."""


def open_engine(network: nn.Module, example: Tensor, device: torch.device, recorded: str | None = None) -> Engine:
    """Make a network ready to run.

    Args:
        network: gives features (B, D) of images; nobody else uses it from now on.
        example: two images, as they will come.
        device: where torch computes; onnxruntime computes on the processor.
        recorded: name of the engine of an earlier run, whose kind is taken again in whatever version is installed.
    """
    network = network.eval().requires_grad_(False)
    if _choose(device, recorded) == "torch":
        return _torch_engine(network, device)
    return _onnxruntime_engine(network.cpu(), example)


def _choose(device: torch.device, recorded: str | None) -> str:
    missing = next((package for package in ("onnxruntime", "onnx") if not _can_import(package)), None)
    if recorded is None:
        return "onnxruntime" if missing is None and device.type == "cpu" else "torch"
    kind = recorded.partition(" ")[0]
    if kind not in ("onnxruntime", "torch"):
        raise invalid("the engine of an encoder", "be onnxruntime or torch", repr(recorded), "Begin a new run.")
    if kind == "onnxruntime" and missing:
        raise missing_extra(missing, f"an encoder that was run by {recorded}", "onnx")
    return kind


def _can_import(package: str) -> bool:
    try:
        __import__(package)
    except ImportError:
        return False
    return True


def _torch_engine(network: nn.Module, device: torch.device) -> Engine:
    network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    is_cpu = device.type == "cpu"

    def run(x_BCHW: Tensor) -> Tensor:
        x_BCHW = from_bytes(x_BCHW) if x_BCHW.dtype == torch.uint8 else x_BCHW
        x = x_BCHW.to(device, torch.float32, memory_format=torch.channels_last)
        with torch.no_grad():
            parts = [network(part) for part in torch.split(x, _TORCH_BATCH if is_cpu else max(1, len(x)))]
        return torch.cat(parts).to(x_BCHW.device)

    return Engine(f"torch {_version(torch)}" + ("" if is_cpu else f" {device.type}"), run)


def _onnxruntime_engine(network: nn.Module, example: Tensor) -> Engine:
    """Run images one by one, as many side by side as torch has threads.

    CPU time an image, EfficientNet-Lite0 and Lite2, ways in turn on a busy machine of two cores, medians of nine: 14.1
    and 29.0 ms so; in batches of 8, whose maps do not stay in the cache, 16.2 and 33.6 on one thread; with two threads
    inside each call 15.5 and 30.8, and twice that if they spin, as they do by default.
    Bytes become floats here, beside the network: as a batch that costs torch's threads, which wait for each other
    actively, half a millisecond an image.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    graph = as_onnx(network, example, "images", ["features"])
    session: Any = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    (_, dim) = session.get_outputs()[0].shape

    def run(x_BCHW: Tensor) -> Tensor:
        is_bytes = x_BCHW.dtype == torch.uint8
        x = x_BCHW.detach().to("cpu", torch.uint8 if is_bytes else torch.float32).numpy()
        features = np.empty((len(x), dim), np.float32)

        def run_one(i: int) -> None:
            image: F32 = x[i : i + 1].astype(np.float32, order="C", copy=False)
            if is_bytes:
                image *= np.float32(1 / 255)
            features[i] = session.run(None, {"images": image})[0]

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for _ in pool.map(run_one, range(len(x))):
                pass
        return torch.from_numpy(features).to(x_BCHW.device)

    return Engine(f"onnxruntime {_version(onnxruntime)}", run)


def _version(package: Any) -> str:
    """Return major and minor version."""
    return ".".join(str(package.__version__).split(".")[:2])
