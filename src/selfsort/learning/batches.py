"""Images, or what an encoder made of them, as batches of tensors, in order or shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy.typing as npt
import torch
from torch import Tensor

from selfsort.augment.policy import Policy, augment
from selfsort.learning.checkpoint import borrow
from selfsort.nets.norm import standardised
from selfsort.pages import is_mapped, take
from selfsort.types import Encoded, Images, Inputs, Tunable

_AT_ONCE = 32
"""Images that go through an encoder at a time where nothing is learned; predicting repeats it."""


def from_bytes(bytes_BCHW: Tensor) -> Tensor:
    """Scale bytes to [0, 1], in torch's default precision, which is that of a new network."""
    return bytes_BCHW.to(torch.get_default_dtype()).mul_(1 / 255)


class _Rows:
    """Rows of an array as tensors; of a mapped file they are copied a few at a time, and its pages given back."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self.whole = borrow(array)
        self._file = array if is_mapped(array) else None

    def at(self, idx: Tensor) -> Tensor:
        chosen = idx.cpu()
        return self.whole[chosen] if self._file is None else torch.from_numpy(take(self._file, chosen.numpy()))


class PixelTensor:
    """The decoded images as seen by a network: NCHW batches of floats, cut from uint8 on demand.

    The uint8 array is never copied as a whole; a permuted view makes each batch channels-last for free,
    which is the faster layout for convolutions on a CPU.
    """

    def __init__(self, images: Images, device: torch.device, *, is_standardised: bool = False) -> None:
        """Borrow the images; with `is_standardised` their brightness and contrast are made the same."""
        self._bytes_NHWC = _Rows(images.pixels)
        self.device, self.is_standardised = device, is_standardised

    def __len__(self) -> int:
        return len(self._bytes_NHWC.whole)

    def bytes(self, idx: Tensor) -> Tensor:
        """Return the uint8 batch (B, C, H, W) at these indices."""
        return self._bytes_NHWC.at(idx).to(self.device, non_blocking=True).permute(0, 3, 1, 2)

    def floats(self, idx: Tensor) -> Tensor:
        """Return the batch scaled to [0, 1]."""
        x_BCHW = from_bytes(self.bytes(idx))
        return standardised(x_BCHW) if self.is_standardised else x_BCHW

    def augmented(self, idx: Tensor, policy: Policy, generator: torch.Generator) -> Tensor:
        """Return the batch scaled to [0, 1] and augmented."""
        return augment(self.floats(idx), policy, generator)

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Walk over all images in order: index tensors of at most `size`."""
        yield from torch.split(torch.arange(len(self)), size)

    def even_chunks(self, n_pixels: int, *, at_most: int = 4096) -> Iterator[Tensor]:
        """Walk over all images in order, about as many pixels at a time for any image size.

        Chunks are a power of two, 8 images or more. Up to 4,096 they divide what a saved run is predicted in, so that
        predicting the training images repeats the very same products.
        """
        _, height, width, _ = self._bytes_NHWC.whole.shape
        n_images = max(8, n_pixels // (height * width))
        yield from self.chunks(min(at_most, 2 ** (n_images.bit_length() - 1)))


class FeatureTensor:
    """Features as seen by a method's head, in place of a `PixelTensor`: the encoder is behind us.

    Augmented copies of the images were encoded beforehand; whatever the policy, one of them is taken at random.
    """

    def __init__(self, encoded: Encoded, device: torch.device) -> None:
        """Borrow the features."""
        self._features = _Rows(encoded.features)
        self._views = None if encoded.views is None else borrow(encoded.views)
        self.device = device

    def __len__(self) -> int:
        return len(self._features.whole)

    def floats(self, idx: Tensor) -> Tensor:
        """Return the features at these indices."""
        return self._features.at(idx).to(self.device, torch.get_default_dtype())

    def augmented(self, idx: Tensor, policy: Policy, generator: torch.Generator) -> Tensor:
        """Return a random view of each; without views, the images as they are."""
        if self._views is None:
            return self.floats(idx)
        chosen = torch.randint(self._views.shape[1], (len(idx),), generator=generator, device=generator.device)
        return self._views[idx.cpu(), chosen.cpu()].to(self.device, torch.get_default_dtype())

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Walk over all images in order: index tensors of at most `size`."""
        yield from torch.split(torch.arange(len(self)), size)

    def even_chunks(self, n_pixels: int, *, at_most: int = 4096) -> Iterator[Tensor]:
        """Walk over all images in order, in chunks that divide what a saved run is predicted in."""
        yield from self.chunks(256)


class TunableTensor:
    """Features of the network as it is now, with the gradients that train it: the images go through it each time."""

    def __init__(self, inputs: Tunable, device: torch.device) -> None:
        """Borrow the images and the network."""
        self._pixels, self._network, self.device = PixelTensor(inputs.images, device), inputs.network, device

    def __len__(self) -> int:
        return len(self._pixels)

    def floats(self, idx: Tensor) -> Tensor:
        """Return the features at these indices."""
        return self._in_parts(idx, self._network)

    def augmented(self, idx: Tensor, policy: Policy, generator: torch.Generator) -> Tensor:
        """Return the features of augmented copies; how they are augmented is the affair of the encoder."""
        if generator.device.type != self.device.type:
            seed = torch.randint(2**62, (), generator=generator, device=generator.device)
            generator = torch.Generator(self.device).manual_seed(int(seed))
        augmented = cast(Callable[[Tensor, torch.Generator], Tensor], self._network.augmented)
        return self._in_parts(idx, lambda x_BCHW: augmented(x_BCHW, generator))

    def _in_parts(self, idx: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Where nothing is learned, any number of images goes through in little memory."""
        at_once = max(1, len(idx)) if torch.is_grad_enabled() else _AT_ONCE
        return torch.cat([compute(self._pixels.floats(part)) for part in torch.split(idx, at_once)])

    def chunks(self, size: int) -> Iterator[Tensor]:
        """Walk over all images in order: index tensors of at most `size`."""
        yield from torch.split(torch.arange(len(self)), size)

    def even_chunks(self, n_pixels: int, *, at_most: int = 4096) -> Iterator[Tensor]:
        """Walk over all images in order, in chunks that divide what a saved run is predicted in."""
        yield from self.chunks(256)


InputTensor = PixelTensor | FeatureTensor | TunableTensor


def tensor_of(images: Inputs, device: torch.device, *, is_standardised: bool = False) -> InputTensor:
    """Return images, or what an encoder made of them, for a network."""
    if isinstance(images, Tunable):
        return TunableTensor(images, device)
    if isinstance(images, Encoded):
        return FeatureTensor(images, device)
    return PixelTensor(images, device, is_standardised=is_standardised)


def shuffled_batches(
    n: int, batch_size: int, generator: torch.Generator, *, drop_last: bool = False
) -> Iterator[Tensor]:
    """Yield a random partition of 0..n-1 as index tensors."""
    for batch in torch.split(torch.randperm(n, generator=generator), batch_size):
        if len(batch) == batch_size or not drop_last:
            yield batch
