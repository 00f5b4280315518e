"""Classify images by a codebook of patches (Coates, Ng), of raw patches or of what JULE learned from patches.

Patches of 6 x 6 pixels are contrast-normalised and whitened, k-means finds codes, every patch of an image is coded
by the "triangle" rule, codes are summed over the four quadrants, and a linear classifier does the rest. JULE's
variant first trains a small network on patches and builds the codebook on the activations of its first
convolution, its second, or both.

    python -m experiments.patch_codebook cifar10-test.npz --train 4000 --test 2000 --codes 400 --on conv1+conv2

Where we differ from the papers: codes are whitened on activations as they are on patches; the number of clusters
JULE looks for among patches is not stated (ours: 100).

Shape letters: N images, P patches, D values of a patch, K codes, S patches along a side.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from experiments.embedding import jule_settings
from selfsort.bench.datasets import find_or_exit
from selfsort.data import read_source
from selfsort.errors import InvalidInput, invalid
from selfsort.learning.device import choose_device
from selfsort.learning.seeds import numpy_generator
from selfsort.methods.jule import JULEConfig, JULEModel, restore, train
from selfsort.nets.convnet import ConvNet
from selfsort.progress import track
from selfsort.types import F32, I64, U8, Images

Basis = Literal["patches", "conv1", "conv2", "conv1+conv2"]
Describe = Callable[[U8], F32]
"""From raw patches (P, s, s, C) to rows (P, D)."""


@dataclass(frozen=True)
class Pipeline:
    """Sizes of the experiment; the defaults are the published ones."""

    patch: int = 6
    codes: int = 1600
    n_patches: int = 40_000
    n_clusters: int = 100
    """Clusters JULE looks for among the patches (not stated; ours)."""
    kmeans_rounds: int = 10
    svm_c: float = 0.01
    """Strength of the classifier (ours)."""


def sample_patches(images: Images, n_patches: int, side: int, generator: np.random.Generator) -> U8:
    """Cut patches at random places of random images."""
    height, width, _ = images.shape
    if side > min(height, width):
        raise invalid("the patch", f"fit into the images ({height}x{width})", side, "Use smaller patches.")
    image = generator.integers(0, len(images), n_patches)
    top, left = generator.integers(0, height - side + 1, n_patches), generator.integers(0, width - side + 1, n_patches)
    inside = np.arange(side)
    rows, columns = (top[:, None] + inside)[:, :, None], (left[:, None] + inside)[:, None, :]
    patches: U8 = images.pixels[image[:, None, None], rows, columns]
    return patches


def all_patches(pixels: U8, side: int) -> U8:
    """Return every patch of one image (H, W, C), row by row: (S * S, side, side, C)."""
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (side, side), axis=(0, 1))
    patches: U8 = np.moveaxis(windows, 2, -1).reshape(-1, side, side, pixels.shape[2])
    return patches


def normalise_contrast(rows_PD: F32) -> F32:
    """Give every row mean 0 and variance 1, except for nearly flat ones (+10 on the scale of 0..255)."""
    centred = rows_PD - rows_PD.mean(axis=1, keepdims=True)
    normalised: F32 = centred / np.sqrt(centred.var(axis=1, keepdims=True) + 10)
    return normalised


@dataclass(frozen=True, eq=False)
class Whitening:
    """ZCA: uncorrelated values of unit variance that stay as close to the original as they can."""

    mean: F32
    turn: F32

    def __call__(self, rows_PD: F32) -> F32:
        """Whiten rows."""
        whitened: F32 = ((rows_PD - self.mean) @ self.turn).astype(np.float32)
        return whitened


def fit_whitening(rows_PD: F32, eps: float = 0.1) -> Whitening:
    """Learn the whitening of these rows."""
    mean = rows_PD.mean(axis=0)
    variance, basis = np.linalg.eigh(np.cov(rows_PD - mean, rowvar=False).astype(np.float64))
    turn = (basis / np.sqrt(np.maximum(variance, 0) + eps)) @ basis.T
    return Whitening(mean, turn.astype(np.float32))


def learn_codes(rows_PD: F32, n_codes: int, rounds: int, generator: np.random.Generator) -> F32:
    """k-means by matrix products; a code that nobody uses starts again at a random row."""
    if n_codes > len(rows_PD):
        raise invalid("the number of codes", f"be at most that of patches ({len(rows_PD)})", n_codes, "Lower --codes.")
    codes_KD = rows_PD[generator.choice(len(rows_PD), n_codes, replace=False)].copy()
    for _ in track(range(rounds), "codebook", rounds):
        nearest = np.concatenate(
            [_nearest(block, codes_KD) for block in np.array_split(rows_PD, len(rows_PD) // 4096 + 1)]
        )
        counts = np.bincount(nearest, minlength=n_codes)
        order = np.argsort(nearest, kind="stable")
        used = np.flatnonzero(counts)
        starts = np.concatenate([[0], np.cumsum(counts[used])[:-1]])
        codes_KD[used] = np.add.reduceat(rows_PD[order], starts) / counts[used, None]
        empty = np.flatnonzero(counts == 0)
        codes_KD[empty] = rows_PD[generator.choice(len(rows_PD), len(empty), replace=False)]
    return codes_KD


def _nearest(rows_PD: F32, codes_KD: F32) -> I64:
    nearest: I64 = np.argmin((codes_KD**2).sum(axis=1) - 2 * rows_PD @ codes_KD.T, axis=1)
    return nearest


def triangle(rows_PD: F32, codes_KD: F32) -> F32:
    """Code each row by how much nearer than the average it is to each code: max(0, mean(z) - z_k)."""
    squared = (rows_PD**2).sum(axis=1, keepdims=True) + (codes_KD**2).sum(axis=1) - 2 * rows_PD @ codes_KD.T
    distance = np.sqrt(np.maximum(squared, 0))
    coded: F32 = np.maximum(distance.mean(axis=1, keepdims=True) - distance, 0)
    return coded


def pool_quadrants(coded_PK: F32, n_down: int, n_across: int) -> F32:
    """Sum the codes over the four quadrants of an image: (4 K,)."""
    grid = coded_PK.reshape(n_down, n_across, -1)
    middle_down, middle_across = n_down // 2, n_across // 2
    halves = [grid[:middle_down], grid[middle_down:]]
    parts = [
        half[:, cut].sum(axis=(0, 1)) for half in halves for cut in (slice(middle_across), slice(middle_across, None))
    ]
    pooled: F32 = np.concatenate(parts)
    return pooled


def encode_images(images: Images, side: int, describe: Describe, codes_KD: F32) -> F32:
    """Return the pooled codes of every image: (N, 4 K)."""
    height, width, _ = images.shape
    n_down, n_across = height - side + 1, width - side + 1
    rows: F32 = np.empty((len(images), 4 * len(codes_KD)), dtype=np.float32)
    for i in track(range(len(images)), "coding images", len(images)):
        coded = triangle(describe(all_patches(images.pixels[i], side)), codes_KD)
        rows[i] = pool_quadrants(coded, n_down, n_across)
    return rows


def raw_description(patches: U8) -> F32:
    """Contrast-normalised pixels."""
    return normalise_contrast(patches.reshape(len(patches), -1).astype(np.float32))


def learn_network(
    patches: U8, n_clusters: int, *, seed: int, epochs: int = JULEConfig.epochs, recipe: str = "default"
) -> JULEModel:
    """Train JULE on patches."""
    device, images = choose_device(), Images(patches)
    own = {"n_clusters": n_clusters, "arch": "patches", "epochs": epochs}
    config = JULEConfig.from_json({**jule_settings(recipe, images), **own})
    for snapshot in train(images, config, device=device, seed=seed):
        if snapshot.result is not None:
            return restore(config, snapshot.result.model, device=device)
    raise AssertionError("training always ends in a result")


def network_description(model: JULEModel, basis: Basis) -> Describe:
    """Describe patches by the activations of the chosen convolutions."""
    kept = {"conv1": (0,), "conv2": (1,), "conv1+conv2": (0, 1)}[basis]

    net = model.net.eval()
    assert isinstance(net, ConvNet), "a run on the features of an encoder has no convolutions"

    def describe(patches: U8) -> F32:
        with torch.inference_mode():
            pixels = torch.from_numpy(patches).to(model.device).permute(0, 3, 1, 2).float() / 255
            maps = net.maps(pixels)
            rows: F32 = torch.cat([maps[place].flatten(1) for place in kept], dim=1).cpu().numpy()
        return rows

    return describe


def classify(train_rows: F32, train_truth: I64, test_rows: F32, test_truth: I64, c: float, seed: int) -> float:
    """Return the accuracy of a linear classifier on the test rows."""
    scaler = StandardScaler().fit(train_rows)
    machine = LinearSVC(C=c, random_state=seed, dual=len(train_rows) < train_rows.shape[1], max_iter=2000, tol=1e-3)
    machine.fit(scaler.transform(train_rows), train_truth)
    return float(machine.score(scaler.transform(test_rows), test_truth))


def run(
    patch_images: Images,
    train_images: Images,
    train_truth: I64,
    test_images: Images,
    test_truth: I64,
    basis: Basis,
    sizes: Pipeline,
    *,
    seed: int = 0,
    epochs: int = JULEConfig.epochs,
    recipe: str = "default",
) -> float:
    """Go through the whole pipeline; return the accuracy on the test images.

    Patches are cut from `patch_images`, which need no labels; the classifier learns from `train_images` alone.
    """
    generator = numpy_generator(seed, "patches")
    patches = sample_patches(patch_images, sizes.n_patches, sizes.patch, generator)
    first: Describe = raw_description
    if basis != "patches":
        learned = learn_network(patches, sizes.n_clusters, seed=seed, epochs=epochs, recipe=recipe)
        first = network_description(learned, basis)
    rows = first(patches)
    whiten = fit_whitening(rows)
    codes = learn_codes(whiten(rows), sizes.codes, sizes.kmeans_rounds, generator)

    def describe(cut: U8) -> F32:
        return whiten(first(cut))

    train_rows, test_rows = (
        encode_images(images, sizes.patch, describe, codes) for images in (train_images, test_images)
    )
    return classify(train_rows, train_truth, test_rows, test_truth, sizes.svm_c, seed)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="labelled images")
    parser.add_argument("--train", type=int, default=4000, help="images whose labels are learned, the first ones")
    parser.add_argument("--test", type=int, default=2000, help="images to judge on")
    parser.add_argument("--test-from", type=int, default=None, help="the first of these; the one after the others")
    parser.add_argument("--on", choices=get_args(Basis), default="patches", help="what the codebook is built on")
    parser.add_argument("--codes", type=int, default=Pipeline.codes)
    parser.add_argument("--patches", type=int, default=Pipeline.n_patches)
    parser.add_argument("--clusters", type=int, default=Pipeline.n_clusters)
    parser.add_argument("--epochs", type=int, default=JULEConfig.epochs)
    parser.add_argument("--recipe", default="default", help="of jule: paper, code, or our defaults")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    data = read_source(find_or_exit(asked.source))
    first = asked.train if asked.test_from is None else asked.test_from
    if first < asked.train:
        raise invalid("--test-from", f"be at least --train ({asked.train})", first, "Judge on other images.")
    if data.labels is None or len(data) < first + asked.test:
        raise InvalidInput(
            f"{asked.source} has {len(data)} images{'' if data.labels is not None else ' and no labels'}. "
            f"Expected labels and {first + asked.test} images. Lower --train and --test."
        )
    sizes = Pipeline(codes=asked.codes, n_patches=asked.patches, n_clusters=asked.clusters)
    learn, judge = slice(0, asked.train), slice(first, first + asked.test)
    accuracy = run(
        data.images.subset(slice(0, first)), data.images.subset(learn), data.labels[learn],
        data.images.subset(judge), data.labels[judge],
        asked.on, sizes, seed=asked.seed, epochs=asked.epochs, recipe=asked.recipe,
    )  # fmt: skip
    result = {"accuracy": accuracy}
    print(json.dumps({"on": asked.on, **result}))
    return result


if __name__ == "__main__":
    main()
