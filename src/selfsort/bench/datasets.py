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
    labels_word: str | None = None
    """Other labels than the usual ones, by the word that --labels knows."""
    from_folders: bool = False
    """Whether the classes are the folders that pictures lie in."""
    held_out: str | None = None
    """The data set that a run on this one is scored on, if they are two."""
    printed_as: str | None = None
    """The name of the printed column, if it is not that of the data set."""

    @property
    def split(self) -> str:
        """Which part of the file it is."""
        return self.where or "all"

    def shape_for(self, side: int | None) -> tuple[int, int, int]:
        """Height, width and channels, where an encoder wants pictures of different sizes to be decoded to `side`."""
        is_folder = self.labels is not None or self.from_folders
        return (side, side, self.shape[2]) if is_folder and side is not None else self.shape


_CIFAR = "the binary version of {} from www.cs.toronto.edu/~kriz/cifar.html, unpacked"
_STL = "the binary files of STL-10 from cs.stanford.edu/~acoates/stl10, unpacked"
_IMAGENET = "the folder train of ILSVRC 2012 from image-net.org, a folder for each class"
_JULE_FILES = "{} as released with the code of JULE (github.com/jwyang/JULE.torch, data4torch.h5; extra hdf5)"

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
    "frgc": DataSet(
        title="FRGC-v2",
        file="frgc.h5",
        n_images=2462,
        shape=(32, 32, 3),
        n_classes=20,
        source=_JULE_FILES.format("FRGC-v2.0, 20 persons"),
    ),
    "ytf": DataSet(
        title="YouTube Faces",
        file="ytf.h5",
        n_images=10_000,
        shape=(55, 55, 3),
        n_classes=41,
        source=_JULE_FILES.format("YouTube Faces, the first 41 names"),
    ),
    **{
        f"{name}{suffix}": DataSet(
            title=f"{title}{said}",
            file=file,
            n_images=n_images,
            shape=(32, 32, 3),
            n_classes=n_classes,
            source=_CIFAR.format(title),
            where=where,
            labels_word=word,
            held_out=f"{name}-held-out" if suffix == "-train" else None,
            printed_as=name if suffix == "-train" else None,
        )
        for name, title, file, n_classes, word in (
            ("cifar10", "CIFAR-10", "cifar-10-batches-bin", 10, None),
            ("cifar100-20", "CIFAR-100, 20 superclasses", "cifar-100-binary", 20, "coarse"),
        )
        for suffix, said, where, n_images in (
            ("", "", None, 60_000),
            ("-train", ", training images", "split=0", 50_000),
            ("-held-out", ", test images", "split=1", 10_000),
        )
    },
    "stl10": DataSet(
        title="STL-10",
        file="stl10_binary",
        n_images=13_000,
        shape=(96, 96, 3),
        n_classes=10,
        source=_STL,
        where="split!=2",
    ),
    **{
        name: DataSet(
            title=title,
            file="ILSVRC2012/train",
            n_images=n_images,
            shape=(side, side, 3),
            n_classes=n_classes,
            source=_IMAGENET,
            where=where,
            size=side,
            from_folders=True,
            printed_as="imagenet10" if n_classes == 10 else "imagenet-dog",
        )
        for name, title, side, n_images, n_classes, where in (
            ("imagenet10", "ImageNet-10", 96, 13_000, 10, "class=imagenet-10"),
            ("imagenet10-128", "ImageNet-10 at 128", 128, 13_000, 10, "class=imagenet-10"),
            ("imagenet10-160", "ImageNet-10 at 160", 160, 13_000, 10, "class=imagenet-10"),
            ("imagenet10-192", "ImageNet-10 at 192", 192, 13_000, 10, "class=imagenet-10"),
            ("imagenet-dog", "ImageNet-Dog", 96, 19_500, 15, "class=imagenet-dog"),
            ("imagenet-dog-128", "ImageNet-Dog at 128", 128, 19_500, 15, "class=imagenet-dog"),
        )
    },
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
    path = data_folder() / file
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
    state = f"names {data_folder()}, which lacks" if os.environ.get(VARIABLE) else "is not set, so these are missing:"
    return MissingData(
        f"the variable {VARIABLE} {state} {', '.join(wanted)}. Expected a folder that holds them, with labels "
        f"({listed}). Set {VARIABLE} to such a folder."
    )


def read(name: str, side: int | None = None) -> Dataset:
    """Read a data set as it is measured; `side` is what an encoder wants pictures of different sizes to have."""
    known, path = DATASETS[name], find(name)
    labels: Path | str | None = known.labels_word if known.labels is None else path.with_name(known.labels)
    shape, is_folder = known.shape_for(side), known.labels is not None or known.from_folders
    dataset = read_source(
        path,
        where=known.where,
        size=side if known.from_folders and side else known.size,
        fit="stretch" if known.from_folders else "crop",  # "resized", not cropped
        side=side if is_folder else None,
        labels=labels,
        labels_from_folders=known.from_folders,
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


def data_folder() -> Path:
    """Return the folder that holds the data."""
    return Path(os.environ.get(VARIABLE) or ".").expanduser()
