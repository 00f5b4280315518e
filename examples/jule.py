"""JULE on the handwritten digits that come with scikit-learn: the training loop in plain sight.

Run it with: python examples/jule.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from selfsort.data import from_array
from selfsort.methods.jule import JULEConfig, restore, train
from selfsort.metrics.external import scores

digits = load_digits()
images = from_array(digits.images / 16)
known, new = images.subset(slice(0, 1500)), images.subset(slice(1500, None))

config = JULEConfig(n_clusters=10, epochs=5)
device = torch.device("cpu")

# `train` is a generator: one snapshot after the start, each epoch and each round of merges. It gets images only; the
# true digits are used here, in the loop outside, to see how it goes.
for snapshot in train(known, config, device=device, seed=0):
    if snapshot.event["phase"] != "train":
        now = scores(snapshot.labels, digits.target[:1500])
        n_clusters = snapshot.labels.max() + 1
        print(f"{n_clusters:4} clusters   NMI {now['nmi_geometric']:.3f}   ACC {now['acc']:.3f}")

result = snapshot.result
assert result is not None
print(f"SF labels: ACC {scores(result.extras['labels_sf'], digits.target[:1500])['acc']:.3f}")

# Images it has never seen are labelled by a vote of their nearest training images.
model = restore(config, result.model, device=device)
print(f"new digits: ACC {scores(model.apply(new).labels, digits.target[1500:])['acc']:.3f}")
