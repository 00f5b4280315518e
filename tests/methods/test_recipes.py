from __future__ import annotations

import pytest

from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput
from selfsort.improve.around import ImproveConfig, check_improvable
from selfsort.methods import recipes
from selfsort.methods.recipes import RECIPES, Recipe, choose_recipe, recipes_of
from selfsort.runs.model import find_kind
from selfsort.runs.renamed import split

PUBLISHED = Recipe("mnist", "toy", {"epochs": 9}, "Table 1", image_shape=(28, 28, 1))
SMALL = Recipe("cpu", "toy", {"epochs": 2}, "ours", is_cpu_sized=True)
OTHER = Recipe("mnist", "other", {"epochs": 1}, "Table 2", image_shape=(28, 28, 1))


@pytest.fixture(autouse=True)
def _three_recipes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "shipped" not in request.node.name:
        monkeypatch.setattr(recipes, "RECIPES", (PUBLISHED, SMALL, OTHER))


@pytest.mark.parametrize(
    ("name", "shape", "has_accelerator", "expected", "reason"),
    [
        ("auto", (28, 28, 1), True, PUBLISHED, "chosen: published for 28x28x1 images"),
        ("auto", (28, 28, 1), False, SMALL, "chosen: sized for a CPU"),
        ("auto", (96, 96, 3), False, SMALL, "chosen: sized for a CPU"),
        ("auto", (96, 96, 3), True, None, "chosen: no recipe is closer"),
        ("default", (28, 28, 1), True, None, "asked for"),
        ("mnist", (96, 96, 3), False, PUBLISHED, "asked for"),
    ],
)
def test_which_recipe_is_taken_and_why(
    name: str, shape: tuple[int, int, int], has_accelerator: bool, expected: Recipe | None, reason: str
) -> None:
    choice = choose_recipe("toy", name, shape, has_accelerator)
    assert choice.recipe == (expected or Recipe("default", "toy"))
    assert choice.reason.startswith(reason)


@pytest.mark.parametrize(("channels", "expected"), [(3, "cpu-photos"), (1, "cpu")])
def test_colour_may_have_a_recipe_of_its_own(monkeypatch: pytest.MonkeyPatch, channels: int, expected: str) -> None:
    photos = Recipe("cpu-photos", "toy", {"epochs": 3}, "ours", is_cpu_sized=True, channels=3)
    monkeypatch.setattr(recipes, "RECIPES", (photos, SMALL))
    assert choose_recipe("toy", "auto", (32, 32, channels), False).recipe.name == expected


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidInput, match=r"--recipe must be one that toy has \(auto, default, mnist, cpu\); got 'cifar'. Choose"
    ):
        choose_recipe("toy", "cifar", (28, 28, 1), has_accelerator=False)
    assert recipes_of("nobody") == []


def test_shipped_recipes_make_valid_settings_and_name_their_source() -> None:
    for recipe in RECIPES:
        own, around, before = split(recipe.settings)
        kind = find_kind(recipe.method)
        kind.config.from_json({"n_clusters": 10, **own})
        EncodeConfig.from_json(before)
        assert not before or recipe.is_for_features
        check_improvable(kind, ImproveConfig.from_json(around))
        assert recipe.source != Recipe("x", "y").source
        assert recipe.name not in ("auto", "default")
    for method in ("jule", "dbc", "dac", "gatcluster", "secu", "self-label"):
        assert any(recipe.name == "paper" for recipe in recipes_of(method)), method
    names = [(recipe.method, recipe.name) for recipe in RECIPES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "jule",
            {
                "gamma": 2.0,
                "K_c": 5,
                "negatives": "nearest",
                "restart_lr": True,
                "order": "merge-first",
                "absorb": False,
                "standardise": False,
                "augment": 0.0,
                "neighbours": "plain",
            },
        ),
        ("gatcluster", {"kmeans_on": "l", "modules": "paper", "repeats": 1, "a0": 0.05, "m2": 32, "min_share": 0.0}),
        ("dac", {"arch": "paper", "batch_size": 32, "lr": 0.001, "aux_weight": 0.0, "entropy_weight": 0.0}),
        ("dbc", {"stop": 0.0, "rec_weight": 0.0, "alpha": 2.0, "restore": False}),
        ("secu", {"arch": "resnet18", "tau": 0.2, "centred": False, "gamma": 0.9}),
        ("self-label", {"threshold": 0.9, "sharpen": False, "min_agreement": 0.0, "cutout_fill": "mean", "cutout": 16}),
    ],
)
def test_shipped_recipe_paper_is_the_printed_text(method: str, expected: dict[str, object]) -> None:
    choice = choose_recipe(method, "paper", (32, 32, 3), has_accelerator=False)
    own, around, _ = split(choice.recipe.settings)
    assert not around
    found = find_kind(method).config.from_json({"n_clusters": 10, **own})
    assert {name: getattr(found, name) for name in expected} == expected


def test_shipped_recipe_whitened_is_ours_and_only_taken_when_asked_for() -> None:
    reading = {"before_relu": True, "whiten": True, "n_restarts": 20}
    boosting = {
        **{"freeze_bn": False, "decay": "constant", "lr": 1e-3, "batch_size": 128, "alpha": 2.0},
        **{"epochs": 40, "target_steps": 140},
    }
    for method, expected in (("fcae-kmeans", reading), ("dbc", reading | boosting)):
        recipe = choose_recipe(method, "whitened", (28, 28, 1), has_accelerator=False).recipe
        found = find_kind(method).config.from_json({"n_clusters": 10, **recipe.settings})
        assert {name: getattr(found, name) for name in expected} == expected
        assert recipe.source.startswith("ours")
        for name in ("auto", "default", "paper"):
            other = choose_recipe(method, name, (28, 28, 1), has_accelerator=False).recipe.settings
            assert not other.keys() & {"before_relu", "whiten", "decay", "target_steps"}


def test_shipped_recipes_of_papers_are_only_taken_when_asked_for() -> None:
    for method in ("jule", "dbc", "dac", "gatcluster", "secu"):
        for has_accelerator in (False, True):
            taken = choose_recipe(method, "auto", (28, 28, 1), has_accelerator).recipe.name
            assert taken not in ("paper", "code")
