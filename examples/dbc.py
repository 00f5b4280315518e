"""FCAE and DBC on the handwritten digits that come with scikit-learn: both stages in plain sight.

Run it with: python examples/dbc.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from selfsort.data import from_array
from selfsort.methods.dbc import DBCConfig, restore, train
from selfsort.metrics.external import scores

digits = load_digits()
images = from_array(digits.images / 16)
known, new = images.subset(slice(0, 1500)), images.subset(slice(1500, None))

config = DBCConfig(n_clusters=10, ae_epochs=20, epochs=30, batch_size=64)
device = torch.device("cpu")

# `train` is a generator: one snapshot per epoch of stage I (reconstruct), one for k-means, one per epoch of stage II
# (boost). It gets images only; the true digits are used here, in the loop outside, to see how it goes.
for snapshot in train(known, config, device=device, seed=0):
    phase = snapshot.event["phase"]
    if phase == "k-means" or (phase == "boost" and snapshot.step % 5 == 0):
        now = scores(snapshot.labels, digits.target[:1500])
        changed = float(snapshot.event.get("changed", 1.0))
        print(f"{phase:8} {changed:6.1%} of the labels changed   NMI {now['nmi_max']:.3f}   ACC {now['acc']:.3f}")

result = snapshot.result
assert result is not None
print(f"last iterate: ACC {scores(result.labels, digits.target[:1500])['acc']:.3f}")

# The encoder and the centres are all that is needed to label images it has never seen.
model = restore(config, result.model, device=device)
print(f"new digits: ACC {scores(model.apply(new).labels, digits.target[1500:])['acc']:.3f}")
