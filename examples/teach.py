"""teach on the handwritten digits that come with scikit-learn, and what a consensus of three starts makes of them.

Run it with: python examples/teach.py
"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits

from selfsort.classic.method import pixel_features
from selfsort.data import from_array
from selfsort.graph.knn import nearest_neighbours
from selfsort.improve.consensus import find_consensus, put_to_vote, spread
from selfsort.methods.teach import TeachConfig, restore, train
from selfsort.metrics.external import scores

digits = load_digits()
images = from_array(digits.images / 16)
known, new = images.subset(slice(0, 1500)), images.subset(slice(1500, None))

config = TeachConfig(n_clusters=10, epochs=12)
device = torch.device("cpu")

# The first snapshot holds the communities of the graph, each later one what the network says after an epoch.
for snapshot in train(known, config, device=device, seed=0):
    now = scores(snapshot.labels, digits.target[:1500])
    print(f"{snapshot.event['phase']:>14}   NMI {now['nmi_geometric']:.3f}   ACC {now['acc']:.3f}")

result = snapshot.result
assert result is not None
model = restore(config, result.model, device=device)
print(f"new digits: ACC {scores(model.apply(new).labels, digits.target[1500:])['acc']:.3f}")

# Graphs of three widths, nothing learned: pairs of neighbours vote, and the agreement is clustered.
starts = [next(train(known, TeachConfig(n_clusters=10, K_s=k), device=device, seed=0)).labels for k in (7, 14, 28)]
rows, votes = pixel_features(known), np.stack(starts)
labels, _ = find_consensus(votes, [nearest_neighbours(rows, 10)], rows, 10, seed=0)
soft = put_to_vote(votes, [spread(one, labels, 10, 10) for one in votes])
print(f"consensus: ACC {scores(soft.argmax(axis=1), digits.target[:1500])['acc']:.3f}")
print(f"agreement: {soft.max(axis=1).mean():.3f}")
