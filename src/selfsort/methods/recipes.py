"""Published settings, and CPU-sized ones, by name. A recipe only says where it departs from the config's defaults.

Where a paper is silent the source says so. Settings of `improve/`, which are no paper's, begin with `improve.`; a
recipe for a stage names the stage as its method.
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
    channels: int | None = None
    """Of the images it is meant for; None if that does not matter."""
    is_for_features: bool = False
    """Whether it is meant for the features of an encoder."""


@dataclass(frozen=True)
class Choice:
    """The recipe taken and the reason, for the run folder and the screen."""

    recipe: Recipe
    reason: str


PAPER, CODE = "paper", "code"
"""Recipes that hold the printed text, or the released code where it differs; what both leave open is said."""


def _averaged_down(name: str, method: str, channels: int | None = None) -> Recipe:
    return Recipe(
        name,
        method,
        {"improve.shrink": True},
        "ours: the defaults, on images that are averaged down if they are large, for a CPU",
        is_cpu_sized=True,
        channels=channels,
    )


_DBC_SOURCE = "Li, Qiao, Zhang, Xi 2018: the network; the training settings are not stated, ours are the defaults"

_DBC_MOVED: dict[str, Any] = {"rotate": 10.0, "translate": 0.1}
_DBC_RESTORED: dict[str, Any] = _DBC_MOVED | {"zoom": 0.1, "restore": True}

_DBC_READ: dict[str, Any] = {"before_relu": True, "whiten": True, "n_restarts": 20}
_DBC_WHITENED: dict[str, Any] = _DBC_READ | {
    "alpha": 2.0,
    "batch_size": 128,
    "decay": "constant",
    "epochs": 40,
    "freeze_bn": False,
    "lr": 1e-3,
    "stop": 0.0,
    "target_steps": 140,  # a whole pass over up to 17,920 images
}

_DBC: tuple[Recipe, ...] = (
    Recipe(
        PAPER,
        "dbc",
        {"stop": 0.0},
        "Li, Qiao, Zhang, Xi 2018: the algorithm, until no label changes; optimiser, rates, batches and epochs are not "
        "stated, ours are the defaults",
    ),
    Recipe(
        PAPER, "fcae-kmeans", {}, "Li, Qiao, Zhang, Xi 2018: stage I, then k-means; how it is trained is not stated"
    ),
    *(
        Recipe(name, method, {"arch": arch}, _DBC_SOURCE, shape)
        for method in ("dbc", "fcae-kmeans")
        for name, arch, shape in (
            ("mnist", "mnist", (28, 28, 1)),
            ("usps", "usps", (16, 16, 1)),
            ("coil20", "coil", (128, 128, 1)),
            ("coil100", "coil", (128, 128, 3)),
        )
    ),
    *(
        Recipe(
            "moved",
            method,
            settings,
            "not in the paper: images rotated and translated a little, after Guo et al. 2018 (DEC-DA)",
        )
        for method, settings in (("dbc", _DBC_MOVED | {"rec_weight": 0.005}), ("fcae-kmeans", _DBC_MOVED))
    ),
    *(
        Recipe(
            "restored",
            method,
            settings,
            "ours: the auto-encoder rebuilds images as they were before they were rotated, translated and stretched",
        )
        for method, settings in (
            ("dbc", _DBC_RESTORED | {"alpha": 4.0, "still_share": 0.1}),
            ("fcae-kmeans", _DBC_RESTORED),
        )
    ),
    Recipe(
        "taught",
        "dbc",
        # Boosted targets make clusters equal in size, the longer the more: few, at rates that fall to zero, and of
        # images as they are, whose scores are sharper. What is taught needs little of stage I: on USPS ten epochs end
        # where 82 do.
        _DBC_RESTORED
        | {"ae_steps": 300, "taught": "auto", "epochs": 10, "alpha": 4.0, "still_share": 1.0, "improve.shrink": True},
        "ours: as restored, and stage II first learns the communities of the images' neighbours in several views",
        is_cpu_sized=True,
        channels=1,
    ),
    _averaged_down("cpu-photos", "dbc", channels=3),
    *(
        Recipe(
            "whitened",
            method,
            settings,
            "ours: features are read before the ReLU and PCA-whitened once; batch normalisation goes on in stage II",
        )
        for method, settings in (("dbc", _DBC_WHITENED), ("fcae-kmeans", _DBC_READ))
    ),
)

_JULE_SOURCE = "Yang, Parikh, Batra 2016: the network and eta; gamma is the code's, margin and input are ours"

# A margin is "added" in A.3, its size is the code's; so is the size of the batches.
_JULE_PAPER: dict[str, Any] = {
    "gamma": 2.0,
    "margin": 0.2,
    "negatives": "nearest",
    "restart_lr": True,
    "order": "merge-first",
    "absorb": False,
    "standardise": False,
}
_JULE_CODE: dict[str, Any] = {"gamma": 1.0, "margin": 0.2, "absorb": False, "standardise": False}

_JULE: tuple[Recipe, ...] = (
    *(
        Recipe(name, "jule", settings | {"eta": eta}, f"Yang, Parikh, Batra 2016: {source}")
        for name, eta, settings, source in (
            (
                PAPER,
                0.9,
                _JULE_PAPER,
                "the printed text (Sec. 3.5, 3.6, Table 2, A.3); distances in the loss, margin, batch and first "
                "weights are the code's",
            ),
            ("paper-faces", 0.2, _JULE_PAPER, "the printed text, with eta as for the face sets"),
            (
                CODE,
                0.9,
                _JULE_CODE,
                "the Torch code, but for its neighbour search and SF features, which are faults, and with the local "
                "structure below 100 clusters too",
            ),
            (
                "code-faces",
                0.2,
                _JULE_CODE,
                "as `code`, with eta as for the face sets; without the padding of UMist, which recipe `umist` has",
            ),
        )
    ),
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
    _averaged_down("cpu", "jule"),
    Recipe("faces", "jule", {"eta": 0.2}, "Yang, Parikh, Batra 2016: eta for the face sets"),
    Recipe("views", "jule", {"K_s": 5}, "ours: few neighbours, for things seen from all sides, which form rings"),
    Recipe(
        "augmented",
        "jule",
        {"neighbours": "augmented", "augment": 1.0},
        "ours: first neighbours in several views, and augmented images in the triplets",
    ),
    Recipe(
        "embedding",
        "jule",
        {"embedding_dim": 2, "eta": 0.2},
        "Yang, Parikh, Batra 2016: length and eta of the 2-D embedding; the rest is ours",
    ),
)

_TEACH: tuple[Recipe, ...] = (
    _averaged_down("cpu", "teach", channels=1),
    Recipe(
        "mild",
        "teach",
        {"views": "mild", "augment": 0.5},
        "ours: 11 views in the graph and half the augmentation, where strong ones turn one class into another",
    ),
)

_GAT_SOURCE = "Niu, Zhang, Wang, Liang 2020: {}"

# The released configurations of STL-10 and ImageNet-10 differ in these.
_IMAGENET_10: dict[str, Any] = {
    "arch": "stl",
    "map_side": 6,
    "attention_conv": False,
    "label_relu": True,
    "mean": (0.449,),
    "std": (0.226,),
    "scale": (0.7, 1.3),
}
_DOG: dict[str, Any] = _IMAGENET_10 | {
    "map_side": 4,
    "M": 1500,
    "gray": False,
    "mean": (0.485, 0.456, 0.406),
    "std": (0.229, 0.224, 0.225),
}
_STL: dict[str, Any] = {"arch": "stl", "map_side": 6}
_CIFAR: dict[str, Any] = {"arch": "cifar", "map_side": 5}
_COLOUR: dict[str, Any] = {"gray": False, "mean": (0.447, 0.440, 0.407), "std": (1.0, 1.0, 1.0)}

_GAT_CPU: dict[str, Any] = {
    "width": 0.25,
    "repeats": 2,
    "n_restarts": 5,
    "w_ea": 1.0,
    "bn_targets": "batch",
    "bn_eval": "refreshed",
    "rotate": 20.0,
    "translate": 0.15,
    "scale": (0.7, 1.3),
    "shear": 20.0,
    "augment_once": False,
}

# Length, number of restarts and augmentation are not printed: those of the released code.
_GAT_PAPER: dict[str, Any] = {"modules": "paper", "kmeans_on": "l", "repeats": 1, "a0": 0.05, "min_share": 0.0}
_GAT_CODE: dict[str, Any] = {"tied": True, "flip": 0.5}

_GAT: tuple[Recipe, ...] = (
    Recipe(
        PAPER,
        "gatcluster",
        _GAT_PAPER | {"flip": 0.5},
        _GAT_SOURCE.format(
            "the printed text (Alg. 1, Eq. 4 to 12, Tables S6 to S8), with M and gray images as for STL-10 and "
            "ImageNet-10; length and augmentation, which it leaves open, are the code's"
        ),
    ),
    Recipe(CODE, "gatcluster", _GAT_CODE, _GAT_SOURCE.format("the released code for STL-10, its tied parameters too")),
    *(
        Recipe(name, "gatcluster", settings, _GAT_SOURCE.format(source), (side, side, 3))
        for name, side, settings, source in (
            ("stl10", 96, _STL, "network and settings"),
            ("stl10-colour", 96, _STL | _COLOUR, "colour in place of gray"),
            ("imagenet10", 96, _IMAGENET_10, "network and settings"),
            ("imagenet10-128", 128, _IMAGENET_10, "network and settings"),
            ("imagenet10-160", 160, _IMAGENET_10, "settings; the network is not printed, the size of its map is"),
            ("imagenet10-192", 192, _IMAGENET_10, "settings; the network is not printed, the size of its map is"),
            ("imagenet-dog", 96, _DOG | {"arch": "dog-96"}, "network, M and colour; the rest as for ImageNet-10"),
            ("imagenet-dog-128", 128, _DOG | {"arch": "dog-128"}, "network, M and colour; the rest as for ImageNet-10"),
            ("cifar10", 32, _CIFAR | {"M": 4000}, "network and M; the rest as for STL-10"),
            ("cifar100-20", 32, _CIFAR | {"M": 6000}, "network and M; the rest as for STL-10"),
            *(
                (f"imagenet10-128-attention{n}", 128, _IMAGENET_10 | {"map_side": n}, "resolution of attention")
                for n in (2, 4, 8, 10)
            ),
        )
    ),
    Recipe(
        "cpu-photos",
        "gatcluster",
        {
            **_GAT_CPU,
            "m2": 32,
            "lr": 0.001,
            "iterations": 75,
            "eval_every": 15,
            "kmeans_on": "features",
            "w_sm": 5.0,
            "standardise": True,
        },
        "ours: a quarter of the channels, short, k-means on features that count more, standardised, stronger views",
        is_cpu_sized=True,
        channels=3,
    ),
    Recipe(
        "cpu",
        "gatcluster",
        {
            **_GAT_CPU,
            "m2": 128,
            "lr": 0.002,
            "iterations": 50,
            "eval_every": 25,
            "improve.shrink": True,
            "improve.warm_start": True,
            "improve.regroup_every": 25,
        },
        "ours: a quarter of the channels, short, a warm start, regrouped, less EA, stronger views",
        is_cpu_sized=True,
    ),
)

_SECU_SOURCE = "Qian 2023, released code and supplement"
_SECU_STL: dict[str, Any] = {"arch": "resnet18-stl", "centre_lr": 0.8, "crop_min": 0.2, "lam_w": 1.0}
_SECU_IMAGENET: dict[str, Any] = {
    "arch": "resnet50",
    "with_predictor": True,
    "epochs": 1000,
    "batch_size": 1024,
    "optimizer": "lars",
    "lr": 1.6,
    "centre_lr": 4.2,
    "weight_decay": 1e-6,
    "crop_min": 0.08,
    "gamma": 0.4,
    "eta_rho": 20.0,
    "alpha": 90_000.0,
}
# One rule for all data sets, found on small digits with their labels in view.
_SECU_CPU: dict[str, Any] = {
    "improve.shrink": True,
    "arch": "small",
    "width": 16,
    "centred": True,
    "n_heads": 5,
    "epochs": 30,
    "warmup": 3,
    "lr": 0.05,
    "lam_x": 0.2,
    "lam_w": 0.2,
    "crop_min": 0.6,
    "jitter": 0.5,
    "blur": 0.0,
    "solarise": 0.0,
    "rotate": 10.0,
}

_SECU: tuple[Recipe, ...] = (
    Recipe(PAPER, "secu", {"arch": "resnet18", "flip": True}, f"{_SECU_SOURCE}: as for CIFAR-10, images of any size"),
    Recipe("cifar10", "secu", {"arch": "resnet18"}, _SECU_SOURCE, (32, 32, 3)),
    Recipe("cifar100-20", "secu", {"arch": "resnet18", "epochs": 800, "centre_lr": 0.8, "crop_min": 0.2}, _SECU_SOURCE),
    Recipe("cifar100", "secu", {"arch": "resnet18", "epochs": 800, "centre_lr": 0.01, "crop_min": 0.2}, _SECU_SOURCE),
    Recipe("stl10", "secu", {**_SECU_STL, "epochs": 800, "alpha": 26_460.0}, f"{_SECU_SOURCE}: stage 1", (96, 96, 3)),
    Recipe(
        "stl10-stage2",
        "secu",
        {**_SECU_STL, "epochs": 100, "lr": 0.002, "n_heads": 1, "alpha": 600.0},
        f"{_SECU_SOURCE}: stage 2, from the network of stage 1",
    ),
    Recipe("imagenet", "secu", _SECU_IMAGENET, _SECU_SOURCE, (224, 224, 3)),
    Recipe(
        "imagenet-entropy",
        "secu",
        {**_SECU_IMAGENET, "constraint": "entropy", "alpha": 100_000.0, "centre_schedule": "rising"},
        "Qian 2023, released code: the entropy constraint, under which the rate of the centres rises",
    ),
    Recipe(
        "cpu-photos",
        "secu",
        _SECU_CPU,
        "ours: a small network and short training, for a CPU",
        is_cpu_sized=True,
        channels=3,
    ),
    Recipe(
        "cpu",
        "secu",
        _SECU_CPU | {"epochs": 8, "warmup": 2, "lr": 0.01, "gamma": 0.7, "improve.warm_start": True},
        "ours: a small network, a warm start and a short training at a low rate, smaller clusters allowed",
        is_cpu_sized=True,
    ),
)

_SELF_LABEL_PAPER: dict[str, Any] = {
    "min_agreement": 0.0,
    "sharpen": False,
    "refresh_bn": False,
    "cutout_fill": "mean",
    "flip": True,
}

_SELF_LABEL: tuple[Recipe, ...] = (
    *(
        Recipe(
            name,
            "self-label",
            _SELF_LABEL_PAPER | settings,
            f"Qian 2023, supplement 3.1, and SCAN's strong views: {source}; the rate is not stated",
        )
        for name, settings, source in (
            (PAPER, {}, "as for CIFAR"),
            ("paper-stl10", {"cutout": 32}, "as for STL-10"),
            ("paper-imagenet", {"cutout": 75, "epochs": 11}, "as for ImageNet"),
        )
    ),
    Recipe(
        "scan",
        "self-label",
        _SELF_LABEL_PAPER
        | {
            "epochs": 200,
            "warmup": 0,
            "threshold": 0.99,
            "balanced": True,
            "batch_size": 1000,
            "optimizer": "adam",
            "lr": 1e-4,
        },
        "Van Gansbeke et al. 2020, released code",
    ),
    Recipe(
        "cpu",
        "self-label",
        {"epochs": 12, "warmup": 3, "batch_size": 256, "lr": 0.001, "balanced": True},
        "ours: fewer epochs, smaller batches, a lower rate, balanced; for a CPU",
        is_cpu_sized=True,
    ),
)

_DAC_SOURCE = "Chang et al. 2017: {}"

# What the scripts for natural images have in common, beside the network and the thresholds.
_DAC_SCRIPT: dict[str, Any] = {"inner_epochs": 10, "repeats": 2, "batch_size": 32, "aux_weight": 10.0, "flip": True}
_DAC_STRONG: dict[str, Any] = {"rotate": 20.0, "translate": 0.18, "zoom": 0.15, "channel_shift": 0.1}
_DAC_STAR: dict[str, Any] = {"thresholds": "single", "single_start": 0.99, "single_end": 0.75, "epochs": 50}
_DAC_CIFAR = _DAC_SCRIPT | _DAC_STAR | _DAC_STRONG | {"arch": "code-cifar"}

_DAC_STAR_MNIST: dict[str, Any] = {"thresholds": "single", "pair_loss": "mse", "epochs": 20}

# From pixels, the neighbours of photographs are no guide: only gray images start warm.
_DAC_CPU: dict[str, Any] = {
    "improve.shrink": True,
    "width": 16,
    "rotate": 15.0,
    "zoom": 0.15,
    "improve.regroup_every": 15,
}

_DAC: tuple[Recipe, ...] = (
    Recipe(
        PAPER,
        "dac",
        {"arch": "paper", "batch_size": 32},
        _DAC_SOURCE.format(
            "the supplement's networks, batch and rate; pools and augmentation, on which the text in hand is "
            "silent, are the scripts'"
        ),
    ),
    Recipe(
        CODE,
        "dac",
        _DAC_STAR_MNIST | {"bn_eval": "batch"},
        _DAC_SOURCE.format(
            "the script for MNIST, labels by batch statistics too; the others go by the name of their data"
        ),
    ),
    Recipe(
        "cpu-photos",
        "dac",
        _DAC_CPU | {"epochs": 6, "improve.starts": 4, "improve.start_length": 30},
        "ours: a quarter of the published width, few epochs, stronger views, the most stable of four starts, regrouped",
        is_cpu_sized=True,
        channels=3,
    ),
    Recipe(
        "cpu",
        "dac",
        _DAC_CPU | {"epochs": 2, "improve.warm_start": True},
        "ours: a quarter of the published width, few epochs, stronger views, a warm start, regrouped",
        is_cpu_sized=True,
    ),
    *(
        Recipe(name, "dac", settings, _DAC_SOURCE.format(source), shape)
        for name, shape, settings, source in (
            ("mnist", (28, 28, 1), {}, "two thresholds, the released network; batches and pools as released"),
            (
                "mnist-star",
                (28, 28, 1),
                _DAC_STAR_MNIST,
                "the released script: one threshold, squared error",
            ),
            (
                "cifar10",
                (32, 32, 3),
                _DAC_SCRIPT
                | {"arch": "code-cifar2", "thresholds": "linear", "upper": 0.99, "lower": 0.8}
                # The script divides its pair loss by the batch size as well, and has both terms at weight 1.
                | {"aux_weight": 32.0, "translate": 0.09},
                "the second released script, two thresholds; the weight is for a pair loss that is a mean",
            ),
            ("cifar10-star", (32, 32, 3), _DAC_CIFAR, "the first released script, one threshold"),
            ("cifar100-20", (32, 32, 3), _DAC_CIFAR, "the released script, one threshold"),
            (
                "stl10",
                (96, 96, 3),
                _DAC_SCRIPT | _DAC_STAR | {"arch": "code-stl", "single_end": 0.5, "epochs": 75},
                "the released script, one threshold",
            ),
            (
                "imagenet10",
                (96, 96, 3),
                _DAC_SCRIPT | _DAC_STAR | {"arch": "code-stl"},
                "the released script, one threshold",
            ),
            (
                "imagenet-dog",
                (96, 96, 3),
                _DAC_SCRIPT | _DAC_STAR | {"arch": "code-dog"},
                "the released script, one threshold",
            ),
        )
    ),
)

# Found on 1,500 images of Tiny ImageNet with their labels in view; the losses and targets are the papers'.
_ON_FEATURES: tuple[Recipe, ...] = tuple(
    Recipe("features", method, settings, f"ours: {source}, for the features of an encoder", is_for_features=True)
    for method, settings, source in (
        (
            "dac",
            {"epochs": 20, "improve.starts": 4, "improve.start_length": 20, "improve.regroup_every": 10},
            "the most stable of four starts, regrouped",
        ),
        (
            "secu",
            {
                "centred": True,
                "n_heads": 1,
                "epochs": 20,
                "warmup": 2,
                "lr": 0.05,
                "lam_x": 0.3,
                "lam_w": 0.3,
            },
            "short, one head, warmer",
        ),
        (
            "gatcluster",
            {
                "repeats": 2,
                "n_restarts": 5,
                "w_ea": 1.0,
                "bn_targets": "batch",
                "bn_eval": "refreshed",
                "augment_once": False,
                "m2": 128,
                "lr": 0.002,
                "iterations": 60,
                "eval_every": 20,
            },
            "short",
        ),
        ("nmf-lp", {"encoder.centre": False}, "as they are, because it takes no negative value"),
    )
)

RECIPES: tuple[Recipe, ...] = (*_ON_FEATURES, *_DAC, *_DBC, *_JULE, *_GAT, *_SECU, *_TEACH, *_SELF_LABEL)


def recipes_of(method: str) -> list[Recipe]:
    """List a method's recipes."""
    return [recipe for recipe in RECIPES if recipe.method == method]


def choose_recipe(
    method: str, name: str, shape: tuple[int, int, int], has_accelerator: bool, *, on_encoder: bool = False
) -> Choice:
    """Find the recipe asked for; `auto` decides by encoder, image size and hardware."""
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
    if on_encoder:
        fitting = next((recipe for recipe in known if recipe.is_for_features), default)
        return Choice(fitting, "chosen: for the features of an encoder")
    known = [recipe for recipe in known if not recipe.is_for_features]
    if has_accelerator:
        for recipe in known:
            if recipe.image_shape == shape and not recipe.is_cpu_sized:
                return Choice(recipe, f"chosen: published for {shape[0]}x{shape[1]}x{shape[2]} images")
    else:
        for recipe in known:
            if recipe.is_cpu_sized and recipe.image_shape in (None, shape) and recipe.channels in (None, shape[2]):
                return Choice(recipe, "chosen: sized for a CPU, no accelerator was found")
    return Choice(default, "chosen: no recipe is closer to these images")
