"""Augmentations that move pixels: flip, affine maps, zoom, crops, cut-out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from selfsort.augment.primitive import Primitive, Range, uniform, whole

Fill = Literal["nearest", "zero"] | float

# Draws of a crop that may stick out of the picture before the whole picture is taken; the usual number.
_N_ATTEMPTS = 10


@dataclass(frozen=True, kw_only=True)
class Flip(Primitive):
    """Mirror left and right."""

    p: float = 0.5

    is_exact: ClassVar[bool] = True

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Mirror every sample."""
        return x_BCHW.flip(3)


@dataclass(frozen=True, kw_only=True)
class Affine(Primitive):
    """Scale, shear, rotate and translate in one resampling, about the centre of the picture, bilinearly."""

    rotate: float = 0.0
    """Degrees, either way."""
    translate: float = 0.0
    """Share of the side, each axis on its own, either way."""
    scale: Range = (1.0, 1.0)
    """Factor, the same on both axes; above 1 enlarges."""
    shear: float = 0.0
    """Degrees by which vertical lines lean, either way."""
    zoom: Range = (1.0, 1.0)
    """Further factors, one for each axis."""
    fill: Fill = "nearest"
    """What comes in from outside: the nearest pixel, zero, or this number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("rotate", "translate"):
            self.require(name, getattr(self, name) >= 0, "be at least 0")
        self.require("shear", 0 <= self.shear < 90, "be at least 0 and below 90 degrees")
        for name in ("scale", "zoom"):
            self.require_range(name, 0.01, 100.0)

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Draw seven numbers per sample and resample."""
        height, width = x_BCHW.shape[2:]
        turn, lean = math.radians(self.rotate), math.radians(self.shear)
        across, down = self.translate * width, self.translate * height
        ranges = ((-turn, turn), (-lean, lean), (-across, across), (-down, down), self.scale, self.zoom, self.zoom)
        low_71, high_71 = torch.tensor(ranges, device=x_BCHW.device).T.unsqueeze(2)
        share_7B = uniform((len(ranges), len(x_BCHW)), (0.0, 1.0), generator, x_BCHW.device)
        turn_B, lean_B, *move, scale_B, x_zoom_B, y_zoom_B = torch.lerp(low_71, high_71, share_7B).unbind(0)
        forward_B22 = linear_map(turn_B, lean_B.tan(), scale_B * x_zoom_B, scale_B * y_zoom_B)
        move_B2 = torch.stack(move, dim=1)
        return warp(x_BCHW, forward_B22, move_B2, self.fill)


@dataclass(frozen=True, kw_only=True)
class Zoom(Primitive):
    """Enlarge or reduce, each axis by its own factor."""

    range: Range = (0.95, 1.05)
    fill: Fill = "nearest"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_range("range", 0.01, 100.0)

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Zoom every sample."""
        return Affine(zoom=self.range, fill=self.fill).change(x_BCHW, generator)


def linear_map(angle_B: Tensor, lean_B: Tensor, x_factor_B: Tensor, y_factor_B: Tensor) -> Tensor:
    """Scale, then lean (x += lean * y), then turn counter-clockwise as seen; y points down."""
    cos_B, sin_B = angle_B.cos(), angle_B.sin()
    top_B2 = torch.stack([cos_B, cos_B * lean_B + sin_B], dim=1)
    bottom_B2 = torch.stack([-sin_B, cos_B - sin_B * lean_B], dim=1)
    factors_B12 = torch.stack([x_factor_B, y_factor_B], dim=1).unsqueeze(1)
    return torch.stack([top_B2, bottom_B2], dim=1) * factors_B12


def warp(x_BCHW: Tensor, forward_B22: Tensor, move_B2: Tensor, fill: Fill, *, is_sharp: bool = False) -> Tensor:
    """Carry each picture by its own linear map about the centre and its own shift in pixels (x, y).

    Sharp ones are interpolated by cubic splines, others linearly, which is quicker and blurs.
    """
    height, width = x_BCHW.shape[2:]
    (a_B, b_B), (c_B, d_B) = ((row.unbind(1)) for row in forward_B22.unbind(1))
    # Resampling asks where each new pixel comes from, so the map is inverted.
    back_B22 = torch.stack([d_B, -b_B, -c_B, a_B], dim=1).view(-1, 2, 2) / (a_B * d_B - b_B * c_B).view(-1, 1, 1)
    origin_B21 = -(back_B22 @ move_B2.unsqueeze(2))
    grid_BHW2 = sampling_grid(back_B22, origin_B21, height, width).to(x_BCHW.dtype)
    if fill == "nearest":
        mode = "bicubic" if is_sharp else "bilinear"
        return F.grid_sample(x_BCHW, grid_BHW2, mode, padding_mode="border", align_corners=False)
    if fill in ("zero", 0):
        return F.grid_sample(x_BCHW, grid_BHW2, align_corners=False)
    level = float(fill)
    return F.grid_sample(x_BCHW - level, grid_BHW2, align_corners=False).add_(level)


def sampling_grid(back_B22: Tensor, origin_B21: Tensor, height: int, width: int) -> Tensor:
    """Return where each pixel of each picture comes from, in the sampler's coordinates: both sides measure 2.

    Written out, because the ready-made function multiplies matrices of two rows and takes five times as long.
    """
    x_W = torch.arange(width, device=back_B22.device) - (width - 1) / 2
    y_H1 = (torch.arange(height, device=back_B22.device) - (height - 1) / 2).unsqueeze(1)
    grid_BHW2 = back_B22.new_empty(len(back_B22), height, width, 2)
    for axis, side in ((0, width), (1, height)):
        by_x, by_y, start = (
            value.view(-1, 1, 1) * (2 / side)
            for value in (back_B22[:, axis, 0], back_B22[:, axis, 1], origin_B21[:, axis, 0])
        )
        torch.add(by_x * x_W + start, by_y * y_H1, out=grid_BHW2[..., axis])
    return grid_BHW2


@dataclass(frozen=True, kw_only=True)
class ResizedCrop(Primitive):
    """Cut a random rectangle and bring it to a square of `size` pixels; shrinking averages, as Pillow does.

    Always applied: pictures of two sizes do not fit into one batch.
    """

    size: int
    scale: Range = (0.2, 1.0)
    """Area of the rectangle as a share of the picture."""
    ratio: Range = (3 / 4, 4 / 3)
    """Width over height."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("size", self.size >= 1, "be at least 1")
        self.require("p", self.p == 1, "be 1, because a batch holds pictures of one size")
        self.require_range("scale", 1e-6, 1.0)
        self.require_range("ratio", 0.01, 100.0)

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Crop and resize every sample."""
        n, _, height, width = x_BCHW.shape
        box_4B = self.boxes(n, height, width, generator, x_BCHW.device)
        rows_BOH = resize_weights(box_4B[0], box_4B[2], height, self.size)
        columns_BOW = resize_weights(box_4B[1], box_4B[3], width, self.size)
        return combine(x_BCHW, rows_BOH, columns_BOW)

    def boxes(self, n: int, height: int, width: int, generator: torch.Generator, device: torch.device) -> Tensor:
        """Draw top, left, height and width of each rectangle, in whole pixels."""
        area_BA = uniform((n, _N_ATTEMPTS), self.scale, generator, device) * (height * width)
        low, high = self.ratio
        ratio_BA = uniform((n, _N_ATTEMPTS), (math.log(low), math.log(high)), generator, device).exp_()
        heights_BA = (area_BA / ratio_BA).sqrt_().round_().clamp_(min=1)
        widths_BA = (area_BA * ratio_BA).sqrt_().round_().clamp_(min=1)
        # The first attempt that fits; if none does, the largest rectangle of an allowed shape.
        first_B1 = ((heights_BA <= height) & (widths_BA <= width)).float().argmax(dim=1, keepdim=True)
        height_B, width_B = heights_BA.gather(1, first_B1).squeeze(1), widths_BA.gather(1, first_B1).squeeze(1)
        misfit_B = (height_B > height) | (width_B > width)
        height_B = torch.where(misfit_B, torch.full_like(height_B, min(height, max(1, round(width / low)))), height_B)
        width_B = torch.where(misfit_B, torch.full_like(width_B, min(width, max(1, round(height * high)))), width_B)
        place_2B = uniform((2, n), (0.0, 1.0), generator, device)
        top_B = (place_2B[0] * (height - height_B + 1)).floor_().clamp_(max=height - 1)
        left_B = (place_2B[1] * (width - width_B + 1)).floor_().clamp_(max=width - 1)
        return torch.stack(
            [torch.minimum(top_B, height - height_B), torch.minimum(left_B, width - width_B), height_B, width_B]
        )


def resize_weights(start_B: Tensor, length_B: Tensor, n_in: int, n_out: int) -> Tensor:
    """Return (B, out, in): how much each pixel of a line counts for each pixel of its resized section.

    A triangle as wide as two input pixels, or as two output pixels if those are larger.
    """
    step_B11 = (length_B / n_out).view(-1, 1, 1)
    begin_B11 = start_B.view(-1, 1, 1)
    centre_BO1 = begin_B11 + (torch.arange(n_out, device=start_B.device) + 0.5).view(1, -1, 1) * step_B11
    pixel_I = torch.arange(n_in, device=start_B.device) + 0.5
    weight_BOI = (1 - (pixel_I - centre_BO1).abs() / step_B11.clamp(min=1)).clamp_(min=0)
    weight_BOI *= (pixel_I > begin_B11) & (pixel_I < begin_B11 + length_B.view(-1, 1, 1))
    return weight_BOI / weight_BOI.sum(dim=2, keepdim=True)


def combine(x_BCHW: Tensor, rows_BOH: Tensor, columns_BPW: Tensor) -> Tensor:
    """Apply each sample's own matrices to its columns and its rows: (B, C, H, W) to (B, C, O, P)."""
    n, channels, height, width = x_BCHW.shape
    flat_BIW = x_BCHW.reshape(n, channels * height, width)
    wide_BCHP = (flat_BIW @ columns_BPW.to(x_BCHW.dtype).transpose(1, 2)).view(n, channels, height, -1)
    lines_BHI = wide_BCHP.transpose(1, 2).reshape(n, height, -1)
    both_BOCP = (rows_BOH.to(x_BCHW.dtype) @ lines_BHI).view(n, rows_BOH.shape[1], channels, -1)
    return both_BOCP.transpose(1, 2).contiguous()


@dataclass(frozen=True, kw_only=True)
class RandomCrop(Primitive):
    """Surround the picture with `padding` black pixels and cut out a window of its own size, or of `size`."""

    padding: int = 4
    size: int | None = None

    is_exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("padding", self.padding >= 0, "be at least 0")
        self.require("size", self.size is None or self.size >= 1, "be at least 1, or none")
        self.require("p", self.size is None or self.p == 1, "be 1 if size is given: a batch holds one size")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Cut a window out of every sample."""
        n, _, height, width = x_BCHW.shape
        new_height, new_width = (height, width) if self.size is None else (self.size, self.size)
        padded_height, padded_width = height + 2 * self.padding, width + 2 * self.padding
        self.require("size", new_height <= padded_height and new_width <= padded_width, "fit into the padded picture")
        padded = F.pad(x_BCHW, (self.padding,) * 4)
        top_B = whole(n, 0, padded_height - new_height, generator, x_BCHW.device)
        left_B = whole(n, 0, padded_width - new_width, generator, x_BCHW.device)
        rows_BH1 = (top_B.unsqueeze(1) + torch.arange(new_height, device=x_BCHW.device)).unsqueeze(2)
        columns_B1W = (left_B.unsqueeze(1) + torch.arange(new_width, device=x_BCHW.device)).unsqueeze(1)
        sample_B11 = torch.arange(n, device=x_BCHW.device).view(-1, 1, 1)
        return padded.permute(0, 2, 3, 1)[sample_B11, rows_BH1, columns_B1W].permute(0, 3, 1, 2)


@dataclass(frozen=True, kw_only=True)
class CutOut(Primitive):
    """Overwrite one square, its side drawn from 1..`size` pixels, its centre anywhere; the border may cut it."""

    size: int
    fill: float | tuple[float, ...] = 0.0
    """Value of the square, between 0 (black) and 1; or one value per channel."""

    is_exact: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("size", self.size >= 1, "be at least 1")
        values = self.fill if isinstance(self.fill, tuple) else (self.fill,)
        self.require("fill", all(0 <= value <= 1 for value in values), "be between 0 and 1")

    def change(self, x_BCHW: Tensor, generator: torch.Generator) -> Tensor:
        """Overwrite a square in every sample."""
        n, _, height, width = x_BCHW.shape
        side_B1 = whole(n, 1, self.size, generator, x_BCHW.device).unsqueeze(1)
        is_hit = []
        for length in (height, width):
            first_B1 = whole(n, 0, length - 1, generator, x_BCHW.device).unsqueeze(1) - side_B1 // 2
            pixel_L = torch.arange(length, device=x_BCHW.device)
            is_hit.append((pixel_L >= first_B1) & (pixel_L < first_B1 + side_B1))
        square_B1HW = (is_hit[0].unsqueeze(2) & is_hit[1].unsqueeze(1)).unsqueeze(1)
        values = self.fill if isinstance(self.fill, tuple) else (self.fill,)
        level_C11 = torch.tensor(values, device=x_BCHW.device)[:, None, None]
        if x_BCHW.dtype == torch.uint8:
            level_C11 = (level_C11 * 255).round()
        return torch.where(square_B1HW, level_C11.to(x_BCHW.dtype), x_BCHW)
