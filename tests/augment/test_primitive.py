"""What every primitive promises."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.augment.pillow import batch, seeded
from torch import Tensor

from selfsort.augment import policy as augment
from selfsort.augment.policy import (
    Affine,
    AutoContrast,
    Blur,
    ChannelShift,
    ColourJitter,
    CutOut,
    Equalise,
    Flip,
    Grayscale,
    Posterise,
    Primitive,
    RandomCrop,
    RandomOps,
    ResizedCrop,
    Sharpness,
    Solarise,
    Zoom,
)
from selfsort.errors import InvalidInput

EVERY: list[Primitive] = [
    Flip(),
    Affine(rotate=20, translate=0.1, scale=(0.8, 1.2), shear=10),
    Affine(rotate=20, fill="zero"),
    Affine(translate=0.3, fill=0.5),
    Zoom(range=(0.8, 1.2)),
    ResizedCrop(size=9),
    RandomCrop(padding=2),
    RandomCrop(padding=0, size=8),
    CutOut(size=6),
    ColourJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.2),
    ColourJitter(contrast=0.4, p=0.5),
    Grayscale(p=0.5),
    ChannelShift(amount=0.1),
    Blur(p=0.5),
    Sharpness(factor=(0.1, 1.9)),
    Solarise(threshold=0.5, p=0.5),
    Posterise(bits=3),
    Equalise(),
    AutoContrast(),
    RandomOps(),
]
every_primitive = pytest.mark.parametrize("primitive", EVERY, ids=repr)


class TestEveryPrimitive:
    @every_primitive
    @pytest.mark.parametrize("channels", [1, 3])
    def test_bytes_stay_bytes_and_floats_stay_in_range(self, primitive: Primitive, channels: int) -> None:
        given = batch(channels=channels)
        before = given.clone()
        as_bytes = primitive(given, seeded())
        as_floats = primitive(given.double() / 255, seeded())
        assert (as_bytes.dtype, as_floats.dtype) == (torch.uint8, torch.float64)
        assert as_bytes.shape[:2] == (6, channels)
        assert torch.equal(given, before)
        assert as_floats.min() >= 0
        assert as_floats.max() <= 1 + 1e-9
        np.testing.assert_allclose(as_floats.numpy() * 255, as_bytes.numpy(), atol=1.01)

    @every_primitive
    def test_the_generator_decides(self, primitive: Primitive) -> None:
        given = batch(n=20)
        assert torch.equal(primitive(given, seeded(1)), primitive(given, seeded(1)))
        if not isinstance(primitive, Posterise | Equalise | AutoContrast):
            assert not torch.equal(primitive(given, seeded(1)), primitive(given, seeded(2)))

    @every_primitive
    def test_a_layout_with_channels_last_makes_no_difference(self, primitive: Primitive) -> None:
        given = batch().float() / 255
        last = primitive(given.contiguous(memory_format=torch.channels_last), seeded())
        torch.testing.assert_close(last, primitive(given.contiguous(), seeded()))

    @every_primitive
    def test_probability_zero_changes_nothing(self, primitive: Primitive) -> None:
        given = batch()
        if not (isinstance(primitive, ResizedCrop | RandomCrop) and primitive.size is not None):
            assert torch.equal(dataclasses.replace(primitive, p=0.0)(given, seeded()), given)

    @every_primitive
    def test_flat_pictures_are_harmless(self, primitive: Primitive) -> None:
        for value in (0.0, 0.3, 1.0):
            assert torch.isfinite(primitive(torch.full((5, 3, 10, 10), value), seeded())).all()

    def test_samples_differ(self) -> None:
        same = batch(1).expand(8, -1, -1, -1)
        for primitive in (
            Affine(rotate=20),
            ColourJitter(brightness=0.5),
            ResizedCrop(size=12),
            Blur(),
            CutOut(size=6),
        ):
            changed = primitive(same, seeded()).flatten(1)
            assert len({tuple(one) for one in changed.tolist()}) >= 6, primitive

    def test_probability_is_per_sample(self) -> None:
        black = torch.zeros(1000, 1, 2, 2)
        hits = Solarise(threshold=0.0, p=0.2)(black, seeded()).mean(dim=(1, 2, 3))
        assert set(hits.tolist()) == {0.0, 1.0}
        assert 0.15 < float(hits.mean()) < 0.25

    def test_a_policy_is_applied_in_order(self) -> None:
        given = batch()
        policy = (Solarise(threshold=0.5), Posterise(bits=1))
        expected = Posterise(bits=1)(Solarise(threshold=0.5)(given, seeded()), seeded())
        assert torch.equal(augment.augment(given, policy, seeded()), expected)
        assert not torch.equal(augment.augment(given, policy[::-1], seeded()), expected)

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (torch.zeros(2, 2, 4, 4), r"shape \(2, 2, 4, 4\)"),
            (torch.zeros(3, 4, 4), r"shape \(3, 4, 4\)"),
            (torch.zeros(2, 3, 4, 4, dtype=torch.int64), "torch.int64"),
        ],
    )
    def test_other_batches_are_refused(self, given: Tensor, words: str) -> None:
        with pytest.raises(InvalidInput, match=f"{words}.*It must be uint8, or floats.*Permute or convert"):
            Flip()(given, seeded())

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: Flip(p=1.5), "p of Flip must be between 0 and 1; got 1.5"),
            (lambda: Affine(scale=(1.2, 0.8)), "scale of Affine must be an ordered pair"),
            (lambda: Affine(shear=90), "shear of Affine must be at least 0 and below 90"),
            (lambda: ColourJitter(hue=0.6), "hue of ColourJitter must be between 0 and 0.5"),
            (lambda: ResizedCrop(size=8, p=0.5), "p of ResizedCrop must be 1"),
            (lambda: Posterise(bits=9), "bits of Posterise must be between 1 and 8"),
            (lambda: RandomCrop(padding=0, size=40)(batch(), seeded()), "size of RandomCrop must fit"),
        ],
    )
    def test_parameters_are_checked(self, make: Callable[[], object], words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            make()
