"""The encoder of a run: what the user may say, and how a run finds it again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import Command
from tests.encoders.onnx_files import conv_model
from tests.encoders.small import SmallEncoder, TinyConvEncoder, blobs
from tests.encoders.test_registry import CARD

from selfsort import ImageClusterer
from selfsort.data.options import ReadOptions
from selfsort.encoders import registry
from selfsort.encoders.huggingface import open_huggingface
from selfsort.encoders.registry import EncoderCard
from selfsort.errors import Interrupted, InvalidInput, MissingData
from selfsort.methods.registry import METHODS
from selfsort.runs.encoder import EncodedModel, open_encoder, stored_encoder
from selfsort.runs.export.table import export_run
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import current_labels
from selfsort.runs.launch import Launched, launch, resume
from selfsort.runs.loop import Outcome
from selfsort.runs.model import apply_in_chunks, load_model
from selfsort.runs.request import Request
from selfsort.types import Encoder, Images

CPU = torch.device("cpu")
QUICK = {
    "jule": ("epochs=1",),
    "dbc": ("ae_epochs=2", "epochs=2"),
    "dac": ("epochs=2",),
    "secu": ("epochs=2", "warmup=1", "n_heads=2", "dim=8"),
    "gatcluster": ("iterations=2", "eval_every=1", "m2=8"),
    "teach": ("head_epochs=3", "head_batch_size=32"),
    "ac-gdl": (),
    "kmeans": (),
}


def open_small(device: torch.device, engine: str | None) -> Encoder:
    return SmallEncoder()


def small_card() -> EncoderCard:
    return replace(CARD, name="small", is_installed=lambda: True, open=open_small)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(registry.OWN, "small", small_card())
    monkeypatch.setenv("SELFSORT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> str:
    np.savez(tmp_path / "blobs.npz", images=blobs(120).pixels)
    return str(tmp_path / "blobs.npz")


def fit(source: str, method: str, encoder: str = "small", out: str = "run") -> Outcome:
    request = Request(
        source=ReadOptions(path=source),
        clusters=3,
        method=method,
        encoder=encoder,
        settings=QUICK[method],
        device="cpu",
        out=Path(out),
    )
    return launch(request).fit.run()


@pytest.mark.parametrize("method", list(QUICK))
def test_every_method_learns_on_an_encoder_and_predicts_the_same_again(source: str, method: str) -> None:
    outcome = fit(source, method)
    folder = RunFolder.open(Path("run"))
    model = load_model(folder, CPU)
    assert isinstance(model, EncodedModel)
    again = apply_in_chunks(model, blobs(120))
    np.testing.assert_allclose(again.soft, outcome.clustering.soft, atol=1e-5)
    told = folder.config["encoder"]
    assert told["parts"][0]["digest"] == SmallEncoder().digest


def test_a_run_stopped_at_its_start_resumes_to_the_same_labels(source: str) -> None:
    whole = fit(source, "secu", out="whole").clustering.labels
    request = Request(
        source=ReadOptions(path=source),
        clusters=3,
        method="secu",
        encoder="small",
        settings=QUICK["secu"],
        device="cpu",
        out=Path("cut"),
    )
    launch(request)  # and killed here
    np.testing.assert_array_equal(resume(Path("cut")).fit.run().clustering.labels, whole)


def test_another_encoder_of_the_same_name_is_refused(source: str) -> None:
    fit(source, "kmeans")
    path = Path("run/config.json")
    config = json.loads(path.read_text(encoding="utf-8"))
    config["encoder"]["parts"][0]["digest"] = "0" * 64
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InvalidInput, match="is not the encoder that the run"):
        load_model(RunFolder.open(Path("run")), CPU)


@pytest.mark.parametrize(
    "damage", [{"parts": []}, {"on": "anything"}, {"parts": [3]}, {"parts": [{"kind": "magic", "at": "x"}]}]
)
def test_a_changed_description_is_refused(source: str, damage: dict[str, object]) -> None:
    fit(source, "kmeans")
    path = Path("run/config.json")
    config = json.loads(path.read_text(encoding="utf-8"))
    config["encoder"] |= damage
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(InvalidInput, match="does not say which encoder"):
        load_model(RunFolder.open(Path("run")), CPU)


def test_two_encoders_are_joined(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fit(source, "kmeans", "small+small").clustering.features.shape == (120, 24)


def test_a_table_serves_methods_that_need_no_views(source: str, tmp_path: Path) -> None:
    vectors = blobs(120).pixels.mean(axis=(1, 2)) / 255
    np.save(tmp_path / "v.npy", vectors)
    for method in ("kmeans", "jule", "dbc"):
        assert len(set(fit(source, method, "v.npy", out=method).clustering.labels[:3].tolist())) == 3
    for method in ("dac", "secu", "gatcluster", "teach"):
        with pytest.raises(InvalidInput, match="learns from augmented pictures"):
            fit(source, method, "v.npy", out=method)


def test_new_pictures_bring_a_table_of_their_own(source: str, tmp_path: Path) -> None:
    vectors = blobs(120).pixels.mean(axis=(1, 2)) / 255
    np.save(tmp_path / "v.npy", vectors)
    labels = fit(source, "kmeans", "v.npy").clustering.labels
    np.save(tmp_path / "new.npy", vectors[::-1][:9])
    model = load_model(RunFolder.open(Path("run")), CPU, "new.npy")
    found = apply_in_chunks(model, blobs(9), names=tuple(map(str, range(9))))
    np.testing.assert_array_equal(found.labels, labels[::-1][:9])


def test_what_is_nothing_is_answered_with_what_there_is() -> None:
    with pytest.raises(InvalidInput, match="auto, none, efficientnet-lite0"):
        open_encoder("resnet", CPU)
    with pytest.raises(MissingData):
        open_encoder("somewhere/else", CPU)


def test_rows_without_a_picture_are_left_out_with_a_note(source: str, tmp_path: Path) -> None:
    names = np.array([*map(str, range(120)), "nobody"])
    vectors = blobs(121).pixels.mean(axis=(1, 2))
    np.savez(tmp_path / "v.npz", features=vectors, names=names)
    request = Request(source=ReadOptions(path=source), clusters=3, method="kmeans", encoder="v.npz", out=Path("run"))
    assert launch(request).notes == ("1 row of v.npz belongs to no picture, such as 'nobody': left out.",)


def test_a_moved_encoder_is_found_where_the_user_says(source: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    onnx.save(conv_model(), str(tmp_path / "m.onnx"))
    request = Request(
        source=ReadOptions(path=source),
        clusters=3,
        method="secu",
        encoder="m.onnx",
        settings=QUICK["secu"],
        device="cpu",
        out=Path("run"),
    )
    launch(request)  # and killed here
    (tmp_path / "m.onnx").rename(tmp_path / "n.onnx")
    with pytest.raises(MissingData, match=r"no longer at .*m\.onnx\. Expected it there\. Say with --encoder"):
        resume(Path("run"))
    with pytest.raises(InvalidInput, match="is not the encoder that the run"):
        resume(Path("run"), encoder="small")
    resume(Path("run"), encoder="n.onnx").fit.run()
    folder = RunFolder.open(Path("run"))
    with pytest.raises(MissingData, match="no longer at"):
        load_model(folder, CPU)
    load_model(folder, CPU, "n.onnx")
    refine = Request(
        source=ReadOptions(path=source),
        clusters=3,
        stage="self-label",
        start_from=folder,
        encoder="n.onnx",
        settings=("epochs=1", "warmup=0"),
        device="cpu",
        out=Path("refined"),
    )
    launch(refine).fit.run()
    (tmp_path / "n.onnx").rename(tmp_path / "m.onnx")
    load_model(RunFolder.open(Path("refined")), CPU)


class TestTeachAfterARun:
    """`refine RUN --stage teach`, on pixels and on features, after methods with and without a network."""

    @staticmethod
    def teach(source: str, run: str = "run", stage: str = "teach", **more: Any) -> Request:
        settings = ("epochs=2", "batch_size=32", "head_epochs=3", "head_batch_size=32")
        earlier = RunFolder.open(Path(run))
        return Request(
            source=ReadOptions(path=source),
            clusters=3,
            stage=stage,
            start_from=earlier,
            settings=settings,
            device="cpu",
            out=Path("taught"),
            **more,
        )

    @pytest.mark.parametrize("encoder", ["none", "small"])
    @pytest.mark.parametrize("method", ["ac-gdl", "kmeans", "secu"])
    def test_it_begins_with_the_labels_and_predicts_by_itself(self, source: str, method: str, encoder: str) -> None:
        before = fit(source, method, encoder).clustering
        result = launch(self.teach(source)).fit.run().clustering
        folder = RunFolder.open(Path("taught"))
        assert (folder.config["method"], folder.config["refines"]) == ("teach", method)
        given = result.extras["labels_before"]
        assert np.mean(given == before.labels) > 0.9
        shutil.rmtree("run")
        again = apply_in_chunks(load_model(folder, CPU), blobs(120))
        np.testing.assert_array_equal(again.labels, result.labels)

    @pytest.mark.parametrize("encoder", ["none", "small"])
    def test_stopped_at_once_it_resumes_to_the_same_labels(self, source: str, encoder: str) -> None:
        fit(source, "ac-gdl", encoder)
        whole = launch(self.teach(source)).fit.run().clustering
        shutil.rmtree("taught")
        stopped = launch(self.teach(source)).fit
        stopped.max_seconds = 0.0
        with pytest.raises(Interrupted):
            stopped.run()
        shutil.rmtree("run")
        np.testing.assert_array_equal(resume(Path("taught")).fit.run().clustering.soft, whole.soft)

    def test_a_method_that_follows_no_run_is_no_stage(self, source: str) -> None:
        fit(source, "kmeans", "none")
        with pytest.raises(
            InvalidInput,
            match=r"--stage must be one of self-label, cut, .*, teach; got 'jule'",
        ):
            launch(self.teach(source, stage="jule"))

    def test_feature_maps_are_refused_and_nothing_is_left(self, source: str) -> None:
        fit(source, "gatcluster")
        with pytest.raises(InvalidInput, match="feature maps cannot be taught"):
            launch(self.teach(source)).fit.run()
        assert not Path("taught").exists()


def test_neighbours_in_views_are_refused_on_features(source: str) -> None:
    request = Request(
        source=ReadOptions(path=source),
        clusters=3,
        method="ac-gdl",
        encoder="small",
        settings=("neighbours=augmented",),
        device="cpu",
        out=Path("run"),
    )
    with pytest.raises(InvalidInput, match="neighbours must be plain for the features of an encoder"):
        launch(request).fit.run()
    assert not Path("run").exists()


def test_a_run_from_pixels_has_no_encoder_to_be_moved(source: str) -> None:
    fit(source, "kmeans", "none")
    earlier = RunFolder.open(Path("run"))
    request = Request(
        source=ReadOptions(path=source), clusters=3, stage="self-label", start_from=earlier, encoder="small"
    )
    with pytest.raises(InvalidInput, match="was made from pixels"):
        launch(request)


@pytest.mark.parametrize("side", [8, 12, 5])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("method", ["kmeans", "gatcluster"])
def test_images_of_any_size_are_exported_with_their_encoder(
    tmp_path: Path, side: int, channels: int, method: str
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    images = Images(np.ascontiguousarray(blobs(60, side).pixels[..., :channels]))
    np.savez(tmp_path / "odd.npz", images=images.pixels)
    fit(str(tmp_path / "odd.npz"), method, "small" if method == "gatcluster" else "small+small")
    folder = RunFolder.open(Path("run"))
    export_run(folder, current_labels(folder), "onnx", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    soft, features = session.run(["soft", "features"], {"pixels": images.pixels})
    expected = apply_in_chunks(load_model(folder, CPU), images)
    np.testing.assert_allclose(soft, expected.soft, atol=1e-4)
    np.testing.assert_allclose(features, expected.features, atol=1e-4)


def test_nmf_lp_takes_features_that_are_not_centred(source: str) -> None:
    request = Request(
        source=ReadOptions(path=source), clusters=3, method="nmf-lp", encoder="small", device="cpu", out=Path("run")
    )
    assert len(set(launch(request).fit.run().clustering.labels.tolist())) == 3


@pytest.mark.parametrize(("kind", "most"), [("vit", 0.0), ("siglip", 3.0), ("clip", 6.0)])
def test_pictures_are_read_in_the_form_the_encoder_learned_from(kind: str, most: float, tmp_path: Path) -> None:
    """ViT and SigLIP distort other aspect ratios, CLIP cuts. What their filters do more than ours is small."""
    from tests.encoders import huggingface_folders as hf
    from tests.encoders.test_huggingface import picture, their_features, their_processor

    model = hf.save_tiny(kind, tmp_path / "model")
    (tmp_path / "pictures").mkdir()
    pictures = [picture(size) for size in ((64, 64), (100, 40), (40, 100), (90, 60), (30, 75), (120, 80))]
    for i, shown in enumerate(pictures):
        shown.save(tmp_path / "pictures" / f"{i}.png")

    def read(**given: Any) -> Launched:
        reading, settings = (
            ReadOptions(path=str(tmp_path / "pictures"), **given),
            ("encoder.mirror=no", "encoder.centre=no"),
        )
        request = Request(
            source=reading,
            clusters=2,
            method="kmeans",
            encoder=str(tmp_path / "model"),
            settings=settings,
            device="cpu",
        )
        return launch(request)

    launched = read()
    encoder = open_huggingface(tmp_path / "model", CPU)
    assert launched.described["image"]["fit"] == encoder.fit
    expected = np.stack([encoder.prepare(shown) for shown in pictures]).astype(int)
    assert np.abs(launched.dataset.images.pixels - expected).mean() <= most
    other = read(fit="crop" if encoder.fit == "stretch" else "stretch")  # whoever says otherwise gets it
    assert np.abs(other.dataset.images.pixels - expected).mean() > most + 5
    if not most:
        values = their_processor(hf.processor_settings(kind, hf.TINY[kind][3]))(pictures, return_tensors="pt")
        theirs = their_features(kind, model, values["pixel_values"])
        assert launched.fit.encoded is not None
        np.testing.assert_allclose(launched.fit.encoded.features, theirs.numpy(), atol=1e-4)


TUNED = [name for name in QUICK if METHODS[name].finetunes]


@pytest.fixture
def conv(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder that can be trained."""
    card = replace(CARD, name="conv", is_installed=lambda: True, open=lambda device, engine: TinyConvEncoder())
    monkeypatch.setitem(registry.OWN, "conv", card)


def finetune(source: str, method: str, encoder: str = "conv", how: str = "last", out: str = "run") -> Launched:
    return launch(
        Request(
            source=ReadOptions(path=source),
            clusters=3,
            method=method,
            encoder=encoder,
            settings=(*QUICK[method], f"encoder.finetune={how}"),
            device="cpu",
            out=Path(out),
        )
    )


@pytest.mark.usefixtures("conv")
class TestFinetuned:
    @pytest.mark.parametrize("method", TUNED)
    def test_a_run_predicts_and_is_exported_with_what_its_encoder_became(
        self, source: str, method: str, tmp_path: Path
    ) -> None:
        onnxruntime = pytest.importorskip("onnxruntime")
        outcome = finetune(source, method).fit.run()
        folder = RunFolder.open(Path("run"))
        model = load_model(folder, CPU)
        assert isinstance(model, EncodedModel)
        images = blobs(120)
        again = apply_in_chunks(model, images)
        np.testing.assert_allclose(again.soft, outcome.clustering.soft, atol=1e-5)
        before = stored_encoder(folder, CPU, as_given=True)
        assert not np.allclose(apply_in_chunks(EncodedModel(before, model.inner), images).features, again.features)
        export_run(folder, current_labels(folder), "onnx", tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        soft, features = session.run(["soft", "features"], {"pixels": images.pixels})
        np.testing.assert_allclose(soft, again.soft, atol=1e-4)
        np.testing.assert_allclose(features, again.features, atol=1e-4)

    @pytest.mark.parametrize("method", TUNED)
    def test_an_interrupted_run_resumes_to_the_same_bits(self, source: str, method: str) -> None:
        whole = finetune(source, method, out="whole").fit.run().clustering
        cut = finetune(source, method, how="last", out="cut").fit
        cut.max_seconds = 0.0
        with pytest.raises(Interrupted):
            cut.run()
        found = resume(Path("cut")).fit.run().clustering
        np.testing.assert_array_equal(found.features, whole.features)
        for name, array in whole.model.arrays.items():
            np.testing.assert_array_equal(found.model.arrays[name], array)

    def test_what_goes_on_from_it_sees_through_the_trained_encoder(self, source: str) -> None:
        finetune(source, "secu").fit.run()
        first = RunFolder.open(Path("run"))
        request = Request(
            source=ReadOptions(path=source),
            clusters=3,
            stage="self-label",
            start_from=first,
            encoder="auto",
            settings=("epochs=1", "warmup=0"),
            device="cpu",
            out=Path("refined"),
        )
        outcome = launch(request).fit.run()
        model = load_model(RunFolder.open(Path("refined")), CPU)
        again = apply_in_chunks(model, blobs(120))
        np.testing.assert_allclose(again.soft, outcome.clustering.soft, atol=1e-5)
        assert isinstance(model, EncodedModel)
        digests = {stored_encoder(folder, CPU).parts[0].source.digest for folder in (first, RunFolder.open("refined"))}
        assert len(digests) == 1
        assert digests != {TinyConvEncoder().digest}

    def test_it_is_the_encoder_of_another_run(self, source: str) -> None:
        outcome = finetune(source, "secu").fit.run()
        again = fit(source, "kmeans", "run", out="second")
        np.testing.assert_allclose(again.clustering.features, outcome.clustering.features, atol=1e-4)

    @pytest.mark.parametrize("method", ["kmeans", "ac-gdl", "dbc"])
    def test_other_methods_refuse(self, source: str, method: str) -> None:
        with pytest.raises(InvalidInput, match=f"{method} cannot train its encoder"):
            finetune(source, method)

    def test_what_is_no_network_is_refused(self, source: str, tmp_path: Path) -> None:
        onnx = pytest.importorskip("onnx")
        onnx.save(conv_model(), str(tmp_path / "m.onnx"))
        np.save(tmp_path / "v.npy", blobs(120).pixels.mean(axis=(1, 2)) / 255)
        fit(source, "kmeans", "none", out="first")
        for encoder in ("m.onnx", "v.npy", "first"):
            with pytest.raises(InvalidInput, match="cannot be trained further: it is a table, an ONNX file or a run"):
                finetune(source, "jule", encoder)
        with pytest.raises(InvalidInput, match=r"encoder\.finetune needs an encoder"):
            finetune(source, "jule", "none")
        assert not Path("run").exists()

    def test_a_model_without_the_weights_of_its_encoder_is_refused(self, source: str) -> None:
        finetune(source, "secu").fit.run()
        folder = RunFolder.open(Path("run"))
        state = folder.read_state("model.safetensors")
        del state.arrays["encoder.0.last.weight"]
        folder.write_state("model.safetensors", state)
        with pytest.raises(InvalidInput, match="must fit the network"):
            load_model(folder, CPU)


class TestPredictAgain:
    """What an encoder has seen is not shown to it twice."""

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> SmallEncoder:
        one = SmallEncoder()
        monkeypatch.setitem(registry.OWN, "small", replace(small_card(), open=lambda device, engine: one))
        return one

    def test_the_command(self, source: str, asked: SmallEncoder, selfsort: Command) -> None:
        fit(source, "kmeans")
        before = asked.seen
        assert selfsort("predict", "run", source, "--out", "first.csv").code == 0
        assert asked.seen == before, "the pictures of the run"
        np.savez("new.npz", images=blobs(50).pixels[::-1])
        assert selfsort("predict", "run", "new.npz", "--out", "new.csv").code == 0
        assert asked.seen > before, "others"
        before = asked.seen
        assert selfsort("predict", "run", "new.npz", "--out", "again.csv").code == 0
        assert asked.seen == before
        assert Path("new.csv").read_bytes() == Path("again.csv").read_bytes()

    def test_python(self, source: str, asked: SmallEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
        pixels = blobs(120).pixels
        model = ImageClusterer("kmeans", 3, encoder="small").fit(pixels)
        before = asked.seen
        np.testing.assert_array_equal(model.predict(pixels), model.labels_)
        assert asked.seen == before
        larger = pixels.repeat(2, axis=1).repeat(2, axis=2)  # brought to the form of the run first
        np.testing.assert_array_equal(model.predict(larger), model.labels_)
        assert asked.seen == 2 * before
        monkeypatch.setenv("SELFSORT_CACHE", "")
        model.predict(pixels)
        assert asked.seen == 3 * before
