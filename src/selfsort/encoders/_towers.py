"""The families of Hugging Face vision models we know, and how their authors turn their output into features.

Letters: B batch, C channels, H x W pixels, D features, h x w places of a feature map, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from selfsort.encoders._preparation import Preparation

Pooling = Literal["first token", "projected", "pooled"]


@dataclass(frozen=True)
class Family:
    """One kind of vision model."""

    model: str
    """Its class in transformers, of the image tower alone."""
    pooling: Pooling
    """first token: ViT and DINO; projected: CLIP's space of images and texts; pooled: what the model itself pools."""
    processor: str
    """What prepares its images where the file does not say."""
    stride: int | None = None
    """Pixels between two places of its tokens, if that is not the patch size."""
    options: tuple[str, ...] = ()
    """Switched off when it is built."""


# A pooling layer of ViT is learned for a task that most weights never saw: their files have none.
_WITHOUT_POOLER = ("add_pooling_layer",)
CLIP_WITHOUT_PROJECTION = Family("CLIPVisionModel", "pooled", "CLIPImageProcessor")
FAMILIES: dict[str, Family] = {
    "vit": Family("ViTModel", "first token", "ViTImageProcessor", options=_WITHOUT_POOLER),
    "deit": Family("DeiTModel", "first token", "DeiTImageProcessor", options=_WITHOUT_POOLER),
    "vit_msn": Family("ViTMSNModel", "first token", "ViTImageProcessor"),
    "dinov2": Family("Dinov2Model", "first token", "BitImageProcessor"),
    "dinov2_with_registers": Family("Dinov2WithRegistersModel", "first token", "BitImageProcessor"),
    "dinov3_vit": Family("DINOv3ViTModel", "first token", "DINOv3ViTImageProcessor"),
    "dinov3_convnext": Family("DINOv3ConvNextModel", "first token", "DINOv3ViTImageProcessor", stride=32),
    "clip": Family("CLIPVisionModelWithProjection", "projected", "CLIPImageProcessor"),
    "clip_vision_model": Family("CLIPVisionModelWithProjection", "projected", "CLIPImageProcessor"),
    "siglip": Family("SiglipVisionModel", "pooled", "SiglipImageProcessor"),
    "siglip_vision_model": Family("SiglipVisionModel", "pooled", "SiglipImageProcessor"),
    "resnet": Family("ResNetModel", "pooled", "ConvNextImageProcessor"),
    "regnet": Family("RegNetModel", "pooled", "ConvNextImageProcessor"),
    "convnext": Family("ConvNextModel", "pooled", "ConvNextImageProcessor"),
    "convnextv2": Family("ConvNextV2Model", "pooled", "ConvNextImageProcessor"),
}


def find_family(model_type: object, tensors: Mapping[str, Any]) -> Family | None:
    """Return the family of a model, given the names of its weights; None if we do not know it."""
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is not None and family.pooling == "projected" and "visual_projection.weight" not in tensors:
        return CLIP_WITHOUT_PROJECTION
    return family


class ImageTower(nn.Module):
    """Images in [0, 1] to features: cut, scale, normalise, the model, and its pooling."""

    def __init__(self, model: Any, family: Family, preparation: Preparation) -> None:
        super().__init__()
        self.model: Any = model
        self.family = family
        self.preparation = preparation

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D)."""
        found = self._outputs(x_BCHW)
        if self.family.pooling == "first token":
            pooled: Tensor = found.last_hidden_state[:, 0]
        elif self.family.pooling == "projected":
            pooled = found.image_embeds
        else:
            pooled = found.pooler_output
        return pooled.flatten(1)

    def maps(self, x_BCHW: Tensor) -> Tensor:
        """Return features (B, D, h, w) of places, in the space of `forward` where the model has such a one."""
        last: Tensor = self._outputs(x_BCHW).last_hidden_state
        parts = dict(self.model.named_modules())
        if last.ndim == 4:
            # ConvNeXT normalises after averaging.
            norm = parts.get("layernorm")
            return last if norm is None else norm(last.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        stride = self.family.stride or int(self.model.config.patch_size)
        h, w = (side // stride for side in self.preparation.crop)
        tokens_BTD: Tensor = last[:, last.shape[1] - h * w :]
        if self.family.model.startswith("CLIP"):
            tokens_BTD = next(part for name, part in parts.items() if name.endswith("post_layernorm"))(tokens_BTD)
        if self.family.pooling == "projected":
            tokens_BTD = parts["visual_projection"](tokens_BTD)
        return tokens_BTD.transpose(1, 2).reshape(len(last), -1, h, w)

    def last_weights(self) -> list[nn.Parameter]:
        """Return the weights of the last block or stage, and of what follows it."""
        stages = next(
            f"{name}.{len(part) - 1}."
            for name, part in self.model.named_modules()
            if isinstance(part, nn.ModuleList) and len(part)
        )
        named = list(self.model.named_parameters())
        first = next(i for i, (name, _) in enumerate(named) if name.startswith(stages))
        return [weight for _, weight in named[first:]]

    def _outputs(self, x_BCHW: Tensor) -> Any:
        return self.model(pixel_values=self.preparation.values(x_BCHW), return_dict=True)


def build_tower(
    transformers: Any, family: Family, settings: Mapping[str, Any], tensors: dict[str, Tensor], preparation: Preparation
) -> ImageTower:
    """Build the image tower of a family; see `build_model`."""
    model = build_model(transformers, family.model, settings, tensors, family.options)
    return ImageTower(model, family, preparation).eval()


def build_model(
    transformers: Any, name: str, settings: Mapping[str, Any], tensors: dict[str, Tensor], off: Sequence[str] = ()
) -> Any:
    """Build a model of transformers from the settings of its own and the weights of a file.

    Nothing is looked up by the library itself: no file, no code, no name of a kernel or an adapter.

    Raises:
        ValueError: the settings and the weights do not belong together.
    """
    model_class = getattr(transformers, name)
    config = _own_config(transformers, model_class.config_class, settings)
    options = dict.fromkeys(off, False)
    with torch.device("meta"):
        needed = sum(value.numel() for value in model_class(config, **options).parameters())
    present = sum(tensor.numel() for tensor in tensors.values())
    # Each parameter comes from the file, so a larger model lacks some; without this, it would be made up in memory.
    if needed > present:
        raise ValueError(f"the model has {needed:,} parameters and its file only {present:,}")
    model, said = model_class.from_pretrained(
        None, config=config, state_dict=tensors, output_loading_info=True, dtype=torch.float32, **options
    )
    # The mask token is for training alone.
    missing = sorted(key for key in said["missing_keys"] if not key.endswith("mask_token"))
    wrong = [str(key) for key in said["mismatched_keys"]]
    if missing or wrong:
        raise ValueError(
            f"{len(missing) + len(wrong)} weights are missing or of another shape ({[*missing, *wrong][0]})"
        )
    return model.eval()


_MOST_LAYERS = 1000
_END = "eos_token_id"
"""Where CLIP reads what a text means; earlier versions of the library have it for all models."""


def _own_config(transformers: Any, config_class: Any, settings: Mapping[str, Any]) -> Any:
    """Take over what describes the network, and nothing that tells the library what to do."""
    own = config_class().to_dict().keys() - transformers.PretrainedConfig().to_dict().keys() | {_END}
    kept = {key: value for key, value in settings.items() if key in own}
    layers = [kept.get("num_hidden_layers", 0), *(kept.get("depths") or [])]
    if any(not isinstance(count, int) or not 0 <= count <= _MOST_LAYERS for count in layers):
        raise ValueError(f"the model has {max(map(str, layers), key=len)} layers")
    return config_class(**kept)
