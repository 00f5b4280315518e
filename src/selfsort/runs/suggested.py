"""Suggested names of the clusters of a run: `names.json`, beside labels.csv. A name given by a person always wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from selfsort.data.decode import Unreadable, probe, quiet_pillow
from selfsort.data.folder import open_file
from selfsort.data.shot import Shot, read_shot
from selfsort.errors import InvalidInput
from selfsort.names.evidence import SOURCES, Source, Suggestion, Words, suggest
from selfsort.names.words import date_words, folder_words, look_words, place_words, screen_words
from selfsort.runs.edits import MAX_NAME
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.moved import picture_paths
from selfsort.runs.seen import Asking, RunWords
from selfsort.types import I64

NAMES = "names.json"
_STILL = 0.8
"""A suggestion holds as long as that much of a cluster, as corrected, is what it was made for."""


def suggest_names(
    folder: RunFolder,
    names: Sequence[str],
    labels: I64,
    thumbnails: Thumbnails,
    words: tuple[str, ...] | None = None,
    encoder: str | None = None,
) -> dict[int, Suggestion]:
    """Suggest names for the clusters of pictures that are files, and keep them; others are named by a list only.

    Args:
        folder: the run.
        names: of all its pictures.
        labels: (N,) their clusters as the method found them, -1 for outliers.
        thumbnails: the pictures that are looked at.
        words: a list that a person wants names from; None: that of the run, or everyday words.
        encoder: where the run's encoder is now, if it was moved.
    """
    paths = picture_paths(folder, names)
    are_files, has_list = any(paths), words is not None or RunWords.load(folder).given is not None
    if not are_files and not has_list:
        return {}
    places = np.flatnonzero(thumbnails.rows < len(names)).tolist()
    rows = thumbnails.rows[places].tolist()
    seen = Asking(folder, names, labels, np.array(rows, np.int64), words, encoder).words()
    # Whoever has made a list wants its words, and not those of folders.
    evidence: dict[Source, Words] = {"seen": seen} if has_list else {}
    if are_files:
        headers = _headers([paths[row] for row in rows])
        files: dict[Source, Words] = {
            "folder": [folder_words(names[row]) for row in rows],
            "seen": seen,
            "date": [date_words(shot.taken) for shot, _ in headers],
            "place": [place_words(shot.place) for shot, _ in headers],
            "screen": [screen_words(size) for _, size in headers],
            "look": [look_words(thumbnails.pixels[place]) for place in places],
        }
        evidence |= files
    found = suggest(labels[rows], evidence)
    told = {
        str(cluster): {
            **{"name": one.name, "source": one.source, "share": one.share},
            **({"about": one.about} if one.about else {}),
        }
        for cluster, one in found.items()
    }
    folder.write_json(NAMES, told)
    return found


def _headers(paths: Sequence[str]) -> list[tuple[Shot, tuple[int, int] | None]]:
    """Return what the camera noted and the size, as far as each file is there and says so."""
    found: list[tuple[Shot, tuple[int, int] | None]] = []
    with quiet_pillow():
        for path in paths:
            try:
                with open_file(Path(path)) as stream:
                    look = probe(stream)
                    stream.seek(0)
                    found.append((read_shot(stream), (look.width, look.height)))
            except (OSError, Unreadable):
                found.append((Shot(), None))
    return found


def load_suggestions(folder: RunFolder) -> dict[int, Suggestion] | None:
    """Return the names that a run keeps, trusting none of it; None if nobody has looked for any."""
    if not (folder.path / NAMES).is_file():
        return None
    told = folder.read_json(NAMES)
    try:
        return {int(cluster): _suggestion(one) for cluster, one in told.items()}
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"{folder.path / NAMES} cannot be used. Expected what selfsort names wrote. It was changed or damaged: "
            f"remove it and run selfsort names {folder.path} again."
        ) from None


def _suggestion(told: Mapping[str, object]) -> Suggestion:
    name, share = told["name"], told["share"]
    source = next((source for source in SOURCES if source == told["source"]), None)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable() or source is None:
        raise ValueError(name)
    if not isinstance(share, int | float) or not 0 <= share <= 1:
        raise ValueError(share)
    about = told.get("about", "")
    if not isinstance(about, str) or len(about) > MAX_NAME or not about.isprintable():
        raise ValueError(about)
    return Suggestion(name, source, float(share), about)


def suggestions_of(
    folder: RunFolder, words: tuple[str, ...] | None = None, encoder: str | None = None
) -> dict[int, Suggestion]:
    """Return the suggested names of a finished run; an older run gets them now, and any with a list of words.

    Args:
        folder: the run.
        words: names are to come from these first; they take the place of an earlier list.
        encoder: where the run's encoder is now, if it was moved.
    """
    table = folder.label_table()
    kept = load_suggestions(folder) if words is None else None
    if kept is not None:
        return kept
    thumbnails = folder.thumbnails()
    if thumbnails is None:
        return {}
    return suggest_names(folder, table.names, table.written, thumbnails, words, encoder)


def suggested_names(folder: RunFolder) -> dict[int, str]:
    """Return the names that a run keeps, without looking at any picture."""
    return {cluster: one.name for cluster, one in (load_suggestions(folder) or {}).items()}


def still_meant(suggested: Mapping[int, str], original: I64, labels: I64) -> dict[int, str]:
    """Return the suggestions that hold after corrections: what was merged with something else has none.

    Args:
        suggested: names of the method's clusters.
        original: (N,) the method's clusters.
        labels: (N,) clusters as corrected.

    >>> still_meant({0: "sea", 1: "wood"}, np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]))
    {1: 'wood'}
    """
    if not suggested:
        return {}
    now, same = np.bincount(labels), np.bincount(labels[labels == original], minlength=int(labels.max()) + 1)
    return {
        cluster: name
        for cluster, name in suggested.items()
        if 0 <= cluster < len(now) and now[cluster] and same[cluster] >= _STILL * now[cluster]
    }
