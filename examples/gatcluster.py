"""GATCluster on the handwritten digits that come with scikit-learn: the two steps, and where the network looks.

Run it with: python examples/gatcluster.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from selfsort.data import from_array
from selfsort.methods.gatcluster import GATClusterConfig, restore, train
from selfsort.metrics.external import scores

digits = load_digits()
images = from_array(digits.images / 16)
known, new = images.subset(slice(0, 1500)), images.subset(slice(1500, None))

config = GATClusterConfig(n_clusters=10, M=500, m2=50, repeats=4, iterations=30, width=0.25, n_restarts=5, lr=0.003)
device = torch.device("cpu")

# `train` is a generator: one snapshot after every few large batches. It gets images only; the true digits are used
# here, in the loop outside, to see how it goes.
for snapshot in train(known, config, device=device, seed=0):
    now = scores(snapshot.labels, digits.target[:1500])
    sure = float(snapshot.event["sureness"])
    print(f"large batch {snapshot.event['iteration']:4}   sure {sure:.2f}   ACC {now['acc']:.3f}")

result = snapshot.result
assert result is not None

# Each image has a bump of attention: its centre and its width, as shares of the picture.
mu_x, mu_y, delta = result.extras["attention_parameters"].mean(axis=0)
print(f"it looks at ({mu_x:.2f}, {mu_y:.2f}) on average, with width {delta:.2f}")

# The network alone labels images it has never seen.
model = restore(config, result.model, device=device)
print(f"new digits: ACC {scores(model.apply(new).labels, digits.target[1500:])['acc']:.3f}")
