"""Words against pictures, with the text towers of CLIP and SigLIP; transformers itself is the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tests.encoders.huggingface_folders import rewrite, save_tiny, save_with_words

from selfsort.encoders.huggingface import open_huggingface
from selfsort.encoders.texts import open_texts, why_without_texts
from selfsort.errors import InvalidInput, MissingData, SelfsortError

CPU = torch.device("cpu")
KINDS = ("clip", "siglip")
TEXTS = [
    "a photo of dogs.",
    "dogs",
    "A photo of red, red mountains!",
    "birds birds birds birds birds birds birds birds",
]
WORDS = ["dogs", "birds", "red mountains"]


@pytest.fixture(scope="module", params=KINDS)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    folder = tmp_path_factory.mktemp("texts") / request.param
    return request.param, save_with_words(request.param, folder, WORDS), folder


def their_logits(kind: str, model: Any, folder: Path, x: torch.Tensor, texts: list[str]) -> torch.Tensor:
    """What the authors' own calls give for pixels as the model wants them."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<fill>")
    length: Any = {"padding": "max_length", "max_length": 12} if kind == "siglip" else {"padding": True}
    if kind == "siglip":  # its own tokenizer does so, which needs a package more
        texts = [text.replace(".", "").replace(",", "").replace("!", "") for text in texts]
    words = tokenizer(texts, truncation=True, return_tensors="pt", **({"max_length": 12} | length))
    given = {"input_ids": words["input_ids"]}
    if kind == "clip":
        given["attention_mask"] = words["attention_mask"]
    with torch.no_grad():
        found: torch.Tensor = model(pixel_values=x, **given).logits_per_image
    return found


def test_what_is_likely_is_what_the_authors_say(tiny: tuple[str, Any, Path]) -> None:
    kind, model, folder = tiny
    encoder, tower = open_huggingface(folder, CPU), open_texts(folder, CPU)
    x = torch.rand(5, 3, *encoder.shape[:2])
    theirs = their_logits(kind, model, folder, encoder.preparation.values(x), TEXTS)
    expected = (theirs.softmax(dim=1) if kind == "clip" else theirs.sigmoid()).numpy()
    found = tower.likely(encoder.features(x).numpy(), tower.embeddings(TEXTS))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 0, "the texts differ"


def test_texts_do_not_depend_on_their_company(tiny: tuple[str, Any, Path]) -> None:
    tower = open_texts(tiny[2], CPU)
    many = tower.embeddings([*TEXTS, *(["birds"] * 40)])
    np.testing.assert_allclose(many[:1], tower.embeddings(TEXTS[:1]), rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1, rtol=1e-5)


def test_words_come_in_captions_and_nothing_comes_last(tiny: tuple[str, Any, Path]) -> None:
    tower = open_texts(tiny[2], CPU)
    pictures = np.random.default_rng(0).normal(size=(3, tower.embeddings(["dogs"]).shape[1])).astype(np.float32)
    found = tower.likely_words(pictures, WORDS)
    captions = [tower.family.prompt.format(word) for word in WORDS]
    assert found.shape == (3, len(WORDS) + len(tower.family.nothing))
    together = tower.embeddings([*captions, *tower.family.nothing])
    np.testing.assert_allclose(found, tower.likely(pictures, together), rtol=0, atol=1e-6)


class TestWithout:
    """Models that have no texts, or not all that belongs to them."""

    def test_another_type(self, tmp_path: Path) -> None:
        save_tiny("dinov2", tmp_path / "dino")
        assert "knows no texts" in why_without_texts(tmp_path / "dino")
        with pytest.raises(MissingData, match=r"knows no texts\. Expected a whole CLIP or SigLIP"):
            open_texts(tmp_path / "dino", CPU)

    def test_no_tokenizer(self, tmp_path: Path) -> None:
        save_tiny("clip", tmp_path / "clip")
        assert "has no tokenizer.json" in why_without_texts(tmp_path / "clip")

    def test_the_image_tower_alone(self, tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        path = tmp_path / "clip" / "model.safetensors"
        kept = {key: value for key, value in load_file(path).items() if not key.startswith(("text", "logit"))}
        save_file(kept, path, metadata={"format": "pt"})
        assert why_without_texts(tmp_path / "clip") == "the weights of clip hold no text tower"
        with pytest.raises(MissingData, match="hold no text tower"):
            open_texts(tmp_path / "clip", CPU)

    @pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"version": "1.0", "model": {"type": "BPE"}}'])
    def test_a_damaged_tokenizer(self, content: str, tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        (tmp_path / "clip" / "tokenizer.json").write_text(content, encoding="utf-8")
        with pytest.raises(SelfsortError, match=r"tokenizer\.json|text tower"):
            open_texts(tmp_path / "clip", CPU)

    def test_the_tokenizer_of_another_model(self, tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        save_with_words("clip", tmp_path / "other", [*WORDS, "a", "hundred", "words", "more"])
        (tmp_path / "other" / "tokenizer.json").replace(tmp_path / "clip" / "tokenizer.json")
        with pytest.raises(InvalidInput, match="Expected the one that came with the model"):
            open_texts(tmp_path / "clip", CPU)

    @pytest.mark.parametrize(
        "change",
        [
            {"vocab": {"a": 10**6, "<unknown>": 3}},  # numbers that the model has no row for
            {"unk_token": "nowhere"},
            {"vocab": {}},
            {"type": "BPE", "merges": [], "vocab": {"a": 0}},
        ],
        ids=str,
    )
    def test_tokens_that_the_model_does_not_have(self, change: dict[str, Any], tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        path = tmp_path / "clip" / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        content["model"] |= change
        path.write_text(json.dumps(content | {"added_tokens": []}), encoding="utf-8")
        with pytest.raises(InvalidInput, match="text tower of clip cannot be used"):
            open_texts(tmp_path / "clip", CPU).embeddings(["a strange word"])

    def test_a_tokenizer_that_breaks_its_library(self, tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        path = tmp_path / "clip" / "tokenizer.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        content["post_processor"]["special_tokens"] = {}  # what stands before and after a text is not among them
        path.write_text(json.dumps(content), encoding="utf-8")
        with pytest.raises(InvalidInput, match="text tower of clip cannot be used"):
            open_texts(tmp_path / "clip", CPU).embeddings(["dogs"])

    def test_weights_that_are_no_numbers(self, tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        path = tmp_path / "clip" / "model.safetensors"
        tensors = load_file(path)
        tensors["text_projection.weight"].fill_(float("nan"))
        save_file(tensors, path, metadata={"format": "pt"})
        with pytest.raises(InvalidInput, match="gave values that are no numbers"):
            open_texts(tmp_path / "clip", CPU).embeddings(["dogs"])

    def test_settings_that_do_not_fit(self, tmp_path: Path) -> None:
        save_with_words("clip", tmp_path / "clip", WORDS)
        config = tmp_path / "clip" / "config.json"
        text = json.loads(config.read_text(encoding="utf-8"))["text_config"]
        rewrite(config, text_config=text | {"hidden_size": 32})
        with pytest.raises(InvalidInput, match="text tower of clip cannot be used"):
            open_texts(tmp_path / "clip", CPU)
