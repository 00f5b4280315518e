"""Model folders that are damaged, lie about themselves, or would have code run: one sentence each."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.encoders.huggingface_folders import TINY, rewrite, save_tiny

from selfsort.encoders.huggingface import HuggingFaceEncoder, open_huggingface
from selfsort.errors import InvalidInput, MissingData


def opened(folder: Path) -> HuggingFaceEncoder:
    return open_huggingface(folder, torch.device("cpu"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "tiny"
    save_tiny("dinov2", folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A model of one's own to damage."""
    return Path(shutil.copytree(whole, tmp_path / "tiny"))


class TestMissing:
    @pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors"])
    def test_a_file(self, name: str, folder: Path) -> None:
        (folder / name).unlink()
        with pytest.raises(MissingData, match=name.replace(".", r"\.")):
            opened(folder)

    @pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json", "model.safetensors"])
    def test_an_empty_file(self, name: str, folder: Path) -> None:
        (folder / name).write_bytes(b"")
        with pytest.raises(InvalidInput, match=rf"{name} is empty".replace(".", r"\.")):
            opened(folder)

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match="is not a folder"):
            opened(tmp_path / "nowhere")
        (tmp_path / "file").write_bytes(b"x")
        with pytest.raises(MissingData, match="is not a folder"):
            opened(tmp_path / "file")

    def test_a_note_of_git_lfs(self, folder: Path) -> None:
        (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with pytest.raises(InvalidInput, match="git lfs pull"):
            opened(folder)


class TestCode:
    """A folder cannot make us run anything of its own."""

    def test_pickled_weights_are_refused_unread(self, folder: Path) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[Any, ...]:
                return Path.touch, (folder / "exploded",)

        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
        with pytest.raises(InvalidInput, match=r"pickled \(pytorch_model\.bin\), and a pickle can run anything"):
            opened(folder)
        assert not (folder / "exploded").exists()

    def test_a_pickle_under_the_name_of_safetensors(self, folder: Path) -> None:
        torch.save({"a": torch.zeros(2)}, folder / "model.safetensors")
        with pytest.raises(InvalidInput, match=r"model\.safetensors cannot be read"):
            opened(folder)

    @pytest.mark.parametrize("key", ["model_type", "auto_map"])
    def test_code_beside_the_weights(self, key: str, folder: Path) -> None:
        (folder / "evil.py").write_text(f"open({str(folder / 'exploded')!r}, 'w')\n")
        references = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoImageProcessor": "evil.Processor"}
        rewrite(folder / "config.json", auto_map=references)
        rewrite(folder / "preprocessor_config.json", auto_map=references)
        if key == "model_type":
            rewrite(folder / "config.json", model_type="evil")
            with pytest.raises(InvalidInput, match="of the type 'evil'"):
                opened(folder)
        else:
            assert opened(folder).dim == 16
        assert not (folder / "exploded").exists()

    @pytest.mark.parametrize(
        "changes",
        [
            {"_attn_implementation": "acme/kernel", "attn_implementation": "acme/kernel"},
            {"_attn_implementation_internal": "acme/kernel"},
            {"transformers_weights": "../other.safetensors"},
            {"fusion_config": {"patch_embeddings": True}},
            {"return_dict": False, "output_attentions": True, "torchscript": True},
            {"torch_dtype": "float16", "dtype": "float16"},
            {"name_or_path": "acme/other", "_name_or_path": "acme/other"},
            {"base_model_prefix": "x", "to_dict": 1, "__class__": "x"},
        ],
        ids=lambda changes: next(iter(changes)),
    )
    def test_orders_to_the_library_are_not_passed_on(
        self, changes: dict[str, Any], folder: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        rewrite(folder / "config.json", **changes)
        x = torch.rand(2, 3, 32, 32)
        torch.testing.assert_close(opened(folder).features(x), opened(whole).features(x))

    def test_an_adapter_is_not_looked_at(self, folder: Path) -> None:
        (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "acme/other"}))
        assert opened(folder).dim == 16

    def test_quantized_weights(self, folder: Path) -> None:
        rewrite(folder / "config.json", quantization_config={"quant_method": "bitsandbytes"})
        with pytest.raises(InvalidInput, match="are quantized"):
            opened(folder)

    @pytest.mark.parametrize("name", ["../other.safetensors", "/other.safetensors", "a\\b.safetensors", "..", ""])
    def test_an_index_that_leads_elsewhere(self, name: str, folder: Path) -> None:
        shutil.move(folder / "model.safetensors", folder.parent / "other.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
        with pytest.raises(InvalidInput, match=r"does not list files beside it|is not a file"):
            opened(folder)

    @pytest.mark.parametrize("weight_map", [None, {}, [], 3, {"a": ["x"]}])
    def test_an_index_that_says_nothing(self, weight_map: object, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises((InvalidInput, MissingData), match=r"does not list files beside it|does not exist"):
            opened(folder)

    def test_an_index_of_files_that_are_gone(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "gone.safetensors"}}))
        with pytest.raises(MissingData, match=r"gone\.safetensors does not exist"):
            opened(folder)


class TestConfig:
    @pytest.mark.parametrize("text", ["", " ", "{", "[]", "3", "\ufeff{", "[" * 100_000, '{"a": ' * 100_000, "\0" * 9])
    @pytest.mark.parametrize("name", ["config.json", "preprocessor_config.json"])
    def test_no_json(self, name: str, text: str, folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInput, match=r"is no JSON object|is empty"):
            opened(folder)

    def test_an_enormous_one(self, folder: Path) -> None:
        with (folder / "config.json").open("wb") as file:
            file.truncate(1 << 34)
        with pytest.raises(InvalidInput, match=r"config\.json is no JSON object"):
            opened(folder)

    @pytest.mark.parametrize("model_type", [None, "bert", "siglip2", "vit_mae", 3, ["vit"], {"a": 1}])
    def test_types_we_do_not_know(self, model_type: object, folder: Path) -> None:
        rewrite(folder / "config.json", model_type=model_type)
        with pytest.raises(InvalidInput, match=r"of the type .* Expected one of vit, deit, .*\.onnx file"):
            opened(folder)

    @pytest.mark.parametrize(
        "changes",
        [
            {"hidden_size": 10**9},
            {"hidden_size": 32},
            {"hidden_size": 0},
            {"hidden_size": -16},
            {"hidden_size": "many"},
            {"hidden_size": 1e300},
            {"num_hidden_layers": 10**9},
            {"num_hidden_layers": 3},
            {"num_hidden_layers": -1},
            {"num_hidden_layers": "many"},
            {"num_attention_heads": 0},
            {"num_attention_heads": 3},
            {"image_size": 10**7},
            {"patch_size": 0},
            {"patch_size": 7},
            {"num_channels": 4},
            {"hidden_act": "__import__"},
            {"layer_norm_eps": "small"},
        ],
        ids=lambda changes: str(changes),
    )
    def test_settings_that_do_not_fit_the_weights(self, changes: dict[str, Any], folder: Path) -> None:
        rewrite(folder / "config.json", **changes)
        with pytest.raises(
            InvalidInput, match=r"the config\.json of tiny and its weights do not make a model|fails on"
        ):
            opened(folder)

    @pytest.mark.parametrize("depths", [[10**9, 1, 1, 1], 3, "abcd", [1, None, 1, 1], [[1], 1, 1, 1]])
    def test_stages(self, depths: object, tmp_path: Path) -> None:
        save_tiny("convnext", tmp_path)
        rewrite(tmp_path / "config.json", depths=depths)
        with pytest.raises(InvalidInput, match="do not make a model"):
            opened(tmp_path)

    def test_a_size_the_model_was_not_made_for(self, tmp_path: Path) -> None:
        save_tiny("vit", tmp_path, size={"height": 56, "width": 56})
        with pytest.raises(InvalidInput, match="fails on images of 56 x 56 pixels"):
            opened(tmp_path)

    @pytest.mark.parametrize("vision", [{}, None, [], "x", {"hidden_size": {}}])
    def test_a_tower_that_is_not_described(self, vision: object, tmp_path: Path) -> None:
        save_tiny("clip", tmp_path)
        values = json.loads((tmp_path / "config.json").read_text()) | {"vision_config": vision}
        (tmp_path / "config.json").write_text(json.dumps(values))
        with pytest.raises(InvalidInput, match="do not make a model"):
            opened(tmp_path)

    @pytest.mark.parametrize(
        ("changes", "why"),
        [
            ({"image_processor_type": "EvilProcessor"}, "asks for 'EvilProcessor'"),
            ({"image_processor_type": ["x"]}, "asks for"),
            ({"do_resize": False}, "does not bring all images to one size"),
            ({"do_pad": True}, "does not bring all images to one size"),
            ({"size": {"shortest_edge": 10**6}}, "has the size"),
            ({"size": {"shortest_edge": 0}}, "has the size"),
            ({"size": {"shortest_edge": True}}, "has the size"),
            ({"size": {"shortest_edge": 2.5}}, "has the size"),
            ({"size": {"longest_edge": 64}}, "has the size"),
            ({"size": {"shortest_edge": 32, "longest_edge": 64}}, "has the size"),
            ({"size": "large"}, "has the size"),
            ({"size": [32, 32]}, "has the size"),
            ({"crop_size": {"height": 28}}, "has the crop_size"),
            ({"crop_size": 40}, r"cuts \(40, 40\) out of \(32, 32\)"),
            ({"resample": 9}, "has the resample 9"),
            ({"resample": "bicubic"}, "has the resample 'bicubic'"),
            ({"resample": True}, "has the resample True"),
            ({"image_mean": [0.5]}, "has the image_mean"),
            ({"image_mean": [0.5, "x", 0.5]}, "has the image_mean 'x'"),
            ({"image_mean": {"r": 1}}, "has the image_mean"),
            ({"image_std": [0.5, 0.0, 0.5]}, "has the image_std"),
            ({"image_std": [0.5, float("nan"), 0.5]}, "has the image_std nan"),
            ({"rescale_factor": "x"}, "has the rescale_factor"),
            ({"rescale_factor": float("inf")}, "has the rescale_factor inf"),
        ],
    )
    def test_preparations_that_cannot_be(self, changes: dict[str, Any], why: str, folder: Path) -> None:
        rewrite(folder / "preprocessor_config.json", **changes)
        with pytest.raises(InvalidInput, match=rf"the preprocessor_config\.json of tiny .*{why}"):
            opened(folder)

    @pytest.mark.parametrize("crop_pct", [0, -1, 2, 1e-9, "x", True])
    def test_shares_that_cannot_be(self, crop_pct: object, tmp_path: Path) -> None:
        save_tiny("resnet", tmp_path, crop_pct=crop_pct)
        with pytest.raises(InvalidInput, match="has the crop_pct"):
            opened(tmp_path)


class TestWeights:
    def change(self, folder: Path, **tensors: torch.Tensor | None) -> None:
        values = load_file(folder / "model.safetensors") | tensors
        save_file({key: value for key, value in values.items() if value is not None}, folder / "model.safetensors")

    def test_every_length_of_a_cut_file(self, folder: Path) -> None:
        content = (folder / "model.safetensors").read_bytes()
        for length in [*range(1, 20), *range(20, len(content), len(content) // 15)]:
            (folder / "model.safetensors").write_bytes(content[:length])
            with pytest.raises(InvalidInput, match=r"model\.safetensors cannot be read"):
                opened(folder)

    def test_flipped_bytes_never_end_in_a_traceback(self, folder: Path) -> None:
        content, random = (folder / "model.safetensors").read_bytes(), np.random.default_rng(0)
        refused = 0
        for _ in range(40):
            damaged = bytearray(content)
            damaged[random.integers(3000)] = random.integers(256)  # the header
            (folder / "model.safetensors").write_bytes(damaged)
            try:
                opened(folder)
            except InvalidInput:
                refused += 1
        assert refused > 30

    def test_a_missing_tensor_is_not_made_up(self, folder: Path) -> None:
        self.change(folder, **{"layernorm.weight": None})
        with pytest.raises(InvalidInput, match="do not make a model"):
            opened(folder)

    def test_a_missing_tensor_is_not_made_up_for_one_that_is_too_many(self, folder: Path) -> None:
        self.change(folder, **{"layernorm.weight": None, "surplus": torch.zeros(1000)})
        with pytest.raises(InvalidInput, match=r"1 weights are missing or of another shape \(layernorm\.weight\)"):
            opened(folder)

    def test_a_giant_that_is_not_in_the_file_is_not_made_up(self, folder: Path) -> None:
        self.change(folder, **{"embeddings.position_embeddings": None})
        rewrite(folder / "config.json", image_size=140_000)
        with pytest.raises(InvalidInput, match=r"the model has 1,600,\d+,\d+ parameters and its file only"):
            opened(folder)

    def test_a_tensor_of_another_shape(self, folder: Path) -> None:
        self.change(folder, **{"layernorm.weight": torch.zeros(17)})
        with pytest.raises(InvalidInput, match="do not make a model"):
            opened(folder)

    def test_a_token_for_training_may_be_missing(self, folder: Path, whole: Path) -> None:
        self.change(folder, **{"embeddings.mask_token": None, "surplus": torch.zeros(1000)})
        x = torch.rand(2, 3, 32, 32)
        torch.testing.assert_close(opened(folder).features(x), opened(whole).features(x))

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_features_that_are_no_numbers(self, value: float, folder: Path) -> None:
        self.change(folder, **{"layernorm.bias": torch.full((16,), value)})
        encoder = opened(folder)
        with pytest.raises(InvalidInput, match=r"tiny gave values that are no numbers .* for 2 of 2 images"):
            encoder.features(torch.rand(2, 3, 32, 32))

    def test_weights_of_another_family(self, folder: Path, tmp_path: Path) -> None:
        save_tiny("resnet", tmp_path / "other")
        shutil.copy(tmp_path / "other" / "model.safetensors", folder / "model.safetensors")
        with pytest.raises(InvalidInput, match="do not make a model"):
            opened(folder)

    @pytest.mark.parametrize("kind", TINY)
    def test_weights_that_are_all_missing(self, kind: str, tmp_path: Path) -> None:
        save_tiny(kind, tmp_path)
        save_file(
            {"visual_projection.weight": torch.zeros(12, 16), "surplus": torch.zeros(50_000)},
            tmp_path / "model.safetensors",
        )
        with pytest.raises(InvalidInput, match="weights are missing or of another shape"):
            opened(tmp_path)
