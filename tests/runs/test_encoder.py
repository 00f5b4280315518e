"""The encoder of a run: what the user may say, and how a run finds it again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.encoders.small import SmallEncoder, blobs
from tests.encoders.test_registry import CARD

from selfsort.data.options import ReadOptions
from selfsort.encoders import registry
from selfsort.encoders.registry import EncoderCard
from selfsort.errors import InvalidInput, MissingData
from selfsort.runs.encoder import EncodedModel, open_encoder
from selfsort.runs.folder import RunFolder
from selfsort.runs.launch import Request, launch, resume
from selfsort.runs.loop import Outcome
from selfsort.runs.model import apply_in_chunks, load_model
from selfsort.types import Encoder

CPU = torch.device("cpu")
QUICK = {
    "jule": ("epochs=1",),
    "dbc": ("ae_epochs=2", "epochs=2"),
    "dac": ("epochs=2",),
    "secu": ("epochs=2", "warmup=1", "n_heads=2", "dim=8"),
    "gatcluster": ("iterations=2", "eval_every=1", "m2=8"),
    "ac-gdl": (),
    "kmeans": (),
}


def open_small(device: torch.device, engine: str | None) -> Encoder:
    return SmallEncoder()


def small_card() -> EncoderCard:
    from dataclasses import replace

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
    for method in ("dac", "secu", "gatcluster"):
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
