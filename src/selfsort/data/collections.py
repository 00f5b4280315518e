"""Images as Python programs hold them: lists of pictures, and what torch calls a Dataset or a DataLoader.

Known by what they can do, so that torch need not be loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from selfsort.errors import InvalidInput
from selfsort.progress import track


def as_array(images: Any) -> Any:
    """Return one array of all images; what is none of these collections is returned as it is.

    A DataLoader is asked for its dataset, and each item of a dataset for its image: labels beside it are left out.

    >>> as_array([np.zeros((2, 3)), np.ones((2, 3))]).shape
    (2, 2, 3)
    """
    if hasattr(images, "dataset") and hasattr(images, "batch_sampler"):  # a DataLoader may shuffle, drop and augment
        images = images.dataset
    if isinstance(images, np.ndarray) or hasattr(images, "__array__") or isinstance(images, str | bytes):
        return images
    is_list = isinstance(images, list | tuple)
    if is_list and (not images or not _is_picture(images[0])):
        return images
    if not is_list and not (hasattr(images, "__getitem__") and hasattr(images, "__len__")):
        if hasattr(images, "__iter__") and not hasattr(images, "shape"):
            raise InvalidInput(
                f"a {type(images).__name__} cannot be read twice or counted. Expected an array, a list, a folder, or "
                "a Dataset with a length. Give list(images)."
            )
        return images
    if not is_list and (hasattr(images, "shape") or hasattr(images, "keys")):
        return images
    n_images = len(images)
    pictures = [_picture(images[row], row) for row in track(range(n_images), "reading images", n_images)]
    shapes = sorted({picture.shape for picture in pictures})
    if len(shapes) > 1:
        raise InvalidInput(
            f"the images have different shapes, such as {shapes[0]} and {shapes[-1]}. Expected one shape for all, or "
            "files. Resize them, or save them to a folder and give its path: files may have any size."
        )
    return np.stack(pictures) if pictures else np.empty((0, 0, 0), np.uint8)


def _is_picture(item: Any) -> bool:
    """Whether a list of such items is one of pictures, and not of paths or of rows of numbers."""
    return (hasattr(item, "__array__") or hasattr(item, "__array_interface__")) and np.ndim(item) >= 2


def _picture(item: Any, row: int) -> npt.NDArray[Any]:
    if isinstance(item, dict):
        item = next((item[key] for key in ("image", "img", "pixel_values", "pixels") if key in item), item)
    elif isinstance(item, list | tuple) and item:
        item = item[0]
    picture = np.asarray(item)
    if picture.ndim not in (2, 3) or picture.dtype.kind not in "uifb":
        raise InvalidInput(
            f"item {row} of the images is no picture ({type(item).__name__}). Expected an array or tensor of two or "
            "three dimensions, alone or before its label. Give a Dataset whose items begin with the image."
        )
    return picture
