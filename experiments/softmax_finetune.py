"""Fine-tune a JULE network by a softmax over the clusters it found, then judge it by face verification.

The L2 layer goes, a linear layer over the predicted clusters comes, and cross-entropy trains the whole. The control
(`--truth`) trains a network of the same form, but fresh, on true identities, which is what the clusters stand in for.

    python -m experiments.softmax_finetune RUN SOURCE --faces FOLDER --pairs pairs.csv [--truth]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments.face_verification import read_pairs, verify_pictures
from selfsort.bench.datasets import find_or_exit
from selfsort.data import read_source
from selfsort.errors import InvalidInput, invalid
from selfsort.learning.batches import PixelTensor, shuffled_batches
from selfsort.learning.device import choose_device
from selfsort.learning.epoch import run_epoch
from selfsort.learning.seeds import seeded_init, torch_generator
from selfsort.methods.jule import JULEConfig, JULEModel, build_network, encode_layer
from selfsort.nets.convnet import ConvNet
from selfsort.nets.heads import EmbeddingHead
from selfsort.runs.encoder import load_run_encoder
from selfsort.runs.folder import RunFolder
from selfsort.types import I64, Images


@dataclass(frozen=True)
class FineTuning:
    """How to train; the paper does not say, so these are ours."""

    epochs: int = 20
    batch_size: int = 100
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 5e-5


def fresh(folder: RunFolder, model: JULEModel, seed: int) -> ConvNet | EmbeddingHead:
    """Return a network of the form of the run's, with nothing learned yet."""
    config = JULEConfig.from_json(folder.config["settings"])
    with seeded_init(seed):
        return build_network(model.shape, config)


def finetune(
    net: ConvNet, images: Images, labels: I64, how: FineTuning, *, device: torch.device, seed: int
) -> list[float]:
    """Train the network in place on these labels; return the loss of every epoch."""
    if len(labels) != len(images):
        raise invalid("labels", f"have one entry per image ({len(images)})", len(labels), "Use the run's own source.")
    classes = np.unique(labels, return_inverse=True)[1]
    with seeded_init(seed, "softmax"):
        head = nn.Linear(net.ip.out_features, int(classes.max()) + 1).to(device)
    parameters = [*net.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=how.lr, momentum=how.momentum, weight_decay=how.weight_decay)
    pixels, targets = PixelTensor(images, device), torch.from_numpy(classes).to(device)
    generator = torch_generator(seed, "softmax batches")

    def step(batch: Tensor) -> Tensor | None:
        if len(batch) < 2:  # a single image has no batch statistics
            return None
        return F.cross_entropy(head(net(pixels.floats(batch))), targets[batch])

    net.train()
    return [
        run_epoch(step, shuffled_batches(len(images), how.batch_size, generator), optimizer, what="softmax").loss
        for _ in range(how.epochs)
    ]


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path, help="JULE run on unlabelled faces")
    parser.add_argument("source", help="the images of that run")
    parser.add_argument("--faces", type=Path, required=True, help="folder of pictures to verify on")
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--truth", action="store_true", help="control: train a fresh network on true identities")
    parser.add_argument("--epochs", type=int, default=FineTuning.epochs)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    device, pairs = choose_device(), read_pairs(asked.pairs)
    folder = RunFolder.open(asked.run)
    encoder = load_run_encoder(folder, device)
    if not isinstance(encoder.model, JULEModel):
        raise InvalidInput(f"{asked.run} is not a JULE run. Expected one. Fit it with --method jule.")
    source = read_source(find_or_exit(asked.source), spec=encoder.spec)
    labels = source.labels if asked.truth else folder.result().labels
    if labels is None:
        raise InvalidInput(f"{asked.source} has no labels. --truth needs them. Leave --truth out.")
    net = encoder.model.net
    if asked.truth:
        net = fresh(folder, encoder.model, asked.seed).to(device)
    assert isinstance(net, ConvNet), "a run on the features of an encoder has no such network"
    losses = finetune(net, source.images, labels, FineTuning(epochs=asked.epochs), device=device, seed=asked.seed)
    faces = read_source([asked.faces / name for name in pairs.pictures], spec=encoder.spec, max_bad=0.0)
    found = verify_pictures(encode_layer(net, faces.images, device), pairs.pictures, pairs)
    result = {"accuracy": found.mean, "spread": float(found.accuracy.std()), "loss": losses[-1]}
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    main()
