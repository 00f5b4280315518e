from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from selfsort.methods.gatcluster import GATClusterConfig, _Run, build_network
from selfsort.methods.recipes import recipes_of
from selfsort.types import Images

# Layers as the paper prints them: kernel/padding-channels, x repetitions, P a pooling. Then the side of the map.
PUBLISHED = {
    "stl10": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P", 6),
    "stl10-colour": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P", 6),
    "imagenet10": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P", 6),
    "imagenet10-128": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P 3/0-256x2", 6),
    "imagenet10-160": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P 3/0-256x4", 6),
    "imagenet10-192": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P 3/0-256x6", 6),
    "imagenet10-128-attention10": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P", 10),
    "imagenet10-128-attention8": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P 3/0-256x1", 8),
    "imagenet10-128-attention4": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P 3/0-256x3", 4),
    "imagenet10-128-attention2": ("3/0-64x3 P 3/0-128x3 P 3/0-256x3 P 3/0-256x4", 2),
    "imagenet-dog": ("5/1-64x1 3/0-64x2 P 3/0-128x3 P 3/0-256x3 P 3/0-256x1", 4),
    "imagenet-dog-128": ("7/1-64x1 3/0-64x2 P 3/0-128x3 P 3/0-256x3 P 3/0-256x3", 4),
    "cifar10": ("3/1-64x3 P 3/0-128x3 P", 5),
    "cifar100-20": ("3/1-64x3 P 3/0-128x3 P", 5),
}
N_CLASSES = {"imagenet-dog": 15, "imagenet-dog-128": 15, "cifar100-20": 20}


def full_size(name: str, **changes: Any) -> tuple[GATClusterConfig, tuple[int, int, int]]:
    recipe = next(recipe for recipe in recipes_of("gatcluster") if recipe.name == name)
    assert recipe.image_shape is not None
    settings = {**recipe.settings, "n_clusters": N_CLASSES.get(name, 10), **changes}
    return GATClusterConfig.from_json(settings), recipe.image_shape


class TestFullSize:
    """The recipes for an accelerator: layer by layer, weight by weight, and one step of learning each."""

    def test_none_is_forgotten(self) -> None:
        assert {recipe.name for recipe in recipes_of("gatcluster")} == {
            *PUBLISHED,
            "cpu",
            "cpu-photos",
            "features",
            "paper",
            "code",
        }

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_layers_map_and_number_of_parameters(self, name: str) -> None:
        config, shape = full_size(name)
        layers, map_side = PUBLISHED[name]
        k, n_in, side, expected = config.n_clusters, 1 if config.gray else 3, shape[0], 0
        for word in layers.split():
            if word == "P":
                side //= 2
                continue
            kernel, padding, channels, repetitions = map(int, re.split("[/x-]", word))
            for _ in range(repetitions):
                side += 2 * padding - kernel + 1
                expected += kernel**2 * n_in * channels + 2 * channels
                n_in = channels
        heads = 2 * (2 * k * (k + 1))
        small_convs = (n_in * k + 2 * k) + (2 if config.attention_conv else 1) * (k * k + 2 * k)
        net = build_network(shape, config)
        assert net.map_size == (side, side) == (map_side, map_side)
        found = sum(parameter.numel() for parameter in net.parameters())
        assert found == expected + heads + small_convs + 3 * (k * map_side**2 + 1)

    @pytest.mark.parametrize(
        "name",
        [name if name.startswith("cifar") else pytest.param(name, marks=pytest.mark.slow) for name in PUBLISHED],
    )
    def test_one_step_of_learning(self, name: str) -> None:
        n = N_CLASSES.get(name, 10)
        config, shape = full_size(name, M=n, m1=2, m2=n // 2 + 1, repeats=1, iterations=1, n_restarts=1)
        pixels = np.random.default_rng(0).integers(0, 256, (n, *shape)).astype(np.uint8)
        run = _Run(Images(pixels), config, torch.device("cpu"), seed=0)
        before = {key: value.clone() for key, value in run.net.named_parameters()}
        event = run.learn()
        assert np.isfinite(float(event["loss"]))
        moved = [key for key, value in run.net.named_parameters() if not torch.equal(value, before[key])]
        assert "image.0.conv.weight" in moved
        assert len(moved) > 0.9 * len(before)
