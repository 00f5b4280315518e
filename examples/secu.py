"""SeCu on the handwritten digits that come with scikit-learn: epochs, sizes and bounds in plain sight.

Run it with: python examples/secu.py
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from selfsort.data import from_array
from selfsort.methods.recipes import choose_recipe
from selfsort.methods.secu import SeCuConfig, restore, train
from selfsort.metrics.external import scores

digits = load_digits()
images = from_array(digits.images / 16)
known, new = images.subset(slice(0, 1500)), images.subset(slice(1500, None))

recipe = choose_recipe("secu", "cpu", known.shape, has_accelerator=False).recipe
config = SeCuConfig.from_json({**recipe.settings, "n_clusters": 10, "epochs": 30, "batch_size": 64})
device = torch.device("cpu")

# `train` is a generator: one snapshot per epoch, epoch 0 (centres only) first. It gets images only; the true digits
# are used here, in the loop outside, to see how it goes.
for snapshot in train(known, config, device=device, seed=0):
    if snapshot.step % 5 == 1:
        now, sizes = scores(snapshot.labels, digits.target[:1500]), snapshot.history["sizes"]
        bound = float(snapshot.event["size_lower"])
        print(
            f"epoch {snapshot.step - 1:2}   {float(snapshot.event['changed']):6.1%} of the labels changed   "
            f"smallest cluster {sizes.min():3} (bound {bound:.0f})   ACC {now['acc']:.3f}"
        )

result = snapshot.result
assert result is not None
print(f"last iterate: ACC {scores(result.labels, digits.target[:1500])['acc']:.3f}")

# The network and the centres are all that is needed to label images it has never seen.
model = restore(config, result.model, device=device)
print(f"new digits: ACC {scores(model.apply(new).labels, digits.target[1500:])['acc']:.3f}")
