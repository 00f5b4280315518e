"""The data sets that are measured: what they hold, where they come from, and where they lie on this machine.

No data ship with selfsort. The files are looked for in the folder that the variable SELFSORT_DATA names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from selfsort.data import Dataset, read_source
from selfsort.errors import InvalidInput, MissingData, invalid

VARIABLE = "SELFSORT_DATA"


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A named set of images with classes."""

    title: str
    file: str
    """An npz with `images` and `labels`, and with what `where` asks for; or a folder of pictures."""
    labels: str | None = None
    """The classes of a folder of pictures, in a file beside it."""
    n_images: int
    shape: tuple[int, int, int]
    """Height, width, channels as measured."""
    n_classes: int
    source: str
    where: str | None = None
    """The rows of the file that are meant, as NAME=VALUE."""
    size: int | None = None
    """Pixels of the shorter side; None: as stored."""

    @property
    def split(self) -> str:
        """Which part of the file it is."""
        return self.where or "all"

    def shape_for(self, side: int | None) -> tuple[int, int, int]:
        """Height, width and channels, where an encoder wants pictures of different sizes to be decoded to `side`."""
        is_folder = self.labels is not None
        return (side, side, self.shape[2]) if is_folder and side is not None else self.shape


_MNIST = "the MNIST database of LeCun, Cortes and Burges, split 0 for training and 1 for test"

DATASETS: dict[str, DataSet] = {
    "umist": DataSet(
        title="UMist",
        file="umist-32.npz",
        n_images=575,
        shape=(32, 32, 1),
        n_classes=20,
        source="the UMIST (Sheffield) face database of Graham and Allinson, at 32x32",
    ),
    "coil20": DataSet(
        title="COIL-20",
        file="coil20.npz",
        n_images=1440,
        shape=(128, 128, 1),
        n_classes=20,
        source="COIL-20 (processed) of Columbia University",
    ),
    "cmu-pie": DataSet(
        title="CMU-PIE",
        file="cmu-pie.npz",
        n_images=2856,
        shape=(32, 32, 1),
        n_classes=68,
        source="the CMU Pose, Illumination and Expression database, pose 27, in the 32x32 form of Cai",
    ),
    "usps": DataSet(
        title="USPS",
        file="usps-9298.npz",
        n_images=9298,
        shape=(16, 16, 1),
        n_classes=10,
        source="the zip-code digits that come with The Elements of Statistical Learning",
    ),
    "mnist-test": DataSet(
        title="MNIST-test",
        file="mnist.npz",
        n_images=10_000,
        shape=(28, 28, 1),
        n_classes=10,
        source=_MNIST,
        where="split=1",
    ),
    "mnist": DataSet(
        title="MNIST-full", file="mnist.npz", n_images=70_000, shape=(28, 28, 1), n_classes=10, source=_MNIST
    ),
    "coil100": DataSet(
        title="COIL-100",
        file="coil100-64.npz",
        n_images=7200,
        shape=(64, 64, 3),
        n_classes=100,
        source="COIL-100 of Columbia University, halved to 64x64",
    ),
    "cifar10-test": DataSet(
        title="CIFAR-10 test",
        file="cifar10-test.npz",
        n_images=10_000,
        shape=(32, 32, 3),
        n_classes=10,
        source="the test images of CIFAR-10 of Krizhevsky",
    ),
    "tinyimagenet-10": DataSet(
        title="Tiny ImageNet, 10 classes",
        file="tinyimagenet-10.npz",
        n_images=5000,
        shape=(64, 64, 3),
        n_classes=10,
        source="the training images of ten classes of Tiny ImageNet (Stanford CS231n)",
    ),
    "photos-mixed": DataSet(
        title="photos-mixed",
        file="photos-mixed",
        labels="photos-mixed-truth.csv",
        n_images=715,
        shape=(96, 96, 3),
        n_classes=7,
        source="photographs of three scenes and three kinds of clothes, and screens, as a person's folder has them",
    ),
}


def find(name: str | Path) -> Path:
    """Return the file of a data set, or say in one message which variable to set and where the data come from.

    Args:
        name: a name of `DATASETS`, the name of the file of one, or a path that is there.
    """
    if name in DATASETS:
        file = DATASETS[str(name)].file
    elif Path(name).exists():
        return Path(name)
    elif any(known.file == str(name) for known in DATASETS.values()):
        file = str(name)
    else:
        raise MissingData(
            f"{name} is not there. Expected a file, or one of the data sets {', '.join(DATASETS)}. Check the name."
        )
    path = _folder() / file
    if not path.exists():
        raise missing([file])
    return path


def find_or_exit(name: str | Path) -> Path:
    """Like `find`, for scripts: missing data end the program with the message alone."""
    try:
        return find(name)
    except MissingData as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def missing(names: Sequence[str]) -> MissingData:
    """Word the error for data sets (or files of them) that are not on this machine."""
    wanted = {known.file: known.source for name, known in DATASETS.items() if name in names or known.file in names}
    listed = "; ".join(f"{file}: {source}" for file, source in wanted.items())
    state = f"names {_folder()}, which lacks" if os.environ.get(VARIABLE) else "is not set, so these are missing:"
    return MissingData(
        f"the variable {VARIABLE} {state} {', '.join(wanted)}. Expected a folder that holds them, with labels "
        f"({listed}). Set {VARIABLE} to such a folder."
    )


def read(name: str, side: int | None = None) -> Dataset:
    """Read a data set as it is measured; `side` is what an encoder wants pictures of different sizes to have."""
    known, path = DATASETS[name], find(name)
    labels = None if known.labels is None else path.with_name(known.labels)
    shape = known.shape_for(side)
    dataset = read_source(
        path, where=known.where, size=known.size, side=None if labels is None else side, labels=labels
    )
    if dataset.labels is None:
        raise InvalidInput(f"{path} has no labels. Expected them as the array `labels`. Add it to the file.")
    found = (len(dataset), dataset.images.shape, len(set(dataset.labels.tolist())))
    if found != (known.n_images, shape, known.n_classes):
        raise invalid(
            str(path),
            f"hold {known.n_images} images of shape {shape} in {known.n_classes} classes ({known.source})",
            "{} of shape {} in {}".format(*found),
            "Use the original data.",
        )
    return dataset


def _folder() -> Path:
    return Path(os.environ.get(VARIABLE) or ".").expanduser()
