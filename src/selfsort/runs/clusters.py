"""How many clusters: what the user says, and what becomes of it when the images are known."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch

from selfsort.choose_k.search import Choice, choose_k
from selfsort.classic.method import rows_of
from selfsort.errors import invalid
from selfsort.types import F32, Encoded, Inputs, Json

_REMEDY = "Give for example 10, 5:30 or auto."


@dataclass(frozen=True)
class ClusterRange:
    """The number of clusters is to be found, between these."""

    low: int = 2
    high: int | None = None

    def __str__(self) -> str:
        return "auto" if (self.low, self.high) == (2, None) else f"{self.low}:{self.high or ''}"


Clusters = int | ClusterRange


def read_clusters(given: str | int, name: str = "--clusters") -> Clusters:
    """Read a number, `auto`, or a range such as 5:30.

    >>> read_clusters("10"), read_clusters("auto"), read_clusters("5:30"), read_clusters("5:")
    (10, ClusterRange(low=2, high=None), ClusterRange(low=5, high=30), ClusterRange(low=5, high=None))
    """
    text = str(given)
    if text == "auto":
        return ClusterRange()
    if match := re.fullmatch(r"(\d{0,9}):(\d{0,9})", text):
        found = ClusterRange(int(match[1] or 2), int(match[2]) if match[2] else None)
        if found.low < 2 or (found.high is not None and found.high < found.low) or text == ":":
            raise invalid(name, "be a range LOW:HIGH with 2 <= LOW <= HIGH", repr(text), _REMEDY)
        return ClusterRange(found.low, found.high) if found.high != found.low else found.low
    if not re.fullmatch(r"\+?\d{1,9}", text) or int(text) < 2:
        raise invalid(name, "be a whole number of at least 2, auto, or a range", repr(text), _REMEDY)
    return int(text)


@dataclass(frozen=True, eq=False)
class Found:
    """A number of clusters, and what config.json says of it."""

    n_clusters: int
    told: Json
    note: str = ""


def find_number(
    asked: Clusters, images: Inputs, *, seed: int, device: torch.device, unstacked: Inputs | None = None
) -> Found:
    """Settle the number of clusters on the features a run starts from.

    Args:
        asked: as the user says.
        images: what the method will see.
        seed: decides every random choice.
        device: where neighbours are searched.
        unstacked: of images that stand for stacks of duplicates: all of them. To count a picture once takes away
            clusters that are one picture again and again, and can add none; but fewer images have a thinner graph, in
            which clusters fall apart. So there are no more clusters than all images show.
    """
    if isinstance(asked, int):
        return Found(asked, {"asked": str(asked)})
    n = len(images)
    if asked.low > n or (asked.high or 0) > n:
        raise invalid("--clusters", f"be at most the number of images ({n})", str(asked), "Lower it, or add images.")
    high = asked.high
    if unstacked is not None and len(unstacked) > n:
        of_all = choose_k(rows_of(unstacked), low=asked.low, high=high, seed=seed, device=device)
        high = high if of_all.is_structureless else min(of_all.k, n)
    rows, views = rows_of(images), _views_of(images)
    choice = choose_k(rows, low=asked.low, high=high, seed=seed, device=device, views=views)
    return Found(choice.k, {"asked": str(asked), **_told(choice)}, choice.sentence)


def _views_of(images: Inputs) -> list[F32]:
    """Return what the encoder saw of augmented copies, where it has looked at them anyway."""
    if not isinstance(images, Encoded) or images.views is None or images.views.ndim != 3:
        return []
    return [images.views[:, 0].astype(np.float32)]


def find_again(asked: Clusters, before: int, features: F32, *, seed: int, device: torch.device) -> str:
    """Ask once more, of the features a method has learned; say so where they show another number.

    The run keeps its number: what was learned was learned for it. Another cut costs no training.
    """
    if isinstance(asked, int):
        return ""
    high = asked.high if asked.high is None else min(asked.high, len(features))
    again = choose_k(features, low=asked.low, high=high, seed=seed, device=device)
    if again.k in (1, before):
        return ""
    return f"The learned features show {again.k} clusters rather than {before}: selfsort cut RUN --clusters {again.k}"


def _told(choice: Choice) -> Json:
    return {
        "found": choice.k,
        "nearly": list(choice.near),
        "sentence": choice.sentence,
        "evidence": [
            {"criterion": one.name, "answer": one.answer, "k": one.ks.tolist(), "values": one.values.tolist()}
            for one in choice.evidence
        ],
    }
