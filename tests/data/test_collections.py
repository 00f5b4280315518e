from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from selfsort.data.collections import as_array
from selfsort.errors import InvalidInput

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)


class Pairs(Dataset[Any]):
    def __len__(self) -> int:
        return len(PIXELS)

    def __getitem__(self, row: int) -> Any:
        return Image.fromarray(PIXELS[row]), row % 2


class Named(Pairs):
    def __getitem__(self, row: int) -> Any:
        return {"image": PIXELS[row], "label": row}


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(PIXELS)


@pytest.mark.parametrize(
    "images",
    [
        list(PIXELS),
        [torch.from_numpy(one) for one in PIXELS],
        [Image.fromarray(one) for one in PIXELS],
        Pairs(),
        Named(),
        TensorDataset(torch.from_numpy(PIXELS), torch.arange(6)),
        DataLoader(Pairs(), batch_size=4, shuffle=True, collate_fn=list),
    ],
    ids=lambda images: type(images).__name__,
)
def test_collections_of_images_in_their_order(images: Any) -> None:
    np.testing.assert_array_equal(as_array(images), PIXELS)


@pytest.mark.parametrize("given", [PIXELS, "photos", ["a.png", "b.png"], [[0.1, 0.2], [0.3, 0.4]], []])
def test_anything_else_is_left_alone(given: Any) -> None:
    assert as_array(given) is given


def test_different_sizes_are_refused_in_one_sentence() -> None:
    with pytest.raises(InvalidInput, match=r"different shapes, such as \(3, 4\) and \(5, 4\)"):
        as_array([np.zeros((3, 4)), np.zeros((5, 4))])


@pytest.mark.parametrize("stream", [Stream(), (one for one in PIXELS), DataLoader(Stream())])
def test_what_cannot_be_counted_is_refused(stream: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be read twice or counted"):
        as_array(stream)


def test_items_that_are_no_pictures_are_refused() -> None:
    with pytest.raises(InvalidInput, match="item 0 of the images is no picture"):
        as_array(TensorDataset(torch.arange(6)))
