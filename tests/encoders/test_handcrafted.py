from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from selfsort.encoders import handcrafted
from selfsort.encoders.registry import find_card, open_named
from selfsort.errors import InvalidInput, MissingData
from selfsort.types import Encoder

CPU = torch.device("cpu")
NAMES = ("hog", "lbp", "spm")


def stripes(period: int, *, is_turned: bool = False) -> torch.Tensor:
    line = ((torch.arange(64) // period) % 2).float()
    image = line.expand(64, 64)
    return (image.T if is_turned else image)[None, None]


@pytest.mark.parametrize("name", NAMES)
def test_without_the_extra_the_command_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handcrafted, "_is_installed", lambda: False)
    monkeypatch.setitem(sys.modules, "skimage.feature", None)
    with pytest.raises(MissingData, match=r'needs the package scikit-image.*"selfsort\[handcrafted\]"'):
        find_card(name).open(CPU, None).features(torch.zeros(1, 1, 64, 64))


@pytest.mark.parametrize("name", NAMES)
def test_cards_say_what_comes_out(name: str) -> None:
    pytest.importorskip("skimage")
    encoder = open_named(name, CPU)
    assert isinstance(encoder, Encoder)
    batch = torch.cat([stripes(4), stripes(4, is_turned=True), stripes(9)])
    found = encoder.features(batch)
    assert found.shape == (3, encoder.dim)
    assert encoder.dim == find_card(name).dim
    assert torch.isfinite(found).all()
    torch.testing.assert_close(encoder.features(batch[1:2])[0], found[1])
    assert len({tuple(row.tolist()) for row in found}) == 3
    with pytest.raises(InvalidInput, match=r"must be \(batch, 1, 64, 64\)"):
        encoder.features(torch.zeros(1, 3, 64, 64))


def test_hog_sees_the_direction_of_edges() -> None:
    pytest.importorskip("skimage")
    upright, flat = (handcrafted.hog(stripes(8, is_turned=turned)[0, 0].double().numpy()) for turned in (False, True))
    by_direction = [found.reshape(-1, 9).sum(axis=0).argmax() for found in (upright, flat)]
    assert by_direction[0] != by_direction[1]


def test_patterns_of_a_flat_image_are_all_the_same_one() -> None:
    pytest.importorskip("skimage")
    found = handcrafted.lbp(np.full((64, 64), 0.5)).reshape(16, 59)
    inner = found.reshape(4, 4, 59)[1:3, 1:3]  # beyond the border it is dark
    np.testing.assert_allclose(inner.max(axis=2), 1.0)


def test_the_pyramid_weighs_its_levels() -> None:
    pytest.importorskip("skimage")
    found = handcrafted.spm(stripes(6)[0, 0].double().numpy()).reshape(21, 200)
    np.testing.assert_allclose([found[:1].sum(), found[1:5].sum(), found[5:].sum()], [0.25, 0.25, 0.5], rtol=1e-5)


def test_a_run_on_them(tmp_path: Path) -> None:
    pytest.importorskip("skimage")
    from selfsort.data.synthetic import shapes
    from selfsort.estimator import ImageClusterer
    from selfsort.metrics.external import accuracy

    images, truth = shapes(12, size=28, seed=0, n_classes=3)
    fitted = ImageClusterer("kmeans", n_clusters=3, encoder="hog").fit(images.pixels)
    assert accuracy(fitted.labels_, truth) >= 0.9
