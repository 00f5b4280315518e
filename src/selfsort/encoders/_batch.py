"""What goes into an encoder and what comes out of it, looked at once for all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from selfsort.errors import InvalidInput


def checked_batch(x_BCHW: Tensor, shape: tuple[int, int, int], name: str) -> Tensor:
    """Return the images if an encoder of this shape can take them; gray ones have their channel repeated."""
    height, width, channels = shape
    if x_BCHW.ndim == 4 and x_BCHW.shape[2:] == (height, width):
        if x_BCHW.shape[1] == channels:
            return x_BCHW
        if x_BCHW.shape[1] == 1:
            return x_BCHW.expand(-1, channels, -1, -1)
    raise InvalidInput(
        f"the images have shape {tuple(x_BCHW.shape)}. {name} takes (batch, {channels}, {height}, {width}). "
        "Bring them to that size with selfsort.data.conform."
    )


def checked_features(features_BD: Tensor, name: str) -> Tensor:
    """Return the features if all of them are numbers."""
    if not torch.isfinite(features_BD).all():
        bad = int((~torch.isfinite(features_BD).all(dim=1)).sum())
        raise InvalidInput(
            f"{name} gave values that are no numbers (NaN or infinite) for {bad} of {len(features_BD)} images. "
            "Expected finite features. Check its mean and deviation, or take another encoder."
        )
    return features_BD
