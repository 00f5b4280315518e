"""Names by what an encoder sees: words of a list, read by the text tower of a tiny CLIP or SigLIP."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.conftest import Command
from tests.encoders.huggingface_folders import save_tiny, save_with_words, teach_words
from tests.runs.test_suggested import COLOURS, told, write_pictures

from selfsort import ImageClusterer, load
from selfsort.encoders import encode
from selfsort.encoders.cache import clear
from selfsort.encoders.huggingface import open_huggingface
from selfsort.errors import InvalidInput, SelfsortError
from selfsort.names.classes import WORDS as CLASS_WORDS
from selfsort.runs.folder import RunFolder
from selfsort.runs.seen import WORDS, RunWords, check_list

NAMES = {"red": "Roses", "green": "old gardens", "blue": "the sea"}
RIVALS = ("griffins", "towers")


def taught(kind: str, folder: Path, pictures: Path) -> Path:
    """Make a model that knows roses, old gardens and the sea by the pictures of their colours."""
    save_with_words(kind, folder, [*NAMES.values(), *RIVALS])
    encoder = open_huggingface(folder, torch.device("cpu"))
    means = []
    for colour in COLOURS:
        shown = [encoder.prepare(Image.open(path).convert("RGB")) for path in sorted(pictures.rglob(f"*{colour}.jpg"))]
        x = torch.from_numpy(np.stack(shown)).permute(0, 3, 1, 2) * (1 / 255)
        found = encoder.features(x) + encoder.features(x.flip(3))
        means.append((found / found.norm(dim=1, keepdim=True)).mean(dim=0).double())
    # Of each colour: a direction that its pictures lie in, and no others.
    targets = torch.linalg.pinv(torch.stack(means)).T
    scale = 20 * float(targets.norm(dim=1).max())
    # No picture shows what the rivals say; to say nothing is less right than the right word, and more than any other.
    beside = torch.linalg.svd(torch.stack(means))[2][-1]
    along = targets.sum(dim=0)
    part = 0.4 * float(along.norm() / targets.norm(dim=1).max())
    nothing = part * along / along.norm() + (1 - part**2) ** 0.5 * beside
    words = dict(zip(NAMES.values(), targets, strict=True)) | dict.fromkeys(RIVALS, beside)
    teach_words(kind, folder, words, nothing, scale)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, which can be cleared."""
    monkeypatch.setenv("SELFSORT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "pictures")


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(["# mine", *NAMES.values(), "", *RIVALS]), encoding="utf-8")
    return path


@pytest.fixture
def fit(selfsort: Command, pictures: Path) -> Callable[..., RunFolder]:
    def fitted(encoder: object, *more: object, out: str = "run") -> RunFolder:
        done = selfsort(
            *("fit", pictures, "--clusters", 3, "--method", "kmeans", "--encoder", encoder, "--out", out, *more)
        )
        assert done.code == 0, done.err
        return RunFolder.open(out)

    return fitted


def colours_by_name(run: RunFolder) -> dict[str, set[str]]:
    """Return of each suggested name the colours of the pictures in its cluster."""
    table, names = run.label_table(), json.loads((run.path / "names.json").read_text(encoding="utf-8"))
    return {
        one["name"]: {
            next(colour for colour in COLOURS if colour in name)
            for name, label in zip(table.names, table.labels, strict=True)
            if label == int(cluster)
        }
        for cluster, one in names.items()
    }


RIGHT = {name: {colour} for colour, name in NAMES.items()}


@pytest.mark.parametrize("kind", ["clip", "siglip"])
class TestTexts:
    def test_fit_names_by_the_list(self, kind: str, fit: Any, words: Path, pictures: Path, tmp_path: Path) -> None:
        run = fit(taught(kind, tmp_path / kind, pictures), "--names", words)
        assert colours_by_name(run) == RIGHT, "dates and colours would name them too, but a list was given"
        assert set(told(run).values()) == {"seen"}

    def test_names_after_the_fit(
        self, kind: str, fit: Any, words: Path, pictures: Path, tmp_path: Path, selfsort: Command
    ) -> None:
        run = fit(taught(kind, tmp_path / kind, pictures))
        assert "the sea" not in told(run)
        done = selfsort("names", run.path, "--names", words, "--json")
        assert {one["name"] for one in json.loads(done.out)["names"].values()} == set(NAMES.values())
        assert colours_by_name(run) == RIGHT
        words.write_text("\n".join([*RIVALS, "the sea"]), encoding="utf-8")
        assert selfsort("names", run.path, "--names", words).code == 0
        assert told(run) == {"the sea": "seen", "12 July 2023": "date", "2023-08": "date"}

    def test_without_a_cache_some_pictures_are_seen_again(
        self, kind: str, fit: Any, words: Path, pictures: Path, tmp_path: Path, cache: Path, selfsort: Command
    ) -> None:
        run = fit(taught(kind, tmp_path / kind, pictures), "--no-cache", "--names", words)
        assert colours_by_name(run) == RIGHT
        assert not list(cache.glob("*.npy"))
        (pictures / "00-blue.jpg").unlink()
        assert selfsort("names", run.path, "--names", words).code == 0
        assert colours_by_name(run) == RIGHT

    def test_what_goes_on_from_a_run_has_its_words(
        self,
        kind: str,
        fit: Any,
        words: Path,
        pictures: Path,
        tmp_path: Path,
        selfsort: Command,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        run = fit(taught(kind, tmp_path / kind, pictures), "--names", words)
        with monkeypatch.context() as patched:
            patched.setattr("selfsort.encoders.texts.open_texts", None)  # what was answered is not asked again
            assert selfsort("cut", run.path, "--clusters", 2, "--out", "two").code == 0
        assert set(told(RunFolder.open("two"))) & set(RIGHT)
        write_pictures(tmp_path / "more", "more {number}-{colour}.jpg")
        assert selfsort("update", run.path, "more", "--out", "larger").code == 0
        assert colours_by_name(RunFolder.open("larger")) == RIGHT
        assert selfsort("refine", run.path, "--stage", "teach", "--max-minutes", 0, "--out", "refined").code == 3
        assert RunWords.load(RunFolder.open("refined")).given == (*NAMES.values(), *RIVALS)


def test_everyday_words_without_a_list(fit: Any, pictures: Path, tmp_path: Path) -> None:
    run = fit(taught("clip", tmp_path / "clip", pictures))
    seen = RunWords.load(run)
    assert seen.given is None
    assert len(seen.seen) == 36
    assert told(run) == {"roses": "seen", "12 July 2023": "date", "blue": "look"}, "roses are among them"


def test_folders_come_before_everyday_words_and_after_a_list(
    fit: Any, words: Path, pictures: Path, tmp_path: Path, selfsort: Command
) -> None:
    for colour in COLOURS:
        (pictures / f"my {colour}").mkdir()
        for path in pictures.glob(f"*-{colour}.jpg"):
            path.rename(pictures / f"my {colour}" / path.name)
    run = fit(taught("clip", tmp_path / "clip", pictures))
    assert told(run) == {f"my {colour}": "folder" for colour in COLOURS}
    assert selfsort("names", run.path, "--names", words).code == 0
    assert colours_by_name(run) == RIGHT


def test_an_encoder_that_was_moved(fit: Any, words: Path, pictures: Path, tmp_path: Path, selfsort: Command) -> None:
    run = fit(taught("clip", tmp_path / "clip", pictures))
    (tmp_path / "clip").rename(tmp_path / "elsewhere")
    done = selfsort("names", run.path, "--names", words)
    assert (done.code, "Say with --encoder where it is now" in done.err) == (2, True)
    assert selfsort("names", run.path, "--names", words, "--encoder", tmp_path / "elsewhere").code == 0
    assert colours_by_name(run) == RIGHT


def test_python_takes_a_list_or_a_file(fit: Any, words: Path, pictures: Path, tmp_path: Path) -> None:
    run = fit(taught("clip", tmp_path / "clip", pictures))
    model = load(run.path)
    assert set(model.names().values()) == {"12 July 2023", "roses", "blue"}
    assert set(model.names([*NAMES.values(), *RIVALS]).values()) == set(NAMES.values())
    assert set(model.names(["the sea", *RIVALS]).values()) == {"12 July 2023", "2023-08", "the sea"}
    assert set(model.names().values()) == {"12 July 2023", "2023-08", "the sea"}, "the run has kept it"
    assert set(model.names(words).values()) == set(NAMES.values())
    fitted = ImageClusterer("kmeans", 3, encoder=str(tmp_path / "clip")).fit(pictures)
    assert set(fitted.names(words).values()) == set(NAMES.values())
    for wrong in ([], ["x" * 80], "nowhere.txt"):
        with pytest.raises(SelfsortError):
            model.names(wrong)


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (None, "does not exist"),
            (b"", "has no words"),
            (b"# nothing\n\n", "has no words"),
            (b"\xff\xfe\x00", "be text in UTF-8"),
            ("\n".join(f"word {i}" for i in range(2001)).encode(), "at most 2,000 words"),
            (b"x" * 71, "words of at most 70 letters"),
            (b"a\n" * (1 << 20), "at most 1 MB"),
        ],
    )
    def test_a_bad_list(self, content: bytes | None, said: str, pictures: Path, selfsort: Command) -> None:
        if content is not None:
            Path("words.txt").write_bytes(content)
        done = selfsort("fit", pictures, "--names", "words.txt", "--out", "run")
        assert (done.code, said in done.err) == (2, True), done.err
        assert not Path("run").exists()

    def test_encoders_without_texts(self, fit: Any, words: Path, pictures: Path, selfsort: Command) -> None:
        save_tiny("dinov2", Path("dino"))
        save_tiny("clip", Path("half"))
        for encoder, why in (
            ("none", "a run from pixels cannot name clusters by a list of words"),
            ("dino", "'dinov2', which knows no texts"),
            ("half", "has no tokenizer.json"),
        ):
            done = selfsort("fit", pictures, "--encoder", encoder, "--names", words, "--out", "refused")
            assert (done.code, why in done.err) == (2, True), done.err
            assert not Path("refused").exists()
        run = fit("dino")
        before = (run.path / "names.json").read_bytes()
        done = selfsort("names", run.path, "--names", words)
        assert (done.code, "knows no texts" in done.err) == (2, True)
        assert (run.path / "names.json").read_bytes() == before

    def test_an_array_whose_features_are_gone(
        self, npz: Path, words: Path, pictures: Path, tmp_path: Path, cache: Path, selfsort: Command
    ) -> None:
        model = taught("clip", tmp_path / "clip", pictures)
        done = selfsort("fit", npz, "--clusters", 3, "--method", "kmeans", "--encoder", model, "--out", "run")
        assert done.code == 0, done.err
        assert selfsort("names", "run").out.startswith("No name is suggested")
        assert selfsort("names", "run", "--names", words).code == 0
        clear(cache)
        done = selfsort("names", "run", "--names", words)
        assert (done.code, "is not in the cache" in done.err) == (2, True)

    def test_pixels_that_were_chosen_are_no_reason_to_stop(
        self, words: Path, pictures: Path, selfsort: Command
    ) -> None:
        done = selfsort("fit", pictures, "--names", words, "--method", "kmeans", "--clusters", 3, "--out", "run")
        assert done.code == 0, done.err
        assert "No cluster will be named by the list" in done.err

    @pytest.mark.parametrize(
        "text",
        ["{", "[]", '{"seen": 3}', '{"seen": {"x": "a"}}', '{"given": [3]}', '{"given": []}', '{"seen": {"0": 3}}'],
    )
    def test_a_damaged_file(self, text: str, fit: Any, selfsort: Command) -> None:
        run = fit("none")
        (run.path / WORDS).write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInput):
            RunWords.load(run)
        (run.path / "names.json").unlink()
        assert selfsort("names", run.path).code == 2
        assert selfsort("export", run.path, "--to", "csv", "--out", "labels.csv").code == 0


class TestClasses:
    """EfficientNet knows everyday words of its own."""

    def part(self) -> dict[str, Any]:
        from selfsort.encoders.weights import PUBLISHED

        one = PUBLISHED["lite0"]
        return {"name": one.name, "digest": one.digest, "kind": "name", "at": one.name}

    def test_words_that_it_does_not_know_are_said(self) -> None:
        assert check_list([self.part()], ["Dogs", "cats"]) == ""
        note = check_list([self.part()], ["dogs", "griffins"])
        assert note.endswith("does not know 1 word of the list, which will name nothing: griffins")

    def test_a_list_without_any_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match=r"knows no word of the list\. Expected some of: fish, birds"):
            check_list([self.part()], ["griffins"])
        assert check_list([self.part()], list(CLASS_WORDS)) == ""

    def test_several_encoders_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="efficientnet-lite0\\+efficientnet-lite0 cannot name clusters"):
            check_list([self.part(), self.part()], ["dogs"])


def test_kept_features_are_those_that_were_computed(fit: Any, pictures: Path, tmp_path: Path) -> None:
    """The embeddings that words are compared with are the encoder's own, not what a run has made of them."""
    from selfsort.runs.encoder import stored_encoder
    from selfsort.runs.seen import Asking

    run = fit(taught("clip", tmp_path / "clip", pictures))
    table, cpu = run.label_table(), torch.device("cpu")
    encoder = stored_encoder(run, cpu)
    asking = Asking(run, table.names, table.written, np.arange(36))
    rows, kept = asking._embeddings(encoder)
    shown = np.stack([open_huggingface(tmp_path / "clip", cpu).prepare(Image.open(pictures / n)) for n in table.names])
    x = torch.from_numpy(shown).permute(0, 3, 1, 2) * (1 / 255)
    source: Any = encoder.parts[0].source
    expected = ((source.features(x) + source.features(x.flip(3))) / 2).numpy()
    cosines = (kept * expected).sum(axis=1) / np.linalg.norm(kept, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.9999, "they differ by the filter that pictures were resized with"
    assert rows.tolist() == list(range(36))
    assert encode.kept_features(source, 35, run.field("fingerprint", str), is_mirrored=True, folder=tmp_path) is None
