"""Encoders from ONNX files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from tests.contract.tiny import TINY
from tests.encoders.onnx_files import DIM, Axes, conv_model, graph_model, keep_outputs, saved, weights

from selfsort.data.synthetic import shapes
from selfsort.encoders.onnx import IMAGENET_MEAN, IMAGENET_STD, open_onnx
from selfsort.errors import InvalidInput, MissingData
from selfsort.estimator import ImageClusterer
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.types import Encoder, NetworkEncoder

CPU = torch.device("cpu")


def images(n: int = 5, channels: int = 3, side: int = 8) -> torch.Tensor:
    """Whole pixels, as they come from files."""
    pixels = torch.randint(0, 256, (n, channels, side, side), generator=torch.Generator().manual_seed(0))
    return pixels * (1 / 255)


def expected(x: torch.Tensor) -> torch.Tensor:
    """What `conv_model` computes, by torch."""
    w = torch.from_numpy(weights(x.shape[1]))
    return torch.nn.functional.conv2d(x, w, stride=2).mean(dim=(2, 3))


def imagenet(x: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    return (x - mean) / std


class TestFeatures:
    def test_it_is_an_encoder(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(), tmp_path / "conv.onnx"), device=CPU)
        assert isinstance(encoder, Encoder)
        assert not isinstance(encoder, NetworkEncoder)
        assert (encoder.name, encoder.engine, encoder.shape, encoder.dim) == (
            "conv.onnx",
            "onnxruntime",
            (8, 8, 3),
            DIM,
        )
        assert encoder.fit == "crop"
        found = encoder.features(images())
        assert (found.dtype, found.shape) == (torch.float32, (5, DIM))
        torch.testing.assert_close(found, expected(imagenet(images())), rtol=0, atol=1e-5)
        assert encoder.features(images(0)).shape == (0, DIM)

    @pytest.mark.parametrize(
        ("axes", "is_last"),
        [
            ((1, 3, 8, 8), False),
            ((4, 3, 8, 8), False),
            ((None, 3, 8, 8), False),
            (("n", 8, 8, 3), True),
            ((1, 8, 8, 3), True),
        ],
    )
    def test_layouts_and_batches(self, axes: Axes, is_last: bool, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(axes, is_last=is_last), tmp_path / "m.onnx"), device=CPU)
        assert encoder.shape == (8, 8, 3)
        for n in (1, 4, 5):
            found = encoder.features(images(n))
            torch.testing.assert_close(found, expected(imagenet(images(n))), rtol=0, atol=1e-5)

    @pytest.mark.parametrize("is_last", [True, False])
    def test_whole_pixels(self, is_last: bool, tmp_path: Path) -> None:
        axes: Axes = ("n", 8, 8, 3) if is_last else ("n", 3, 8, 8)
        model = conv_model(axes, dtype=TensorProto.UINT8, is_last=is_last)
        encoder = open_onnx(saved(model, tmp_path / "m.onnx"), device=CPU)
        torch.testing.assert_close(encoder.features(images()), expected(images() * 255), rtol=1e-5, atol=1e-3)
        with pytest.raises(InvalidInput, match=r"scales them itself. Leave mean and std out"):
            open_onnx(tmp_path / "m.onnx", mean=0, std=1, device=CPU)

    @pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.DOUBLE])
    def test_other_floats(self, dtype: int, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(dtype=dtype), tmp_path / "m.onnx"), device=CPU)
        torch.testing.assert_close(encoder.features(images()), expected(imagenet(images())), rtol=0, atol=5e-3)

    def test_gray(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(("n", 1, 8, 8)), tmp_path / "m.onnx"), device=CPU)
        assert encoder.shape == (8, 8, 1)
        torch.testing.assert_close(
            encoder.features(images(channels=1)), expected(images(channels=1)), rtol=0, atol=1e-5
        )

    def test_gray_images_for_a_model_of_colours(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(), tmp_path / "m.onnx"), device=CPU)
        gray = images(channels=1)
        torch.testing.assert_close(encoder.features(gray), encoder.features(gray.repeat(1, 3, 1, 1)))

    def test_other_images_are_refused(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(), tmp_path / "m.onnx"), device=CPU)
        with pytest.raises(InvalidInput, match=r"m.onnx takes \(batch, 3, 8, 8\)"):
            encoder.features(images(side=9))

    def test_threads_are_those_of_torch(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(), tmp_path / "m.onnx"), device=CPU)
        assert encoder.session.get_session_options().intra_op_num_threads == torch.get_num_threads()
        assert encoder.session.get_providers() == ["CPUExecutionProvider"]


class TestPreprocessing:
    def test_given(self, tmp_path: Path) -> None:
        path = saved(conv_model(), tmp_path / "m.onnx")
        plain = open_onnx(path, mean=0, std=1, device=CPU)
        torch.testing.assert_close(plain.features(images()), expected(images()), rtol=0, atol=1e-5)
        other = open_onnx(path, mean=(0.1, 0.2, 0.3), std=0.5, device=CPU)
        moved = (images() - torch.tensor([0.1, 0.2, 0.3]).view(1, 3, 1, 1)) / 0.5
        torch.testing.assert_close(other.features(images()), expected(moved), rtol=0, atol=1e-5)

    @pytest.mark.parametrize(
        ("mean", "std", "message"),
        [
            (0.5, None, "belong together"),
            (None, 0.5, "belong together"),
            ((0.5, 0.5), 1.0, "mean must be a number, or 3 of them"),
            (float("nan"), 1.0, "mean must be a number"),
            (0.5, 0.0, "std must be above 0"),
            (0.5, (1.0, 1.0, -1.0), "std must be above 0"),
        ],
    )
    def test_wrong_numbers(self, mean: float | None, std: float | None, message: str, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=message):
            open_onnx(saved(conv_model(), tmp_path / "m.onnx"), mean=mean, std=std, device=CPU)

    def test_an_open_size_has_to_be_given(self, tmp_path: Path) -> None:
        path = saved(conv_model(("n", 3, "h", "w")), tmp_path / "m.onnx")
        with pytest.raises(InvalidInput, match=r"takes images of any height.*encoder.side=224"):
            open_onnx(path, device=CPU)
        encoder = open_onnx(path, side=12, device=CPU)
        assert encoder.shape == (12, 12, 3)
        torch.testing.assert_close(
            encoder.features(images(side=12)), expected(imagenet(images(side=12))), rtol=0, atol=1e-5
        )

    def test_all_axes_open(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(conv_model(("n", "c", "h", "w")), tmp_path / "m.onnx"), side=8, device=CPU)
        assert encoder.shape == (8, 8, 3)
        assert not encoder.input.is_channels_last

    @pytest.mark.parametrize("side", [0, -3, 5000, True])
    def test_impossible_sizes(self, side: int, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="the height of images must be between 1 and 4096"):
            open_onnx(saved(conv_model(("n", 3, "h", "w")), tmp_path / "m.onnx"), side=side, device=CPU)

    def test_a_size_that_the_graph_does_not_have(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"side must be 8, the height m.onnx was made for; got 9"):
            open_onnx(saved(conv_model(), tmp_path / "m.onnx"), side=9, device=CPU)

    def test_a_size_on_which_the_graph_fails(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match=r"m.onnx failed on images of shape \(2, 3, 1, 1\)"):
            open_onnx(saved(conv_model(("n", 3, "h", "w")), tmp_path / "m.onnx"), side=1, device=CPU)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImageClusterer, Path]:
    place = tmp_path_factory.mktemp("export")
    data = shapes(12, size=20, n_classes=3)[0]
    model = ImageClusterer("fcae-kmeans", n_clusters=3, settings=TINY["fcae-kmeans"], recipe="default", device="cpu")
    model.fit(data).save(place / "run")
    folder = RunFolder.open(place / "run")
    return model, export_run(folder, current_labels(folder), "onnx", place / "model.onnx")


class TestOurExports:
    def test_they_give_the_features_of_the_run(self, exported: tuple[ImageClusterer, Path]) -> None:
        model, path = exported
        encoder = open_onnx(path, device=CPU)
        assert (encoder.shape, encoder.output) == ((20, 20, 1), "features")
        new = shapes(5, size=20, n_classes=3, seed=9)[0]
        x = torch.from_numpy(new.pixels).permute(0, 3, 1, 2) * (1 / 255)
        np.testing.assert_allclose(encoder.features(x).numpy(), model.transform(new), atol=1e-3)

    def test_the_aspect_ratio_is_that_of_the_run(self, exported: tuple[ImageClusterer, Path], tmp_path: Path) -> None:
        model = onnx.load(exported[1])
        (entry,) = (entry for entry in model.metadata_props if entry.key == "preprocessing")
        entry.value = json.dumps(json.loads(entry.value) | {"fit": "pad"})
        assert open_onnx(saved(model, tmp_path / "m.onnx"), device=CPU).fit == "pad"

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"height": 2}', "[" * 100_000])
    def test_metadata_that_say_nothing(self, text: str, exported: tuple[ImageClusterer, Path], tmp_path: Path) -> None:
        model = onnx.load(exported[1])
        (entry,) = (entry for entry in model.metadata_props if entry.key == "preprocessing")
        entry.value = text
        with pytest.raises(InvalidInput, match=r"the metadata of m.onnx does not say what images it takes"):
            open_onnx(saved(model, tmp_path / "m.onnx"), device=CPU)


class TestOutputs:
    def test_features_come_before_scores(self, tmp_path: Path) -> None:
        assert open_onnx(saved(conv_model(), tmp_path / "m.onnx"), device=CPU).output == "features"

    def test_otherwise_the_last_pooled_one(self, tmp_path: Path) -> None:
        model = conv_model()
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = ["embedding" if name == "features" else name for name in names]
        model.graph.output[0].name = "embedding"
        assert open_onnx(saved(model, tmp_path / "m.onnx"), device=CPU).output == "scores"

    def test_a_map_is_averaged_if_there_is_nothing_else(self, tmp_path: Path) -> None:
        encoder = open_onnx(saved(keep_outputs(conv_model(), "map"), tmp_path / "m.onnx"), device=CPU)
        assert (encoder.output, encoder.dim) == ("map", DIM)
        torch.testing.assert_close(encoder.features(images()), expected(imagenet(images())), rtol=0, atol=1e-5)

    def test_by_name(self, tmp_path: Path) -> None:
        path = saved(conv_model(), tmp_path / "m.onnx")
        encoder = open_onnx(path, output="scores", device=CPU)
        torch.testing.assert_close(encoder.features(images()).sum(dim=1), torch.ones(5))
        assert open_onnx(path, output="map", device=CPU).dim == DIM
        with pytest.raises(InvalidInput, match="the output must be one of features, scores, map; got 'nothing'"):
            open_onnx(path, output="nothing", device=CPU)

    def test_nothing_pooled(self, tmp_path: Path) -> None:
        model = graph_model(
            [helper.make_node("Reshape", ["x", "shape"], ["tokens"])],
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
            [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["n", 3, 64])],
            [numpy_helper.from_array(np.array([0, 3, 64]), "shape")],
        )
        with pytest.raises(InvalidInput, match=r"no pooled features: for 2 images tokens \(2, 3, 64\)"):
            open_onnx(saved(model, tmp_path / "m.onnx"), device=CPU)


class TestDigest:
    def test_it_is_of_all_that_decides(self, tmp_path: Path) -> None:
        path = saved(conv_model(), tmp_path / "m.onnx")
        digests = [
            open_onnx(path, device=CPU).digest,
            open_onnx(path, output="scores", device=CPU).digest,
            open_onnx(path, mean=0, std=1, device=CPU).digest,
        ]
        other = conv_model()
        other.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights() + 1, "w"))
        digests.append(open_onnx(saved(other, tmp_path / "other.onnx"), device=CPU).digest)
        assert len(set(digests)) == 4
        moved = saved(conv_model(), tmp_path / "moved.onnx")
        assert open_onnx(moved, device=CPU).digest == digests[0]

    def test_weights_beside_the_file_count(self, tmp_path: Path) -> None:
        found = []
        for place, shift in (("a", 0), ("b", 1)):
            model = conv_model()
            model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights() + shift, "w"))
            (tmp_path / place).mkdir()
            onnx.save(
                model, tmp_path / place / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
            )
            found.append(open_onnx(tmp_path / place / "m.onnx", device=CPU))
        assert found[0].digest != found[1].digest
        torch.testing.assert_close(found[0].features(images()), expected(imagenet(images())), rtol=0, atol=1e-5)


def test_a_missing_package_is_answered_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingData, match=r'onnxruntime, .*pip install "selfsort\[onnx\]"'):
        open_onnx(saved(conv_model(), tmp_path / "m.onnx"), device=CPU)


def test_it_needs_no_package_but_onnxruntime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = saved(conv_model(), tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert open_onnx(path, device=CPU).dim == DIM
