"""`make bench-scale` on some hundred images."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import scale
from benchmarks.repeated import N_COMPONENTS, Digits, features_of, load, repeated

from selfsort.data.synthetic import shapes


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Digits:
    """As many pictures of three kinds as the warm-up wants, in the place of MNIST."""
    images, labels = shapes(250, size=16, n_classes=3)
    np.savez(tmp_path / "mnist.npz", images=images.pixels, labels=labels)
    monkeypatch.setenv("SELFSORT_DATA", str(tmp_path))
    return load()


def test_the_first_images_are_the_same_whatever_the_number(digits: Digits) -> None:
    few, many = (np.concatenate([rows for _, rows in repeated(digits, n)]) for n in (1000, 2300))
    assert few.shape == (1000, 256)
    np.testing.assert_array_equal(few, many[:1000])
    np.testing.assert_array_equal(few[:750], digits.pixels.reshape(750, -1) / np.float32(255))
    # Again, and a little otherwise: nearer to itself than to what stands beside it.
    again, first, other = few[750:1000], few[:250], few[1:251]
    assert (again != first).any(axis=1).mean() > 0.9
    assert ((again - first) ** 2).sum(axis=1).mean() < ((again - other) ** 2).sum(axis=1).mean()


def test_the_seed_decides_the_warps(digits: Digits) -> None:
    (first, _), (same, _), (other, _) = (features_of(digits, 900, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, same)
    np.testing.assert_array_equal(first[:750], other[:750])
    assert (first[750:] != other[750:]).any()


def test_what_images_show_is_repeated_too(digits: Digits) -> None:
    features, classes = features_of(digits, 1600)
    assert features.shape == (1600, N_COMPONENTS)
    np.testing.assert_array_equal(classes[750:1500], digits.classes)


@pytest.mark.usefixtures("digits")
def test_the_table_of_some_hundred_images() -> None:
    results = [scale.measure(n) for n in (800, 1500)]
    for result in results:
        assert set(result["stages"]) == {*scale.STAGES, "merging"}
        assert result["recall"] >= 0.99
        assert 0 < result["acc"] <= 1
    shown = scale.table(results)
    assert shown.splitlines()[0].startswith("1,500 images")
    for word in ("neighbours", "exponent", "peak bytes per image", "over the search"):
        assert word in shown


def test_exponents_are_those_of_the_times() -> None:
    def result(n: int) -> dict[str, object]:
        seconds = {"features": n, "neighbours": n**1.5, "graph": n, "communities": n**1.1, "merging": n**1.2}
        return {"n": n, "stages": {name: {"seconds": taken} for name, taken in seconds.items()}}

    found = scale.exponents([result(n) for n in (100, 1000, 10_000)])
    assert found["neighbours"] == pytest.approx(1.5, abs=1e-3)
    assert found["communities"] == pytest.approx(1.1, abs=1e-3)
    assert found["merging"] == pytest.approx(1.2, abs=1e-3)


@pytest.mark.usefixtures("digits")
@pytest.mark.skipif(sys.platform != "linux", reason="processor time is limited on Linux")
def test_other_libraries_on_the_same_rows() -> None:
    told = scale.others(800, ["our k-means", "MiniBatchKMeans"], cpu_seconds=600)["others"]
    assert set(told) == {"our k-means", "MiniBatchKMeans"}
    assert told["MiniBatchKMeans"]["clusters"] == scale.N_CLUSTERS
    told = scale.others(800, ["HDBSCAN"], cpu_seconds=1)["others"]
    assert told == {"HDBSCAN": {"refused": "not ended after 0.0 minutes of processor time"}}
