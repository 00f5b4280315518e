"""The encoder of a run: from what the user says to something that encodes, and from a run folder back to it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfsort.data import Fit, ImageSpec, conform
from selfsort.data.folder import expanded
from selfsort.encoders.cache import cache_folder
from selfsort.encoders.encode import fit_of
from selfsort.encoders.finetune import tuned
from selfsort.encoders.fitted import FittedEncoder, Part
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.encoders.registry import ENCODERS, best_installed, open_named
from selfsort.encoders.table import SUFFIXES, VectorTable, open_table
from selfsort.errors import InvalidInput, MissingData, invalid
from selfsort.learning.encode import apply_in_blocks
from selfsort.runs.folder import RunFolder
from selfsort.text import shorten
from selfsort.types import F32, Assignment, Images, Json, Model, NetworkModel, State

NO_ENCODER, AUTO_ENCODER = "none", "auto"
"""Images are clustered from their pixels, as the papers have it; or the images decide."""

ENCODER_FILE = "encoder.safetensors"
"""In a run folder: the centres that its features were brought to."""

FEATURES_FROM = "features_from"
"""Folder inside a run that holds the run whose network is its encoder."""

HUB = "hf:"
"""Before the name of a model of the Hugging Face hub."""

_LARGEST_DESCRIPTION = 1 << 24


@dataclass(frozen=True, eq=False)
class RunEncoder:
    """Another run's network as an encoder; pictures are first brought to the size it was trained on."""

    model: Model
    spec: ImageSpec
    name: str
    weights: str
    """SHA-256 of its model file."""
    layer: str = "top"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images it was trained on."""
        return self.spec.shape

    @property
    def engine(self) -> str:
        """What computes it."""
        return f"torch {torch.__version__}"

    @property
    def digest(self) -> str:
        """Of the model and the layer."""
        return sha256(f"{self.weights} {self.layer}".encode()).hexdigest()

    @cached_property
    def dim(self) -> int:
        """How many features the layer has."""
        return int(self.rows_for(Pictures(Images(np.zeros((2, *self.shape), np.uint8)), (), None)).shape[1])

    def rows_for(self, pictures: Pictures) -> F32:
        """Return the features of the chosen layer."""
        return apply_in_chunks(self.model, conform(pictures.images, self.spec), layer=self.layer).features

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return the features of images in [0, 1], which it sees as bytes, as it saw those it was trained on."""
        pixels = x_BCHW.mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
        return torch.from_numpy(self.model.apply(Images(pixels), self.layer).features).to(x_BCHW.device)


@dataclass(frozen=True, eq=False)
class EncodedModel:
    """A method fitted on the features of an encoder: the encoder, then the method's own model."""

    encoder: FittedEncoder
    inner: Model

    def apply(self, images: Images, layer: str = "top") -> Assignment:
        """Encode, then ask the method's model."""
        return apply_in_chunks(self, images, layer=layer)


def apply_in_chunks(
    model: Model,
    images: Images,
    chunk: int = 4096,
    layer: str = "top",
    names: tuple[str, ...] = (),
    fingerprint: str | None = None,
) -> Assignment:
    """Apply a model to any number of images with bounded memory; a table of features knows them by their names.

    With a fingerprint of the images, what an encoder sees is kept in the cache: who comes again need not wait again.
    """
    inputs: Any = images
    if isinstance(model, EncodedModel):
        kept = None if fingerprint is None else cache_folder()
        inputs = model.encoder.encode(Pictures(images, names, fingerprint), folder=kept)
        model = model.inner
    return apply_in_blocks(model, inputs, layer, chunk)


@dataclass(frozen=True, eq=False)
class Opened:
    """An encoder as the user named it."""

    given: str
    parts: tuple[Part, ...]
    places: tuple[Json, ...]
    """Where each part is found again: its kind, and the name or path."""
    run: RunFolder | None = None
    """The run among the parts, to be copied into the new one."""

    @property
    def side(self) -> int | None:
        """The shorter side of the images it wants; None if it does not say."""
        sides = [min(part.source.shape[:2]) for part in self.parts if not isinstance(part.source, VectorTable)]
        return max(sides, default=None) if self.run is None else None

    @property
    def fit(self) -> Fit | None:
        """What it wants done about another aspect ratio; None if it does not say, or in several ways."""
        if self.run is not None:
            return None
        fits = {fit_of(part.source) for part in self.parts if not isinstance(part.source, VectorTable)}
        return fits.pop() if len(fits) == 1 else None

    @property
    def has_views(self) -> bool:
        """Whether augmented copies of images can be encoded."""
        return not any(isinstance(part.source, VectorTable) for part in self.parts)


def side_of(text: str) -> int | None:
    """Say what size pictures are wanted in, without opening anything; None: an encoder does not matter for it."""
    names = [best_installed()] if text == AUTO_ENCODER else text.split("+")
    cards = [ENCODERS[name] for name in names if name is not None and name in ENCODERS]
    return max((min(card.shape[:2]) for card in cards), default=None)


def open_encoder(text: str, device: torch.device, config: EncodeConfig = EncodeConfig()) -> Opened:  # noqa: B008
    """Read --encoder: names, files, folders or a run, joined by + where there are several."""
    words = [text] if _exists(text) or _is_run_with_layer(text) else text.split("+")
    opened = [_open_one(word, device, config) for word in words]
    runs = [run for _, _, run in opened if run is not None]
    if len(runs) > 1:
        raise invalid("--encoder", "name at most one run", repr(text), "Leave the others out.")
    return Opened(text, tuple(part for part, _, _ in opened), tuple(place for _, place, _ in opened), *runs)


def _open_one(
    text: str, device: torch.device, config: EncodeConfig, engine: str | None = None
) -> tuple[Part, Json, RunFolder | None]:
    if text in ENCODERS:
        return Part(open_named(text, device, engine), is_general=True), {"kind": "name", "at": text}, None
    if text.startswith(HUB):
        return _huggingface(text, device), {"kind": "hf", "at": text}, None
    path, output = _with_suffix(text, ":")
    if path.suffix.lower() == ".onnx":
        return _onnx(path, output, device, config), {"kind": "onnx", "at": str(path.absolute()), "output": output}, None
    path = expanded(text)
    if path.suffix.lower() in SUFFIXES:
        return Part(open_table(path), is_general=False), {"kind": "table", "at": str(path.absolute())}, None
    if _is_model_folder(path):
        return _huggingface(path, device), {"kind": "hf", "at": str(path.absolute())}, None
    if not path.exists() and not _is_run_with_layer(text) and not re.search(r"[/\\]", text):
        known = ", ".join(["auto", "none", *ENCODERS])
        raise invalid(
            "--encoder",
            f"be one of {known}, an .onnx file, a model folder, hf:NAME, a run, or a table of features",
            repr(text),
            "See selfsort encoders.",
        )
    folder, layer = find_run(text)
    part = Part(load_run_encoder(folder, device, layer), is_general=False)
    return part, {"kind": "run", "at": str(folder.path), "layer": layer}, folder


def _onnx(path: Path, output: str | None, device: torch.device, config: EncodeConfig) -> Part:
    from selfsort.encoders.onnx import open_onnx

    # One number is for all channels.
    mean, std = (values[0] if len(values) == 1 else values or None for values in (config.mean, config.std))
    opened = open_onnx(path, output=output, mean=mean, std=std, side=config.side or None, device=device)
    return Part(opened, is_general=True)


def _huggingface(folder_or_name: Path | str, device: torch.device, *, may_fetch: bool = True) -> Part:
    from selfsort.encoders.huggingface import open_huggingface

    return Part(open_huggingface(folder_or_name, device, may_fetch=may_fetch), is_general=True)


def _with_suffix(text: str, sign: str) -> tuple[Path, str | None]:
    """Part model.onnx:output; the colon after the letter of a Windows drive has a path behind it."""
    if (match := re.fullmatch(rf"(.*){sign}([^/\\]*)", text, re.DOTALL)) and not Path(text).exists():
        return expanded(match[1]), match[2]
    return expanded(text), None


def _exists(text: str) -> bool:
    try:
        return expanded(text).exists()
    except (OSError, ValueError):
        return False


def _is_run_with_layer(text: str) -> bool:
    match = re.fullmatch(r"(.*):([^/\\]*)", text, re.DOTALL)
    return match is not None and _exists(match[1])


def _is_model_folder(path: Path) -> bool:
    """Whether a folder is a model as Hugging Face's libraries write it: its config.json names a kind of model."""
    described = path / "config.json"
    try:
        if not described.is_file() or described.stat().st_size > _LARGEST_DESCRIPTION:
            return False
        found = json.loads(described.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "model_type" in found


def find_run(text: str) -> tuple[RunFolder, str]:
    """Read RUN or RUN:layer."""
    path, layer = text, "top"
    if (match := re.fullmatch(r"(.*):([^/\\]*)", text, re.DOTALL)) and not Path(text).is_dir():
        path, layer = match.groups()
    folder = RunFolder.open(path)
    folder.require_finished()  # an unfinished run has no network to give
    return folder, layer


def load_run_encoder(
    folder: RunFolder, device: torch.device, layer: str = "top", name: str | None = None
) -> RunEncoder:
    """Rebuild a run's network as an encoder; `name` is what it is called, if not as its folder."""
    from selfsort.runs.model import load_model

    spec, model = ImageSpec.from_json(folder.field("image", dict)), load_model(folder, device)
    with (folder.path / "model.safetensors").open("rb") as file:
        weights = file_digest(file, sha256).hexdigest()
    return RunEncoder(model, spec, name or folder.path.name, weights, layer)


def unused_rows(parts: Sequence[Part], names: Sequence[str]) -> tuple[str, ...]:
    """Say which rows of tables belong to none of the pictures."""
    tables = [part.source for part in parts if isinstance(part.source, VectorTable)]
    return tuple(note for table in tables if (note := table.unused(names)))


def describe(opened: Opened, fitted: FittedEncoder, reason: str) -> Json:
    """Return what config.json says of a run's encoder."""
    return {
        "given": opened.given,
        "reason": reason,
        "on": fitted.on,
        "settings": fitted.config.to_json(),
        "parts": described_parts(opened),
    }


def described_parts(opened: Opened) -> list[Json]:
    """Return what config.json says of each part of an encoder."""
    return [part.to_json() | place for part, place in zip(opened.parts, opened.places, strict=True)]


def has_encoder(folder: RunFolder) -> bool:
    """Whether a run was made from features."""
    return "encoder" in folder.config or (folder.path / FEATURES_FROM).is_dir()


def sees_alike(one: RunFolder, other: RunFolder) -> bool:
    """Whether two runs were made from the same features, or both from pixels."""
    if not has_encoder(one) and not has_encoder(other):
        return True
    paths = (one.path / ENCODER_FILE, other.path / ENCODER_FILE)
    if not all(path.is_file() for path in paths):
        return False
    told = [{key: run.field("encoder", dict).get(key) for key in ("on", "settings", "parts")} for run in (one, other)]
    arrays = [run.read_state(ENCODER_FILE).arrays for run in (one, other)]
    is_same = arrays[0].keys() == arrays[1].keys() and all(
        np.array_equal(array, arrays[1][name]) for name, array in arrays[0].items()
    )
    return told[0] == told[1] and is_same


def given_encoder(folder: RunFolder) -> str:
    """Return what --encoder says for a run like this one; what `auto` has chosen is said by name."""
    if "encoder" not in folder.config:
        return str(folder.config.get(FEATURES_FROM, NO_ENCODER))
    given = folder.field("encoder", dict).get("given")
    return given if isinstance(given, str) else NO_ENCODER


def stored_encoder(
    folder: RunFolder, device: torch.device, elsewhere: str | None = None, *, as_given: bool = False
) -> FittedEncoder:
    """Rebuild the encoder of a run; another one than it was made with is refused.

    Args:
        folder: the run.
        device: where it computes.
        elsewhere: where the user says it is now: a file that was moved, or the table of other pictures.
        as_given: as it was before the run trained it, if it did.
    """
    from selfsort.runs.model import STARTED_FROM, learned_on

    if "encoder" not in folder.config:  # runs of before: another run's features as they are
        part = _run_inside(folder, {"layer": folder.config.get("features_layer", "top")}, device)
        return FittedEncoder((part,), EncodeConfig(), "features", State(), device)
    told = folder.field("encoder", dict)
    described, settings = told.get("parts"), told.get("settings")
    if not isinstance(described, list) or not described or not isinstance(settings, dict):
        raise _damaged(folder)
    if told.get("on") not in learned_on(folder):
        raise _damaged(folder)
    named: Sequence[str | None] = [None] * len(described)
    if elsewhere is not None:
        named = elsewhere.split("+") if len(described) > 1 else [elsewhere]
        if len(named) != len(described):
            raise invalid("--encoder", f"name {len(described)} encoders, joined by +", repr(elsewhere), "Name all.")
    config = EncodeConfig.from_json(settings)
    parts = tuple(_stored_part(folder, part, device, config, at) for part, at in zip(described, named, strict=True))
    fitted = FittedEncoder(parts, config, told["on"], folder.read_state(ENCODER_FILE), device)
    if not fitted.is_complete():
        raise InvalidInput(
            f"{folder.path / ENCODER_FILE} does not belong to the encoder of the run. Expected the centres that "
            "selfsort fit wrote. The run was changed or damaged: restore it, or run selfsort fit again."
        )
    if config.finetune == "none" or as_given:
        return fitted
    # What goes on from a run learns on that run's encoder as it became there.
    trained_by = RunFolder.open(folder.path / STARTED_FROM) if (folder.path / STARTED_FROM).is_dir() else folder
    return tuned(fitted, trained_by.read_state("model.safetensors"))


def _stored_part(
    folder: RunFolder, described: Any, device: torch.device, config: EncodeConfig, elsewhere: str | None
) -> Part:
    if not isinstance(described, dict) or not isinstance(described.get("at"), str):
        raise _damaged(folder)
    kind, at = described.get("kind"), described["at"]
    engine, output = (value if isinstance(value, str) else None for value in map(described.get, ("engine", "output")))
    if elsewhere is not None:
        part, _, _ = _open_one(elsewhere, device, config, engine)
    elif kind == "run":
        return _run_inside(folder, described, device)  # inside the run itself, so there is no other
    elif kind == "name":
        part = Part(open_named(at, device, engine), is_general=True)
    elif kind == "hf" and at.startswith(HUB):
        part = _huggingface(at, device, may_fetch=False)
    elif kind == "hf":
        part = _huggingface(_stored_path(folder, at), device)
    elif kind == "onnx":
        part = _onnx(_stored_path(folder, at), output, device, config)
    elif kind == "table":
        part = Part(open_table(_stored_path(folder, at)), is_general=False)
    else:
        raise _damaged(folder)
    if part.source.digest != described.get("digest"):
        is_table = isinstance(part.source, VectorTable)
        why = f"it has {part.source.dim} features, not {described.get('dim')}" if is_table else "their weights differ"
        raise InvalidInput(
            f"{part.source.name} is not the encoder that the run {folder.path} was made with "
            f"({str(described.get('name'))[:80]}): {why}. Expected the same one. "
            "Restore it, or say with --encoder where it is."
        )
    return part


def _run_inside(folder: RunFolder, described: Json, device: torch.device) -> Part:
    """Open the run that is kept inside another as its encoder; that one has none inside itself."""
    inner, name = RunFolder.open(folder.path / FEATURES_FROM), described.get("name")
    if (inner.path / FEATURES_FROM).exists():
        raise _damaged(folder)
    layer = str(described.get("layer", "top"))
    return Part(load_run_encoder(inner, device, layer, name if isinstance(name, str) else None), is_general=False)


def _stored_path(folder: RunFolder, at: str) -> Path:
    """Return where a run says its encoder is: on this machine, as it was written, and nowhere else.

    Opening a path such as //server/share asks another machine. Only a person may want that.
    """
    if "\0" in at or not Path(at).is_absolute():
        raise _damaged(folder)
    if at.startswith(("//", "\\\\")):
        raise InvalidInput(
            f"the encoder of the run {folder.path} is on another machine ({at[:80]}). Expected a file of this one. "
            "If you trust it, say so: --encoder and this path."
        )
    if not _exists(at):
        raise MissingData(
            f"the encoder of the run {folder.path} is no longer at {shorten(at)}. Expected it there. "
            "Say with --encoder where it is now."
        )
    return Path(at)


def stored_place(folder: RunFolder, part: Json, elsewhere: str | None = None) -> Path | str:
    """Return the folder of a Hugging Face model that a run was made with, or its name on the hub."""
    at = elsewhere or part.get("at")
    if not isinstance(at, str):
        raise _damaged(folder)
    if at.startswith(HUB):
        return at
    return _stored_path(folder, at) if elsewhere is None else expanded(elsewhere)


def _damaged(folder: RunFolder) -> InvalidInput:
    return InvalidInput(
        f"the run {folder.path} does not say which encoder it was made with. Expected what selfsort fit wrote. "
        "config.json was changed or damaged: restore it, or run selfsort fit again."
    )


def is_one_network(model: Model) -> bool:
    """Whether a model, its encoder included, can be written as one network."""
    return isinstance(model.inner if isinstance(model, EncodedModel) else model, NetworkModel)
