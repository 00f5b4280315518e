"""Does what JULE learned on one data set help to cluster another? AC-GDL on pixels against three of its layers.

    python -m experiments.transfer A.npz B.npz --clusters 20 100

It is the same as `selfsort fit A --method jule --out RUN`, then `selfsort fit B --method ac-gdl --encoder
RUN:top-1` for each layer; this script puts the four scores in one table. `selfsort bench jule-transfer` has the rows
of the paper: its recipe, and merging without absorbing.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from selfsort.bench.datasets import find_or_exit
from selfsort.classic.method import pixel_features
from selfsort.data import ImageSpec, conform, read_source
from selfsort.errors import InvalidInput
from selfsort.learning.device import choose_device
from selfsort.methods.jule import JULEConfig, JULEModel, restore, train
from selfsort.methods.registry import METHODS
from selfsort.metrics.external import scores
from selfsort.nets.convnet import LAYERS
from selfsort.types import F32, I64, Images


def learn(images: Images, config: JULEConfig, *, seed: int) -> JULEModel:
    """Fit JULE."""
    device = choose_device()
    for snapshot in train(images, config, device=device, seed=seed):
        if snapshot.result is not None:
            return restore(config, snapshot.result.model, device=device)
    raise AssertionError("training always ends in a result")


def features_by_layer(model: JULEModel, images: Images) -> dict[str, F32]:
    """Return pixels ("data") and the features of every layer; images are brought to the size the network knows."""
    height, width, channels = model.shape
    fitting = conform(images, ImageSpec(height, width, channels, "stretch"))
    return {"data": pixel_features(images), **{layer: model.apply(fitting, layer).features for layer in LAYERS}}


def cluster_by_layer(
    model: JULEModel, images: Images, truth: I64, n_clusters: int, *, seed: int
) -> dict[str, dict[str, float]]:
    """Cluster by AC-GDL on each kind of features and score the result."""
    method, device = METHODS["ac-gdl"], choose_device()
    assert method.train_on_features is not None
    config = method.config(n_clusters=n_clusters)
    table = {}
    for layer, features in features_by_layer(model, images).items():
        *_, last = method.train_on_features(features, config, device=device, seed=seed)
        table[layer] = scores(last.labels, truth)
    return table


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("learn_on")
    parser.add_argument("cluster")
    parser.add_argument("--clusters", type=int, nargs=2, required=True, help="of the first and of the second")
    parser.add_argument("--where", nargs=2, default=(None, None), help="NAME=VALUE of the first and of the second")
    parser.add_argument("--eta", type=float, default=0.9)
    parser.add_argument("--epochs", type=int, default=JULEConfig.epochs)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    first, second = (
        read_source(find_or_exit(source), where=where or None)
        for source, where in zip((asked.learn_on, asked.cluster), asked.where, strict=True)
    )
    if second.labels is None:
        raise InvalidInput(f"{asked.cluster} has no labels. They are needed to compare layers. Use an npz with labels.")
    config = JULEConfig(n_clusters=asked.clusters[0], eta=asked.eta, epochs=asked.epochs)
    model = learn(first.images, config, seed=asked.seed)
    table = cluster_by_layer(model, second.images, second.labels, asked.clusters[1], seed=asked.seed)
    print(json.dumps(table))
    return table


if __name__ == "__main__":
    main()
