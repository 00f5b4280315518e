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
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor, nn

from selfsort.data import Fit
from selfsort.encoders._batch import checked_batch, checked_features
from selfsort.encoders._files import first_line
from selfsort.encoders._hub import open_folder, quiet, require_transformers
from selfsort.encoders._preparation import Preparation, read_preparation
from selfsort.encoders._towers import FAMILIES, ImageTower, build_tower, find_family
from selfsort.errors import InvalidInput
from selfsort.types import U8


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
    transformers = require_transformers()
    folder = open_folder(folder_or_name, may_fetch=may_fetch)
    name, digest = folder.name, folder.digest()
    if folder.config.get("quantization_config"):
        raise InvalidInput(f"the weights of {name} are quantized. Expected floats. Take the model it was made from.")
    tensors = folder.tensors()
    family = find_family(folder.config.get("model_type"), tensors)
    if family is None:
        raise InvalidInput(
            f"{name} is of the type {folder.config.get('model_type')!r}. Expected one of {', '.join(FAMILIES)}. "
            "Export another model to ONNX and give the .onnx file."
        )
    preparation = read_preparation(folder.processor, family.processor, name)
    try:
        with quiet(transformers):
            tower = build_tower(transformers, family, folder.part("vision"), tensors, preparation).to(device)
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
