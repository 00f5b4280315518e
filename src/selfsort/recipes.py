"""Published settings, and CPU-sized ones, by name. A recipe only says where it departs from the config's defaults.

Where a paper is silent the source says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from selfsort.errors import invalid


@dataclass(frozen=True)
class Recipe:
    """Named settings of one method."""

    name: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    source: str = "the method's defaults"
    image_shape: tuple[int, int, int] | None = None
    """Height, width, channels it was published for; None if it fits any."""
    is_cpu_sized: bool = False


@dataclass(frozen=True)
class Choice:
    """The recipe taken and the reason, for the run folder and the screen."""

    recipe: Recipe
    reason: str


_DBC_SOURCE = "Li, Qiao, Zhang, Xi 2018: the network; the training settings are not stated, ours are the defaults"

_DBC: tuple[Recipe, ...] = tuple(
    Recipe(name, method, {"arch": arch}, _DBC_SOURCE, shape)
    for method in ("dbc", "fcae-kmeans")
    for name, arch, shape in (
        ("mnist", "mnist", (28, 28, 1)),
        ("usps", "usps", (16, 16, 1)),
        ("coil20", "coil", (128, 128, 1)),
        ("coil100", "coil", (128, 128, 3)),
    )
)

_JULE_SOURCE = "Yang, Parikh, Batra 2016: the network and eta; gamma, margin and input are ours"

_JULE: tuple[Recipe, ...] = (
    *(
        Recipe(name, "jule", {"arch": arch, "eta": eta}, _JULE_SOURCE, shape)
        for name, arch, eta, shape in (
            ("usps", "usps", 0.9, (16, 16, 1)),
            ("mnist", "mnist", 0.9, (28, 28, 1)),
            ("coil20", "coil", 0.9, (128, 128, 1)),
            ("coil100", "coil", 0.9, (128, 128, 3)),
            ("umist", "umist", 0.2, (112, 92, 1)),
            ("ytf", "faces", 0.2, (55, 55, 3)),
            # Images of these sizes are rarely faces, and eta 0.2 trains ten times as long: only when asked for.
            ("cmu-pie", "faces", 0.2, None),
            ("frgc", "faces", 0.2, None),
        )
    ),
    Recipe("faces", "jule", {"eta": 0.2}, "Yang, Parikh, Batra 2016: eta for the face sets"),
    Recipe("embedding", "jule", {"embedding_dim": 2, "eta": 0.2}, "Yang, Parikh, Batra 2016: 2-D embedding of MNIST"),
)

RECIPES: tuple[Recipe, ...] = (*_DBC, *_JULE)


def recipes_of(method: str) -> list[Recipe]:
    """List a method's recipes."""
    return [recipe for recipe in RECIPES if recipe.method == method]


def choose_recipe(method: str, name: str, shape: tuple[int, int, int], has_accelerator: bool) -> Choice:
    """Find the recipe asked for; `auto` decides by image size and hardware."""
    known = recipes_of(method)
    if name not in ("auto", "default"):
        for recipe in known:
            if recipe.name == name:
                return Choice(recipe, "asked for")
        names = ", ".join(["auto", "default", *(recipe.name for recipe in known)])
        raise invalid("--recipe", f"be one that {method} has ({names})", repr(name), "Choose one of those.")
    default = Recipe("default", method)
    if name == "default":
        return Choice(default, "asked for")
    if has_accelerator:
        for recipe in known:
            if recipe.image_shape == shape and not recipe.is_cpu_sized:
                return Choice(recipe, f"chosen: published for {shape[0]}x{shape[1]}x{shape[2]} images")
    else:
        for recipe in known:
            if recipe.is_cpu_sized and recipe.image_shape in (None, shape):
                return Choice(recipe, "chosen: sized for a CPU, no accelerator was found")
    return Choice(default, "chosen: no recipe is closer to these images")
