from __future__ import annotations

import numpy as np
import pytest
import torch

from selfsort.nets import whitening
from selfsort.nets.whitening import Whitening
from selfsort.types import F32


def correlated(n: int = 400, variances: tuple[float, ...] = (100.0, 4.0, 1.0, 0.011, 0.009, 0.0)) -> F32:
    """Features with these variances along axes that are no axis of the features; 0.01 is 1e-4 of the largest."""
    generator = np.random.default_rng(0)
    raw = generator.normal(size=(n, len(variances)))
    raw -= raw.mean(axis=0)
    uncorrelated = np.linalg.svd(raw, full_matrices=False)[0] * np.sqrt(n)
    rotation = np.linalg.qr(generator.normal(size=(len(variances), len(variances))))[0]
    found: F32 = (uncorrelated * np.sqrt(variances) @ rotation + 3).astype(np.float32)
    return found


def whitened(features: F32) -> tuple[F32, int]:
    layer = Whitening(features.shape[1])
    n_kept = layer.fit(features)
    found: F32 = layer(torch.from_numpy(features)).numpy()
    return found, n_kept


def test_covariance_is_the_identity_on_what_is_kept() -> None:
    found, n_kept = whitened(correlated())
    assert n_kept == 4
    covariance = np.cov(found.astype(np.float64), rowvar=False, bias=True)
    np.testing.assert_allclose(covariance, np.diag([1, 1, 1, 1, 0, 0]), atol=1e-3)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-3)
    assert not found[:, 4:].any()


def test_equals_the_singular_value_decomposition() -> None:
    """An oracle by another way: the left singular vectors of the centred features, up to their signs."""
    features = correlated()
    centred = features.astype(np.float64) - features.astype(np.float64).mean(axis=0)
    left = np.linalg.svd(centred, full_matrices=False)[0][:, :4] * np.sqrt(len(features))
    found = whitened(features)[0][:, :4]
    signs = np.sign((left * found).sum(axis=0))
    np.testing.assert_allclose(found, left * signs, atol=2e-3)


def test_before_it_is_fitted_it_changes_nothing() -> None:
    features = torch.from_numpy(correlated())
    assert torch.equal(Whitening(6)(features), features)


def test_blocks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    features = correlated()
    expected = whitening._moments(features)
    monkeypatch.setattr(whitening, "_BLOCK", 7)
    for found, wanted in zip(whitening._moments(features), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_features_that_are_all_alike_become_zeros() -> None:
    found, n_kept = whitened(np.full((20, 3), 0.1, dtype=np.float32))
    assert n_kept == 0
    assert not found.any()


def test_it_is_saved_but_not_trained() -> None:
    layer = Whitening(6)
    layer.fit(correlated())
    assert not list(layer.parameters())
    again = Whitening(6)
    again.load_state_dict(layer.state_dict())
    features = torch.from_numpy(correlated())
    assert torch.equal(again(features), layer(features))
