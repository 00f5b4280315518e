"""One job on two hosts: what a lost process costs, and what a second process brings.

    python -m benchmarks.two_hosts hosts     needs root: two network namespaces, joined by a cable of software
    python -m benchmarks.two_hosts speed     one process against two, one thread each

`hosts` runs encode, search, train and predict on two hosts of their own network; in each it kills one process of the
second host, goes on as docs/two-hosts.md says, and compares the labels with those of a job left in peace. Where the
kernel has no namespaces, both hosts are this one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from benchmarks.stream import make_tar

from selfsort.data.synthetic import shapes

ROOT = Path(__file__).parents[1]
HOSTS, ADDRESSES, CABLE = ("selfsort-a", "selfsort-b"), ("10.213.7.1", "10.213.7.2"), "ssc0"
N_PICTURES, N_ROWS, N_COLUMNS = 1500, 12_000, 256
PATIENCE = 900
REPEATS = 3

Moment = Callable[["Job", float], bool]
"""Of a job, given how many seconds the second host computes if nobody disturbs it."""


@contextmanager
def two_hosts() -> Iterator[tuple[list[str], ...]]:
    """Yield what to write before a command to run it on either host."""
    try:
        for host in HOSTS:
            _ip("netns", "add", host)
        _ip("link", "add", CABLE, "netns", HOSTS[0], "type", "veth", "peer", "name", CABLE, "netns", HOSTS[1])
        for host, address in zip(HOSTS, ADDRESSES, strict=True):
            _ip("-n", host, "addr", "add", f"{address}/24", "dev", CABLE)
            _ip("-n", host, "link", "set", CABLE, "up")
            _ip("-n", host, "link", "set", "lo", "up")
        yield tuple(["ip", "netns", "exec", host] for host in HOSTS)
    except (subprocess.CalledProcessError, FileNotFoundError):
        print("no namespaces here: both hosts are this one")
        yield [], []
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], capture_output=True, check=False)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Job:
    """A command of selfsort as one process on each of two hosts."""

    def __init__(self, hosts: tuple[list[str], ...], words: list[str], folder: Path, number: int) -> None:
        is_split = bool(hosts[0])
        endpoint = f"{ADDRESSES[0] if is_split else '127.0.0.1'}:{29510 + number}"
        launch = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", f"job{number}"]
        network = {"GLOO_SOCKET_IFNAME": CABLE} if is_split else {}
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", **network}
        environment["SELFSORT_CACHE"] = str(folder / "cache")
        self._parts = []
        self.computed = 0.0  # by the second host, as far as it was seen
        for place, (host, address) in enumerate(zip(hosts, ADDRESSES, strict=True)):
            # The first host does not know itself by this address, so it is told that it is the one.
            own = ["--local-addr", address, "--rdzv-conf", f"is_host={int(place == 0)}"] if is_split else []
            with (folder / f"{number}-host{place}.log").open("wb") as log:
                command = [*host, *launch, *own, "-m", "selfsort", *words]
                self._parts.append(
                    subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
                )

    def wait(self) -> list[int]:
        """Return how both ended."""
        limit = time.monotonic() + PATIENCE
        while any(part.poll() is None for part in self._parts):
            assert time.monotonic() < limit, "it never ended"
            self.computed = max(self.computed, self.worked())
            time.sleep(0.05)
        return [part.wait() for part in self._parts]

    def kill_one_at(self, moment: Moment, seconds: float) -> list[int]:
        """Kill the process of the second host at a moment; return how both launchers ended."""
        limit = time.monotonic() + PATIENCE
        while not moment(self, seconds):
            assert time.monotonic() < limit, "the moment never came"
            assert self._parts[1].poll() is None, "it ended before the moment"
            time.sleep(0.02)
        worker = _worker_of(self._parts[1].pid)
        assert worker is not None, "there is no process to kill"
        os.kill(worker, signal.SIGKILL)
        return self.wait()

    def worked(self) -> float:
        """Return how many seconds the process of the second host has computed; none if there is none any more."""
        try:
            worker = _worker_of(self._parts[1].pid)
            spent = [] if worker is None else Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[11:13]
        except OSError:
            return 0.0
        return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


def _worker_of(launcher: int) -> int | None:
    """Return the process that a launcher, or what `ip netns exec` became, has started."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        told = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if b"selfsort" in told and b"torch.distributed.run" not in told:
            return int(child)
    return None


def hosts(stages: list[str]) -> None:
    """Run all four, or some of them, in peace and with a kill."""
    with tempfile.TemporaryDirectory(prefix="selfsort-hosts-", dir="/var/tmp") as name, two_hosts() as places:
        folder, number = Path(name), iter(range(1000))
        _make_sources(folder)
        for what, words, moment in _jobs(folder):
            told, seconds = dict[str, object](), 0.0
            if stages and what not in (*stages, "encode"):
                continue
            for run in ("peace", "kill") if not stages or what in stages else ("peace",):
                (folder / "cache").mkdir(exist_ok=True)
                job = Job(places, [*words, "--out", run_of(what, run)], folder, next(number))
                if run == "kill":
                    told["killed"] = job.kill_one_at(moment, seconds)
                    told["left"] = _left(folder, what)
                    again = [*words, "--out", run_of(what, run)]
                    if (folder / run_of(what, run) / "config.json").is_file():
                        again = ["fit", "--resume", run_of(what, run)]
                    job = Job(places, again, folder, next(number))
                told[run] = job.wait()
                seconds = job.computed
                if what == "encode":
                    _clear(folder / "cache")
            if "kill" not in told:  # wanted for what it leaves to others
                continue
            labels = [_labels(folder / run_of(what, run)) for run in ("peace", "kill")]
            print(json.dumps({"stage": what, "same labels": labels[0] == labels[1], **told}), flush=True)


def run_of(what: str, run: str) -> str:
    return f"{what}-{run}" + (".csv" if what == "predict" else "")


def _labels(place: Path) -> bytes:
    return (place / "labels.csv" if place.is_dir() else place).read_bytes()


def _left(folder: Path, what: str) -> str:
    """Say what the killed job has left for the next one."""
    if what == "encode":
        return ", ".join(f"{path.stat().st_size:,} bytes of features" for path in (folder / "cache").glob("*.part"))
    events = folder / run_of(what, "kill") / "events.jsonl"
    return f"{len(events.read_text().splitlines())} events" if events.is_file() else "nothing"


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def _make_sources(folder: Path) -> None:
    make_tar(folder / "pictures.tar", 0, N_PICTURES)
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((10, N_COLUMNS))[draw.integers(0, 10, N_ROWS)]
    np.save(folder / "rows.npy", (rows + draw.standard_normal(rows.shape)).astype(np.float32))
    np.savez(folder / "tiny.npz", images=draw.integers(0, 256, (N_ROWS, 4, 4, 1), dtype=np.uint8))
    images, labels = shapes(240, seed=0)
    np.savez(folder / "shapes.npz", images=images.pixels, labels=labels)


def _jobs(folder: Path) -> list[tuple[str, list[str], Moment]]:
    """Return each command, and the moment for a kill in the middle of it."""
    train = ["fit", "shapes.npz", "--clusters", "4", "--encoder", "none", "--method", "secu", "--recipe", "default"]
    for setting in ("arch=small", "width=8", "dim=16", "n_heads=2", "epochs=40", "warmup=1", "batch_size=60"):
        train += ["--set", setting]
    of_search = ["fit", "tiny.npz", "--clusters", "10", "--encoder", "rows.npy", "--method", "leiden"]

    def is_encoding(job: Job, seconds: float) -> bool:
        return any(path.stat().st_size > 2_000_000 for path in (folder / "cache").glob("*.npy.part"))

    def is_searching(job: Job, seconds: float) -> bool:
        return (folder / "search-kill" / "config.json").is_file()

    def is_training(job: Job, seconds: float) -> bool:
        events = folder / "train-kill" / "events.jsonl"
        return events.is_file() and len(events.read_text().splitlines()) >= 6

    def is_predicting(job: Job, seconds: float) -> bool:
        return job.worked() > 0.45 * seconds  # a third of them to start with

    return [
        ("encode", ["fit", "pictures.tar", "--clusters", "10", "--encoder", "hog", "--method", "leiden"], is_encoding),
        ("search", of_search, is_searching),
        ("train", train, is_training),
        ("predict", ["predict", "encode-peace", "pictures.tar"], is_predicting),
    ]


def speed(repeats: int) -> None:
    """Print how much sooner two processes are done than one, and how long the processor works for each of them."""
    for what in ("encode", "search"):
        pairs = [(_timed(what, 1), _timed(what, 2)) for _ in range(repeats)]
        # The run with the least work was disturbed least.
        (alone,), (first, second) = (min((pair[n]["work"] for pair in pairs), key=max) for n in (0, 1))
        sooner = median(one["wall"] / two["wall"] for one, two in pairs)
        told = {"speed": what, "alone": alone, "first": first, "second": second, "sooner": round(sooner, 2)}
        print(json.dumps({**told, "less work": round(alone / max(first, second), 2)}), flush=True)


def _timed(what: str, n_processes: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    command += ["-m", "benchmarks.two_hosts", "job", what]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def job(what: str) -> None:
    """Do one thing in as many processes as there are, and print how long it took and how much each has worked."""
    import torch

    from selfsort import distributed
    from selfsort.encoders.encode import plain_features
    from selfsort.encoders.registry import open_named
    from selfsort.graph.knn import nearest_neighbours
    from selfsort.types import Images

    device, draw = torch.device("cpu"), np.random.default_rng(0)
    with distributed.joined("cpu"):
        if what == "encode":
            encoder = open_named("hog", device)
            images = Images(draw.integers(0, 256, (1200, 64, 64, 3), dtype=np.uint8))
            run: Callable[[], object] = lambda: plain_features(  # noqa: E731
                encoder, images, "", is_mirrored=False, folder=None, device=device
            )
        else:
            rows = draw.standard_normal((N_ROWS, N_COLUMNS), dtype=np.float32)
            nearest_neighbours(rows[:1000], 20, device=device)  # compiled
            run = lambda: nearest_neighbours(rows, 20, device=device, is_shared=True)  # noqa: E731
        distributed.agree(None)
        began, worked = time.monotonic(), time.process_time()
        run()
        worked, took = time.process_time() - worked, time.monotonic() - began
        of_each = distributed.gather_rows(torch.tensor([worked], dtype=torch.float64)).tolist()
        if distributed.is_main():
            print(json.dumps({"wall": took, "work": [round(seconds, 2) for seconds in of_each]}))


if __name__ == "__main__":
    if sys.argv[1] == "job":
        job(sys.argv[2])
    elif sys.argv[1] == "hosts":
        hosts(sys.argv[2:])
    else:
        speed(int(sys.argv[2]) if len(sys.argv) > 2 else REPEATS)
