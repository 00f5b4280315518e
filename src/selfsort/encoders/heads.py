"""What an encoder that has kept its head says of pictures it has seen already: no picture is encoded for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from selfsort.encoders.cache import Rows, Wanted, kept_rows
from selfsort.encoders.weights import PUBLISHED, Published, read_weights
from selfsort.errors import SelfsortError
from selfsort.nets.efficientnet import N_FEATURES
from selfsort.types import F32, I64, Json

_WEIGHT, _BIAS = "classifier.weight", "classifier.bias"


def class_probabilities(described: Json, fingerprint: str, n_images: int, rows: I64, folder: Path | None) -> F32 | None:
    """Return how likely each class is for some pictures; None if the encoder has no head, or nothing is kept.

    Args:
        described: the encoder as a run describes it.
        fingerprint: of the pictures of the run.
        n_images: how many they are.
        rows: which of them.
        folder: the cache.
    """
    parts = described.get("parts")
    part = parts[0] if isinstance(parts, list) and len(parts) == 1 and isinstance(parts[0], dict) else {}
    published = published_head(part)
    if published is None or folder is None:
        return None
    about = {
        "encoder": published.name,
        "digest": published.digest,
        "engine": part.get("engine"),
        "pictures": fingerprint,
        "size": list(published.shape),
    }
    found = (
        kept_rows(Wanted(n_images, (N_FEATURES,), "<f4", about | {"mirror": is_mirrored}), folder)
        for is_mirrored in (True, False)
    )
    features = next((kept for kept in found if kept is not None), None)
    if features is None:
        return None
    try:
        weights = read_weights(published)
    except SelfsortError:  # the package is gone or damaged, and names are a convenience
        return None
    return _softmax(features, rows, weights[_WEIGHT].numpy(), weights[_BIAS].numpy())


def published_head(part: Json) -> Published | None:
    """Return the weights that an encoder's head is among, given what a run says of it; None if it has none."""
    told = (part.get("name"), part.get("digest"))
    return next((one for one in PUBLISHED.values() if (one.name, one.digest) == told), None)


def _softmax(features: Rows, rows: I64, weight: F32, bias: F32) -> F32:
    logits = np.asarray(features[rows], np.float32) @ weight.T + bias
    likely: F32 = np.exp(logits - logits.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    return likely
