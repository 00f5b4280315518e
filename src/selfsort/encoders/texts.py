"""The text tower of a CLIP or SigLIP model: which of some words a picture is taken for.

Both were trained to give a picture and its caption embeddings that point into one direction. CLIP asks which of some
captions belongs to a picture: a softmax of the cosines, times a scale it has learned. SigLIP asks of each caption by
itself whether it does: a sigmoid of the same, with a bias. Both scales and the bias are in the files of the model.

Shape letters: N pictures, W texts, D features, T tokens.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from selfsort.encoders._files import first_line, require_file
from selfsort.encoders._hub import (
    TOKENIZER,
    TOKENIZER_SETTINGS,
    ModelFolder,
    open_folder,
    quiet,
    read_json,
    require_transformers,
)
from selfsort.encoders._towers import build_model
from selfsort.errors import InvalidInput, MissingData, SelfsortError
from selfsort.progress import track
from selfsort.types import F32

_BATCH = 32
_LARGEST_TOKENIZER = 1 << 27
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True)
class TextFamily:
    """How one kind of model takes texts, and compares them with pictures."""

    model: str
    """The class of its text tower in transformers."""
    output: Literal["text_embeds", "pooler_output"]
    prompt: str
    """What a word is put into: captions of photographs are what it has seen."""
    nothing: tuple[str, ...]
    """Captions that say nothing of what a picture shows; a word that means a picture is likelier than these."""
    is_softmax: bool
    """Whether texts compete with each other; else each is judged by itself."""
    least: float
    """How likely a text must be to be believed. A sigmoid answers whether just this caption was written for it: wrong
    ones of SigLIP lie below a thousandth, right ones rarely near one."""
    is_filled: bool
    """Whether a text fills all places: SigLIP reads its meaning from the last of them."""
    is_plain: bool
    """Whether it has learned from small letters without punctuation."""


FAMILIES: dict[str, TextFamily] = {
    "clip": TextFamily(
        model="CLIPTextModelWithProjection",
        output="text_embeds",
        prompt="a photo of {}.",
        nothing=("a photo.", "a photo of something."),
        is_softmax=True,
        least=0.2,
        is_filled=False,
        is_plain=False,
    ),
    "siglip": TextFamily(
        model="SiglipTextModel",
        output="pooler_output",
        prompt="this is a photo of {}.",
        nothing=("this is a photo.", "this is a photo of something."),
        is_softmax=False,
        least=0.01,
        is_filled=True,
        is_plain=True,
    ),
}


@dataclass(frozen=True, eq=False)
class TextTower:
    """The text tower of a model, with its tokenizer."""

    name: str
    family: TextFamily
    tokenizer: Any
    model: Any
    scale: float
    bias: float
    device: torch.device

    def embeddings(self, texts: Sequence[str]) -> F32:
        """Return embeddings (W, D) of unit length."""
        found = []
        blocks = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        for block in track(blocks, "reading words", len(texts), weigh=len):
            with _whole(self.name), torch.inference_mode():
                ids_WT = torch.tensor([encoding.ids for encoding in self.tokenizer.encode_batch(self._written(block))])
                output = self.model(input_ids=ids_WT.to(self.device), return_dict=True)
            found.append(getattr(output, self.family.output).cpu().numpy())
        embeddings = np.concatenate(found)
        if not np.isfinite(embeddings).all():
            raise InvalidInput(
                f"the text tower of {self.name} gave values that are no numbers. Expected finite ones. "
                "Download it again."
            )
        return _unit(embeddings)

    def likely(self, pictures_ND: F32, texts_WD: F32) -> F32:
        """Return how likely (N, W) each text belongs to each picture, given the embeddings of both."""
        logits_NW = _unit(pictures_ND) @ texts_WD.T * np.float32(self.scale) + np.float32(self.bias)
        if not self.family.is_softmax:
            apart: F32 = 1 / (1 + np.exp(-logits_NW.clip(-80, 80)))
            return apart
        likely: F32 = np.exp(logits_NW - logits_NW.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        return likely

    def likely_words(self, pictures_ND: F32, words: Sequence[str]) -> F32:
        """Return how likely (N, W + some) pictures show what words say; the last columns are of saying nothing."""
        captions = [self.family.prompt.format(word) for word in words]
        return self.likely(pictures_ND, self.embeddings([*captions, *self.family.nothing]))

    def _written(self, texts: Sequence[str]) -> list[str]:
        if not self.family.is_plain:
            return list(texts)
        return [" ".join(text.lower().translate(_PUNCTUATION).split()) for text in texts]


def why_without_texts(folder_or_name: Path | str) -> str:
    """Return why a model cannot compare pictures with words, as part of a sentence; empty if it can.

    Nothing large is read, and nothing is fetched.
    """
    folder = open_folder(folder_or_name, may_fetch=False)
    if folder.config.get("model_type") not in FAMILIES:
        return f"{folder.name} is of the type {folder.config.get('model_type')!r}, which knows no texts"
    if not (folder.path / TOKENIZER).is_file():
        return f"the folder of {folder.name} has no {TOKENIZER}, which cuts texts into what it reads"
    return "" if folder.has_texts() else f"the weights of {folder.name} hold no text tower"


def open_texts(folder_or_name: Path | str, device: torch.device) -> TextTower:
    """Open the text tower of a model folder, or of `hf:NAME`; nothing is fetched."""
    transformers = require_transformers()
    folder = open_folder(folder_or_name, may_fetch=False)
    if why := why_without_texts(folder_or_name):
        raise MissingData(f"{why}. Expected a whole CLIP or SigLIP model with its {TOKENIZER}. Download it again.")
    family, settings = FAMILIES[str(folder.config.get("model_type"))], folder.part("text")
    tensors = folder.tensors(of_texts=True)
    scale, bias = tensors.pop("logit_scale", None), tensors.pop("logit_bias", None)
    if scale is None or scale.numel() != 1 or (bias is None) != family.is_softmax:
        raise InvalidInput(
            f"the weights of {folder.name} hold no text tower. Expected those of a whole CLIP or SigLIP model, not of "
            "its image tower alone. Take the whole model."
        )
    with _whole(folder.name), quiet(transformers):
        model = build_model(transformers, family.model, settings, tensors).to(device)
        tokenizer = _tokenizer(folder, family, model.config)
    shift = 0.0 if bias is None else float(bias.reshape(-1)[0])
    return TextTower(folder.name, family, tokenizer, model, float(scale.exp()), shift, device)


@contextmanager
def _whole(name: str) -> Iterator[None]:
    """Say of files that do not belong together that they do not: two libraries have many words for it."""
    try:
        yield
    except SelfsortError:
        raise
    except BaseException as error:
        # What fails inside the tokenizer's own library is no Exception, and has no name that could be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise InvalidInput(
            f"the text tower of {name} cannot be used: {first_line(error)}. Expected the files of one model, its "
            f"{TOKENIZER} among them. Download it again."
        ) from None


def _tokenizer(folder: ModelFolder, family: TextFamily, config: Any) -> Any:
    """Read tokenizer.json; sentences are cut to what the model has places for."""
    from tokenizers import Tokenizer

    path = folder.path / TOKENIZER
    require_file(path)
    if path.stat().st_size > _LARGEST_TOKENIZER:
        raise InvalidInput(f"{path.name} is too large. Expected the one that came with the model. Download it again.")
    tokenizer = Tokenizer.from_file(str(path))
    places, n_tokens = int(config.max_position_embeddings), int(config.vocab_size)
    if tokenizer.get_vocab_size() > n_tokens:
        raise InvalidInput(
            f"{path.name} of {folder.name} knows {tokenizer.get_vocab_size():,} tokens and the model {n_tokens:,}. "
            "Expected the one that came with the model. Download it again."
        )
    filler = _filler(folder, tokenizer)
    tokenizer.enable_truncation(places)
    # Behind the end of a text of CLIP nothing counts; SigLIP reads its meaning from the last place of all.
    tokenizer.enable_padding(pad_id=filler, length=places if family.is_filled else None)
    return tokenizer


def _filler(folder: ModelFolder, tokenizer: Any) -> int:
    """Return the token that fills up what a text leaves free."""
    path = folder.path / TOKENIZER_SETTINGS
    told = read_json(path).get("pad_token") if path.is_file() else None
    word = told.get("content") if isinstance(told, dict) else told
    found = tokenizer.token_to_id(word) if isinstance(word, str) else None
    padding = tokenizer.padding
    if found is None and isinstance(padding, dict):
        found = padding.get("pad_id")
    if found is None:
        found = folder.part("text").get("pad_token_id")
    if not isinstance(found, int) or not 0 <= found < tokenizer.get_vocab_size():
        found = 1  # of both families, where nobody says otherwise
    return found


def _unit(rows: F32) -> F32:
    unit: F32 = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit.astype(np.float32)
