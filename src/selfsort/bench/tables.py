"""The tables: which methods, with which settings, on which data sets."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from selfsort.bench.cells import NO_ENCODER, Cell, label
from selfsort.bench.scripts import SCRIPTS
from selfsort.errors import invalid
from selfsort.metrics.published import NMIVariant

LEARNERS = ("jule", "dbc", "dec", "fcae-kmeans", "dac", "gatcluster", "secu")


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_random: bool = False
    is_published: bool = False
    """True if these settings are meant to be those behind the published row."""
    encoder: str = NO_ENCODER
    """METHOD@self: what that method learns from the same data set."""
    recipe: str = "auto"
    printed_as: str | None = None
    """The name of the printed row, if it is not that of the method."""
    printed_on: str | None = None
    """The data set of the printed row, if it is more than the one that is here."""
    needs_accelerator: bool = False
    recipe_for_faces: str | None = None
    """The recipe on the data sets of faces, if it is another one there."""
    is_straight: bool = False
    """Whether JULE's straight-forward labels (SF) are shown, in place of those of its final features (RC)."""

    @property
    def name(self) -> str:
        """How the row is called."""
        named = label(self.method, self.settings, self.encoder, self.recipe)
        return f"{named}, SF" if self.is_straight else named

    @property
    def seen(self) -> str:
        """How its images are seen: an encoder has learned from other images, most often with their labels."""
        return "from scratch" if self.encoder == NO_ENCODER else f"with {self.encoder}"

    @property
    def features(self) -> str | None:
        """On what the printed numbers are: own features, those of a named encoder; None: as the table says."""
        if self.method in LEARNERS:
            return "own"
        if self.encoder == NO_ENCODER or "@self" in self.encoder:
            return None
        return re.sub("/[^@]*@", "@", self.encoder)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A named list of cells."""

    name: str
    title: str
    rows: tuple[Row, ...]
    datasets: tuple[str, ...]
    features: str = "pixels"
    """On what the published numbers are that stand beside."""
    n_seeds: int = 3
    protocol: str = "same-images"
    nmi_variant: NMIVariant = "geometric"
    """The NMI of the paper whose table it is."""
    shows_best: bool = False
    """Whether best, mean and standard deviation are shown, as the paper does."""
    shows_curve: bool = False
    """Whether the states are shown that a fit went through: its last one may not be the end."""

    def cells(self, seeds: Sequence[int] | None = None) -> list[Cell]:
        """List the cells, a first seed of everything before the second of anything."""
        seeds = range(self.n_seeds) if seeds is None else seeds
        return [
            self.cell(row, dataset, seed)
            for turn, seed in enumerate(seeds)
            for dataset in self.datasets
            for row in self.rows
            if (row.is_random or turn == 0) and not row.is_straight  # which a cell of another row has measured
        ]

    def cell(self, row: Row, dataset: str, seed: int) -> Cell:
        """Return one of the cells."""
        # What draws no random numbers is the same for every seed.
        is_face = dataset in _FACES
        on_faces = "-faces@" if is_face else "@"
        return Cell(
            dataset=dataset,
            method=row.method,
            settings=row.settings,
            encoder=row.encoder.replace("/paper@self", f"/paper{on_faces}{dataset}").replace("@self", f"@{dataset}"),
            seed=seed if row.is_random else 0,
            recipe=row.recipe_for_faces if is_face and row.recipe_for_faces else row.recipe,
            protocol=self.protocol,
        )


_LEARNING = ("dac", "gatcluster", "secu", "dbc", "jule", "teach")
_SMALL_DATASETS = ("umist", "usps", "cmu-pie", "coil20", "mnist-test")
_CLASSIC_DATASETS = ("umist", "coil20", "cmu-pie", "usps", "mnist-test", "coil100")

_CLASSIC = (
    Row("kmeans", is_random=True, is_published=True),
    Row("kmeans", {"centre": True}, is_random=True, is_published=True),
    Row("sc-njw", is_random=True, is_published=True),
    Row("sc-njw", {"keep_diagonal": False}, is_random=True),
    Row("sc-st", is_random=True, is_published=True),
    Row("sc-st", {"scale_neighbour": 7}, is_random=True),
    Row("sc-ls", is_random=True, is_published=True),
    Row("ncuts", is_random=True, is_published=True),
    Row("ncuts", {"is_squared": False}, is_random=True),
    Row("ac-link", is_published=True),
    Row("ac-link", {"centre": True}, is_published=True),
    Row("ac-zell", {"absorb": False}, is_published=True),
    Row("ac-zell", {"absorb": False, "centre": True}, is_published=True),
    Row("ac-zell"),
    Row("ac-gdl", {"absorb": False}, is_published=True),
    Row("ac-gdl", {"absorb": False, "centre": True}, is_published=True),
    Row("ac-gdl"),
    Row("ac-gdl", {"graph": "local", "absorb": False}),
    Row("ac-gdl", {"graph": "local"}),
    Row("ac-gdl", {"graph": "local", "centre": False}),
    Row("ac-pic", {"absorb": False}, is_published=True),
    Row("ac-pic", {"absorb": False, "centre": True}, is_published=True),
    Row("ac-pic"),
    Row("nmf-lp", is_random=True, is_published=True),
    Row("nmf-lp", {"alpha": 100.0}, is_random=True),
    Row("nmf-d", is_random=True, is_published=True),
    Row("umap-kmeans", is_random=True),
    Row("leiden", is_random=True),
)

_UPDATES = (
    Row("ac-gdl", {"absorb": False}),
    Row("ac-gdl", {"absorb": False, "update": "approx_size"}),
    *(
        Row("ac-gdl", {"absorb": False, "update": "approx_alpha", "alpha": alpha})
        for alpha in (-0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5)
    ),
)

_NEIGHBOURS = tuple(
    Row("ac-gdl", {**plain, "K_s": k}) for plain in ({}, {"absorb": False}) for k in (5, 10, 15, 20, 30, 50, 80)
)

_ENCODERS = tuple(
    Row(method, encoder=encoder, is_random=is_random)
    for encoder in (NO_ENCODER, "efficientnet-lite0", "efficientnet-lite2")
    for method, is_random in (("kmeans", True), ("ac-gdl", False), ("leiden", True))
)

_TEACH = (
    Row("ac-gdl"),
    Row("leiden", is_random=True),
    Row("leiden", {"neighbours": "augmented"}, is_random=True),
    Row("teach", is_random=True),
    # Each with one part left out, or another in its place.
    Row("teach", {"neighbours": "plain"}, is_random=True),
    Row("teach", {"views": "mild"}, is_random=True),
    Row("teach", {"grouping": "ac-gdl"}, is_random=True),
    Row("teach", {"augment": 0.0}, is_random=True),
    Row("teach", {"own_from": 1.0}, is_random=True),
    Row("teach", {"smoothing": 0.0}, is_random=True),
    Row("teach", {"rounds": 2}, is_random=True),
)

_SEEN_DATASETS = (
    *("photos-mixed", "tinyimagenet-10", "cifar10-test", "coil20", "coil100"),
    *("umist", "cmu-pie", "usps", "mnist-test"),
)

# Some printed rows are found again with the mean image subtracted; what was learned has none.
_PIXEL_ROWS = tuple(row for row in _CLASSIC if row.is_published)
_JULE_SETS = ("coil20", "coil100", "usps", "mnist-test", "mnist", "umist", "frgc", "cmu-pie", "ytf")
_FACES = ("umist", "frgc", "cmu-pie", "ytf")


def _learned(method: str, recipe: str, **more: Any) -> Row:
    return Row(method, is_random=True, is_published=True, recipe=recipe, **more)


_GAT_DOG: dict[str, Any] = {"M": 1500, "gray": False, "map_side": 4}


def _printed_by_gat(recipe: str) -> str:
    """Return the name of the printed row of a recipe for ImageNet-10.

    >>> _printed_by_gat("imagenet10"), _printed_by_gat("imagenet10-128-attention2")
    ('gatcluster', 'gatcluster-128-attention2')
    """
    return recipe.replace("imagenet10", "gatcluster")


_SF_AND_RC: tuple[dict[str, Any], ...] = ({"is_straight": True, "printed_as": "jule-sf"}, {})

_AS_THEY_ARE = {"encoder.mirror": False, "encoder.centre": False}

_LEARNED_ROWS = tuple(
    Row(row.method, row.settings, is_random=True, is_published=True, encoder=encoder)
    for encoder in ("jule/paper@self", "jule@self")
    for row in _PIXEL_ROWS
    if row.method != "nmf-d" and "centre" not in row.settings
)

_GAT_TABLE_3 = (
    _learned("gatcluster", "stl10", needs_accelerator=True),
    _learned("gatcluster", "stl10-colour", printed_as="gatcluster-colour", needs_accelerator=True),
    *(
        Row(
            "gatcluster",
            {weight: 0.0},
            is_random=True,
            is_published=True,
            recipe="stl10",
            printed_as=f"gatcluster-no-{weight[2:]}",
            needs_accelerator=True,
        )
        for weight in ("w_ti", "w_sm", "w_am")
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            name="jule-3",
            title="JULE, Tables 3 and 10: clustering pixels",
            rows=(
                *(
                    _learned("jule", recipe, recipe_for_faces=f"{recipe}-faces", **shown)
                    for recipe in ("paper", "code")
                    for shown in _SF_AND_RC
                ),
                *(Row("jule", is_random=True, is_published=True, **shown) for shown in _SF_AND_RC),
                *_PIXEL_ROWS,
            ),
            datasets=_JULE_SETS,
        ),
        Table(
            name="jule-4",
            title="JULE, Tables 4 and 11: other methods on its features",
            rows=_LEARNED_ROWS,
            datasets=_JULE_SETS,
            features="jule",
        ),
        Table(
            name="jule-12",
            title="JULE, Table 12: hand-crafted features",
            rows=tuple(
                Row(
                    method,
                    {**settings, **_AS_THEY_ARE},
                    is_random=method != "ac-pic",
                    is_published=True,
                    encoder=encoder,
                )
                for encoder in ("spm", "hog", "lbp")
                for method, settings in (("sc-ls", {}), ("ncuts", {}), ("ac-pic", {"absorb": False}))
            ),
            datasets=("coil100", "mnist-test", "umist", "frgc"),
        ),
        Table(
            name="jule-transfer",
            title="JULE, Tables 5 and 6: features learned on another data set",
            rows=tuple(
                Row(
                    "ac-gdl",
                    {"absorb": False},
                    is_random=bool(encoder),
                    is_published=not encoder.endswith("@usps:top-2"),  # which the paper leaves out
                    encoder=encoder or NO_ENCODER,
                    printed_as=None if encoder else "ac-gdl-transfer",
                )
                for encoder in (
                    "",
                    *(
                        f"{learner}@{learned_on}{layer}"
                        for learner in ("jule/paper", "jule")
                        for learned_on in ("coil20", "coil100", "mnist-test", "usps")
                        for layer in ("", ":top-1", ":top-2")
                    ),
                )
            ),
            datasets=("coil20", "coil100", "usps", "mnist-test"),
        ),
        Table(
            name="jule-eta",
            title="JULE, Fig. 7: the unfolding rate",
            rows=tuple(
                Row("jule", {"eta": eta}, is_random=True, recipe="paper") for eta in (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
            ),
            datasets=_JULE_SETS,
        ),
        Table(
            name="jule-ks",
            title="JULE, Fig. 7: the number of neighbours",
            rows=tuple(
                Row("jule", {"K_s": k}, is_random=True, recipe="paper", recipe_for_faces="paper-faces")
                for k in (5, 10, 20, 30, 50, 70, 90)
            ),
            datasets=_JULE_SETS,
        ),
        Table(
            name="dbc",
            title="DBC, Tables 3 to 6",
            rows=(
                _learned("fcae-kmeans", "paper"),
                _learned("dbc", "paper"),
                *(
                    Row(method, is_random=True, is_published=True, recipe=recipe)
                    for recipe in ("restored", "whitened")
                    for method in ("fcae-kmeans", "dbc")
                ),
                Row("dbc", is_random=True, is_published=True, recipe="taught"),
                Row("fcae-kmeans", {"arch": "dense"}, is_random=True, is_published=True, printed_as="dae-kmeans"),
                Row("dec", is_random=True, is_published=True),
                Row("kmeans", is_random=True, is_published=True, printed_as="kmeans-dbc"),
            ),
            datasets=("mnist", "usps", "coil20", "coil100"),
            nmi_variant="max",
        ),
        *(
            Table(
                name=f"dbc-{what}",
                title=f"DBC, Fig. 9: {title}",
                rows=tuple(
                    Row("dbc", {setting: value}, is_random=True, recipe=recipe)
                    for recipe in ("paper", "whitened")
                    for value in values
                ),
                datasets=("mnist", "mnist-test", "usps"),
                nmi_variant="max",
            )
            for what, title, setting, values in (
                ("alpha", "the power of the boosting", "alpha", (1.5, 2.0, 4.0)),
                ("nj", "cluster sizes in the target", "n_j", ("constant", "soft", "boosted")),
                ("init", "how far the auto-encoder was trained", "ae_init", ("random", "half", "full")),
            )
        ),
        *(
            Table(
                name=f"dac-{dataset}",
                title=f"DAC against DAC*: {title}",
                rows=(
                    _learned("dac", "paper", needs_accelerator=True),
                    *(
                        _learned("dac", recipe, printed_as=printed, needs_accelerator=True)
                        for recipe, printed in recipes
                    ),
                ),
                datasets=(dataset,),
                n_seeds=10,
            )
            for dataset, title, recipes in (
                ("mnist", "MNIST", (("mnist", "dac"), ("mnist-star", "dac-star"))),
                ("cifar10", "CIFAR-10", (("cifar10", "dac"), ("cifar10-star", "dac-star"))),
                ("cifar100-20", "CIFAR-100 by superclasses", (("cifar100-20", "dac-star"),)),
                ("stl10", "STL-10", (("stl10", "dac-star"),)),
                ("imagenet10", "ImageNet-10", (("imagenet10", "dac-star"),)),
                ("imagenet-dog", "ImageNet-Dog", (("imagenet-dog", "dac-star"),)),
            )
        ),
        *(
            Table(
                name=f"gatcluster-1-{dataset}",
                title=f"GATCluster, Table 1: {dataset}",
                rows=(
                    _learned("gatcluster", dataset, printed_as=printed, needs_accelerator=True),
                    Row("gatcluster", printed_settings, recipe="paper", is_random=True, needs_accelerator=True),
                ),
                datasets=(dataset,),
                n_seeds=10,
                shows_best=True,
            )
            # What the paper sets for a data set: M in 4.2, colour there and in 4.3, the networks in Table S6.
            for dataset, printed, printed_settings in (
                ("stl10", "gatcluster", {}),
                ("imagenet10", "gatcluster", {}),
                ("imagenet-dog", "gatcluster", {**_GAT_DOG, "arch": "dog-96"}),
                ("imagenet-dog-128", "gatcluster-128", {**_GAT_DOG, "arch": "dog-128"}),
                ("cifar10", "gatcluster", {"M": 4000}),
                ("cifar100-20", "gatcluster", {"M": 6000}),
            )
        ),
        Table(
            name="gatcluster-2",
            title="GATCluster, Table 2: tasks left out, and colour",
            rows=_GAT_TABLE_3,
            datasets=("stl10",),
            n_seeds=10,
            shows_best=True,
        ),
        *(
            Table(
                name=f"gatcluster-3-{side}",
                title=f"GATCluster, Table 3: images of {side} pixels",
                rows=(_learned("gatcluster", recipe, printed_as=_printed_by_gat(recipe), needs_accelerator=True),),
                datasets=(dataset,),
                n_seeds=5,
                shows_best=True,
            )
            for side, dataset, recipe in (
                (96, "imagenet10", "imagenet10"),
                (128, "imagenet10-128", "imagenet10-128"),
                (160, "imagenet10-160", "imagenet10-160"),
                (192, "imagenet10-192", "imagenet10-192"),
            )
        ),
        Table(
            name="gatcluster-4",
            title="GATCluster, Table 4: the resolution of attention",
            rows=tuple(
                _learned("gatcluster", recipe, printed_as=_printed_by_gat(recipe), needs_accelerator=True)
                for recipe in ("imagenet10-128", *(f"imagenet10-128-attention{n}" for n in (2, 4, 8, 10)))
            ),
            datasets=("imagenet10-128",),
            n_seeds=5,
            shows_best=True,
        ),
        *(
            Table(
                name=f"secu-{what}",
                title=f"SeCu, {title}",
                rows=tuple(
                    Row(
                        "secu",
                        {**more, setting: value},
                        is_random=True,
                        is_published=what != "entropy",
                        recipe="cifar10",
                        printed_as="secu" if value == default else f"secu-{what}-{value:g}".replace("size", "gamma"),
                        needs_accelerator=True,
                    )
                    for value in values
                ),
                datasets=("cifar10-train",),
                n_seeds=1,
                protocol="held-out",
                nmi_variant="arithmetic",
            )
            for what, title, setting, default, values, more in (
                ("size", "supplement, Table 2: the lower bound on sizes", "gamma", 0.9, (1.0, 0.9, 0.8, 0.7), {}),
                (
                    "entropy",
                    "the price of low entropy",
                    "alpha",
                    6000.0,
                    (3000.0, 6000.0, 9000.0, 12_000.0),
                    {"constraint": "entropy"},
                ),
                ("dim", "supplement, Table 1: length of the features", "dim", 128, (64, 128, 256, 512), {}),
                ("batch", "supplement, Table 3: batch size", "batch_size", 128, (32, 64, 128, 256), {}),
            )
        ),
        Table(
            name="recipes",
            title="Our recipes of the methods that learn, for a CPU",
            rows=tuple(Row(method, is_random=True) for method in _LEARNING),
            datasets=_SMALL_DATASETS,
            n_seeds=5,
        ),
        Table(
            name="larger",
            title="Our recipes on MNIST-full and on small colour pictures, from scratch and with an encoder",
            rows=tuple(
                Row(method, is_random=True, encoder=encoder)
                for encoder in (NO_ENCODER, "efficientnet-lite0")
                for method in _LEARNING
            ),
            datasets=("mnist", "cifar10-test", "tinyimagenet-10"),
            n_seeds=1,
        ),
        Table(
            name="faithful",
            title="Recipes of the papers and of their released code, as far as 15 minutes go",
            rows=tuple(
                Row(
                    method,
                    is_random=True,
                    recipe=recipe,
                    recipe_for_faces=f"{recipe}-faces" if method == "jule" else None,
                )
                for method, recipe in (
                    *(("jule", "paper"), ("jule", "code"), ("dbc", "paper"), ("dac", "paper"), ("dac", "code")),
                    *(("gatcluster", "paper"), ("gatcluster", "code"), ("secu", "paper")),
                )
            ),
            datasets=_SMALL_DATASETS,
            n_seeds=1,
            shows_curve=True,
        ),
        Table(
            name="faithful-pictures",
            title="GATCluster and DAC* on the test images of CIFAR-10, beside the published end on all of CIFAR-10",
            rows=(
                _learned("gatcluster", "cifar10", printed_on="cifar10"),
                _learned("dac", "cifar10-star", printed_on="cifar10"),
            ),
            datasets=("cifar10-test",),
            n_seeds=1,
            shows_curve=True,
        ),
        Table(
            name="secu-pictures",
            title="SeCu on the test images of CIFAR-10, beside the published end on all of CIFAR-10",
            rows=(_learned("secu", "cifar10", printed_on="cifar10"),),
            datasets=("cifar10-test",),
            n_seeds=1,
            nmi_variant="arithmetic",
            shows_curve=True,
        ),
        Table(
            name="classic",
            title="The classical methods on pixels",
            rows=_CLASSIC,
            datasets=(*_CLASSIC_DATASETS, "mnist"),
        ),
        Table(
            name="gdl-updates",
            title="Approximate updates of ac-gdl",
            rows=_UPDATES,
            datasets=_CLASSIC_DATASETS,
        ),
        Table(
            name="gdl-neighbours",
            title="The number of neighbours of ac-gdl",
            rows=_NEIGHBOURS,
            datasets=_CLASSIC_DATASETS,
        ),
        Table(
            name="encoders",
            title="Encoders before classical methods",
            rows=_ENCODERS,
            datasets=_SEEN_DATASETS,
        ),
        Table(
            name="teach",
            title="The parts of teach, from pixels",
            rows=_TEACH,
            datasets=("umist", "usps", "mnist-test"),
        ),
    )
}


ALIASES = {
    "jule-10": "jule-3",
    "jule-3-faces": "jule-3",
    "jule-11": "jule-4",
    "jule-5": "jule-transfer",
    "jule-6": "jule-transfer",
    "jule-8": "jule-codebook",
    "jule-14": "jule-13",
    "jule-alpha": "gdl-updates",
}
"""Tables of a paper that are parts of others, or show other columns of the same cells."""


def find_table(name: str) -> Table:
    """Look a table up by name; a near miss is named."""
    name = ALIASES.get(name, name)
    if name in TABLES:
        return TABLES[name]
    known = [*TABLES, *ALIASES, *SCRIPTS]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else "`selfsort bench` lists them."
    raise invalid("NAME", f"be one of {', '.join(TABLES)}", repr(name), hint)
