"""An encoder from a Hugging Face model, in a folder or by name, through transformers.

DINOv2 and v3, CLIP, SigLIP, ViT and its kin, ResNet, ConvNeXT: the image tower alone, its features pooled as its
authors do, its images prepared as its preprocessor_config.json says. Code that comes with a model is never run, and
weights are only read from safetensors files, which can hold nothing else.

Images of `shape` are the pixels between the two halves of the preparation: a model that resizes to 256 and looks at the
middle 224 takes 256 x 256 and cuts by itself. `prepare` makes such pixels from a picture of any size exactly as the
model's own processor does; other ways to get to that size differ by their filter alone.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from selfsort.data import Fit
from selfsort.encoders._batch import checked_batch, checked_features
from selfsort.encoders._files import digest_of, first_line, require_file
from selfsort.encoders._preparation import Preparation, read_preparation
from selfsort.encoders._towers import FAMILIES, ImageTower, build_tower, find_family
from selfsort.errors import InvalidInput, MissingData, missing_extra
from selfsort.types import U8, Json

HUB = "hf:"
_CONFIG, _PREPROCESSOR, _PROCESSOR = "config.json", "preprocessor_config.json", "processor_config.json"
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_FETCHED = [_CONFIG, _PREPROCESSOR, _PROCESSOR, _WEIGHTS, _INDEX, "model-*-of-*.safetensors"]
_PICKLED = (".bin", ".pt", ".pth", ".ckpt")
_LARGEST_JSON = 1 << 24
_YES = ("1", "ON", "YES", "TRUE")
# The towers for texts of CLIP and SigLIP are not read.
_TEXT = ("text_model.", "text_projection.", "logit_scale", "logit_bias")


@dataclass(frozen=True, eq=False)
class HuggingFaceEncoder:
    """The image tower of a Hugging Face model."""

    name: str
    digest: str
    dim: int
    preparation: Preparation
    tower: ImageTower
    device: torch.device

    @property
    def engine(self) -> str:
        """What computes it."""
        return "torch"

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the images it takes."""
        return self.preparation.height, self.preparation.width, 3

    @property
    def fit(self) -> Fit:
        """What has to be done about another aspect ratio."""
        return self.preparation.fit

    def prepare(self, picture: Image.Image) -> U8:
        """Return the pixels (height, width, 3) of its shape that its own processor would make of a picture."""
        return self.preparation.pixels(picture)

    def features(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D) of images in [0, 1], on the device they came from."""
        x = checked_batch(x_BCHW, self.shape, self.name).to(self.device)
        with torch.no_grad():
            found: Tensor = self.tower(x)
        return checked_features(found, self.name).to(x_BCHW.device)

    def network(self) -> nn.Module:
        """Return a copy of the whole network, which may be trained; `maps` gives its last feature map."""
        return copy.deepcopy(self.tower).requires_grad_(True)


def open_huggingface(folder_or_name: Path | str, device: torch.device, *, may_fetch: bool = True) -> HuggingFaceEncoder:
    """Open a model folder, or `hf:NAME`, a model of the Hugging Face hub.

    A name is looked up in the hub's local cache first; the network is asked only for what is not there, and not at all
    with HF_HUB_OFFLINE=1, or where it was no person who named the model (`may_fetch`).
    """
    try:
        import transformers
    except ImportError:
        raise missing_extra("transformers", "an encoder from Hugging Face", "hf") from None
    given = str(folder_or_name)
    is_name = isinstance(folder_or_name, str) and given.startswith(HUB)
    folder = _snapshot(given.removeprefix(HUB), may_fetch) if is_name else Path(folder_or_name)
    name = given if is_name else folder.resolve().name
    if not folder.is_dir():
        raise MissingData(f"{folder} is not a folder. Expected one of a Hugging Face model. Check the path.")
    config = _read_json(folder / _CONFIG)
    prepared_by, processor = _read_processor(folder)
    weights = _weights_files(folder)
    digest = digest_of(
        [(path.name, path) for path in (folder / _CONFIG, prepared_by, *weights)], {"kind": "huggingface"}
    )
    if config.get("quantization_config"):
        raise InvalidInput(f"the weights of {name} are quantized. Expected floats. Take the model it was made from.")
    tensors = _read_tensors(weights)
    family = find_family(config.get("model_type"), tensors)
    if family is None:
        raise InvalidInput(
            f"{name} is of the type {config.get('model_type')!r}. Expected one of {', '.join(FAMILIES)}. "
            "Export another model to ONNX and give the .onnx file."
        )
    preparation = read_preparation(processor, family.processor, name)
    try:
        with _quiet(transformers):
            tower = build_tower(transformers, family, _vision_settings(config), tensors, preparation).to(device)
    except Exception as error:
        raise InvalidInput(
            f"the config.json of {name} and its weights do not make a model: {first_line(error)}. "
            "Expected the files of one model. Download it again."
        ) from None
    return HuggingFaceEncoder(name, digest, _count_features(tower, name, device), preparation, tower, device)


def _count_features(tower: ImageTower, name: str, device: torch.device) -> int:
    """Return how many features there are, seen on an image rather than believed."""
    blank = torch.zeros(1, 3, tower.preparation.height, tower.preparation.width, device=device)
    try:
        with torch.no_grad():
            return int(tower(blank).shape[1])
    except Exception as error:
        raise InvalidInput(
            f"{name} fails on images of {' x '.join(map(str, tower.preparation.crop))} pixels: {first_line(error)}. "
            "Expected a preprocessor_config.json that fits the model. Take the one that came with it."
        ) from None


# The hub


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


# Files


def _read_json(path: Path) -> Json:
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
        inside = _read_json(folder / _PROCESSOR).get("image_processor")
        if isinstance(inside, dict):
            return folder / _PROCESSOR, inside
    return folder / _PREPROCESSOR, _read_json(folder / _PREPROCESSOR)


def _vision_settings(config: Json) -> Json:
    """Return the part of a config that describes the image tower."""
    vision = config.get("vision_config")
    if not isinstance(vision, dict):
        return config
    older = config.get("vision_config_dict")
    vision = {**vision, **older} if isinstance(older, dict) else vision
    return {**vision, "projection_dim": config.get("projection_dim", 512)}


def _weights_files(folder: Path) -> list[Path]:
    if (folder / _WEIGHTS).exists():
        files = [folder / _WEIGHTS]
    elif (folder / _INDEX).exists():
        listed = _read_json(folder / _INDEX).get("weight_map")
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


def _read_tensors(files: list[Path]) -> dict[str, Tensor]:
    from safetensors import SafetensorError, safe_open

    found: dict[str, Tensor] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as file:
                found |= {key: file.get_tensor(key) for key in file.keys() if not key.startswith(_TEXT)}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise InvalidInput(
                f"{path.name} cannot be read: {first_line(error)}. Expected a whole safetensors file. "
                "Download it again."
            ) from None
    return found


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
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
