"""The scikit-learn face: one estimator for every method, and `load` for saved runs."""

from __future__ import annotations

import html
import shutil
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import TransformerTags

from selfsort.data import Dataset, Fit, ImageSpec, as_dataset, conform, from_array, range_of, read_source
from selfsort.data.collections import as_array
from selfsort.data.folder import expanded
from selfsort.data.options import ReadOptions
from selfsort.encoders.fitted import FittedEncoder
from selfsort.errors import InvalidInput, invalid, speaking_python
from selfsort.graph.hierarchy import Hierarchy
from selfsort.improve.cut import CutModel, cut_clustering, cut_model
from selfsort.improve.grow import grow
from selfsort.learning.device import choose_device
from selfsort.methods.registry import DEFAULT_METHOD
from selfsort.names.lists import checked_words, read_list
from selfsort.overall import Overall, PlainLines, Ticker
from selfsort.progress import listening
from selfsort.runs.clusters import Clusters, read_clusters
from selfsort.runs.corrections import learn_corrections
from selfsort.runs.cut import Base, cut_run
from selfsort.runs.encoder import AUTO_ENCODER, EncodedModel, given_encoder
from selfsort.runs.folder import RunFolder
from selfsort.runs.labels import WholeClusterEdits, cut_cluster_edits, whole_cluster_edits
from selfsort.runs.launch import Launched, fill, launch, reading_like
from selfsort.runs.loop import Outcome, write_outcome
from selfsort.runs.model import apply_in_chunks, load_model
from selfsort.runs.renamed import all_settings
from selfsort.runs.request import Request
from selfsort.runs.seen import check_list_for
from selfsort.runs.suggested import suggestions_of
from selfsort.runs.tree import tree_of
from selfsort.runs.update import update_run
from selfsort.types import F32, I64, Assignment, Clustering, Images, Json, Model

ImagesLike = npt.ArrayLike | str | Path | Sequence[str | Path] | Dataset | Images | Any
"""An array, a folder or other source, a list of files or of images, what `selfsort.data` made of one, or a Dataset or
DataLoader of torch."""


class ImageClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters images with any method of METHODS.

    Args:
        method: a name from METHODS (`selfsort methods` lists them).
        n_clusters: clusters to find; `"auto"`, or a range such as `"5:30"`, finds the number.
        seed: decides every random draw; same seed, same labels.
        settings: the method's own settings by name, as for `--set`, and those of `improve` as `improve.starts`.
        recipe: a named set of settings, `auto` or `default`.
        encoder: what sees images before the method starts: `auto` (they decide), `none`, a name, file, folder or run,
            as for `--encoder`.
        outliers: put images that belong nowhere into a group of their own: label -1.
        train_on: learn from so many images, drawn by the seed, and let the model sort the others; None: from all.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        image_shape: height, width(, channels) of the rows of a flat array; one entry may be -1.
        value_range: the values that mean black and white in a float array; `auto` takes them from the
            array given to `fit`.
        verbose: say on standard error what `fit` is doing, how far it is and how long it will take.

    Attributes:
        labels_: (N,) int64 cluster of each training image; -1 for outliers, if they were asked for.
        soft_: (N, K) soft assignments of the training images.
        features_: (N, D) features of the training images.
        notes_: sentences about what was chosen for these images, such as an encoder or a number of clusters.
        warnings_: sentences about what went wrong, such as fewer clusters than asked for.
        verdict_: how far to trust it, in words; empty for runs of earlier versions.

    >>> from sklearn.datasets import load_digits
    >>> digits = load_digits(n_class=3).images / 16
    >>> model = ImageClusterer("kmeans", n_clusters=3, seed=0).fit(digits)
    >>> model.labels_.shape, model.predict(digits[:2]).shape
    ((537,), (2,))
    """

    labels_: I64
    soft_: F32
    features_: F32
    _model: Model
    _fitted: _Fitted | None
    _folder: RunFolder | None
    """Where it was loaded from."""
    _origin: ImageClusterer | None
    """What it is a cut of."""
    _tree: Hierarchy | None
    _source: str | None = None
    """The path it was fitted to, if it was one."""
    _encoder_at: str | None = None
    """Where the encoder of a loaded run is now, if that was said."""
    _earlier: _Kept
    """The runs that a refined model goes on from."""

    def __init__(
        self,
        method: str = DEFAULT_METHOD,
        n_clusters: int | str = "auto",
        *,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        recipe: str = "auto",
        encoder: str = AUTO_ENCODER,
        outliers: bool = False,
        train_on: int | None = None,
        device: str = "auto",
        image_shape: tuple[int, ...] | None = None,
        value_range: tuple[float, float] | Literal["auto"] = (0.0, 1.0),
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.n_clusters = n_clusters
        self.seed = seed
        self.settings = settings
        self.recipe = recipe
        self.encoder = encoder
        self.outliers = outliers
        self.train_on = train_on
        self.device = device
        self.image_shape = image_shape
        self.value_range = value_range
        self.verbose = verbose

    def fit(self, X: ImagesLike, y: object = None) -> Self:
        """Cluster images. `y` is ignored: no label reaches a method."""
        with speaking_python(), _telling(self.verbose):
            return self._fit(X)

    def _fit(self, X: ImagesLike) -> Self:
        _refuse_sparse(X)
        X = as_array(X)
        n_clusters = self._number()
        seed = _whole_number("seed", self.seed, at_least=0)
        is_auto = self.value_range == "auto" and not isinstance(X, Dataset | Images) and not _is_source(X)
        self.value_range_ = range_of(cast(npt.ArrayLike, X)) if is_auto else _fixed_range(self.value_range)
        request = Request(
            source=lambda side, fit: replace(
                self._read(X, side=side, fit=fit or "crop"), labels=None, label_names=None
            ),
            clusters=n_clusters,
            method=self.method,
            recipe=self.recipe,
            settings=self.settings or {},
            seed=seed,
            encoder=self.encoder,
            outliers=_yes_or_no("outliers", self.outliers),
            train_on=None if self.train_on is None else _whole_number("train_on", self.train_on, at_least=2),
            device=self.device,
        )
        self._source = str(expanded(X).absolute()) if isinstance(X, str | Path) else None
        return self._run(launch(request))

    def _run(self, launched: Launched) -> Self:
        """Do what was launched, and be its result."""
        for note in launched.renamed:
            warnings.warn(note, FutureWarning, stacklevel=5)
        self.notes_ = [note for note in launched.notes if note not in launched.renamed]
        if self.verbose:
            print(*self.notes_, sep="\n", end="\n" if self.notes_ else "", file=sys.stderr)
        outcome = launched.fit.run()
        found = replace(outcome.clustering, labels=outcome.labels)
        self._show(found, launched.dataset.spec, outcome.warnings)
        self.verdict_ = outcome.verdict.sentence if outcome.verdict is not None else ""
        self._fitted = _Fitted(launched.dataset, outcome, launched.described, launched.embedded, launched.encoder)
        self._model = launched.model(outcome.clustering)
        return self

    def fit_predict(self, X: ImagesLike, y: object = None) -> I64:
        """Cluster images and return their labels."""
        return self.fit(X).labels_

    def predict(self, X: ImagesLike, *, original: bool = False) -> I64:
        """Return the cluster of each new image; a new one is never an outlier by itself.

        Corrections that a person has made in a loaded run (names, merges, splits, moves) hold for new images too, as in
        `selfsort predict`; `original=True` leaves them out. Soft assignments are always those of the method.
        """
        is_original = _yes_or_no("original", original)
        found = self._apply(X)
        with speaking_python():
            edits = self._corrections(found.soft.shape[1], is_original=is_original)
            return found.labels if edits is None else edits.labels(found)[0]

    def _corrections(self, n_clusters: int, *, is_original: bool) -> WholeClusterEdits | None:
        """Return what a person has put right in the run that was loaded, or cut after it; None if there is no run."""
        if self._folder is not None:
            return whole_cluster_edits(self._folder, n_clusters, is_original=is_original)
        run = None if self._origin is None else self._origin._folder
        if run is None:
            return None
        return cut_cluster_edits(run, self.labels_, self.features_, n_clusters, is_original=is_original)

    def predict_proba(self, X: ImagesLike) -> F32:
        """Return soft assignments (N, K) to the clusters as the method found them; rows sum to one."""
        return self._apply(X).soft

    def transform(self, X: ImagesLike) -> F32:
        """Return features (N, D)."""
        return self._apply(X).features

    def fit_transform(self, X: ImagesLike, y: object = None) -> F32:
        """Cluster images and return their features."""
        return self.fit(X).features_

    def cut(self, n_clusters: int) -> ImageClusterer:
        """Return the same model with another number of clusters, without training: whole ones joined, or parts of them.

        The tree of the clusters is cut at the number, as `selfsort cut` does; this model stays as it is.
        """
        self._check_fitted()
        number = _whole_number("n_clusters", n_clusters, at_least=2)
        if (self.labels_ < 0).any():
            raise InvalidInput("a model with outliers cannot be cut. Expected one without. Fit with outliers=False.")
        if self._origin is not None:  # a cut of a cut is a cut of what was trained
            return self._origin.cut(number)
        device, (labels, soft, tree, inner) = choose_device(self.device), self._uncut()
        result = cut_clustering(labels, soft, self.features_, tree, number, device)
        model = ImageClusterer(**{**self.get_params(deep=False), "n_clusters": number})
        model._show(result, self._spec, ())
        model.value_range_, model._origin = self.value_range_, self
        cut = cut_model(inner, result.model, device)
        model._model = EncodedModel(self._model.encoder, cut) if isinstance(self._model, EncodedModel) else cut
        return model

    def _uncut(self) -> tuple[I64, F32, Hierarchy, Model]:
        """Return labels, assignments, tree and own model of what was trained; a loaded run may be a cut of that."""
        own = self._model.inner if isinstance(self._model, EncodedModel) else self._model
        if self._folder is None:
            self._tree = self._tree or grow(self.features_, self.labels_)
            return self.labels_, self.soft_, self._tree, own
        base = Base.of(self._folder, self.labels_)
        self._tree = self._tree or base.tree(tree_of(self._folder))
        inner = own.inner if base.folder is not self._folder and isinstance(own, CutModel) else own
        return base.labels, base.soft, self._tree, inner

    def refine(
        self,
        stage: str = "self-label",
        *others: ImageClusterer,
        images: ImagesLike | None = None,
        recipe: str = "auto",
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> ImageClusterer:
        """Go on with a second stage, as `selfsort refine` does, and return the model it ends with; this one stays.

        Args:
            stage: what to do with it; `selfsort methods` lists the stages. `corrections` needs a loaded run, and takes
                nothing else.
            others: further models of the same images, for the stage `consensus`.
            images: those to go on with; None: those it was fitted to, which a loaded run reads again.
            recipe: a named set of the stage's settings.
            settings: the stage's own settings by name.
            seed: decides every random draw.
        """
        self._check_fitted()
        with speaking_python(), _telling(self.verbose):
            if stage == "corrections":
                return self._after_corrections(is_plain=not others and images is None and not settings)
            for other in others:
                if not isinstance(other, ImageClusterer):
                    raise invalid("each of the others", "be a fitted ImageClusterer", repr(other)[:80], "load() one.")
            params = {**self.get_params(deep=False), "method": stage, "settings": settings, "recipe": recipe}
            model = ImageClusterer(**{**params, "seed": seed, "train_on": None})
            # It is saved with the runs that it goes on from, so they last as long as it does.
            model._earlier = _Kept()
            runs = [one._run_in(model._earlier.path / str(number)) for number, one in enumerate((self, *others))]
            if len({run.field("fingerprint", str) for run in runs}) > 1:
                raise InvalidInput("the models were fitted to different images. Expected the same. Fit them anew.")
            request = Request(
                source=self._images_again(images),
                clusters=runs[0].n_clusters,
                stage=_text("stage", stage),
                recipe=recipe,
                settings=settings or {},
                seed=_whole_number("seed", seed, at_least=0),
                encoder=self._encoder_at or AUTO_ENCODER,  # that of the run
                outliers=runs[0].has_outliers,
                start_from=runs[0],
                others=tuple(runs[1:]),
                device=self.device,
            )
            model.value_range_ = self.value_range_
            return model._run(launch(request))

    def update(
        self, source: str | Path, out: str | Path | None = None, *, encoder: str | None = None
    ) -> ImageClusterer:
        """Let new pictures join a loaded run, as `selfsort update` does, and return the run with them.

        Groups keep their numbers, names and corrections. The new run lies at `out`, or beside the old one. `encoder`
        says where the run's encoder is now, or which table has the features of the new pictures.
        """
        self._check_fitted()
        with speaking_python(), _telling(self.verbose):
            run, place = self._loaded_run("let pictures join"), None if out is None else Path(out)
            new, at = _text("source", source), encoder or self._encoder_at
            made = update_run(run, new, place, device=choose_device(self.device), encoder=at)
            return load(made.folder.path, self.device)

    def _after_corrections(self, *, is_plain: bool) -> ImageClusterer:
        if not is_plain:
            raise InvalidInput("corrections are those of one run. Expected no other arguments. Leave them out.")
        made = learn_corrections(self._loaded_run("learn from corrections"), device=self.device)
        return load(made.folder.path, self.device)

    def _loaded_run(self, purpose: str) -> RunFolder:
        if self._folder is None:
            raise InvalidInput(f"only a run on disk can {purpose}. Expected one. Save this model and load it.")
        return self._folder

    def _run_in(self, place: Path) -> RunFolder:
        """Return the run folder of the model, made at a place if it was never saved."""
        self._check_fitted()
        if self._folder is not None:
            return self._folder
        self.save(place)
        return RunFolder.open(place)

    def _images_again(self, images: ImagesLike | None) -> Dataset:
        """Return images to go on with: those given, in the form of the model, or those it was fitted to."""
        if images is not None:
            given = self._read(as_array(images), self._spec)
            return replace(given, images=conform(given.images, self._spec), labels=None, label_names=None)
        fitted = (self._origin or self)._fitted
        if fitted is not None:
            return fitted.dataset
        folder = (self._origin or self)._loaded_run("tell its images")
        if not isinstance(folder.field("source", dict).get("path"), str):
            raise InvalidInput(
                f"the run {folder.path} was made from an array, which it does not keep. Expected the images. Give them "
                "as images=."
            )
        return replace(reading_like(folder, None).read(), labels=None, label_names=None)

    def names(self, words: str | Path | Sequence[str] | None = None) -> dict[int, str]:
        """Return the names suggested for clusters of picture files, as `selfsort names` does: cluster to name.

        Args:
            words: what clusters may be called, as a list or a text file with one word on each line; a CLIP or SigLIP
                encoder tells which fit. A loaded run keeps the list. None: what the run has, or everyday words.
        """
        with speaking_python(), self._on_disk() as run:
            folder = RunFolder.open(run)
            given = None if words is None else _list_of(words)
            if given is not None and (note := check_list_for(folder, given)):
                warnings.warn(note, UserWarning, stacklevel=2)
            return {cluster: one.name for cluster, one in suggestions_of(folder, given).items()}

    def save(self, path: str | Path) -> None:
        """Write a run folder that `load` and every command of selfsort can read."""
        self._check_fitted()
        if self._origin is not None:
            self._save_cut(self._origin, Path(path))
            return
        if self._fitted is None:
            raise InvalidInput("this model was loaded from a run folder. Only a model fitted here is saved. Copy it.")
        dataset, outcome = self._fitted.dataset, self._fitted.outcome
        described = {**self._fitted.described, "value_range": list(self.value_range_)}
        if self._source is not None:
            described["source"] = ReadOptions(path=self._source).to_json()
        with RunFolder.creating(path, described) as folder:
            fill(folder, dataset, self._fitted.embedded, self._fitted.encoder)
            for event in outcome.events:
                folder.append_event(event)
            write_outcome(folder, outcome, dataset.images, dataset.names)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the report, one HTML page that needs nothing else, and return its path."""
        from selfsort.report.build import write_report

        with self._on_disk() as run:
            return write_report([run], Path(path))

    def show(self, height: int = 700) -> Shown:
        """Return the clusters with their pictures and the map, for a notebook to display: no server, no files."""
        from selfsort.report.build import build_page
        from selfsort.report.read import read_runs

        with self._on_disk() as run:
            return Shown(build_page(read_runs([run])), height)

    @contextmanager
    def _on_disk(self) -> Iterator[Path]:
        """Give the run folder of the model, made for the moment if it was never saved."""
        self._check_fitted()
        if self._folder is not None:
            yield self._folder.path
            return
        with TemporaryDirectory(prefix="selfsort-") as place:
            self.save(Path(place) / "model")
            yield Path(place) / "model"

    def _save_cut(self, origin: ImageClusterer, path: Path) -> None:
        """Write the run that was cut, if it is not on disk, and cut it there."""
        RunFolder.refuse_occupied(path)
        if origin._folder is not None:
            cut_run(origin._folder, int(self.n_clusters), path)
            return
        with TemporaryDirectory(prefix="selfsort-") as place:
            origin.save(Path(place) / "run")
            cut_run(RunFolder.open(Path(place) / "run"), int(self.n_clusters), path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "labels_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.image_shape is not None
        tags.input_tags.three_d_array = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags

    # --- inside ----------------------------------------------------------------------------------------

    def _number(self) -> Clusters:
        if isinstance(self.n_clusters, str):
            return read_clusters(self.n_clusters, "n_clusters")
        return _whole_number("n_clusters", self.n_clusters, at_least=2)

    def _read(self, X: Any, spec: ImageSpec | None = None, side: int | None = None, fit: Fit = "crop") -> Dataset:
        """Turn anything `fit` and `predict` accept into a dataset; with a spec, into one of that form.

        Without one, pictures of different or large sizes are brought to a side, other aspect ratios as `fit` says.
        """
        if isinstance(X, Dataset):
            return X
        if isinstance(X, Images):
            return as_dataset(X)
        if _is_source(X):
            return read_source(X, side=side, fit=fit, spec=spec, min_images=2 if spec is None else 1)
        # New pictures may be a little brighter than any seen in `fit` when the range was taken from there.
        clip = spec is not None and self.value_range == "auto"
        return as_dataset(from_array(X, image_shape=self.image_shape, value_range=self.value_range_, clip=clip))

    def _show(self, result: Clustering, spec: ImageSpec, warnings: tuple[str, ...]) -> None:
        self._fitted, self._folder, self._origin, self._tree = None, None, None, None
        self.labels_, self.soft_, self.features_ = result.labels, result.soft, result.features
        self.warnings_ = warnings
        self.n_features_in_ = spec.height * spec.width * spec.channels
        self._spec = spec

    def _apply(self, X: ImagesLike) -> Assignment:
        self._check_fitted()
        with speaking_python():
            return self._applied(X)

    def _applied(self, X: ImagesLike) -> Assignment:
        _refuse_sparse(X)
        X = as_array(X)
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"X has {X.shape[1]} features, but ImageClusterer is expecting {self.n_features_in_} features as "
                "input. Give rows of the same length as in fit."
            )
        given = self._read(X, self._spec)
        # Of images that have to be brought to another form, the fingerprint is that of the form they had.
        kept = given.fingerprint if given.images.shape == self._spec.shape else None
        return apply_in_chunks(self._model, conform(given.images, self._spec), names=given.names, fingerprint=kept)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This ImageClusterer instance is not fitted yet. Call fit with images first.")


@dataclass(frozen=True)
class Shown:
    """A page inside a notebook."""

    page: str
    height: int = 700

    def _repr_html_(self) -> str:
        # In a frame of its own: neither can its style reach the notebook, nor its script anything else.
        inside = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{inside}" sandbox="allow-scripts" width="100%" height="{self.height}"></iframe>'


@contextmanager
def _telling(is_verbose: bool) -> Iterator[None]:
    """Say how far a block is, in lines on standard error, if that is wanted."""
    if not is_verbose:
        yield
        return
    overall = Overall()
    lines = PlainLines(overall, on_stage=True)
    with Ticker(lines.tick, every=0.5), listening(overall):
        yield
    lines.tick()


class _Kept:
    """A folder of its own that lasts as long as anything that holds this."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="selfsort-"))
        weakref.finalize(self, shutil.rmtree, str(self.path), ignore_errors=True)

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What `save` needs beyond the public attributes."""

    dataset: Dataset
    outcome: Outcome
    described: Json
    embedded: Mapping[str, RunFolder]
    encoder: FittedEncoder | None


def load(path: str | Path, device: str = "auto", encoder: str | None = None) -> ImageClusterer:
    """Open a finished run folder as a fitted estimator.

    `encoder` says where the run's encoder is now, or which table has the features of the images to predict.
    """
    with speaking_python():
        return _loaded(RunFolder.open(path), device, encoder)


def _loaded(folder: RunFolder, device: str, encoder: str | None) -> ImageClusterer:
    result = folder.result()
    config = folder.config
    settings = {name: value for name, value in all_settings(config).items() if name != "n_clusters"}
    model = ImageClusterer(
        config["method"],
        int(config["settings"]["n_clusters"]),
        seed=config["seed"],
        settings=settings,
        recipe="default",
        encoder=given_encoder(folder),
        outliers=folder.has_outliers,
        train_on=folder.train_on,
        device=device,
    )
    ends = [event for event in folder.events() if event.get("kind") == "end"]
    end = ends[-1] if ends else {}
    model._show(result, ImageSpec.from_json(config["image"]), tuple(end.get("warnings", ())))
    verdict = end.get("verdict")
    model.verdict_ = str(verdict.get("sentence", "")) if isinstance(verdict, dict) else ""
    model.value_range_ = _fixed_range(config.get("value_range", (0.0, 1.0)))
    model.value_range = model.value_range_
    model._folder = folder
    model._encoder_at = encoder
    model._model = load_model(folder, choose_device(device), encoder)
    return model


def _refuse_sparse(X: object) -> None:
    if issparse(X):
        raise InvalidInput("sparse input is not supported. Expected a dense array of images. Call X.toarray().")


def _is_source(X: Any) -> bool:
    """A path, or a list of paths."""
    return isinstance(X, str | Path) or (isinstance(X, list | tuple) and bool(X) and isinstance(X[0], str | Path))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str | Path):
        raise invalid(name, "be a text or a path", repr(value)[:80], "Give one.")
    return str(value)


def _whole_number(name: str, value: Any, at_least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
        raise invalid(name, f"be a whole number of at least {at_least}", repr(value), f"Give for example {name}=10.")
    return int(value)


def _list_of(words: str | Path | Sequence[str]) -> tuple[str, ...]:
    return read_list(expanded(words)) if isinstance(words, str | Path) else checked_words(words)


def _yes_or_no(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise invalid(name, "be True or False", repr(value), f"Give for example {name}=True.")
    return bool(value)


def _fixed_range(limits: Any) -> tuple[float, float]:
    try:
        low, high = limits
        return float(low), float(high)
    except (TypeError, ValueError) as error:
        raise invalid("value_range", "be two numbers or 'auto'", repr(limits), "Give for example (0, 255).") from error
