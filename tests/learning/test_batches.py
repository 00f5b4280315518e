from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.paging import mapped

from selfsort import pages
from selfsort.learning.batches import PixelTensor, shuffled_batches
from selfsort.learning.seeds import torch_generator
from selfsort.types import Images


def tiny_images(n: int = 10) -> Images:
    values = np.random.default_rng(0).integers(0, 256, (n, 4, 5, 3))
    return Images(values.astype(np.uint8))


def test_pixel_tensor_cuts_the_right_pixels() -> None:
    images = tiny_images()
    pixels = PixelTensor(images, torch.device("cpu"))
    batch = pixels.floats(torch.tensor([7, 2]))
    assert batch.shape == (2, 3, 4, 5)
    np.testing.assert_allclose(batch.numpy(), images.pixels[[7, 2]].transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert torch.cat(list(pixels.chunks(4))).tolist() == list(range(10))


def test_pixel_tensor_reads_a_read_only_memory_map(tmp_path: object) -> None:
    pixels = tiny_images().pixels
    pixels.flags.writeable = False
    assert len(PixelTensor(Images(pixels), torch.device("cpu")).bytes(torch.arange(3))) == 3


def test_shuffled_batches_are_a_partition() -> None:
    generator = torch_generator(0, "order")
    batches = list(shuffled_batches(10, 4, generator))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))
    dropped = list(shuffled_batches(10, 4, generator, drop_last=True))
    assert [len(batch) for batch in dropped] == [4, 4]


@pytest.mark.parametrize(
    ("side", "n_pixels", "at_most", "size"),
    [
        (28, 2**19, 4096, 512),
        (32, 2**19, 4096, 512),
        (33, 2**19, 4096, 256),
        (8, 2**19, 4096, 4096),
        (8, 2**19, 2**19, 8192),
        (28, 2**18, 2048, 256),
        (4, 2**18, 2048, 2048),
        (32, 2**17, 4096, 128),
        (300, 2**17, 4096, 8),
    ],
)
def test_chunks_hold_about_as_many_pixels_for_any_image_size(side: int, n_pixels: int, at_most: int, size: int) -> None:
    one = np.zeros((1, side, side, 1), dtype=np.uint8)
    pixels = PixelTensor(Images(np.broadcast_to(one, (9000, side, side, 1))), torch.device("cpu"))
    chunks = list(pixels.even_chunks(n_pixels, at_most=at_most))
    assert {len(chunk) for chunk in chunks[:-1]} == {size}
    assert torch.equal(torch.cat(chunks), torch.arange(9000))


def test_batches_of_a_mapped_file_are_those_of_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    held = np.random.default_rng(0).integers(0, 256, (40, 5, 5, 1), dtype=np.uint8)
    kept, forgotten = mapped(held), list[object]()
    monkeypatch.setattr(pages, "_PASS_BYTES", 500)
    monkeypatch.setattr(pages, "_MAPPED_FOR_ONE", 50)
    monkeypatch.setattr(pages, "forget", forgotten.append)
    idx = torch.randperm(40)
    for batch in (idx[:3], idx, torch.arange(4)):
        found = PixelTensor(Images(kept), torch.device("cpu")).floats(batch)
        torch.testing.assert_close(found, PixelTensor(Images(held), torch.device("cpu")).floats(batch), rtol=0, atol=0)
    assert len(forgotten) >= 5, "its pages are given back"
