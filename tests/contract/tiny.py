"""Settings that make each method and stage small enough for the contract suite; one not listed has its defaults."""

from __future__ import annotations

from typing import Any

TINY: dict[str, dict[str, Any]] = {
    "nmf-d": {"layers": (12, 6)},
    "fcae-kmeans": {"ae_epochs": 2, "batch_size": 12, "n_restarts": 2},
    "dbc": {"ae_epochs": 2, "epochs": 3, "batch_size": 12, "n_restarts": 2, "lr": 0.01},
    "dec": {"ae_epochs": 2, "epochs": 2, "batch_size": 12, "n_restarts": 2},
    "dac": {"epochs": 2, "width": 4, "pool_size": 12, "batch_size": 6, "inner_epochs": 2},
    "gatcluster": {
        "M": 40,
        "m2": 12,
        "repeats": 1,
        "iterations": 3,
        "eval_every": 1,
        "width": 0.1,
        "n_restarts": 2,
        "bn_eval": "refreshed",
    },
    "secu": {
        "arch": "small",
        "width": 8,
        "dim": 16,
        "n_heads": 2,
        "epochs": 4,
        "warmup": 1,
        "batch_size": 12,
        "lr": 0.02,
        "centre_lr": 0.1,
        "lam_x": 0.2,
        "lam_w": 0.2,
        "crop_min": 0.9,
        "blur": 0.0,
        "solarise": 0.0,
    },
    "jule": {"epochs": 1, "batch_size": 12, "K_s": 5, "eta": 0.5},
    "teach": {"epochs": 3, "batch_size": 12, "K_s": 5, "rounds": 2, "finer": 2.0},
    "self-label": {"epochs": 3, "warmup": 1, "batch_size": 12, "min_agreement": 0.0},
}

IMPROVED: dict[str, Any] = {"starts": 2, "start_length": 1, "regroup_every": 1}
"""Settings that improve a method as small as these."""

WARM: dict[str, Any] = {"warm_start": True, "warm_passes": 2, "starts": 2, "start_length": 1}
"""Settings that start such a method warm."""
