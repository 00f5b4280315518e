from __future__ import annotations

import pytest

from selfsort.encoders.options import EncodeConfig
from selfsort.errors import InvalidInput
from selfsort.improve.around import ImproveConfig
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
        ImproveConfig.from_json(around)
        EncodeConfig.from_json(before)
        assert not before or recipe.is_for_features
        assert not around or getattr(kind, "improvable", None) is not None
        assert recipe.source != Recipe("x", "y").source
        assert recipe.name not in ("auto", "default")
    names = [(recipe.method, recipe.name) for recipe in RECIPES]
    assert len(names) == len(set(names))
