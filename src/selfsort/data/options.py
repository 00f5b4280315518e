"""How a source is read: stored with every run, so that the same pixels can be read again later.

On its own, because looking at a run or exporting it needs the source but none of the methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_type_hints

from selfsort.config import fits
from selfsort.data import Dataset, ImageSpec, read_source
from selfsort.data.detect import Recorded
from selfsort.data.folder import expanded
from selfsort.data.tables import OTHER_LABELS
from selfsort.errors import InvalidInput
from selfsort.types import Json


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How to read the source; kept in config.json so that a resumed run reads the same pixels."""

    path: str
    size: int | None = None
    side: int | None = None
    """What an encoder wants pictures of different or large sizes to be brought to; `size` goes before it."""
    channels: Literal[1, 3] | None = None
    fit: Literal["crop", "stretch", "pad"] | None = None
    """None: as an encoder wants it, and without one crop."""
    where: str | None = None
    labels: str | None = None
    labels_from_folders: bool = False
    max_bad: float = 0.05
    memory_bytes: int | None = None
    recorded: Recorded | None = None
    """Set where a run folder named the source and no person did: then nothing but what it recorded is looked at."""

    def to_json(self) -> Json:
        """Return JSON types; paths are made absolute so that the folder the user stands in does not matter."""
        values = {name: value for name, value in self.__dict__.items() if name != "recorded"}
        values["path"] = str(expanded(self.path).absolute())
        if self.labels is not None and self.labels not in OTHER_LABELS:
            values["labels"] = str(expanded(self.labels).absolute())
        return values

    @classmethod
    def from_run(
        cls, values: Json, kind: str, names: Sequence[str], image: Json, moved: Mapping[str, Path] | None = None
    ) -> ReadOptions:
        """Return how a run says to read the images it has recorded; their labels, if any, are in the run."""
        reading = replace(cls.from_json(values), labels=None, labels_from_folders=False)
        return replace(reading, recorded=Recorded(kind, names, ImageSpec.from_json(image), moved or {}))

    @classmethod
    def from_json(cls, values: Json) -> ReadOptions:
        """Read what `to_json` wrote, trusting none of it."""
        hints = {name: hint for name, hint in get_type_hints(cls).items() if name != "recorded"}
        wrong = [name for name, value in values.items() if name not in hints or not fits(value, hints[name])]
        if wrong or "path" not in values or "\0" in values["path"] + str(values.get("labels")):
            raise InvalidInput(
                f"the run's source settings cannot be used ({', '.join(wrong) or 'path'}). "
                "Expected what selfsort fit wrote. "
                "The run was not made from files, or config.json was changed: start a new run."
            )
        return cls(**values)

    def read(self, *, min_images: int = 2) -> Dataset:
        """Decode the source."""
        return read_source(
            self.path,
            size=self.size,
            side=self.side,
            channels=self.channels,
            fit=self.fit or "crop",
            where=self.where,
            labels=self.labels,
            labels_from_folders=self.labels_from_folders,
            max_bad=self.max_bad,
            memory_bytes=self.memory_bytes,
            min_images=min_images,
            recorded=self.recorded,
        )
