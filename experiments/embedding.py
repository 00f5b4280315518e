"""A low-dimensional embedding learned by JULE, judged on images it has not seen, against principal components.

The network gets a last layer of D values without normalisation; clusters come from raw pixels only. Judged by the
1-NN error of the test images among the training images and by the trustworthiness T(12) of the test images.

    python -m experiments.embedding mnist.npz --train split=0:5000 --test split=1:2000 --clusters 10 --dim 2
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from selfsort.bench.datasets import find_or_exit
from selfsort.data import read_source
from selfsort.errors import InvalidInput
from selfsort.learning.device import choose_device
from selfsort.methods.jule import JULEConfig, JULEModel, restore, train
from selfsort.methods.recipes import choose_recipe
from selfsort.metrics.neighbourhood import one_nn_error, trustworthiness
from selfsort.types import F32, I64, Images


@dataclass(frozen=True)
class Quality:
    """How good an embedding is."""

    one_nn_error: float
    trustworthiness: float


def judge(train_rows: F32, train_truth: I64, test_rows: F32, test_truth: I64, test_pixels: F32) -> Quality:
    """Score the embedding of the test images."""
    return Quality(
        one_nn_error(train_rows, train_truth, test_rows, test_truth), trustworthiness(test_pixels, test_rows, 12)
    )


def embed(images: Images, config: JULEConfig, *, seed: int) -> tuple[F32, JULEModel]:
    """Fit JULE; return the embedding of its images and the model for others."""
    device = choose_device()
    for snapshot in train(images, config, device=device, seed=seed):
        print(f"step {snapshot.step} of {snapshot.total} {dict(snapshot.event)}", file=sys.stderr)
        if snapshot.result is not None:
            return snapshot.result.features, restore(config, snapshot.result.model, device=device)
    raise AssertionError("training always ends in a result")


def compare(
    train_images: Images, train_truth: I64, test_images: Images, test_truth: I64, config: JULEConfig, *, seed: int
) -> dict[str, Quality]:
    """Embed by JULE and by PCA with as many dimensions."""
    flat_train, flat_test = (
        (images.pixels.reshape(len(images), -1) / np.float32(255)).astype(np.float32)
        for images in (train_images, test_images)
    )
    pca = PCA(config.embedding_dim, random_state=seed).fit(flat_train)
    rows, model = embed(train_images, config, seed=seed)
    learned = judge(rows, train_truth, model.apply(test_images).features, test_truth, flat_test)
    principal = judge(pca.transform(flat_train), train_truth, pca.transform(flat_test), test_truth, flat_test)
    return {"jule": learned, "pca": principal}


def jule_settings(recipe: str, images: Images) -> dict[str, Any]:
    """Return what a recipe of JULE sets for images like these."""
    return dict(choose_recipe("jule", recipe, images.shape, choose_device().type != "cpu").recipe.settings)


def read_part(source: str, part: str) -> tuple[Images, I64]:
    """Read `NAME=VALUE:COUNT`: the first COUNT rows for which NAME is VALUE."""
    where, _, count = part.partition(":")
    found = read_source(find_or_exit(source), where=where)
    if found.labels is None:
        raise InvalidInput(f"{source} has no labels. The embedding is judged by them. Use an npz with labels.")
    kept = slice(None, int(count) if count else None)
    return found.images.subset(kept), found.labels[kept]


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("--train", default="split=0", help="NAME=VALUE[:COUNT]")
    parser.add_argument("--test", default="split=1", help="NAME=VALUE[:COUNT]")
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--dim", type=int, default=2)
    parser.add_argument("--eta", type=float, default=0.2, help="as published for this experiment")
    parser.add_argument("--epochs", type=int, default=JULEConfig.epochs)
    parser.add_argument("--recipe", default="default", help="of jule: paper, code, or our defaults")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    learned_from, judged_on = read_part(asked.source, asked.train), read_part(asked.source, asked.test)
    own = {"n_clusters": asked.clusters, "embedding_dim": asked.dim, "eta": asked.eta, "epochs": asked.epochs}
    config = JULEConfig.from_json({**jule_settings(asked.recipe, learned_from[0]), **own})
    found = compare(*learned_from, *judged_on, config, seed=asked.seed)
    result = {name: vars(quality) for name, quality in found.items()}
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
