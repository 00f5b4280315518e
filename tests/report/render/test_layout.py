from __future__ import annotations

import numpy as np
import pytest

from selfsort.metrics.neighbourhood import nearest
from selfsort.report.render.layout import label_circle, neighbour_map, principal_components, seen_from_corner, tsne_map
from selfsort.types import F32


def blobs(n: int = 120, k: int = 4, d: int = 8, seed: int = 0) -> tuple[F32, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.arange(n) % k
    return (4 * np.eye(k, d)[groups] + 0.3 * rng.standard_normal((n, d))).astype(np.float32), groups


def test_components_are_those_of_an_exact_decomposition() -> None:
    rng = np.random.default_rng(1)
    features = (rng.standard_normal((200, 30)) * np.linspace(5, 0.1, 30)).astype(np.float32)
    found = principal_components(features, 3)
    centred = features - features.mean(axis=0)
    _, _, directions = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    expected = centred @ directions[:3].T
    for i in range(3):
        assert abs(np.corrcoef(found[:, i], expected[:, i])[0, 1]) > 0.9999
    assert np.mean(found**2) == pytest.approx(1, abs=1e-3)


def test_missing_components_are_zero() -> None:
    found = principal_components(np.arange(5, dtype=np.float32)[:, None], 3)
    assert found.shape == (5, 3)
    assert (found[:, 1:] == 0).all()


def test_features_without_any_spread_stay_in_one_place() -> None:
    same = np.ones((6, 4), dtype=np.float32)
    assert (principal_components(same, 2) == 0).all()
    assert np.isfinite(neighbour_map(same)).all()


@pytest.mark.parametrize("n", [1, 2, 4, 5, 6])
def test_few_points_are_placed(n: int) -> None:
    place = neighbour_map(np.eye(n, 3, dtype=np.float32))
    assert place.shape == (n, 2)
    assert np.isfinite(place).all()


def test_the_map_keeps_groups_together() -> None:
    features, groups = blobs()
    near = nearest(neighbour_map(features), 5)
    assert (groups[near] == groups[:, None]).mean() > 0.95


def test_the_map_is_the_same_every_time() -> None:
    features, _ = blobs()
    assert (neighbour_map(features) == neighbour_map(features.copy())).all()


def test_wavering_images_lie_inside_the_circle() -> None:
    soft = np.array([[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], dtype=np.float32)
    radius = np.linalg.norm(label_circle(soft), axis=1)
    assert radius == pytest.approx([1, 0.5, 0], abs=1e-6)


def test_the_view_from_the_corner_shows_all_three_axes() -> None:
    assert (np.abs(seen_from_corner(np.eye(3))).sum(axis=1) > 0.1).all()


def test_two_features_are_drawn_as_they_are() -> None:
    features = np.random.default_rng(0).standard_normal((40, 2)).astype(np.float32) * 3 + 5
    place = neighbour_map(features)
    scale = (place[1] - place[0]) / (features[1] - features[0])
    assert scale[0] == pytest.approx(scale[1], rel=1e-3)
    np.testing.assert_allclose(place[5] - place[9], (features[5] - features[9]) * scale[0], rtol=1e-2, atol=1e-4)


def test_tsne_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.repeat(np.eye(3, 8, dtype=np.float32) * 9, 20, axis=0)
    features += np.random.default_rng(0).standard_normal(features.shape).astype(np.float32)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert tsne_map(features) is None
    monkeypatch.undo()
    pytest.importorskip("openTSNE")
    place, again = tsne_map(features), tsne_map(features)
    assert place is not None
    assert again is not None
    np.testing.assert_array_equal(place, again)
    centres = place.reshape(3, 20, 2).mean(axis=1)
    inside = np.linalg.norm(place.reshape(3, 20, 2) - centres[:, None], axis=2).max()
    assert min(np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))) > inside
