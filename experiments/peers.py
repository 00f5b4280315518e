"""Other people's programs on our data sets, scored like ours; seconds and memory come from `selfsort bench peers`.

Pixels as rows in 0..1 for UMAP and scikit-learn; standardised as one for ClustPy, whose networks expect that. The true
number of clusters is given to all but HDBSCAN and DDC, which find one; what HDBSCAN leaves out is wrong in ACC.

    python -m experiments.peers score usps --peer umap-hdbscan
    python -m experiments.peers environment FOLDER        # for the peers of ClustPy; then SELFSORT_PEERS=FOLDER

ClustPy imports torchvision for its own data sets and for residual networks alone, so it is installed without its
dependencies into an environment of its own, which borrows the packages of this one and gets an empty torchvision.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from selfsort.bench.datasets import DATASETS, read
from selfsort.errors import MissingData, TrainingFailed
from selfsort.metrics.external import scores
from selfsort.types import F32, I64

VARIABLE = "SELFSORT_PEERS"
CLUSTPY = ("dec", "idec", "ddc", "n2d")

_STUB = """
class _Nothing(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class Nothing(metaclass=_Nothing): ...


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing
"""

_CHILD = """
import sys, numpy as np
from clustpy.deep import DDC, DEC, IDEC, N2D
from umap import UMAP
peer, k, seed, source, target = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
rows = np.load(source)
found = {
    "dec": lambda: DEC(k, random_state=seed),
    "idec": lambda: IDEC(k, random_state=seed),
    "ddc": lambda: DDC(random_state=seed),
    # As its authors: t-SNE, the default there, has at most three dimensions in scikit-learn.
    "n2d": lambda: N2D(k, manifold_class=UMAP, random_state=seed),
}[peer]()
np.save(target, np.asarray(found.fit(rows).labels_, dtype=np.int64))
"""


def as_labels(found: npt.ArrayLike) -> I64:
    """Return what another program says in our form."""
    return np.asarray(found).astype(np.int64)


def umap_rows(rows: F32, seed: int) -> F32:
    """Embed in ten dimensions, as UMAP's authors advise before clustering."""
    import umap

    found: F32 = umap.UMAP(
        n_neighbors=20, n_components=10, min_dist=0.0, random_state=seed, n_jobs=1, init="random"
    ).fit_transform(rows)
    return found


def umap_kmeans(rows: F32, k: int, seed: int) -> I64:
    """k-means on the embedding."""
    return kmeans(umap_rows(rows, seed), k, seed)


def umap_hdbscan(rows: F32, k: int, seed: int) -> I64:
    """HDBSCAN on the embedding; it finds the number of clusters, and leaves images out (-1)."""
    from sklearn.cluster import HDBSCAN

    machine = HDBSCAN(min_cluster_size=max(5, len(rows) // (10 * k)), copy=True)
    return as_labels(machine.fit_predict(umap_rows(rows, seed)))


def kmeans(rows: F32, k: int, seed: int) -> I64:
    """Cluster by scikit-learn's k-means, ten starts."""
    from sklearn.cluster import KMeans

    return as_labels(KMeans(k, n_init=10, random_state=seed).fit_predict(rows))


def agglomerative(rows: F32, k: int, seed: int) -> I64:
    """Cluster by Ward's linkage, scikit-learn's default."""
    from sklearn.cluster import AgglomerativeClustering

    return as_labels(AgglomerativeClustering(k).fit_predict(rows))


def spectral(rows: F32, k: int, seed: int) -> I64:
    """Cluster spectrally on the graph of ten neighbours."""
    from sklearn.cluster import SpectralClustering

    machine = SpectralClustering(k, affinity="nearest_neighbors", random_state=seed, assign_labels="cluster_qr")
    with warnings.catch_warnings():  # classes that nothing joins are no fault of theirs
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        return as_labels(machine.fit_predict(rows))


PEERS: dict[str, Callable[[F32, int, int], I64]] = {
    "umap-kmeans": umap_kmeans,
    "umap-hdbscan": umap_hdbscan,
    "sklearn-kmeans": kmeans,
    "sklearn-agglomerative": agglomerative,
    "sklearn-spectral": spectral,
}


def clustpy(peer: str, rows: F32, k: int, seed: int) -> I64:
    """Run one of ClustPy's networks in its environment."""
    place = os.environ.get(VARIABLE)
    if not place:
        raise MissingData(
            f"the variable {VARIABLE} is not set. Expected the environment of ClustPy. Make it with "
            f"python -m experiments.peers environment FOLDER and set {VARIABLE} to that folder."
        )
    standardised: F32 = ((rows - rows.mean()) / max(float(rows.std()), 1e-8)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.npy", Path(folder) / "labels.npy"
        np.save(source, standardised)
        words = [_python(Path(place)), "-c", _CHILD, peer, str(k), str(seed), str(source), str(target)]
        done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise TrainingFailed(f"{peer} of ClustPy failed: {said}. Expected labels. Look into it.")
        labels: I64 = np.load(target)
    return labels


def make_environment(folder: Path) -> list[str]:
    """Make the environment of ClustPy; return the command that installs it there."""
    venv.create(folder, with_pip=True)
    packages = Path(
        subprocess.run(
            [_python(folder), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    for name in ("torchvision", "torchvision/models", "torchvision/models/_api"):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(_STUB, encoding="utf-8")
    return [_python(folder), "-m", "pip", "install", "--no-deps", "clustpy"]


def _python(folder: Path) -> str:
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    score = commands.add_parser("score")
    score.add_argument("dataset", choices=list(DATASETS))
    score.add_argument("--peer", choices=[*PEERS, *CLUSTPY], required=True)
    score.add_argument("--seed", type=int, default=0)
    commands.add_parser("environment").add_argument("folder", type=Path)
    asked = parser.parse_args(arguments)
    if asked.command == "environment":
        subprocess.run(make_environment(asked.folder), check=True)
        print(f"{VARIABLE}={asked.folder}")
        return {}
    data = read(asked.dataset)
    assert data.labels is not None, "data sets that are measured have labels"
    rows: F32 = data.images.pixels.reshape(len(data), -1).astype(np.float32) / np.float32(255)
    k = DATASETS[asked.dataset].n_classes
    labels = PEERS[asked.peer](rows, k, asked.seed) if asked.peer in PEERS else clustpy(asked.peer, rows, k, asked.seed)
    result = {**scores(labels, data.labels, outliers=-1), "clusters": float(len(set(labels.tolist()) - {-1}))}
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
