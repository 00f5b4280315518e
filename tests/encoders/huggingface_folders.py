"""Tiny random models of each family, saved as Hugging Face saves them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from selfsort.encoders.texts import open_texts

PATCH = 14
SIDE = 28
_VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": SIDE,
    "patch_size": PATCH,
}
_TEXT = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 20,
    "max_position_embeddings": 8,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
_STAGES = {"hidden_sizes": [4, 8, 8, 16], "depths": [1, 1, 1, 1]}
_RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}

# Model type: class that is saved, its config, the pixels the network sees.
TINY: dict[str, tuple[str, str, dict[str, Any], int]] = {
    "vit": ("ViTForImageClassification", "ViTConfig", _VISION, SIDE),
    "deit": ("DeiTForImageClassification", "DeiTConfig", _VISION, SIDE),
    "vit_msn": ("ViTMSNModel", "ViTMSNConfig", _VISION, SIDE),
    "dinov2": ("Dinov2Model", "Dinov2Config", _VISION, SIDE),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", "Dinov2WithRegistersConfig", _VISION, SIDE),
    "dinov3_vit": ("DINOv3ViTModel", "DINOv3ViTConfig", {**_VISION, "num_register_tokens": 2}, SIDE),
    "dinov3_convnext": ("DINOv3ConvNextModel", "DINOv3ConvNextConfig", _STAGES, 64),
    "clip": (
        "CLIPModel",
        "CLIPConfig",
        {"text_config": _TEXT, "vision_config": _VISION, "projection_dim": 12},
        SIDE,
    ),
    "clip_vision_model": ("CLIPVisionModelWithProjection", "CLIPVisionConfig", {**_VISION, "projection_dim": 12}, SIDE),
    "siglip": ("SiglipModel", "SiglipConfig", {"text_config": _TEXT, "vision_config": _VISION}, SIDE),
    "siglip_vision_model": ("SiglipVisionModel", "SiglipVisionConfig", _VISION, SIDE),
    "resnet": ("ResNetForImageClassification", "ResNetConfig", _RESNET, 32),
    "regnet": ("RegNetModel", "RegNetConfig", {**_RESNET, "groups_width": 8}, 32),
    "convnext": ("ConvNextModel", "ConvNextConfig", _STAGES, 64),
    "convnextv2": ("ConvNextV2Model", "ConvNextV2Config", _STAGES, 64),
}

_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}


def processor_settings(kind: str, side: int) -> dict[str, Any]:
    """What models of this type are saved with, scaled down to a network that sees `side` pixels."""
    larger = side * 256 // 224
    both = {"height": side, "width": side}
    if kind.startswith("clip"):
        return {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": side}, "crop_size": both}
    if kind.startswith("dinov2"):
        edge = {"shortest_edge": larger}
        return {"image_processor_type": "BitImageProcessor", "size": edge, "crop_size": both, **_IMAGENET}
    if kind.startswith("dinov3"):
        return {"image_processor_type": "DINOv3ViTImageProcessorFast", "size": both, **_IMAGENET}
    if kind.startswith("siglip"):
        return {"image_processor_type": "SiglipImageProcessor", "size": both}
    if kind == "deit":
        size = {"height": larger, "width": larger}
        return {"image_processor_type": "DeiTImageProcessor", "size": size, "crop_size": both, **_IMAGENET}
    if kind.startswith("vit"):
        return {"image_processor_type": "ViTImageProcessor", "size": both}
    edge = {"shortest_edge": side}
    settings = {"image_processor_type": "ConvNextImageProcessor", "size": edge, "crop_pct": 0.875, "resample": 3}
    return {**settings, **_IMAGENET}


def save_tiny(kind: str, folder: Path, text: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Save a tiny model of a type and return it; `changes` go into its preprocessor_config.json."""
    model_name, config_name, settings, side = TINY[kind]
    if text is not None:
        settings = {**settings, "text_config": _TEXT | text}
    torch.manual_seed(0)
    logging = transformers.utils.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, model_name)(getattr(transformers, config_name)(**settings)).eval()
        for name, value in model.named_buffers():
            if name.endswith("running_mean"):  # or batch normalisation would do nothing
                value.normal_()
        for value in model.parameters():  # many start as zeros, which would hide a confusion of them
            if value.numel() > 1 and not value.any():
                torch.nn.init.normal_(value, std=0.5)
        model.save_pretrained(folder)
    content = processor_settings(kind, side) | changes
    (folder / "preprocessor_config.json").write_text(json.dumps(content), encoding="utf-8")
    return model


SPECIAL = ("<start>", "<end>", "<fill>", "<unknown>")
"""Tokens 0 to 3."""


def save_with_words(kind: str, folder: Path, words: Sequence[str]) -> Any:
    """Save a tiny CLIP or SigLIP with a tokenizer that knows some words and those of captions; return the model."""
    captions = ["a", "photo", "of", "something", "this", "is", ".", ",", "!"]
    vocabulary = dict.fromkeys([*SPECIAL, *captions, *" ".join(words).lower().split()])
    model = save_tiny(kind, folder, {"vocab_size": len(vocabulary), "max_position_embeddings": 12, "pad_token_id": 2})
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="<unknown>"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    ends = [("<start>", 0), ("<end>", 1)] if kind == "clip" else [("<end>", 1)]
    tokenizer.post_processor = TemplateProcessing(
        single="<start> $A <end>" if kind == "clip" else "$A <end>", special_tokens=ends
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"pad_token": {"content": "<fill>"}}), encoding="utf-8")
    return model


def teach_words(kind: str, folder: Path, targets: Mapping[str, Any], nothing: Any, scale: float) -> None:
    """Let captions have given embeddings: the last layer of a tiny text tower is solved for, not learned.

    Args:
        kind: clip or siglip.
        folder: what `save_with_words` has written.
        targets: where the captions of words are to point.
        nothing: where captions that say nothing are to point.
        scale: of cosines.
    """
    tower = open_texts(folder, torch.device("cpu"))
    captions = [tower.family.prompt.format(word) for word in targets] + list(tower.family.nothing)
    wanted = torch.stack([*targets.values(), *[nothing] * len(tower.family.nothing)]).double()
    layer = next(
        part for name, part in tower.model.named_modules() if name.split(".")[-1] in ("text_projection", "head")
    )
    before: list[torch.Tensor] = []
    hook = layer.register_forward_hook(lambda _layer, given, _found: before.append(given[0].double()))
    tower.embeddings(captions)
    hook.remove()
    solved = torch.linalg.lstsq(torch.cat(before), wanted).solution.T.float().contiguous()
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "text_projection.weight" if kind == "clip" else "text_model.head.weight"
    tensors[name] = solved
    tensors["logit_scale"] = torch.full_like(tensors["logit_scale"], float(np.log(scale)))
    if kind == "siglip":
        tensors["text_model.head.bias"].zero_()
        tensors["logit_bias"].fill_(-scale / 4)
    save_file(tensors, path, metadata={"format": "pt"})


def rewrite(path: Path, **changes: Any) -> None:
    """Change entries of a JSON file; None takes an entry out."""
    values = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}), encoding="utf-8")
