"""How many clusters are found, what each criterion says, and what peers answer; the table of docs/choose-k.md.

Run: python -m benchmarks.choose_k [NAME ...] [--samples]

A NAME is a data set of SELFSORT_DATA or `digits`, from pixels, or with an encoder: `cifar10-test+efficientnet-lite2`.
Without names: every one of `SEEN`. With --samples: random parts of some sets from 300 images on, to see that the answer
does not drift. Each answer is a line of docs/records/choose-k.jsonl, where what is measured is not measured again.

Labels are read for the true number and the NMI beside the answers; no criterion and no peer sees them. Peers: k-means
with the best silhouette of all k up to 40 (on at most 2,000 images), HDBSCAN on UMAP (20 neighbours, 10 dimensions,
clusters of at least a hundredth of the images), and EVoC where it is installed, with its own defaults.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from selfsort.bench.datasets import DATASETS, read
from selfsort.choose_k.search import choose_k
from selfsort.classic.kmeans import kmeans
from selfsort.classic.method import pixel_features
from selfsort.data import from_array
from selfsort.encoders.cache import cache_folder
from selfsort.encoders.fitted import Part, fit_encoder
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.encoders.registry import open_named
from selfsort.metrics import nmi
from selfsort.types import F32, I64, Json

RECORDS = Path(__file__).parents[1] / "docs" / "records" / "choose-k.jsonl"
PHOTOS = ("photos-mixed", "tinyimagenet-10", "coil20", "cifar10-test", "coil100")
SEEN = (
    "digits",
    "umist",
    "usps",
    "mnist-test",
    "cmu-pie",
    "coil20",
    *(f"{name}+efficientnet-lite2" for name in PHOTOS),
)
SAMPLED = ("usps", "mnist-test", "mnist", "tinyimagenet-10+efficientnet-lite2", "cifar10-test+efficientnet-lite2")
SIZES = (300, 600, 1000, 2000, 5000, 10_000, 20_000, 70_000)
CPU = torch.device("cpu")
_MOST_K, _MOST_FOR_SILHOUETTE, _MOST_FOR_PEERS = 40, 2000, 10_000


def main() -> None:
    arguments = argparse.ArgumentParser(description="How many clusters are found, beside criteria and peers.")
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--samples", action="store_true", help="random parts of the sets, without peers")
    asked = arguments.parse_args()
    RECORDS.parent.mkdir(exist_ok=True)
    done = {(one["name"], one["n_images"]) for one in records()}
    for name in asked.names or (SAMPLED if asked.samples else SEEN):
        rows, labels = features(name)
        sizes = [size for size in SIZES if size < len(rows)] if asked.samples else [len(rows)]
        for size in sizes:
            if (name, size) in done:
                continue
            part = np.sort(np.random.default_rng(size).permutation(len(rows))[:size])
            found = measure(name, rows[part], labels[part], has_peers=not asked.samples)
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(json.dumps(found), flush=True)


def records() -> list[Json]:
    """Return what was measured so far."""
    return [json.loads(line) for line in RECORDS.read_text().splitlines()] if RECORDS.exists() else []


def features(name: str) -> tuple[F32, I64]:
    """Return the rows that a run with this data set starts from, and the true classes."""
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        return pixel_features(from_array(pixels)), digits.target.astype(np.int64)
    dataset, _, encoder = name.partition("+")
    data = read(dataset)
    assert data.labels is not None, "a set for scoring has classes"
    if not encoder:
        return pixel_features(data.images), data.labels
    pictures = Pictures(data.images, data.names, data.fingerprint)
    part = Part(open_named(encoder, CPU), is_general=True)
    _, encoded = fit_encoder(
        (part,), pictures, EncodeConfig(), on="features", with_views=False, device=CPU, folder=cache_folder()
    )
    return encoded.features, data.labels


def measure(name: str, rows: F32, labels: I64, *, has_peers: bool) -> Json:
    """Find the number of clusters, and ask the others."""
    begin = time.perf_counter()
    found = choose_k(rows, seed=0, device=CPU)
    seconds = time.perf_counter() - begin
    dataset = name.partition("+")[0]
    return {
        "name": name,
        "title": DATASETS[dataset].title if dataset in DATASETS else dataset,
        "n_images": len(rows),
        "classes": len(np.unique(labels)),
        "found": found.k,
        "nearly": list(found.near),
        "nmi_geometric": round(nmi(labels, found.labels, "geometric"), 3),
        "seconds": round(seconds, 1),
        "criteria": {one.name: one.answer for one in found.evidence[1:]},
        "peers": peers(rows) if has_peers else {},
    }


def peers(rows: F32) -> dict[str, int | None]:
    """Ask those whom people use today; None where one is not installed."""
    few = rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:_MOST_FOR_PEERS])]
    return {"silhouette": by_silhouette(few), "UMAP + HDBSCAN": by_density(few), "EVoC": by_evoc(few)}


def by_silhouette(rows: F32) -> int:
    from sklearn.metrics import silhouette_score

    few = rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:_MOST_FOR_SILHOUETTE])]
    scores = [
        float(silhouette_score(few, kmeans(few, k, seed=0, n_restarts=2).labels))
        for k in range(2, min(_MOST_K, len(few) - 1) + 1)
    ]
    return 2 + int(np.argmax(scores))


def by_density(rows: F32) -> int:
    from sklearn.cluster import HDBSCAN
    from umap import UMAP

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        embedded = UMAP(n_neighbors=20, n_components=10, min_dist=0.0, random_state=0).fit_transform(rows)
    found = HDBSCAN(min_cluster_size=max(len(rows) // 100, 5)).fit_predict(embedded)
    return int(found.max()) + 1


def by_evoc(rows: F32) -> int | None:
    try:
        evoc = importlib.import_module("evoc")
    except ImportError:
        return None
    return int(evoc.EVoC().fit_predict(rows).max()) + 1


if __name__ == "__main__":
    main()
