"""Photographs that never were: smooth random scenes, written as cameras and programs write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

SIZE = (180, 120)


def scene(seed: int, size: tuple[int, int] = SIZE) -> Image.Image:
    """Return a picture with outlines and colours of its own."""
    rng = np.random.default_rng(seed)
    coarse = gaussian_filter(rng.normal(size=(60, 90, 3)), (5, 5, 0.8))
    scaled = 128 + 60 * (coarse - coarse.mean()) / coarse.std()
    shaped = np.where(coarse[..., :1] > 0.02, scaled, 255 - scaled)  # edges
    return Image.fromarray(np.clip(shaped, 10, 200).astype(np.uint8)).resize(size, Image.Resampling.BICUBIC)


def frame(picture: Image.Image, shift: int, *, zoom: float = 0.95) -> Image.Image:
    """Return the scene as a hand that moves a little would take it."""
    width, height = (round(zoom * side) for side in picture.size)
    left, top = (picture.width - width) // 2 + shift, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def save(picture: Image.Image, path: Path, *, taken: str | None = None, quality: int = 92) -> Path:
    """Write a picture, with the time it was taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if taken is not None:
        exif[0x0110] = "a camera"
        exif.get_ifd(0x8769)[0x9003] = taken
    if path.suffix == ".jpg":
        picture.save(path, exif=exif, quality=quality)
    else:
        picture.save(path, exif=exif)
    return path


def brightened(picture: Image.Image, factor: float = 1.25) -> Image.Image:
    """Return it in other light."""
    return picture.point(lambda value: min(255, round(factor * value)))


def album(root: Path, n: int = 12) -> Path:
    """Write n scenes; scene 0 stands there in five files, scene 1 is a burst of four, 2 and 3 were taken together."""
    for number in range(n):
        clock = {0: "08:00:00", 1: "10:00:00", 2: "09:00:30", 3: "09:00:31"}.get(number)
        save(scene(number), root / f"{number:02d}.jpg", taken=clock and f"2024:05:01 {clock}")
    (root / "again").mkdir()
    (root / "again" / "copy.jpg").write_bytes((root / "00.jpg").read_bytes())
    save(scene(0), root / "again" / "packed.jpg", quality=55)
    save(scene(0).resize((90, 60), Image.Resampling.LANCZOS), root / "again" / "small.png")
    save(brightened(scene(0)), root / "again" / "bright.jpg")
    for shift in (1, 2, 3):
        save(frame(scene(1), shift), root / f"frame-{shift}.jpg", taken=f"2024:05:01 10:00:0{shift}")
    return root
