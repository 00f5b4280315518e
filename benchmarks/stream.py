"""How much memory a source takes, whatever its size: shards, Parquet files and a folder of pictures.

`python -m benchmarks.stream make FOLDER` writes seeded pictures of 96 pixels once, in parts of 5,000: the same JPEGs as
webdataset shards and as Parquet files in the layout of Hugging Face, and small PNGs as files of their own.
`python -m benchmarks.stream run FOLDER tar 20000 --method leiden --then predict report` clusters the first of them in a
fresh process, does the rest with the run in others, and prints what each needed: the largest resident size, and how
much of it was not the page cache of a mapped file. The lines are those of docs/records/scale.jsonl.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from selfsort.types import Json

SIDE, N_CLASSES, PART, ENOUGH = 96, 10, 5000, 100_000
SMALL_SIDE = 32
KINDS = {"tar": "shards", "parquet": "Parquet", "files": "files"}
AFTER = {"predict": "predict RUN SOURCE", "report": "report RUN", "export": "export RUN --to csv"}
"""What is done with a finished run; only `predict` reads pictures, and has a budget for them."""


def pictures(first: int, last: int, side: int, form: str) -> Iterator[tuple[bytes, int]]:
    """Yield encoded pictures and their classes: broad colours of a class, a little of their own, grain."""
    classes = np.random.default_rng(0).integers(40, 216, (N_CLASSES, 4, 4, 3))
    for number in range(first, last):
        draw = np.random.default_rng(number)
        label = int(draw.integers(N_CLASSES))
        broad = np.clip(classes[label] + draw.integers(-40, 41, (4, 4, 3)), 0, 255).astype(np.uint8)
        picture = Image.fromarray(broad).resize((side, side), Image.Resampling.BICUBIC)
        stream = io.BytesIO()
        picture.save(stream, form, **({"quality": 80} if form == "JPEG" else {"compress_level": 1}))
        yield stream.getvalue(), label


def make_tar(path: Path, first: int, last: int) -> None:
    with tarfile.open(path, "w") as archive:
        for number, (content, label) in enumerate(pictures(first, last, SIDE, "JPEG"), start=first):
            for name, data in ((f"{number:07d}.jpg", content), (f"{number:07d}.cls", str(label).encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def make_parquet(path: Path, first: int, last: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(pictures(first, last, SIDE, "JPEG"))
    images = [{"bytes": content, "path": f"{number:07d}.jpg"} for number, (content, _) in enumerate(rows, start=first)]
    table = pa.table({"image": images, "label": [label for _, label in rows]})
    features = {"image": {"_type": "Image"}, "label": {"names": list(map(str, range(10))), "_type": "ClassLabel"}}
    told = json.dumps({"info": {"features": features}})
    pq.write_table(table.replace_schema_metadata({"huggingface": told}), path, row_group_size=100)


def make_files(folder: Path, first: int, last: int) -> None:
    for number, (content, label) in enumerate(pictures(first, last, SMALL_SIDE, "PNG"), start=first):
        path = folder / str(label) / f"{number:07d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def part_name(kind: str, number: int) -> str:
    return f"{number:05d}.tar" if kind == "tar" else f"train-{number:05d}.parquet"


def make(root: Path, kinds: list[str], n: int) -> None:
    """Write what is not there yet."""
    for number in range(-(-n // PART)):
        first, last = number * PART, min(n, (number + 1) * PART)
        for kind in kinds:
            whole = root / kind / (f"{number:05d}" if kind == "files" else part_name(kind, number))
            if whole.exists():
                continue
            draft = whole.with_name(f".{whole.name}")
            whole.parent.mkdir(parents=True, exist_ok=True)
            {"tar": make_tar, "parquet": make_parquet, "files": make_files}[kind](draft, first, last)
            draft.rename(whole)


def first_parts(root: Path, kind: str, n: int, folder: Path) -> Path:
    """Return a folder with the first n pictures, as links."""
    source = folder / "source"
    target = source / "data" if kind == "parquet" else source
    target.mkdir(parents=True)
    for number in range(n // PART):
        name = f"{number:05d}" if kind == "files" else part_name(kind, number)
        (target / name).symlink_to(root / kind / name)
    return source


def watched(command: list[str], environment: dict[str, str], folder: Path) -> dict[str, float]:
    """Run a command; return its seconds, its largest resident size, and the part of it that no file stands behind."""
    started, anonymous = time.monotonic(), 0
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=said, stderr=said)
    while True:
        try:
            told = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
            anonymous = max(anonymous, sum(int(told[name].split()[0]) for name in ("RssAnon", "RssShmem")))
        except (OSError, KeyError):
            pass
        found, status, used = os.wait4(process.pid, os.WNOHANG)
        if found:
            break
        time.sleep(0.02)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"it ended badly: {' '.join(command)}\n{(folder / 'said').read_text()}")
    seconds = time.monotonic() - started
    return {"seconds": seconds, "resident_mb": used.ru_maxrss / 1e3, "anonymous_mb": anonymous * 1.024 / 1e3}


def run(root: Path, kind: str, n: int, memory: str, words: list[str], then: list[str]) -> Iterator[Json]:
    """Fit in a process of its own, then do the rest with the run; yield what each took."""
    side = SMALL_SIDE if kind == "files" else SIDE
    about = {"memory": f"{n:,} pictures of {side} pixels in colour, {KINDS[kind]}"}
    with tempfile.TemporaryDirectory(prefix="selfsort-stream-", dir="/var/tmp") as name:
        source = first_parts(root, kind, n, Path(name))
        places = {"RUN": f"{name}/run", "SOURCE": str(source)}
        budget = ["--memory", memory]
        commands = {"": ["fit", "SOURCE", "--clusters", str(N_CLASSES), *words, *budget, "--out", "RUN"]}
        commands |= {task: [*AFTER[task].split(), *(budget if task == "predict" else [])] for task in then}
        for task, command in commands.items():
            started = [sys.executable, "-m", "selfsort", *(places.get(word, word) for word in command)]
            used = watched(started, os.environ | {"SELFSORT_CACHE": f"{name}/cache"}, Path(name))
            what = about | {"what": task or words[1], "budget": memory if "--memory" in command else ""}
            yield what | {key: round(value) for key, value in used.items()} | {"command": " ".join(command)}


def main() -> None:
    parser = argparse.ArgumentParser()
    tasks = parser.add_subparsers(dest="task", required=True)
    making = tasks.add_parser("make")
    making.add_argument("root", type=Path)
    making.add_argument("--kinds", nargs="*", default=list(KINDS))
    making.add_argument("--n", type=int, default=ENOUGH)
    running = tasks.add_parser("run")
    running.add_argument("root", type=Path)
    running.add_argument("kind", choices=KINDS)
    running.add_argument("n", type=int)
    running.add_argument("--method", default="kmeans")
    running.add_argument("--encoder", default="none")
    running.add_argument("--memory", default="500M")
    running.add_argument("--train-on", type=int)
    running.add_argument("--set", nargs="*", default=[])
    running.add_argument("--then", nargs="*", choices=AFTER, default=[])
    given = parser.parse_args()
    if given.task == "make":
        make(given.root, given.kinds, given.n)
        return
    words = ["--method", given.method, "--encoder", given.encoder]
    words += [] if given.train_on is None else ["--train-on", str(given.train_on)]
    words += [word for setting in given.set for word in ("--set", setting)]
    for found in run(given.root, given.kind, given.n, given.memory, words, given.then):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
