"""Images through an encoder: plain, mirrored, augmented; each in blocks, each kept.

Shape letters: B batch, C, H, W image, D features, V views, h x w positions of a feature map.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import skip_init

from selfsort import distributed
from selfsort.augment.policy import ColourJitter, Flip, Policy, ResizedCrop, augment
from selfsort.data import Fit
from selfsort.encoders.cache import Rows, Wanted, computed_rows, kept_rows
from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput
from selfsort.learning.batches import PixelTensor
from selfsort.learning.seeds import torch_generator
from selfsort.pages import forget
from selfsort.types import Encoder, Images, Json, NetworkEncoder

BATCH, BLOCK = 32, 128
"""Images per call of an encoder, and per block that is written. Predicting training images repeats both."""

_LARGEST_HALF = 65504.0

_LUMA = (0.299, 0.587, 0.114)

Compute = Callable[[Tensor], Tensor]


def fit_of(encoder: Encoder) -> Fit:
    """Say what an encoder wants done about another aspect ratio; most cut."""
    fit: Fit = getattr(encoder, "fit", "crop")
    return fit


def fitted_batch(x_BCHW: Tensor, shape: tuple[int, int, int], fit: Fit = "crop") -> Tensor:
    """Bring images to the height, width and channels of an encoder, as `data.resize` does with pictures."""
    height, width, channels = shape
    x_BCHW = _in_channels(x_BCHW, channels)
    old = (x_BCHW.shape[2], x_BCHW.shape[3])
    if old == (height, width):
        return x_BCHW
    size, is_shrunk = _scaling(old, (height, width), fit)
    scaled = _scaled(x_BCHW, size, is_shrunk)
    if fit == "pad":
        above, before = (height - size[0]) // 2, (width - size[1]) // 2
        return F.pad(scaled, (before, width - size[1] - before, above, height - size[0] - above), value=1.0)
    top, left = (size[0] - height) // 2, (size[1] - width) // 2
    return scaled[:, :, top : top + height, left : left + width]


class Fitting(nn.Module):
    """`fitted_batch` for images of one size, as two matrix products: ONNX lacks our filter."""

    def __init__(
        self, given: tuple[int, int, int], wanted: tuple[int, int, int], fit: Literal["crop", "stretch"] = "crop"
    ) -> None:
        super().__init__()
        (old_height, old_width, _), (height, width, self.channels) = given, wanted
        self.is_scaled = (old_height, old_width) != (height, width)
        if self.is_scaled:
            size, is_shrunk = _scaling((old_height, old_width), (height, width), fit)
            top, left = (size[0] - height) // 2, (size[1] - width) // 2
            down = _scaled(torch.eye(old_height)[None, None], (size[0], old_height), is_shrunk)[0, 0]
            across = _scaled(torch.eye(old_width)[None, None], (old_width, size[1]), is_shrunk)[0, 0]
            self.register_buffer("down", down[top : top + height].contiguous())
            self.register_buffer("across", across[:, left : left + width].contiguous())

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return images of the wanted shape."""
        x_BCHW = _in_channels(x_BCHW, self.channels)
        return self.get_buffer("down") @ x_BCHW @ self.get_buffer("across") if self.is_scaled else x_BCHW


def _in_channels(x_BCHW: Tensor, channels: int) -> Tensor:
    if channels == 3 and x_BCHW.shape[1] == 1:
        return x_BCHW.expand(-1, 3, -1, -1)
    if channels == 1 and x_BCHW.shape[1] == 3:
        return (x_BCHW * x_BCHW.new_tensor(_LUMA)[:, None, None]).sum(dim=1, keepdim=True)
    return x_BCHW


def _scaling(old: tuple[int, int], wanted: tuple[int, int], fit: Fit) -> tuple[tuple[int, int], bool]:
    """Return the size to scale to, before cutting or filling, and whether a side of it is smaller."""
    scales = wanted[0] / old[0], wanted[1] / old[1]
    if fit == "stretch":
        return wanted, min(scales) < 1
    if fit == "pad":
        scale = min(scales)
        return (max(1, round(scale * old[0])), max(1, round(scale * old[1]))), scale < 1
    scale = max(scales)
    return (max(wanted[0], round(scale * old[0])), max(wanted[1], round(scale * old[1]))), scale < 1


def _scaled(x_BCHW: Tensor, size: tuple[int, int], is_shrunk: bool) -> Tensor:
    return F.interpolate(x_BCHW, size=size, mode="bilinear", align_corners=False, antialias=is_shrunk)


def view_policy(encoder: Encoder, config: EncodeConfig) -> Policy:
    """How views differ from their image: in other light, mirrored, a part of it.

    The part comes last: what is small is enlarged by it, and the rest had better be done before.
    """
    height, width, _ = encoder.shape
    return (
        ColourJitter(brightness=0.4, contrast=0.4, saturation=0.4, p=0.8),
        Flip(),
        ResizedCrop(size=min(height, width), scale=(config.crop_min, 1.0)),
    )


def plain_features(
    encoder: Encoder, images: Images, fingerprint: str, *, is_mirrored: bool, folder: Path | None, device: torch.device
) -> Rows:
    """Return features (N, D) of images as they are, or of the mean of each and its mirror image."""

    def compute(x_BCHW: Tensor) -> Tensor:
        x_BCHW = fitted_batch(x_BCHW, encoder.shape, fit_of(encoder))
        found = encoder.features(x_BCHW)
        return (found + encoder.features(x_BCHW.flip(3))) / 2 if is_mirrored else found

    wanted = _plain(encoder, len(images), fingerprint, is_mirrored)
    # Our own engines turn bytes into floats themselves, in less time; other sizes have to be resized as floats.
    is_raw = getattr(encoder, "takes_bytes", False) and images.shape == encoder.shape
    blocks = _by_blocks(encoder, images, compute, device, is_raw=is_raw)
    return computed_rows(wanted, blocks, folder=folder, block=BLOCK, what=_doing(encoder))


def kept_features(encoder: Encoder, n_images: int, fingerprint: str, *, is_mirrored: bool, folder: Path) -> Rows | None:
    """Return what `plain_features` has kept of images, known by their fingerprint; nothing is computed for it."""
    return kept_rows(_plain(encoder, n_images, fingerprint, is_mirrored), folder)


def _plain(encoder: Encoder, n_images: int, fingerprint: str, is_mirrored: bool) -> Wanted:
    return Wanted(n_images, (encoder.dim,), "<f4", _dependence(encoder, fingerprint) | {"mirror": is_mirrored})


def view_features(
    encoder: Encoder,
    images: Images,
    fingerprint: str,
    config: EncodeConfig,
    *,
    folder: Path | None,
    device: torch.device,
) -> Rows:
    """Return features (N, V, D) of augmented copies, in half precision.

    The views do not depend on the seed of a run: another seed finds them in the cache.
    """
    policy = view_policy(encoder, config)
    wanted = Wanted(
        len(images), (config.views, encoder.dim), "<f2", _dependence(encoder, fingerprint) | {"views": _told(policy)}
    )
    compute = _of_views(encoder, images, policy, config.views, encoder.features, device)
    what = f"{_doing(encoder)}, {config.views} views"
    return computed_rows(wanted, compute, folder=folder, block=BLOCK, what=what)


def feature_maps(
    encoder: Encoder,
    images: Images,
    fingerprint: str,
    config: EncodeConfig,
    reduce: tuple[Tensor, Tensor],
    *,
    folder: Path | None,
    device: torch.device,
    with_views: bool = True,
) -> tuple[Rows, Rows | None]:
    """Return feature maps (N, C, h, w) of images and (N, V, C, h, w) of views, their channels reduced."""
    reducing = ReducedMaps(*reduce).to(device)
    row = _map_shape(encoder, reducing, device)
    reduced = _reduced_maps(encoder, reducing, row)

    def compute(x_BCHW: Tensor) -> Tensor:
        return reduced(fitted_batch(x_BCHW, encoder.shape, fit_of(encoder)))

    basis = b"".join(part.cpu().numpy().tobytes() for part in reduce)
    depends_on = _dependence(encoder, fingerprint) | {"maps": _digest(basis)}
    plain = computed_rows(
        Wanted(len(images), row, "<f4", depends_on),
        _by_blocks(encoder, images, compute, device),
        folder=folder,
        block=BLOCK,
        what=_doing(encoder),
    )
    if not with_views:
        return plain, None
    policy = view_policy(encoder, config)
    wanted = Wanted(len(images), (config.views, *row), "<f2", depends_on | {"views": _told(policy)})
    views = _of_views(encoder, images, policy, config.views, reduced, device)
    return plain, computed_rows(wanted, views, folder=folder, block=BLOCK, what=_doing(encoder))


class ReducedMaps(nn.Module):
    """Feature maps (B, D, h, w) in their principal directions: (B, C, h, w)."""

    def __init__(self, mean_D: Tensor, basis_DC: Tensor) -> None:
        super().__init__()
        n_in, n_out = basis_DC.shape
        # Nothing is drawn that would be replaced at once.
        self.reduce = skip_init(nn.Conv2d, n_in, n_out, 1)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.reduce.weight.copy_(basis_DC.T[:, :, None, None])
            self.reduce.bias.copy_(-mean_D @ basis_DC)
        self.requires_grad_(False)

    def forward(self, maps_BDhw: Tensor) -> Tensor:
        """Return the reduced maps."""
        found: Tensor = self.reduce(maps_BDhw)
        return found


def _map_shape(encoder: Encoder, reducing: ReducedMaps, device: torch.device) -> tuple[int, ...]:
    height, width, channels = encoder.shape
    with torch.inference_mode():
        return tuple(reducing(maps_of(encoder)(torch.zeros(1, channels, height, width, device=device))).shape[1:])


def _reduced_maps(encoder: Encoder, reducing: ReducedMaps, row: tuple[int, ...]) -> Compute:
    """Return the function from images to reduced maps, by the encoder's own engine where it lends it."""
    if (lent := getattr(encoder, "map_engine", None)) is not None:
        run: Compute = lent(reducing)
        return lambda x_BCHW: run(x_BCHW).unflatten(1, row)  # type: ignore[no-untyped-call]
    maps = maps_of(encoder)
    return lambda x_BCHW: reducing(maps(x_BCHW))


def map_basis(encoder: Encoder, images: Images, n_channels: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the mean and the first principal directions of an encoder's feature maps, from a sample of images."""
    maps = maps_of(encoder)
    rows = torch.linspace(0, len(images) - 1, min(len(images), 256)).long()
    pixels, found = PixelTensor(images, device), []
    with torch.inference_mode():
        for idx in torch.split(rows, BATCH):
            maps_BDhw = maps(fitted_batch(pixels.floats(idx), encoder.shape, fit_of(encoder)))
            found.append(maps_BDhw.permute(0, 2, 3, 1).flatten(0, 2).double())
    points_PD = torch.cat(found)
    mean_D = points_PD.mean(dim=0)
    centred_PD = points_PD - mean_D
    values, vectors = torch.linalg.eigh(centred_PD.T @ centred_PD / len(points_PD))
    n_channels = min(n_channels, vectors.shape[1])
    basis_DC = vectors.flip(1)[:, :n_channels]
    # The sign of a direction is chance; fix it.
    basis_DC = basis_DC * basis_DC.gather(0, basis_DC.abs().argmax(dim=0, keepdim=True)).sign()
    scale = values.flip(0)[:n_channels].sum().clamp(min=1e-12).sqrt()
    # In the order of memory that a file gives it back in: products round alike before and after.
    return mean_D.float(), (basis_DC / scale).float().contiguous()


def maps_of(encoder: Encoder) -> Compute:
    """Return the function from images to the last feature map of an encoder."""
    if isinstance(encoder, NetworkEncoder):
        network = encoder.network().eval()
        if (found := getattr(network, "maps", None)) is not None:
            compute: Compute = found
            return compute
    raise InvalidInput(
        f"{encoder.name} gives no feature maps, which gatcluster places its attention on. Expected an encoder such as "
        "efficientnet-lite0. Choose one, or another method."
    )


def _dependence(encoder: Encoder, fingerprint: str) -> Json:
    return {
        "encoder": encoder.name,
        "digest": encoder.digest,
        "engine": encoder.engine,
        "pictures": fingerprint,
        "size": list(encoder.shape),
        **({} if (fit := fit_of(encoder)) == "crop" else {"fit": fit}),
    }


def _doing(encoder: Encoder) -> str:
    return f"encoding with {encoder.name}"


def _told(policy: Policy) -> list[str]:
    return [repr(step) for step in policy]


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _by_blocks(
    encoder: Encoder, images: Images, compute: Compute, device: torch.device, *, is_raw: bool = False
) -> Callable[[int, int], Rows]:
    def of_pixels(pixels: PixelTensor, idx: Tensor) -> Tensor:
        return compute(pixels.bytes(idx) if is_raw else pixels.floats(idx))

    return _blocks(encoder, images, device, of_pixels)


def _of_views(
    encoder: Encoder, images: Images, policy: Policy, n_views: int, compute: Compute, device: torch.device
) -> Callable[[int, int], Rows]:
    def views(pixels: PixelTensor, idx: Tensor) -> Tensor:
        # A stream for each batch, named by its first image: whoever goes on from here draws the same.
        chance = torch_generator(0, f"encoder views {int(idx[0])}", device)
        x_BCHW = pixels.floats(idx)
        # What comes out of the last step of a policy has the aspect ratio of its own choice: no more is distorted.
        found = [compute(fitted_batch(augment(x_BCHW, policy, chance), encoder.shape)) for _ in range(n_views)]
        stacked = torch.stack(found, dim=1)
        if (largest := float(stacked.abs().max())) > _LARGEST_HALF:
            raise InvalidInput(
                f"{encoder.name} gave features up to {largest:.3g}, and those of views are kept in half precision. "
                f"Expected at most {_LARGEST_HALF:.0f}. Scale its output, or choose a method without views."
            )
        return stacked

    return _blocks(encoder, images, device, views)


def _blocks(
    encoder: Encoder,
    images: Images,
    device: torch.device,
    compute: Callable[[PixelTensor, Tensor], Tensor],
) -> Callable[[int, int], Rows]:
    """Return what computes the rows between two places, in batches that several processes share."""
    pixels = PixelTensor(images, device)

    def block(first: int, last: int) -> Rows:
        def batch(idx: Tensor) -> tuple[Tensor]:
            with torch.inference_mode():
                return (compute(pixels, idx + first).float(),)

        chunks = torch.split(torch.arange(last - first), BATCH)
        (rows,) = distributed.rows_in_shares(chunks, last - first, batch)
        forget(images.pixels)
        if not np.isfinite(rows).all():
            raise InvalidInput(
                f"{encoder.name} gave features that are no finite numbers, for images {first} to {last - 1}. "
                "Expected finite ones. Check its weights, or choose another encoder."
            )
        return rows

    return block
