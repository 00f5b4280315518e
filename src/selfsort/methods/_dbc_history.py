"""What DBC keeps of its training for the figures, and the labels it shows while nothing is clustered yet.

Shape letters: N images, B batch, D features, K clusters, F filters.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from selfsort.classic.kmeans import kmeans
from selfsort.learning.batches import PixelTensor
from selfsort.learning.checkpoint import to_numpy
from selfsort.nets.autoencoder import AutoEncoder
from selfsort.types import F32, I64, Arrays, Images

# Images of a stage, bars of a histogram, images whose activations are shown.
_N_KEPT, _N_BINS, _N_SHOWN = 1000, 50, 3
# Images that a glance clusters.
_N_GLANCE = 2000


def glance(seen_ND: Tensor, n_clusters: int, seed: int) -> I64:
    """Label all images by the centres of a few of them: k-means on all in every epoch would cost more than learning.

    The features are those the network computed while it was trained on them, so they lag behind it by up to an epoch.
    """
    n_kept = max(_N_GLANCE, 20 * n_clusters)
    rows = torch.linspace(0, len(seen_ND) - 1, min(n_kept, len(seen_ND))).long()
    sample: F32 = to_numpy(seen_ND[rows])
    centres = kmeans(sample, n_clusters, seed=seed, n_restarts=1, max_iterations=50).centroids
    nearest = torch.cdist(seen_ND, torch.from_numpy(centres).to(seen_ND)).argmin(dim=1)
    labels: I64 = nearest.cpu().numpy()
    return labels


def stage(features: F32, log_s_NK: Tensor, *, is_sparse: bool = False) -> Arrays:
    """Keep the histogram of the first cluster's scores over all images and, unless sparse, some images whole."""
    first_N = log_s_NK[:, 0].exp()
    bars = torch.histc(first_N, bins=_N_BINS, min=0, max=1).to(torch.int64).numpy()
    rows = np.unique(np.linspace(0, len(features) - 1, min(_N_KEPT, len(features))).astype(np.int64))
    if is_sparse:
        return {"score_histogram": bars, "rows": rows[:0]}
    soft = log_s_NK.exp().numpy()[rows]
    labels = log_s_NK.argmax(dim=1).numpy()[rows]
    return {"score_histogram": bars, "rows": rows, "features": features[rows], "soft": soft, "labels": labels}


def pictures(
    net: AutoEncoder, images: Images, log_s_NK: Tensor, device: torch.device, chosen: tuple[int, ...] = ()
) -> Arrays:
    """Filters, and what every layer makes of the images chosen, or of the surest ones of the first clusters."""
    shown = log_s_NK.argmax(dim=0)[:_N_SHOWN]
    if kept := [row for row in chosen if row < len(images)]:
        shown = torch.tensor(kept)
    net.eval()
    with torch.inference_mode():
        maps = net.activations(PixelTensor(images, device).floats(shown))
    found = {f"activations.{name}": to_numpy(value) for name, value in maps.items()}
    for name, weight_FCHW in net.filters().items():
        found[f"filters.{name}"] = to_numpy(weight_FCHW.permute(0, 2, 3, 1))
    return {**found, "activation_rows": to_numpy(shown)}
