"""Augmentations that change values: colour jitter, gray, blur, and Pillow's histogram operations.

Gray pictures pass through all of them; what concerns only colour leaves them as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from selfsort.augment.geometry import combine
from selfsort.augment.primitive import Primitive, Range, levels, per_sample, uniform, whole

_LUMA = (0.299, 0.587, 0.114)
_N_LEVELS = 256

# Pictures whose hue is turned at a time: calls cost more than cache misses here, and memory stays bounded.
_N_TURNED = 128

# Columns of the operations of the colour jitter.
_BRIGHTNESS, _CONTRAST, _SATURATION, _HUE = range(4)


def luma(x_BCHW: Tensor) -> Tensor:
    """Return the brightness (B, 1, H, W) of colours as Pillow weighs them; gray pictures are their own."""
    if x_BCHW.shape[1] == 1:
        return x_BCHW
    red, green, blue = x_BCHW.unbind(1)
    return (_LUMA[0] * red).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2]).unsqueeze(1)


def blend(x_BCHW: Tensor, other: Tensor, factor_B: Tensor) -> Tensor:
    """Go from `other` (factor 0) through x (factor 1) and beyond, clipped to [0, 1]."""
    factor = per_sample(factor_B).to(x_BCHW.dtype)
    return torch.lerp(other.expand_as(x_BCHW), x_BCHW, factor).clamp_(0, 1)


@dataclass(frozen=True, kw_only=True)
class ColourJitter(Primitive):
    """Change brightness, contrast, saturation and hue by random amounts, in an order random per sample."""

    brightness: float = 0.0
    """Factor drawn from 1 - this to 1 + this, not below 0; so for contrast and saturation."""
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    """Turn of the colour circle, as a share of it, either way; at most 0.5."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("brightness", "contrast", "saturation"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("hue", 0 <= self.hue <= 0.5, "be between 0 and 0.5")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Jitter every sample."""
        n, device = len(x_BCHW), x_BCHW.device
        amounts = (self.brightness, self.contrast, self.saturation, self.hue)
        used = [op for op, amount in enumerate(amounts) if amount > 0]
        if not used:
            return x_BCHW.clone()
        ranges = [(-self.hue, self.hue) if op == _HUE else (max(0.0, 1 - amounts[op]), 1 + amounts[op]) for op in used]
        factors_BO = torch.stack([uniform(n, within, generator, device) for within in ranges], dim=1)
        order_BS = uniform((n, len(used)), (0.0, 1.0), generator, device).argsort(dim=1)
        return adjust(x_BCHW, torch.tensor(used, device=device)[order_BS], factors_BO.gather(1, order_BS))


def adjust(x_BCHW: Tensor, op_BS: Tensor, factor_BS: Tensor) -> Tensor:
    """Apply operations of the colour jitter to each sample, its own ones in its own order.

    Brightness, contrast and saturation all blend a picture with a duller one: black, its mean gray, its gray
    version. So one pass over the batch does all three at once; hue takes the samples whose turn it is.
    """
    is_hue_BS = op_BS == _HUE
    keep_BS = factor_BS.masked_fill(is_hue_BS, 1.0).to(x_BCHW.dtype)
    by_gray_BS, by_mean_BS = ((1 - keep_BS) * (op_BS == op) for op in (_SATURATION, _CONTRAST))
    x_BCHW = x_BCHW.clone()  # from here on in place: fresh memory costs more than the arithmetic
    for slot in range(op_BS.shape[1]):
        gray_B1HW = luma(x_BCHW)
        mean_B111 = gray_B1HW.mean(dim=(2, 3), keepdim=True)
        duller = torch.addcmul(mean_B111 * per_sample(by_mean_BS[:, slot]), gray_B1HW, per_sample(by_gray_BS[:, slot]))
        x_BCHW.mul_(per_sample(keep_BS[:, slot])).add_(duller).clamp_(0, 1)
        if x_BCHW.shape[1] == 3:
            for rows in torch.split(is_hue_BS[:, slot].nonzero().squeeze(1), _N_TURNED):
                x_BCHW.index_copy_(0, rows, turn_hue(x_BCHW.index_select(0, rows), factor_BS[rows, slot]))
    return x_BCHW


def turn_hue(x_B3HW: Tensor, turn_B: Tensor) -> Tensor:
    """Turn the colour circle of each picture by a share of it, in hue, saturation, value."""
    red, green, blue = x_B3HW.unbind(1)
    value_B1HW = x_B3HW.amax(dim=1, keepdim=True)
    chroma_B1HW = value_B1HW - x_B3HW.amin(dim=1, keepdim=True)
    # Which channel is the strongest, as 0 or 1: arithmetic, because masks are slow.
    is_red, is_green, _ = (x_B3HW - value_B1HW).sign_().add_(1).unbind(1)
    is_green = torch.addcmul(is_green, is_green, is_red, value=-1)  # of two equals the first
    is_blue = 1 - is_red - is_green
    # Sixths of the circle, counted from red; each colour's third is where it is the strongest.
    hue_BHW = torch.addcmul(is_red * (green - blue), is_green, blue - red).addcmul_(is_blue, red - green)
    hue_BHW.div_(chroma_B1HW.squeeze(1).clamp(min=1e-8)).add_(is_green, alpha=2).add_(is_blue, alpha=4)
    hue_BHW.add_(6 * turn_B.to(x_B3HW.dtype).view(-1, 1, 1))
    # A channel is weakest at the hue opposite to its own, and within one sixth of it either way; full beyond two.
    opposite = torch.tensor([3, 5, 1], device=x_B3HW.device).view(1, 3, 1, 1)
    away_B3HW = hue_BHW.unsqueeze(1) - opposite
    away_B3HW.sub_(away_B3HW.div(6).round_(), alpha=6).abs_()
    return torch.addcmul(value_B1HW, chroma_B1HW, away_B3HW.neg_().add_(2).clamp_(0, 1), value=-1)


@dataclass(frozen=True, kw_only=True)
class Grayscale(Primitive):
    """Make colours gray; the number of channels stays."""

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Make every sample gray."""
        return luma(x_BCHW).expand_as(x_BCHW).clone()


@dataclass(frozen=True, kw_only=True)
class ChannelShift(Primitive):
    """Add to each channel its own number, up to `amount` either way, within the values the picture had."""

    amount: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("amount", 0 <= self.amount <= 1, "be between 0 and 1")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Shift every sample."""
        shift_BC = uniform(tuple(x_BCHW.shape[:2]), (-self.amount, self.amount), generator, x_BCHW.device)
        low, high = x_BCHW.amin(dim=(1, 2, 3), keepdim=True), x_BCHW.amax(dim=(1, 2, 3), keepdim=True)
        return (x_BCHW + shift_BC.to(x_BCHW.dtype)[:, :, None, None]).clamp(low, high)


@dataclass(frozen=True, kw_only=True)
class Blur(Primitive):
    """Gaussian blur; beyond the border the nearest pixel counts."""

    sigma: Range = (0.1, 2.0)
    """Standard deviation in pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("sigma", 0.01, 1000.0)

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Blur every sample with its own width."""
        sigma_B = uniform(len(x_BCHW), self.sigma, generator, x_BCHW.device)
        reach = math.ceil(4 * self.sigma[1])
        rows, columns = (blur_weights(sigma_B, side, reach) for side in x_BCHW.shape[2:])
        return combine(x_BCHW, rows, columns)


def blur_weights(sigma_B: Tensor, side: int, reach: int) -> Tensor:
    """Return (B, side, side): the Gaussian of each sample around each pixel; what falls outside goes to the border."""
    offset_OI = torch.arange(-reach, side + reach, device=sigma_B.device) - torch.arange(
        side, device=sigma_B.device
    ).unsqueeze(1)
    bell_BOI = torch.exp(-0.5 * (offset_OI / sigma_B.view(-1, 1, 1)).square()) * (offset_OI.abs() <= reach)
    inside_BOI = bell_BOI[:, :, reach : reach + side].clone()
    inside_BOI[:, :, 0] += bell_BOI[:, :, :reach].sum(dim=2)
    inside_BOI[:, :, -1] += bell_BOI[:, :, reach + side :].sum(dim=2)
    return inside_BOI / inside_BOI.sum(dim=2, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class Sharpness(Primitive):
    """Blend with a smoothed picture: below 1 softer, above 1 crisper. The outermost pixels stay."""

    factor: Range = (0.05, 0.95)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("factor", 0.0, 100.0)

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Soften or sharpen every sample."""
        factor_B = uniform(len(x_BCHW), self.factor, generator, x_BCHW.device)
        return blend(x_BCHW, smoothed(x_BCHW), factor_B)


def smoothed(x_BCHW: Tensor) -> Tensor:
    """Pillow's SMOOTH filter: the pixel counts 5, its eight neighbours 1 each."""
    if min(x_BCHW.shape[2:]) < 3:
        return x_BCHW
    around = 9 * F.avg_pool2d(x_BCHW, 3, stride=1)
    changed = x_BCHW.clone()
    changed[:, :, 1:-1, 1:-1] = (around + 4 * x_BCHW[:, :, 1:-1, 1:-1]) / 13
    return changed


@dataclass(frozen=True, kw_only=True)
class Solarise(Primitive):
    """Invert what is at least as bright as the threshold, a share of the 256 levels."""

    threshold: float | Range = 0.5
    """One number, or a pair to draw it from."""

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = _pair(self.threshold)
        self.require("threshold", 0 <= low <= high <= 1, "be between 0 and 1")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Solarise every sample."""
        at_B = uniform(len(x_BCHW), _pair(self.threshold), generator, x_BCHW.device) * (_N_LEVELS / 255)
        # A little play: floats made from bytes must fall on the side their byte falls on.
        return torch.where(x_BCHW >= per_sample(at_B) - 1e-4, 1 - x_BCHW, x_BCHW)


@dataclass(frozen=True, kw_only=True)
class Posterise(Primitive):
    """Keep only the highest bits of each value's 8."""

    bits: int | tuple[int, int] = (4, 8)
    """One number, or a pair to draw it from, both included."""

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = _pair(self.bits)
        self.require("bits", 1 <= low <= high <= 8, "be between 1 and 8")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Posterise every sample."""
        low, high = _pair(self.bits)
        bits_B = whole(len(x_BCHW), int(low), int(high), generator, x_BCHW.device)
        step = per_sample(2 ** (8 - bits_B))
        return (levels(x_BCHW).div_(step, rounding_mode="floor") * step).to(x_BCHW.dtype) / 255


@dataclass(frozen=True, kw_only=True)
class Equalise(Primitive):
    """Spread the levels of each channel so that all are used about equally often."""

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Equalise every sample."""
        level_RP = levels(x_BCHW).flatten(2).flatten(0, 1)
        counts_RL = torch.zeros(len(level_RP), _N_LEVELS, dtype=torch.int64, device=x_BCHW.device)
        counts_RL.scatter_add_(1, level_RP, torch.ones_like(level_RP))
        is_used_RL = counts_RL > 0
        last_R1 = (_N_LEVELS - 1 - is_used_RL.flip(1).float().argmax(dim=1, keepdim=True)).long()
        step_R1 = (level_RP.shape[1] - counts_RL.gather(1, last_R1)) // (_N_LEVELS - 1)
        before_RL = counts_RL.cumsum(dim=1) - counts_RL
        table_RL = ((before_RL + step_R1 // 2) // step_R1.clamp(min=1)).clamp_(max=_N_LEVELS - 1)
        # Too few levels to spread: the picture stays as it is.
        equal_RP = torch.where(step_R1 > 0, table_RL.gather(1, level_RP), level_RP)
        return (equal_RP.to(x_BCHW.dtype) / 255).view(x_BCHW.shape)


@dataclass(frozen=True, kw_only=True)
class AutoContrast(Primitive):
    """Stretch each channel so that its darkest value becomes black and its brightest white."""

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Stretch every sample."""
        low, high = x_BCHW.amin(dim=(2, 3), keepdim=True), x_BCHW.amax(dim=(2, 3), keepdim=True)
        is_flat = high - low < 0.5 / 255
        return torch.where(is_flat, x_BCHW, (x_BCHW - low) / torch.where(is_flat, torch.ones_like(low), high - low))


def _pair(value: float | Range) -> Range:
    return value if isinstance(value, tuple) else (value, value)
