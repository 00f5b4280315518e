"""DAC on the handwritten digits that come with scikit-learn: thresholds, pairs and what they teach.

Run it with: python examples/dac.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from selfsort.data import from_array
from selfsort.methods.dac import DACConfig, restore, train
from selfsort.metrics.external import scores

digits = load_digits()
images = from_array(digits.images / 16)
known, new = images.subset(slice(0, 1500)), images.subset(slice(1500, None))

# A narrow network and small pools for small pictures; eta moves the thresholds further per epoch, as epochs are few.
config = DACConfig(n_clusters=10, width=16, pool_size=500, batch_size=64, epochs=8, eta=0.03)
device = torch.device("cpu")

# `train` is a generator: one snapshot per pool; the last pool of an epoch labels all images afresh. It gets images
# only; the true digits are used here, in the loop outside, to see how it goes.
for snapshot in train(known, config, device=device, seed=0):
    event = snapshot.event
    if event["phase"] == "epoch":
        now = scores(snapshot.labels, digits.target[:1500])
        print(
            f"epoch {event['epoch']:2}   same above {event['upper']:.3f}, different below {event['lower']:.3f}   "
            f"{event['selected_fraction']:4.0%} of the pairs   NMI {now['nmi_geometric']:.3f}   ACC {now['acc']:.3f}"
        )

result = snapshot.result
assert result is not None
print(f"last iterate: ACC {scores(result.labels, digits.target[:1500])['acc']:.3f}")

# The network is all that is needed to label images it has never seen.
model = restore(config, result.model, device=device)
print(f"new digits: ACC {scores(model.apply(new).labels, digits.target[1500:])['acc']:.3f}")
