"""Encoders from Hugging Face models."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers
from huggingface_hub import constants
from PIL import Image
from tests.encoders.huggingface_folders import PATCH, TINY, processor_settings, rewrite, save_tiny

from selfsort.encoders._preparation import read_preparation
from selfsort.encoders.huggingface import HuggingFaceEncoder, open_huggingface
from selfsort.errors import InvalidInput, MissingData
from selfsort.types import NetworkEncoder

CPU = torch.device("cpu")
SIZES = [(64, 64), (100, 40), (40, 100), (31, 33), (5, 7), (333, 250), (1, 9), (28, 28)]
"""Width and height."""


def picture(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    """Smooth colours with an edge and some grain, as photographs have."""
    width, height = size
    y, x = np.mgrid[:height, :width]
    planes = [128 + 100 * np.sin(x / 7 + phase) * np.cos(y / 5 - phase) for phase in (0, 1, 2)]
    pixels = np.stack(planes, axis=2) + np.random.default_rng(0).normal(0, 15, (height, width, 3))
    pixels[: height // 3, : width // 2] = (250, 10, 60)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert(mode)


def batch(encoder: HuggingFaceEncoder, pictures: list[Image.Image]) -> torch.Tensor:
    pixels = np.stack([encoder.prepare(picture) for picture in pictures])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2) * (1 / 255)


def last_map(encoder: HuggingFaceEncoder, x: torch.Tensor) -> torch.Tensor:
    network: Any = encoder.network()
    found: torch.Tensor = network.maps(x)
    return found


def their_processor(settings: dict[str, Any]) -> Any:
    """Their processor that works with Pillow alone."""
    name = settings["image_processor_type"].removesuffix("Fast")
    found = getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)
    return found(**{key: value for key, value in settings.items() if key != "image_processor_type"})


def their_features(kind: str, model: Any, values: torch.Tensor) -> torch.Tensor:
    """What the authors' own calls give."""
    found: torch.Tensor
    with torch.no_grad():
        if kind in ("clip", "siglip"):
            output = model.get_image_features(pixel_values=values)
            found = output if isinstance(output, torch.Tensor) else output.pooler_output
            return found
        base = getattr(model, model.base_model_prefix, model) if kind in ("vit", "deit", "resnet") else model
        output = base(pixel_values=values)
        if kind == "clip_vision_model":
            found = output.image_embeds
        elif kind in ("vit", "deit", "vit_msn"):
            found = output.last_hidden_state[:, 0]
        else:
            found = output.pooler_output.flatten(1)
    return found


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    place = tmp_path_factory.mktemp("models")
    return {kind: (save_tiny(kind, place / kind), place / kind) for kind in TINY}


class TestFamilies:
    @pytest.mark.parametrize("kind", TINY)
    def test_features_are_those_of_the_authors(self, kind: str, models: dict[str, tuple[Any, Path]]) -> None:
        model, folder = models[kind]
        encoder = open_huggingface(folder, CPU)
        assert isinstance(encoder, NetworkEncoder)
        assert (encoder.name, encoder.engine, encoder.shape[2]) == (kind, "torch", 3)
        pictures = [picture(size) for size in SIZES]
        found = encoder.features(batch(encoder, pictures))
        assert (found.dtype, found.shape) == (torch.float32, (len(SIZES), encoder.dim))
        assert torch.pdist(found).min() > 0
        if kind.startswith("dinov3"):  # theirs needs torchvision
            values = encoder.preparation.values(batch(encoder, pictures))
        else:
            values = their_processor(processor_settings(kind, TINY[kind][3]))(pictures, return_tensors="pt")[
                "pixel_values"
            ]
        torch.testing.assert_close(found, their_features(kind, model, values), rtol=0, atol=1e-4)

    @pytest.mark.parametrize("kind", TINY)
    def test_maps(self, kind: str, models: dict[str, tuple[Any, Path]]) -> None:
        encoder = open_huggingface(models[kind][1], CPU)
        network, x = encoder.network(), torch.rand(2, 3, *encoder.shape[:2])
        with torch.no_grad():
            torch.testing.assert_close(network(x), encoder.features(x))
            maps = last_map(encoder, x)
        assert maps.shape[:2] == (2, encoder.dim)
        side = {"resnet": 4, "regnet": 4}.get(kind, 2)
        assert maps.shape[2:] == (side, side)
        if kind in ("resnet", "regnet"):
            torch.testing.assert_close(maps.mean(dim=(2, 3)), encoder.features(x))

    def test_places_of_a_map_are_places_of_the_image(self, models: dict[str, tuple[Any, Path]]) -> None:
        encoder = open_huggingface(models["vit"][1], CPU)
        x = torch.zeros(1, 3, 28, 28)
        other = x.clone()
        other[:, :, :PATCH, PATCH:] = 1  # the upper right patch
        with torch.no_grad():
            difference = (last_map(encoder, other) - last_map(encoder, x)).abs().sum(dim=1)[0]
        assert difference.argmax() == 1

    @pytest.mark.parametrize("kind", ["vit", "dinov2", "dinov3_vit", "clip", "siglip", "resnet", "convnext"])
    def test_the_network_can_be_written_as_onnx(
        self, kind: str, models: dict[str, tuple[Any, Path]], tmp_path: Path
    ) -> None:
        import onnxruntime

        encoder = open_huggingface(models[kind][1], CPU)
        x = torch.rand(3, 3, *encoder.shape[:2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                encoder.network().eval(),
                (x[:2],),
                tmp_path / "m.onnx",
                input_names=["x"],
                output_names=["y"],
                dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
                opset_version=17,
                dynamo=False,
            )
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        found = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
        torch.testing.assert_close(found, encoder.features(x), rtol=0, atol=1e-4)

    def test_a_network_to_train_is_a_copy(self, models: dict[str, tuple[Any, Path]]) -> None:
        encoder = open_huggingface(models["resnet"][1], CPU)
        x = torch.rand(2, 3, *encoder.shape[:2])
        before = encoder.features(x)
        network = encoder.network().train()
        network(x).sum().backward()
        with torch.no_grad():
            for value in network.parameters():
                assert value.grad is not None
                value.sub_(value.grad)
        torch.testing.assert_close(encoder.features(x), before, rtol=0, atol=0)

    def test_clip_without_its_projection(self, tmp_path: Path) -> None:
        model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**TINY["clip"][2]["vision_config"])).eval()
        save_tiny("clip_vision_model", tmp_path)
        model.save_pretrained(tmp_path)
        encoder = open_huggingface(tmp_path, CPU)
        x = torch.rand(2, 3, *encoder.shape[:2])
        with torch.no_grad():
            theirs = model(pixel_values=encoder.preparation.values(x)).pooler_output
        torch.testing.assert_close(encoder.features(x), theirs, rtol=0, atol=1e-5)
        assert last_map(encoder, x).shape == (2, 16, 2, 2)

    def test_half_precision_is_read_as_single(self, models: dict[str, tuple[Any, Path]], tmp_path: Path) -> None:
        model = save_tiny("vit", tmp_path)
        model.half().save_pretrained(tmp_path)
        encoder = open_huggingface(tmp_path, CPU)
        assert {value.dtype for value in encoder.tower.parameters()} == {torch.float32}
        x = torch.rand(2, 3, *encoder.shape[:2])
        whole = open_huggingface(models["vit"][1], CPU)
        torch.testing.assert_close(encoder.features(x), whole.features(x), rtol=0, atol=0.02)

    def test_weights_in_several_files(self, models: dict[str, tuple[Any, Path]], tmp_path: Path) -> None:
        model = save_tiny("dinov2", tmp_path)
        (tmp_path / "model.safetensors").unlink()
        model.save_pretrained(tmp_path, max_shard_size="20KB")
        assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 1
        encoder, whole = (open_huggingface(folder, CPU) for folder in (tmp_path, models["dinov2"][1]))
        x = torch.rand(2, 3, *encoder.shape[:2])
        torch.testing.assert_close(encoder.features(x), whole.features(x))

    def test_nothing_is_printed(
        self, models: dict[str, tuple[Any, Path]], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logging = transformers.utils.logging
        logging.set_verbosity_warning()
        logging.enable_progress_bar()
        try:
            open_huggingface(models["clip"][1], CPU)
            assert capfd.readouterr() == ("", "")
            assert logging.get_verbosity() == logging.WARNING
            assert logging.is_progress_bar_enabled()
        finally:
            logging.set_verbosity_error()
            logging.disable_progress_bar()


class TestPreparation:
    @pytest.mark.parametrize(
        "settings",
        [
            {"image_processor_type": "CLIPImageProcessor"},
            {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 256}},
            {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 61}, "crop_size": 50},
            {
                "image_processor_type": "BitImageProcessor",
                "size": {"shortest_edge": 60},
                "crop_size": 49,
                "resample": 2,
            },
            {"image_processor_type": "ViTImageProcessor"},
            {"image_processor_type": "ViTImageProcessor", "size": {"height": 40, "width": 60}},
            {"image_processor_type": "ViTImageProcessor", "size": 50, "do_normalize": False},
            {"image_processor_type": "ViTImageProcessor", "size": 50, "do_rescale": False},
            {
                "image_processor_type": "ViTImageProcessor",
                "size": 50,
                "rescale_factor": 1 / 127.5,
                "image_mean": [1, 1, 1],
            },
            {"image_processor_type": "DeiTImageProcessor"},
            {"image_processor_type": "DeiTImageProcessor", "size": {"height": 61, "width": 60}, "crop_size": 50},
            {"image_processor_type": "SiglipImageProcessor"},
            {"image_processor_type": "ConvNextImageProcessor", "resample": 2},
            {"image_processor_type": "ConvNextImageProcessor", "resample": 3, "size": 224, "crop_pct": 0.875},
            {"image_processor_type": "ConvNextImageProcessor", "size": 56, "crop_pct": 0.95, "resample": 1},
        ],
    )
    @pytest.mark.parametrize("mode", ["RGB", "L"])
    def test_it_is_theirs(self, settings: dict[str, Any], mode: str) -> None:
        ours = read_preparation(settings, "", "m")
        theirs = their_processor({"do_convert_rgb": True, **settings})
        for size in SIZES:
            image = picture(size, mode)
            expected = theirs(image.convert("RGB"), return_tensors="pt")["pixel_values"][0]
            pixels = torch.from_numpy(ours.pixels(image)).permute(2, 0, 1)[None] * (1 / 255)
            assert pixels.shape == (1, 3, ours.height, ours.width)
            torch.testing.assert_close(ours.values(pixels)[0], expected, rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize("mode", ["RGBA", "P", "CMYK", "1", "LA"])
    def test_every_mode_of_pillow(self, mode: str) -> None:
        ours = read_preparation({"size": 32}, "ViTImageProcessor", "m")
        image = picture((50, 40)).convert(mode)
        np.testing.assert_array_equal(ours.pixels(image), ours.pixels(image.convert("RGB")))

    def test_scaling_before_resizing_differs_by_rounding_alone(self) -> None:
        """DINOv3: their processor needs torchvision, whose resizing is that of torch."""
        ours = read_preparation(processor_settings("dinov3_vit", 56), "", "m")
        for size in SIZES:
            floats = torch.from_numpy(np.array(picture(size))).permute(2, 0, 1)[None] / 255
            resized = torch.nn.functional.interpolate(floats, (56, 56), mode="bilinear", antialias=True)
            mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (ours.mean, ours.std))
            pixels = torch.from_numpy(ours.pixels(picture(size))).permute(2, 0, 1)[None] * (1 / 255)
            # Rounded twice: after each half of resizing.
            atol = 1.01 / 255 / min(ours.std)
            torch.testing.assert_close(ours.values(pixels), (resized - mean) / std, rtol=0, atol=atol)

    @pytest.mark.parametrize(
        ("size", "scaled"), [((3, 900), (256, 76_800)), ((900, 3), (76_800, 256)), ((1, 20_000), None)]
    )
    def test_strips_are_cut_before_they_are_resized(
        self, size: tuple[int, int], scaled: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ours = read_preparation({"size": {"shortest_edge": 256}}, "CLIPImageProcessor", "m")
        image, sizes, resize = picture(size), [], Image.Image.resize

        def spied(self: Image.Image, to: tuple[int, int], *more: Any, **named: Any) -> Image.Image:
            sizes.append(to)
            return resize(self, to, *more, **named)

        monkeypatch.setattr(Image.Image, "resize", spied)
        found = ours.pixels(image)
        assert sizes == [(256, 256)]
        assert found.shape == (256, 256, 3)
        if scaled is not None:  # the other would not fit into memory
            left, top = (scaled[0] - 256) // 2, (scaled[1] - 256) // 2
            whole = image.resize(scaled, Image.Resampling.BICUBIC).crop((left, top, left + 256, top + 256))
            np.testing.assert_allclose(found, np.asarray(whole), atol=2)

    def test_the_loop_of_the_house_comes_close(self, models: dict[str, tuple[Any, Path]]) -> None:
        """Its filter is another one, its middle is the same."""
        from selfsort.data import ImageSpec
        from selfsort.data.resize import fit_picture

        for kind in ("dinov2", "vit"):
            encoder = open_huggingface(models[kind][1], CPU)
            spec = ImageSpec(*encoder.shape, encoder.fit)
            for size in [(64, 64), (100, 40), (40, 100), (333, 250)]:
                loop = np.asarray(fit_picture(picture(size), spec), np.float32)
                assert np.abs(loop - encoder.prepare(picture(size))).mean() < 8

    @pytest.mark.parametrize(
        ("family", "content", "expected"),
        [
            # As found in old files of models that many people use.
            (
                "ViTImageProcessor",
                {"size": 224, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
                (224, 224, "stretch", 2),
            ),
            (
                "CLIPImageProcessor",
                {"crop_size": 224, "feature_extractor_type": "CLIPFeatureExtractor", "resample": 3, "size": 224},
                (224, 224, "crop", 3),
            ),
            (
                "ConvNextImageProcessor",
                {"crop_pct": None, "feature_extractor_type": "ConvNextFeatureExtractor", "resample": 3, "size": 224},
                (256, 224, "crop", 3),
            ),
            (
                "BitImageProcessor",
                {"image_processor_type": "BitImageProcessorFast", "size": {"shortest_edge": 256}, "crop_size": 224},
                (256, 224, "crop", 3),
            ),
        ],
    )
    def test_what_a_file_leaves_out(
        self, family: str, content: dict[str, Any], expected: tuple[int, int, str, int]
    ) -> None:
        ours = read_preparation(content, family, "m")
        assert (ours.height, ours.crop[0], ours.fit, ours.resample) == expected


class TestFolder:
    def test_settings_among_others(self, models: dict[str, tuple[Any, Path]], tmp_path: Path) -> None:
        save_tiny("clip", tmp_path)
        settings = json.loads((tmp_path / "preprocessor_config.json").read_text())
        (tmp_path / "preprocessor_config.json").unlink()
        (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
        assert open_huggingface(tmp_path, CPU).preparation == open_huggingface(models["clip"][1], CPU).preparation

    def test_the_digest_is_of_all_files(self, tmp_path: Path) -> None:
        save_tiny("vit", tmp_path)
        digests = [open_huggingface(tmp_path, CPU).digest]
        rewrite(tmp_path / "preprocessor_config.json", image_mean=[0.4, 0.4, 0.4])
        digests.append(open_huggingface(tmp_path, CPU).digest)
        rewrite(tmp_path / "config.json", layer_norm_eps=1e-3)
        digests.append(open_huggingface(tmp_path, CPU).digest)
        from safetensors.torch import load_file, save_file

        tensors = load_file(tmp_path / "model.safetensors")
        tensors["vit.embeddings.cls_token"] = tensors["vit.embeddings.cls_token"] + 1
        save_file(tensors, tmp_path / "model.safetensors")
        digests.append(open_huggingface(tmp_path, CPU).digest)
        assert len(set(digests)) == 4
        (tmp_path / "README.md").write_text("nothing that counts")
        assert open_huggingface(tmp_path, CPU).digest == digests[-1]

    def test_other_images_are_refused_and_gray_ones_repeated(self, models: dict[str, tuple[Any, Path]]) -> None:
        encoder = open_huggingface(models["vit"][1], CPU)
        with pytest.raises(InvalidInput, match=r"vit takes \(batch, 3, 28, 28\)"):
            encoder.features(torch.rand(2, 3, 29, 28))
        gray = torch.rand(2, 1, 28, 28)
        torch.testing.assert_close(encoder.features(gray), encoder.features(gray.repeat(1, 3, 1, 1)))

    def test_a_missing_package_is_answered_with_the_command(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "transformers", None)
        with pytest.raises(MissingData, match=r'transformers, .*pip install "selfsort\[hf\]"'):
            open_huggingface(tmp_path, CPU)


class TestHub:
    @pytest.fixture
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The hub's cache with one model in it, as a download leaves it; the network is out of reach."""
        model = tmp_path / "models--acme--tiny"
        save_tiny("dinov2", model / "snapshots" / ("0" * 40))
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text("0" * 40)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
        return tmp_path

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The names that were asked of the network, which knows none."""
        names: list[str] = []
        local = huggingface_hub.snapshot_download

        def download(name: str, *, local_files_only: bool, **more: Any) -> str:
            if not local_files_only:
                names.append(name)
                raise ConnectionError("no route to host\nand more lines")
            return str(local(name, local_files_only=True, **more))

        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
        return names

    def test_what_is_in_the_cache_needs_no_network(self, cache: Path, asked: list[str]) -> None:
        encoder = open_huggingface("hf:acme/tiny", CPU)
        assert (encoder.name, encoder.dim, asked) == ("hf:acme/tiny", 16, [])

    def test_what_is_not_is_asked_for(self, cache: Path, asked: list[str]) -> None:
        with pytest.raises(MissingData, match=r"hf:acme/other cannot be fetched: no route to host\. .*give a folder"):
            open_huggingface("hf:acme/other", CPU)
        assert asked == ["acme/other"]

    def test_half_a_model_is_asked_for(self, cache: Path, asked: list[str]) -> None:
        (cache / "models--acme--tiny" / "snapshots" / ("0" * 40) / "model.safetensors").unlink()
        with pytest.raises(MissingData, match="cannot be fetched"):
            open_huggingface("hf:acme/tiny", CPU)
        assert asked == ["acme/tiny"]

    @pytest.mark.parametrize("word", ["1", "true", "YES"])
    def test_offline(self, word: str, cache: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_HUB_OFFLINE", word)
        assert open_huggingface("hf:acme/tiny", CPU).dim == 16
        with pytest.raises(MissingData, match=r"HF_HUB_OFFLINE forbids to fetch it.*hf download acme/other"):
            open_huggingface("hf:acme/other", CPU)
        assert asked == []

    @pytest.mark.parametrize("name", ["", "../..", "a/b/c", "with space", "/etc", "a" * 200])
    def test_impossible_names(self, name: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(MissingData, match=r"hf:"):
            open_huggingface(f"hf:{name}", CPU)
