"""The folder of a Hugging Face model, given or in the hub's cache: its files, read with care.

Weights are only read from safetensors files, and JSON from files of a reasonable size. The network is asked only where
a person has named a model of the hub, and it is not there yet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from selfsort.encoders._files import digest_of, first_line, require_file
from selfsort.errors import InvalidInput, MissingData, missing_extra
from selfsort.types import Json

HUB = "hf:"
_CONFIG, _PREPROCESSOR, _PROCESSOR = "config.json", "preprocessor_config.json", "processor_config.json"
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
TOKENIZER, TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
_FETCHED = [
    *(_CONFIG, _PREPROCESSOR, _PROCESSOR, _WEIGHTS, _INDEX, "model-*-of-*.safetensors"),
    *(TOKENIZER, TOKENIZER_SETTINGS),
]
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_LARGEST_JSON = 1 << 24
_YES = ("1", "ON", "YES", "TRUE")
TEXT = ("text_model.", "text_projection.", "logit_scale", "logit_bias")
"""How the weights for texts begin, of CLIP and SigLIP."""


def require_transformers() -> Any:
    """Return the library, or say how to get it."""
    try:
        import transformers
    except ImportError:
        raise missing_extra("transformers", "an encoder from Hugging Face", "hf") from None
    return transformers


@dataclass(frozen=True)
class ModelFolder:
    """The files of one model."""

    name: str
    """What a person calls it."""
    path: Path
    config: Json
    processor: Json
    """How its images are prepared."""
    prepared_by: Path
    """Where that is written."""
    weights: tuple[Path, ...]

    def digest(self) -> str:
        """Return the SHA-256 of all that decides about the features of images."""
        named = [(path.name, path) for path in (self.path / _CONFIG, self.prepared_by, *self.weights)]
        return digest_of(named, {"kind": "huggingface"})

    def part(self, tower: str) -> Json:
        """Return what config.json says of the tower for images, `vision`, or for texts, `text`."""
        inner = self.config.get(f"{tower}_config")
        if not isinstance(inner, dict):
            return self.config
        older = self.config.get(f"{tower}_config_dict")
        inner = {**inner, **older} if isinstance(older, dict) else inner
        return {**inner, "projection_dim": self.config.get("projection_dim", 512)}

    def tensors(self, *, of_texts: bool = False) -> dict[str, Tensor]:
        """Read the weights: those of the tower for texts, or all others."""
        found: dict[str, Tensor] = {}
        for path in self.weights:
            with _weights_of(path) as file:
                keys = [key for key in file.keys() if key.startswith(TEXT) == of_texts]  # noqa: SIM118
                found |= {key: file.get_tensor(key) for key in keys}
        return found

    def has_texts(self) -> bool:
        """Say whether there are weights of a tower for texts; none is read."""
        for path in self.weights:
            with _weights_of(path) as file:
                if any(key.startswith(TEXT) for key in file.keys()):  # noqa: SIM118
                    return True
        return False


@contextmanager
def _weights_of(path: Path) -> Iterator[Any]:
    """Open a file of weights; what breaks while it is read is said of the file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError, ValueError) as error:
        raise InvalidInput(
            f"{path.name} cannot be read: {first_line(error)}. Expected a whole safetensors file. Download it again."
        ) from None


def open_folder(folder_or_name: Path | str, *, may_fetch: bool) -> ModelFolder:
    """Find the folder of a model, or of `hf:NAME`, a model of the hub; only its small files are read.

    A name is looked up in the hub's local cache first; the network is asked only for what is not there, and not at all
    with HF_HUB_OFFLINE=1, or where it was no person who named the model (`may_fetch`).
    """
    given = str(folder_or_name)
    is_name = isinstance(folder_or_name, str) and given.startswith(HUB)
    folder = _snapshot(given.removeprefix(HUB), may_fetch) if is_name else Path(folder_or_name)
    name = given if is_name else folder.resolve().name
    if not folder.is_dir():
        raise MissingData(f"{folder} is not a folder. Expected one of a Hugging Face model. Check the path.")
    config = read_json(folder / _CONFIG)
    prepared_by, processor = _read_processor(folder)
    return ModelFolder(name, folder, config, processor, prepared_by, tuple(_weights_files(folder)))


def _snapshot(name: str, may_fetch: bool) -> Path:
    """Return the folder of a model in the hub's cache, after fetching it if need be and allowed."""
    import huggingface_hub
    from huggingface_hub import constants

    def found(*, local_files_only: bool) -> Path:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=_FETCHED, local_files_only=local_files_only))

    try:
        folder = found(local_files_only=True)
        _weights_files(folder)
        if (folder / _CONFIG).exists():
            return folder
    except InvalidInput:
        raise
    except Exception:  # not there, or not whole: the library has many words for it
        pass
    if not may_fetch:
        raise MissingData(
            f"{HUB}{name} is not in the local cache of Hugging Face, and a stored run fetches nothing by itself. "
            f"Expected a model fetched before. If you trust it, run: hf download {name}."
        )
    if constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").upper() in _YES:
        raise MissingData(
            f"{HUB}{name} is not in the local cache of Hugging Face, and HF_HUB_OFFLINE forbids to fetch it. "
            f"Expected a model fetched before. Run where there is a network: hf download {name}."
        )
    try:
        return found(local_files_only=False)
    except Exception as error:
        raise MissingData(
            f"{HUB}{name} cannot be fetched: {first_line(error)}. Expected the name of a public model, such as "
            "hf:facebook/dinov2-small, and a network. Check both, or give a folder."
        ) from None


def read_json(path: Path) -> Json:
    require_file(path)
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise ValueError
        values = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(values, dict):
            return values
    except (ValueError, RecursionError):
        pass
    raise InvalidInput(f"{path.name} is no JSON object. Expected the one that came with the model. Download it again.")


def _read_processor(folder: Path) -> tuple[Path, Json]:
    """Return the settings of the image processor and where they are; newer folders keep them among others."""
    if (folder / _PROCESSOR).exists():
        inside = read_json(folder / _PROCESSOR).get("image_processor")
        if isinstance(inside, dict):
            return folder / _PROCESSOR, inside
    return folder / _PREPROCESSOR, read_json(folder / _PREPROCESSOR)


def _weights_files(folder: Path) -> list[Path]:
    if (folder / _WEIGHTS).exists():
        files = [folder / _WEIGHTS]
    elif (folder / _INDEX).exists():
        listed = read_json(folder / _INDEX).get("weight_map")
        names = sorted(set(map(str, listed.values()))) if isinstance(listed, dict) else []
        # A name and nothing else: an index must not lead to files elsewhere.
        if not names or any(Path(name).name != name or "\\" in name for name in names):
            raise InvalidInput(
                f"{_INDEX} does not list files beside it. Expected names such as model-00001-of-00002.safetensors. "
                "Download the model again."
            )
        files = [folder / name for name in names]
    else:
        pickled = sorted(path.name for path in folder.glob("*") if path.suffix in _PICKLED)
        if pickled:
            raise InvalidInput(
                f"the weights of {folder.name} are pickled ({pickled[0]}), and a pickle can run anything. Expected "
                f"{_WEIGHTS}. Take a model saved with safetensors, or convert it where you trust it."
            )
        raise MissingData(f"{folder} holds no {_WEIGHTS}. Expected the weights of a model. Download them.")
    for path in files:
        require_file(path)
    return files


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Keep the library's report on weights we know to be surplus, and its progress bar, from the terminal."""
    logging = transformers.utils.logging
    verbosity, shows_progress = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_progress:
            logging.enable_progress_bar()
