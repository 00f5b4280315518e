"""Printed tables that one fit does not fill: each cell is a few commands, the last of which prints figures as JSON.

They run one after the other in an empty folder, each in a process of its own, on one thread; the records are those of
every other table. What needs data or hardware that is not there is said with what to download and the commands.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import selfsort
from selfsort import __version__
from selfsort.bench.cells import CPU_LIMIT, ONE_THREAD, cpu_model, digest, resource, stopped_after
from selfsort.bench.datasets import DATASETS, data_folder
from selfsort.bench.records import keep_record, was_stopped_before
from selfsort.errors import invalid
from selfsort.types import Json

_TREE = Path(selfsort.__file__).resolve().parents[2]
"""Where `experiments` lies in the source tree; an installed package has none."""

_CIFAR = "the binary version of {} from www.cs.toronto.edu/~kriz/cifar.html, unpacked"
FILES: dict[str, str] = {
    **{
        f"ytf-1446{suffix}.npz": f"{n_frames} frames of YouTube Faces cropped to 55 x 55 with names, of 1,446 people "
        "(www.cs.tau.ac.il/~wolf/ytfaces)"
        for suffix, n_frames in (
            *(("-10k", "10,000"), ("-20k", "20,000"), ("-30k", "30,000"), ("-50k", "50,000")),
            ("", "100,000"),
        )
    },
    "lfw": "the pictures of Labeled Faces in the Wild (vis-www.cs.umass.edu/lfw)",
    "lfw-pairs.txt": "pairs.txt of Labeled Faces in the Wild (vis-www.cs.umass.edu/lfw)",
    "cifar-10-batches-bin": _CIFAR.format("CIFAR-10"),
    "cifar-100-binary": _CIFAR.format("CIFAR-100"),
    "stl10_binary": "the binary files of STL-10 (cs.stanford.edu/~acoates/stl10), unpacked",
    **{DATASETS[name].file: DATASETS[name].source for name in ("umist", "coil20", "cmu-pie", "usps")},
    "mnist.npz": "MNIST with split 0 for training and 1 for test",
    "cifar10-test.npz": "the test images of CIFAR-10",
}
"""What lies in the folder that SELFSORT_DATA names, and where it comes from."""

VARIABLES: dict[str, str] = {
    "SELFSORT_PEERS": "ClustPy in an environment of its own: python -m experiments.peers environment FOLDER, then "
    "SELFSORT_PEERS=FOLDER",
}
"""What a trial may need beside data."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One cell: commands, of which the last prints its figures as one line of JSON."""

    name: str
    commands: tuple[str, ...]
    """As they are typed; DATA/ stands for the folder of the data."""
    needs: tuple[str, ...]
    printed: Mapping[str, float] = field(default_factory=dict)
    """The published figures by the names of ours."""
    needs_accelerator: bool = False
    variable: str | None = None
    """A variable that must be set."""

    @property
    def uses_tree(self) -> bool:
        """Whether the commands are scripts of the source tree."""
        return any(command.startswith("python -m experiments.") for command in self.commands)

    def obstacle(self, has_accelerator: bool) -> str | None:
        """Say why it cannot be run here, and what would help; None if it can."""
        if absent := [name for name in self.needs if not (data_folder() / name).exists()]:
            return "needs " + "; ".join(f"{name}: {FILES[name]}" for name in absent)
        if self.uses_tree and not (_TREE / "experiments").is_dir():
            return "needs the source tree of selfsort"
        if self.variable is not None and not os.environ.get(self.variable):
            return f"needs {VARIABLES[self.variable]}"
        return "needs an accelerator" if self.needs_accelerator and not has_accelerator else None

    def key(self) -> str:
        """Return the address of its measurement."""
        return digest({"commands": list(self.commands)})


@dataclass(frozen=True, kw_only=True)
class ScriptTable:
    """A named list of trials."""

    name: str
    title: str
    trials: tuple[Trial, ...]


def _embedding(dim: int, part: str, errors: Sequence[float], trusts: Sequence[float]) -> Trial:
    names = (f"{method} {measure}" for measure in ("one_nn_error", "trustworthiness") for method in _EMBEDDED_BY)
    sizes = {"": "", "5,000 / 2,000 images": " --train split=0:5000 --test split=1:2000"}[part]
    return Trial(
        name=f"{dim} dimensions" + (f", {part}" if part else ""),
        commands=(f"python -m experiments.embedding mnist --recipe paper --dim {dim}{sizes}",),
        needs=("mnist.npz",),
        printed=dict(zip(names, (*errors, *trusts), strict=True)) if not part else {},
        needs_accelerator=not part,
    )


# The three in the middle are other people's, and shown as printed.
_EMBEDDED_BY = ("pca", "nca", "autoencoder", "parametric t-sne", "jule")
_EMBEDDINGS = (
    (2, (0.782, 0.568, 0.668, 0.099, 0.067), (0.744, 0.721, 0.729, 0.927, 0.768)),
    (10, (0.430, 0.088, 0.063, 0.046, 0.019), (0.991, 0.968, 0.996, 0.997, 0.936)),
    (30, (0.108, 0.073, 0.027, 0.027, 0.027), (0.998, 0.971, 0.999, 0.999, 0.975)),
)

# Accuracy for 5, 10, 25 and 50 thousand training images.
_CODEBOOK = {
    "patches": (0.6281, 0.6801, 0.7401, 0.7659),
    "conv1": (0.6305, 0.6830, 0.7283, 0.7468),
    "conv2": (0.6310, 0.6846, 0.7293, 0.7468),
    "conv1+conv2": (0.6350, 0.6911, 0.7511, 0.7855),
}


def _codebooks() -> Iterator[Trial]:
    for on, printed in _CODEBOOK.items():
        yield Trial(
            name=f"{on}, 4,000 / 2,000 of the test images",
            commands=(
                f"python -m experiments.patch_codebook DATA/cifar10-test.npz --recipe paper --on {on} --codes 400 "
                "--patches 10000",
            ),
            needs=("cifar10-test.npz",),
        )
        for n_images, accuracy in zip((5000, 10_000, 25_000, 50_000), printed, strict=True):
            yield Trial(
                name=f"{on}, {n_images:,} images",
                commands=(
                    "python -m experiments.patch_codebook DATA/cifar-10-batches-bin --recipe paper "
                    f"--train {n_images} --test-from 50000 --test 10000 --on {on}",
                ),
                needs=("cifar-10-batches-bin",),
                printed={"accuracy": accuracy},
                needs_accelerator=True,
            )


# Accuracy on LFW after so many thousand frames: JULE's clusters, and the true names.
_FACES = {
    10: (0.728, 0.737),
    20: (0.743, 0.746),
    30: (0.750, 0.748),
    50: (0.762, 0.764),
    100: (0.767, 0.770),
}


def _verified() -> Iterator[Trial]:
    for thousands, printed in _FACES.items():
        frames = f"ytf-1446{'' if thousands == 100 else f'-{thousands}k'}.npz"
        fit = f"selfsort fit DATA/{frames} --clusters 1446 --method jule --recipe paper-faces --out faces"
        judge = (
            f"python -m experiments.softmax_finetune faces DATA/{frames} --faces DATA/lfw --pairs DATA/lfw-pairs.txt"
        )
        for (name, option), accuracy in zip((("clusters", ""), ("supervised", " --truth")), printed, strict=True):
            yield Trial(
                name=f"{thousands},000 frames, {name}",
                commands=(fit, judge + option),
                needs=(frames, "lfw", "lfw-pairs.txt"),
                printed={"accuracy": accuracy},
                needs_accelerator=True,
            )


def _self_labelled() -> Iterator[Trial]:
    fits = {
        "cifar10": ("fit DATA/cifar-10-batches-bin --where split=0 --recipe cifar10 --clusters 10",),
        "cifar100-20": (
            "fit DATA/cifar-100-binary --where split=0 --labels coarse --recipe cifar100-20 --clusters 20",
        ),
        "stl10": (
            "fit DATA/stl10_binary --where split=0,2 --recipe stl10 --clusters 10",
            "fit DATA/stl10_binary --where split=0 --recipe stl10-stage2 --clusters 10 --start-from run-1",
        ),
    }
    # Those before self-labelling were not confirmed against the paper's text; which NMI it is, is inferred.
    printed = {
        "cifar10": ((0.885, 0.799, 0.782), (0.930, 0.861, 0.857)),
        "cifar100-20": ((0.516, 0.516, 0.360), (0.552, 0.551, 0.397)),
        "stl10": ((0.814, 0.707, 0.657), (0.836, 0.733, 0.693)),
    }
    for name, lines in fits.items():
        first = tuple(f"selfsort {line} --method secu --out run-{i}" for i, line in enumerate(lines, start=1))
        recipe = "paper-stl10" if name == "stl10" else "paper"
        refine = f"selfsort refine run-{len(lines)} --recipe {recipe} --out refined"
        source, labels = lines[0].split()[1], " --labels coarse" if name == "cifar100-20" else ""
        for is_refined, figures in enumerate(printed[name]):
            commands = (*first, refine) if is_refined else first
            run = "refined" if is_refined else f"run-{len(lines)}"
            yield Trial(
                name=f"{name}, {'after' if is_refined else 'before'} self-labelling",
                commands=(*commands, f"selfsort predict {run} {source} --where split=1{labels} --json"),
                needs=(source.removeprefix("DATA/"),),
                printed=dict(zip(("acc", "nmi_arithmetic", "ari"), figures, strict=True)),
                needs_accelerator=True,
            )


def _peers() -> Iterator[Trial]:
    ours = ("umap-kmeans", "umap-hdbscan", "sklearn-kmeans", "sklearn-agglomerative", "sklearn-spectral")
    for dataset in ("umist", "usps", "cmu-pie", "mnist-test", "coil20"):
        for peer in (*ours, "dec", "idec", "ddc", "n2d"):
            yield Trial(
                name=f"{dataset} {peer}",
                commands=(f"python -m experiments.peers score {dataset} --peer {peer}",),
                needs=(DATASETS[dataset].file,),
                variable=None if peer in ours else "SELFSORT_PEERS",
            )


SCRIPTS: dict[str, ScriptTable] = {
    table.name: table
    for table in (
        ScriptTable(
            name="jule-7",
            title="JULE, Table 7: face verification after so many frames",
            trials=tuple(_verified()),
        ),
        ScriptTable(
            name="jule-codebook",
            title="JULE, Table 8: classification by a codebook of patches",
            trials=tuple(_codebooks()),
        ),
        ScriptTable(
            name="jule-13",
            title="JULE, Tables 13 and 14: low-dimensional embeddings of MNIST",
            trials=tuple(
                _embedding(dim, part, errors, trusts)
                for part in ("", "5,000 / 2,000 images")
                for dim, errors, trusts in _EMBEDDINGS
            ),
        ),
        ScriptTable(
            name="peers",
            title="Other people's programs: UMAP, scikit-learn, ClustPy",
            trials=tuple(_peers()),
        ),
        ScriptTable(
            name="secu-self-label",
            title="SeCu: self-labelling, held-out images",
            trials=tuple(_self_labelled()),
        ),
    )
}


@dataclass(eq=False)
class Tried:
    """How the trials of a table stand."""

    n_measured: int = 0
    left: dict[str, str] = field(default_factory=dict)
    """Why a trial has no figures, by its name."""


def fill_script(
    table: ScriptTable,
    records: dict[str, Json],
    folder: Path,
    *,
    only: str = "",
    budget_seconds: float | None = None,
    again: bool = False,
    cell_seconds: int = CPU_LIMIT,
    has_accelerator: bool = False,
    say: Callable[[str], None] = print,
) -> Tried:
    """Run the trials that are not among the records yet, as `bench.fill.fill` does with cells."""
    trials = [trial for trial in table.trials if only in trial.name]
    if not trials:
        raise invalid(
            "--only", f"occur in the name of a cell of {table.name}", repr(only), f"Try {table.trials[0].name!r}."
        )
    started, tried = time.monotonic(), Tried()
    for trial in trials:
        before = records.get(trial.key())
        if before is not None and not again and not was_stopped_before(before, cell_seconds):
            continue
        obstacle = trial.obstacle(has_accelerator or only == trial.name)
        if obstacle is None and budget_seconds is not None and time.monotonic() - started >= budget_seconds:
            obstacle = "the time was over"
        if obstacle is not None:
            tried.left[trial.name] = obstacle
            continue
        record = _measured(trial, table.name, None if has_accelerator else cell_seconds)
        keep_record(records, folder, table.name, record)
        tried.n_measured += 1
        say(f"{trial.name}: {record.get('refused') or record['scores']}")
    return tried


def _measured(trial: Trial, table: str, cpu_limit: int | None) -> Json:
    from selfsort.runs.loop import versions

    return {
        "key": trial.key(),
        "dataset": ", ".join(trial.needs),
        "method": table,
        "trial": trial.name,
        "settings_digest": trial.key(),
        "seed": 0,
        **run_trial(trial, cpu_limit),
        "versions": {"selfsort": __version__, **versions()},
        "cpu": cpu_model(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def run_trial(trial: Trial, cpu_limit: int | None) -> Json:
    """Run the commands and return the figures of the last, or why there are none."""
    cpu_seconds, peak, out = 0.0, 0.0, ""
    with tempfile.TemporaryDirectory(prefix="selfsort-trial-") as place:
        for command in trial.commands:
            out, code, used, memory = _run(command, Path(place), cpu_limit)
            cpu_seconds, peak = cpu_seconds + used, max(peak, memory)
            if code == -getattr(signal, "SIGXCPU", 0) != 0:
                return stopped_after(cpu_limit or 0)
            if code != 0:
                said = (out.strip().splitlines() or ["it said nothing"])[-1]
                return {"refused": f"a command ended with code {code}: {said}"}
    return {
        "scores": dict(figures(json.loads(out.strip().splitlines()[-1]))),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_memory_mb": round(peak, 1),
    }


def _run(command: str, place: Path, cpu_limit: int | None) -> tuple[str, int, float, float]:
    """Run a command; return what it said, its code, its processor time and its peak memory in MB."""
    words = shlex.split(command.replace("DATA/", f"{shlex.quote(str(data_folder().resolve()))}/"))
    words = [sys.executable, *(words[1:] if words[0] == "python" else ["-m", "selfsort", *words[1:]])]
    paths = [str(_TREE), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    env["SELFSORT_DATA"] = str(data_folder().resolve())
    out, errors = place / "out.txt", place / "errors.txt"
    with out.open("wb") as said, errors.open("wb") as complained:
        child = subprocess.Popen(words, cwd=place, env=env, stdout=said, stderr=complained)
        code, used, memory = _waited(child, cpu_limit)
    text = (out if code == 0 else errors).read_text(encoding="utf-8", errors="replace")
    return text, code, used, memory


def _waited(child: subprocess.Popen[bytes], cpu_limit: int | None) -> tuple[int, float, float]:
    """Wait for a child, which a limit may end; return its code, processor time and peak memory in MB."""
    if resource is None:  # Windows
        return child.wait(), 0.0, 0.0
    if cpu_limit is not None and hasattr(resource, "prlimit"):
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 5))
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def figures(found: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    """Walk over the numbers of a JSON answer.

    >>> dict(figures({"jule": {"error": 0.1}, "metrics": {"acc": 0.9}, "on": "conv1"}))
    {'jule error': 0.1, 'acc': 0.9}
    """
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from figures(value, "" if name == "metrics" else f"{before}{name} ")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{before}{name}", round(float(value), 5)


def rows_of(table: ScriptTable, records: Mapping[str, Json], left: Mapping[str, str], only: str = "") -> list[Json]:
    """Return one JSON object a trial: its figures beside the published, or why there are none and the commands."""
    rows = []
    for trial in table.trials:
        if only not in trial.name:
            continue
        record = records.get(trial.key(), {})
        row: Json = {"trial": trial.name, "published": dict(trial.printed), "commands": list(trial.commands)}
        row |= {name: record[name] for name in ("scores", "cpu_seconds", "peak_memory_mb", "refused") if name in record}
        if not record:
            row["left"] = left.get(trial.name) or trial.obstacle(has_accelerator=False) or "not measured yet"
        rows.append(row)
    return rows


def state_of(table: ScriptTable, records: Mapping[str, Json]) -> str:
    """Say how much of a table there is."""
    n_done = sum(trial.key() in records for trial in table.trials)
    return f"{n_done or 'none'} of {len(table.trials)} commands measured{' so far' if n_done else ' yet'}."


def told(row: Mapping[str, Any]) -> str:
    """Word a row's figures, published ones in brackets."""
    printed, scores = row["published"], row.get("scores", {})
    words = [
        f"{name} {scores[name]:.3f}{f' ({printed[name]:.3f})' if name in printed else ''}"
        if name in scores
        else f"{name} - ({printed[name]:.3f})"
        for name in {**printed, **scores}
    ]
    return ", ".join(words)
