"""`--encoder auto` and `--method auto`: the images decide."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.encoders.small import SmallEncoder
from torch import Tensor

from selfsort.encoders import registry
from selfsort.encoders.registry import best_installed
from selfsort.runs import auto
from selfsort.runs.auto import INSTALL, choose_method, judge, judge_at_sight, judge_without
from selfsort.types import Images

CPU = torch.device("cpu")


def noise(n: int, side: int, channels: int) -> Images:
    rng = np.random.default_rng(0)
    return Images(rng.integers(0, 256, (n, side, side, channels)).astype(np.uint8))


class Blind(SmallEncoder):
    """Sees something else in every picture, in many dimensions."""

    def features(self, x_BCHW: Tensor) -> Tensor:
        return torch.randn(len(x_BCHW), 12, generator=torch.Generator().manual_seed(int(x_BCHW.sum() * 1000)))


class Seeing(SmallEncoder):
    """Sees how bright a picture is and nothing else."""

    def features(self, x_BCHW: Tensor) -> Tensor:
        bright_B1 = x_BCHW.mean(dim=(1, 2, 3))[:, None]
        return torch.cat([bright_B1, bright_B1**2, torch.ones(len(x_BCHW), 10)], dim=1)


@pytest.mark.parametrize(
    ("images", "has_sense"), [(noise(60, 12, 3), False), (noise(60, 24, 1), True), (noise(9, 24, 1), False)]
)
def test_tiny_pictures_and_a_few_gray_ones_are_not_for_encoders(images: Images, has_sense: bool) -> None:
    early = judge_at_sight(images)
    assert (early is None) == has_sense
    assert early is None or not early.is_used


def test_what_lies_in_fewer_dimensions_is_taken() -> None:
    # Gray pictures of one thing in many shades: pixels show noise, the brightness is all there is.
    rng = np.random.default_rng(0)
    shade = rng.integers(60, 190, (200, 1, 1, 1))
    images = Images(np.clip(shade + rng.normal(0, 30, (200, 24, 24, 1)), 0, 255).astype(np.uint8))
    assert judge(images, Seeing(), folder=None, device=CPU).is_used


def test_pixels_are_kept_where_they_show_fewer_dimensions() -> None:
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    rng = np.random.default_rng(0)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ rng.normal(size=(2, 576))
    pixels = np.clip(128 + 40 * ring, 0, 255).astype(np.uint8).reshape(200, 24, 24, 1)
    assert not judge(Images(pixels), Blind(), folder=None, device=CPU).is_used


def test_a_few_pictures_in_colour_are_taken_for_photographs() -> None:
    assert judge(noise(9, 40, 3), SmallEncoder(), folder=None, device=CPU).is_used


def test_who_has_no_encoder_is_told_about_photographs_only() -> None:
    assert INSTALL in judge_without(noise(9, 40, 3)).note
    assert judge_without(noise(9, 40, 1)).note == ""


def test_the_best_that_is_installed_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert best_installed() == "efficientnet-lite2"
    monkeypatch.setattr(registry, "PREFERRED", ())
    assert best_installed() is None


class TestChooseMethod:
    @pytest.mark.parametrize(
        ("n", "channels", "n_clusters", "encoder", "views", "name"),
        [
            (715, 3, None, True, True, "leiden"),
            (5000, 3, None, True, True, "teach"),
            (5000, 3, None, True, False, "leiden"),
            (5000, 3, 10, True, True, "teach"),
            (1999, 3, 10, True, True, "leiden"),
            (5000, 1, None, False, False, "teach"),
            (1797, 1, 10, False, False, "teach"),
            (575, 1, 20, False, False, "jule"),
            (999, 1, None, False, False, "jule"),
            (5000, 3, 10, False, False, "jule"),
        ],
    )
    def test_by_how_many_and_how_seen(
        self, n: int, channels: int, n_clusters: int | None, encoder: bool, views: bool, name: str
    ) -> None:
        images = Images(np.zeros((n, 2, 2, channels), np.uint8))
        chosen = choose_method(images, n_clusters, has_encoder=encoder, has_views=views)
        assert chosen.name == name
        assert chosen.reason.startswith(f"{n:,} images")


def test_copies_do_not_decide() -> None:
    """A folder where every third picture stands there again, a little brighter, has no fewer dimensions."""
    rows = np.random.default_rng(0).normal(size=(120, 30)).astype(np.float32)
    again = rows[::3] * np.float32(1.01)
    assert auto._dimension(np.concatenate([rows, again])) == pytest.approx(auto._dimension(rows), rel=0.1)
