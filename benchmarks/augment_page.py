"""Draw docs/assets/augment.jpg: a drawn picture as every primitive changes it, one row each.

Run it with: python -m benchmarks.augment_page
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

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
from selfsort.types import U8

SIDE, GAP, N_SHOWN, LABEL_WIDTH = 64, 4, 7, 170

ROWS: tuple[tuple[str, Primitive], ...] = (
    ("Flip(p=0.5)", Flip()),
    ("Affine(rotate=30)", Affine(rotate=30)),
    ('  fill="zero"', Affine(rotate=30, fill="zero")),
    ("Affine(translate=0.2)", Affine(translate=0.2)),
    ("Affine(scale=(0.6, 1.4))", Affine(scale=(0.6, 1.4))),
    ("Affine(shear=30)", Affine(shear=30)),
    ("Zoom(range=(0.6, 1.4))", Zoom(range=(0.6, 1.4))),
    ("ResizedCrop(size=64)", ResizedCrop(size=64)),
    ("RandomCrop(padding=12)", RandomCrop(padding=12)),
    ("CutOut(size=32)", CutOut(size=32)),
    ("ColourJitter(brightness=0.6)", ColourJitter(brightness=0.6)),
    ("  contrast=0.8", ColourJitter(contrast=0.8)),
    ("  saturation=1.0", ColourJitter(saturation=1.0)),
    ("  hue=0.5", ColourJitter(hue=0.5)),
    ("  all, 0.4 0.4 0.4 0.1", ColourJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)),
    ("Grayscale(p=0.5)", Grayscale(p=0.5)),
    ("ChannelShift(amount=0.2)", ChannelShift(amount=0.2)),
    ("Blur(sigma=(0.1, 3))", Blur(sigma=(0.1, 3.0))),
    ("Sharpness(factor=(0, 4))", Sharpness(factor=(0.0, 4.0))),
    ("Solarise(threshold=(0, 1))", Solarise(threshold=(0.0, 1.0))),
    ("Posterise(bits=(1, 4))", Posterise(bits=(1, 4))),
    ("Equalise()", Equalise()),
    ("AutoContrast()", AutoContrast()),
    ("RandomOps(n=4)", RandomOps()),
)


def drawn_picture(side: int = SIDE) -> U8:
    """A house under the sun, a little hazy so that contrast can be stretched."""
    scale = 4
    image = Image.new("RGB", (side * scale, side * scale))
    pen, unit = ImageDraw.Draw(image), side * scale / 64
    for y in range(image.height):
        share = y / image.height
        pen.line([(0, y), (image.width, y)], fill=(int(70 + 90 * share), int(120 + 70 * share), 205))

    def at(*points: float) -> list[float]:
        return [value * unit for value in points]

    pen.rectangle(at(0, 46, 64, 64), fill=(80, 140, 70))
    pen.ellipse(at(6, 6, 20, 20), fill=(235, 205, 80))
    pen.rectangle(at(22, 30, 50, 54), fill=(190, 150, 110))
    pen.polygon(at(18, 30, 36, 14, 54, 30), fill=(160, 60, 55))
    pen.rectangle(at(26, 40, 33, 54), fill=(90, 60, 45))
    pen.rectangle(at(38, 36, 46, 43), fill=(220, 230, 235))
    pen.line(at(42, 36, 42, 43), fill=(90, 60, 45), width=int(unit))
    pen.ellipse(at(52, 36, 62, 48), fill=(50, 100, 55))
    small = image.resize((side, side), Image.Resampling.BOX)
    return np.asarray(small, dtype=np.uint8)


def sheet() -> Image.Image:
    """Lay the rows out: name, original, changed ones."""
    picture = drawn_picture()
    batch = torch.from_numpy(picture.copy()).permute(2, 0, 1).expand(N_SHOWN, -1, -1, -1)
    step = SIDE + GAP
    page = Image.new("RGB", (LABEL_WIDTH + (N_SHOWN + 1) * step + 2 * GAP, len(ROWS) * step + GAP), "white")
    pen = ImageDraw.Draw(page)
    for row, (name, primitive) in enumerate(ROWS):
        y = GAP + row * step
        pen.text((GAP, y + SIDE // 2 - 6), name, fill=(28, 39, 51))
        changed = primitive(batch, torch.Generator().manual_seed(row)).permute(0, 2, 3, 1).numpy()
        for column, pixels in enumerate([picture, *changed]):
            page.paste(Image.fromarray(pixels), (LABEL_WIDTH + column * step + 2 * GAP * (column > 0), y))
    return page


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "docs" / "assets" / "augment.jpg"
    sheet().save(path, quality=80, optimize=True)
    print(f"written: {path.name}, {path.stat().st_size:,} bytes")
