"""Options as they are typed, and how their text is read."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from selfsort.errors import invalid


class FitMode(StrEnum):
    """How pictures of different shapes become equal."""

    crop = "crop"
    stretch = "stretch"
    pad = "pad"


class ExportTo(StrEnum):
    """What a finished run can be turned into."""

    csv = "csv"
    folders = "folders"
    npz = "npz"
    onnx = "onnx"
    coco = "coco"
    fiftyone = "fiftyone"
    imagefolder = "imagefolder"
    xmp = "xmp"


class ExportMode(StrEnum):
    """What becomes of the files that are sorted into folders."""

    copy = "copy"
    hardlink = "hardlink"
    symlink = "symlink"
    move = "move"


class PredictTo(StrEnum):
    """What new images can be sorted into."""

    csv = "csv"
    folders = "folders"


def no_nan(value: float | None) -> float | None:
    """Refuse nan, which some versions of click find in every range."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number.")
    return value


RunArgument = Annotated[Path, typer.Argument(help="A run folder.", show_default=False)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
MaxBadOption = Annotated[
    float, typer.Option(min=0, max=1, callback=no_nan, help="Unreadable files tolerated, as a share.")
]
MemoryOption = Annotated[
    str | None, typer.Option(help="Memory for images and features, as 8G; default half of RAM.", show_default=False)
]
MaxMinutesOption = Annotated[
    float | None, typer.Option(min=0, callback=no_nan, help="Stop after this long; resumable.")
]
LabelsOption = Annotated[
    str | None,
    typer.Option(
        help="True labels for scoring: csv with name,label, or npy or txt, one per image; coarse: of CIFAR-100."
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(help="Keep some rows: split=1, split=0,1, split!=2; class=NAME,NAME for folders.", show_default=False),
]
OriginalOption = Annotated[
    bool, typer.Option("--original", help="Labels as the method wrote them, without corrections made in explore.")
]
NamesOption = Annotated[
    Path | None,
    typer.Option("--names", help="What clusters may be called: a text file, one word a line.", show_default=False),
]
ReplaceOption = Annotated[bool, typer.Option("--replace", help="Replace the file at --out, if there is one.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Where to write.", show_default=False)]


def parse_names(path: Path | None) -> tuple[str, ...] | None:
    """Read --names: the words of a file."""
    if path is None:
        return None
    from selfsort.data.folder import expanded
    from selfsort.names.lists import read_list

    return read_list(expanded(path))


def parse_size(text: str) -> int | None:
    """Read --size: pixels, or auto."""
    if text == "auto":
        return None
    if not re.fullmatch(r"\d{1,4}", text) or not 4 <= int(text) <= 4096:
        raise invalid("--size", "be auto or a whole number from 4 to 4096", repr(text), "Give for example --size 96.")
    return int(text)


def parse_memory(text: str | None) -> int | None:
    """Read --memory: bytes, with K, M, G or T.

    >>> parse_memory("1.5G")
    1610612736
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise invalid("--memory", "be a size such as 500M or 8G", repr(text), "Give for example --memory 8G.")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def channels_of(gray: bool | None) -> Literal[1, 3] | None:
    """Turn the --gray/--color switch into a channel count."""
    if gray is None:
        return None
    return 1 if gray else 3
