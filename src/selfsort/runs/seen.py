"""What the encoder of a run takes its pictures for: words of its own classes, or of a list that its text tower reads.

A run keeps in `words.json` the list that a person gave, if one did, and what each picture that was asked about is taken
for. So another number of clusters of the same pictures is named without asking anything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from selfsort.errors import InvalidInput, MissingData, SelfsortError
from selfsort.names.classes import WORDS as CLASS_WORDS
from selfsort.names.classes import class_words
from selfsort.names.clear import clear_words
from selfsort.names.evidence import Words
from selfsort.names.lists import checked_words, everyday_words, unknown_line
from selfsort.runs.folder import RunFolder
from selfsort.runs.moved import recorded_reading
from selfsort.types import F32, I64, Encoder, Json

if TYPE_CHECKING:
    from selfsort.encoders.fitted import FittedEncoder

WORDS = "words.json"
_PER_CLUSTER = 24
"""Pictures of each cluster that are encoded for their names, where features are not kept."""


@dataclass(frozen=True)
class RunWords:
    """The words of a run."""

    given: tuple[str, ...] | None = None
    """The list that a person gave; None: everyday words."""
    seen: dict[int, str] = field(default_factory=dict)
    """What pictures are taken for, by row; empty where no word is clear."""

    @classmethod
    def load(cls, folder: RunFolder) -> RunWords:
        """Read what a run keeps, trusting none of it."""
        if not (folder.path / WORDS).is_file():
            return cls()
        told = folder.read_json(WORDS)
        given, seen = told.get("given"), told.get("seen", {})
        try:
            words = {int(row): checked_words([word])[0] if word else "" for row, word in seen.items()}
            return cls(None if given is None else checked_words(given), words)
        except (TypeError, ValueError, AttributeError):
            raise InvalidInput(
                f"{folder.path / WORDS} cannot be used. Expected what selfsort wrote. It was changed or damaged: "
                f"remove it, and give the words again with selfsort names {folder.path} --names."
            ) from None

    def save(self, folder: RunFolder) -> None:
        """Keep it in a run."""
        told: Json = {} if self.given is None else {"given": list(self.given)}
        folder.write_json(WORDS, {**told, "seen": {str(row): word for row, word in sorted(self.seen.items())}})


def check_list(parts: Sequence[Json], words: Sequence[str]) -> str:
    """Refuse a list of words that an encoder can do nothing with; else say which of the words it does not know.

    Args:
        parts: the encoder, as a run describes it.
        words: the list.
    """
    from selfsort.encoders.heads import published_head  # needs torch, as reading names does not

    part = parts[0] if len(parts) == 1 else {}
    name = "+".join(str(one.get("name"))[:80] for one in parts) or "a run from pixels"
    if published_head(part) is not None:
        known = {word.casefold() for word in words} & set(CLASS_WORDS)
        if not known:
            raise InvalidInput(
                f"{name} knows no word of the list. Expected some of: {', '.join(CLASS_WORDS)}. "
                "Use these, or a CLIP or SigLIP model as --encoder, which reads any words."
            )
        return unknown_line(words, known, name)
    why = "it is no CLIP or SigLIP model"
    if part.get("kind") == "hf":
        from selfsort.encoders.texts import why_without_texts

        why = why_without_texts(str(part.get("at")))
    if why:
        raise InvalidInput(
            f"{name} cannot name clusters by a list of words: {why}. Expected a CLIP or SigLIP model with its text "
            "tower and tokenizer. Give its folder, or hf:NAME, to selfsort fit as --encoder, or leave --names out."
        )
    return ""


def check_list_for(folder: RunFolder, words: Sequence[str], encoder: str | None = None) -> str:
    """Do the same for the encoder of a run; `encoder` says where it is now, if it was moved."""
    from selfsort.runs.encoder import stored_place

    parts = parts_of(folder)
    if len(parts) == 1 and parts[0].get("kind") == "hf":
        parts = [parts[0] | {"at": str(stored_place(folder, parts[0], encoder))}]
    return check_list(parts, words)


def parts_of(folder: RunFolder) -> list[Json]:
    """Return the encoder of a run, as it describes it; nothing for pixels and runs of earlier versions."""
    described = folder.config.get("encoder")
    parts = described.get("parts") if isinstance(described, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


@dataclass(frozen=True, eq=False)
class Asking:
    """A question to the encoder of a run: what are these pictures?"""

    folder: RunFolder
    names: Sequence[str]
    """Of all pictures of the run."""
    labels: I64
    """(N,) their clusters."""
    rows: I64
    """The pictures that are asked about; of some there may be no answer."""
    given: tuple[str, ...] | None = None
    """A list that a person has just given, who wants to know why there is nothing; None: as the run has it."""
    encoder: str | None = None
    """Where the run's encoder is now, if it was moved."""

    def words(self) -> Words:
        """Return what is clear, and keep it in the run.

        Raises:
            SelfsortError: the encoder or the pictures are gone, and a person has asked.
        """
        kept = RunWords.load(self.folder) if self.given is None else RunWords(self.given)
        new = self.rows[[row not in kept.seen for row in self.rows.tolist()]]
        if len(new):
            try:
                found = replace(self, rows=new)._answers(kept.given)
            except SelfsortError:
                if self.given is not None:
                    raise
                found = {}  # a convenience: neither a run nor its report must fail for it
            if found:
                kept = replace(kept, seen=kept.seen | found)
                kept.save(self.folder)
        return [None if (word := kept.seen.get(row)) is None else (word,) * bool(word) for row in self.rows.tolist()]

    def _answers(self, given: Sequence[str] | None) -> dict[int, str]:
        parts = parts_of(self.folder)
        if len(parts) != 1:
            return {}
        from selfsort.encoders.heads import published_head

        if published_head(parts[0]) is not None:
            return self._by_classes(given)
        return self._by_texts(parts[0], given or everyday_words()) if parts[0].get("kind") == "hf" else {}

    def _by_classes(self, given: Sequence[str] | None) -> dict[int, str]:
        from selfsort.encoders.cache import cache_folder
        from selfsort.encoders.heads import class_probabilities

        described, fingerprint = self.folder.field("encoder", dict), self.folder.field("fingerprint", str)
        likely = class_probabilities(described, fingerprint, len(self.names), self.rows, cache_folder())
        if likely is None:
            raise self._nothing_kept()
        return _by_row(self.rows, class_words(likely, given))

    def _nothing_kept(self) -> MissingData:
        return MissingData(
            f"what the encoder of {self.folder.path} saw is not in the cache. Expected its features there. "
            "Give the same selfsort fit again, with --names."
        )

    def _by_texts(self, part: Json, words: Sequence[str]) -> dict[int, str]:
        from selfsort.encoders.texts import open_texts, why_without_texts
        from selfsort.learning.device import choose_device
        from selfsort.runs.encoder import stored_encoder, stored_place

        device, place = choose_device("auto"), stored_place(self.folder, part, self.encoder)
        if why_without_texts(place) and self.given is None:
            return {}
        rows, features = self._embeddings(stored_encoder(self.folder, device, self.encoder, as_given=True))
        tower = open_texts(place, device)
        return _by_row(rows, clear_words(tower.likely_words(features, words), words, tower.family.least))

    def _embeddings(self, encoder: FittedEncoder) -> tuple[I64, F32]:
        """Return rows and the model's own image embeddings: kept ones, or else of some pictures of each cluster.

        What CLIP and SigLIP give as encoders is what they compare with texts, but for its length. A run centres it,
        which would be wrong here; the mean of an image's and its mirror image's points between the two.
        """
        from selfsort.distributed import world_size
        from selfsort.encoders.cache import cache_folder
        from selfsort.encoders.encode import kept_features, plain_features
        from selfsort.encoders.fitted import is_mirrored

        part, cache, fingerprint = encoder.parts[0], cache_folder(), str(self.folder.config.get("fingerprint"))
        assert isinstance(part.source, Encoder), "a model of Hugging Face"
        mirror = is_mirrored(part, encoder.config)
        if cache is not None:
            kept = kept_features(part.source, len(self.names), fingerprint, is_mirrored=mirror, folder=cache)
            if kept is not None:
                return self.rows, np.asarray(kept[self.rows], np.float32)
        is_shared = world_size() > 1  # the other processes are not here to do their part
        if is_shared or self.folder.source_kind not in ("folder", "list"):
            raise self._nothing_kept()
        row_of = {self.names[row]: row for row in _some_of_each(self.labels, self.rows)}
        reading = replace(recorded_reading(self.folder, list(row_of)), where=None, max_bad=1.0)
        dataset = reading.read(min_images=1)
        found = plain_features(part.source, dataset.images, "", is_mirrored=mirror, folder=None, device=encoder.device)
        return np.array([row_of[name] for name in dataset.names], np.int64), np.asarray(found, np.float32)


def _some_of_each(labels: I64, rows: I64) -> list[int]:
    """Choose a few pictures of each cluster, evenly from all that may be asked about."""
    chosen: list[int] = []
    for cluster in np.unique(labels[rows]):
        members = rows[labels[rows] == cluster]
        chosen += members[np.unique(np.linspace(0, len(members) - 1, _PER_CLUSTER).astype(np.int64))].tolist()
    return chosen


def _by_row(rows: I64, words: Sequence[Sequence[str]]) -> dict[int, str]:
    return {row: said[0] if said else "" for row, said in zip(rows.tolist(), words, strict=True)}
