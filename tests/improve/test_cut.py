from __future__ import annotations

import numpy as np
import pytest
import torch

from selfsort.errors import InvalidInput
from selfsort.improve.cut import CutHead, cut_clustering, cut_model
from selfsort.improve.grow import grow
from selfsort.types import F32, I64, Assignment, Images, NetworkModel, State

CPU = torch.device("cpu")


def example() -> tuple[I64, F32, F32]:
    """Clusters 0 and 1 near each other, 3 far away and of two kinds, 2 without an image."""
    rng = np.random.default_rng(0)
    centres = np.array([(0, 0), (1, 0), (20, 0), (20, 9)], dtype=np.float32)
    features = np.repeat(centres, 20, axis=0) + rng.normal(0, 0.3, (80, 2)).astype(np.float32)
    labels = np.repeat([0, 1, 3, 3], 20)
    soft = np.full((80, 4), 0.05, dtype=np.float32)
    soft[np.arange(80), labels] = 0.85
    return labels, soft, features.astype(np.float32)


def cut(n_clusters: int) -> tuple[I64, F32, State]:
    labels, soft, features = example()
    found = cut_clustering(labels, soft, features, grow(features, labels), n_clusters, CPU)
    return found.labels, found.soft, found.model


def test_joined_clusters_add_up_and_one_without_images_goes_along() -> None:
    labels, soft, _ = cut(2)
    assert labels.tolist() == [0] * 40 + [1] * 40
    np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-6)
    # 0.85 and 0.05 for the two, and 0.05 of the empty one, which goes to one of the groups.
    assert soft[0, 0] == pytest.approx(0.9, abs=0.0501)
    np.testing.assert_array_equal(soft.argmax(axis=1), labels)


def test_its_own_number_changes_nothing_but_the_gap() -> None:
    labels, soft, _ = cut(3)
    assert labels.tolist() == [0] * 20 + [1] * 20 + [2] * 40
    assert soft.shape == (80, 3)


def test_parts_share_and_the_likeliest_keeps_the_strength_of_the_whole() -> None:
    labels, soft, model = cut(4)
    assert labels.tolist() == [0] * 20 + [1] * 20 + [2] * 20 + [3] * 20
    np.testing.assert_array_equal(soft.argmax(axis=1), labels)
    np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-6)
    head = CutHead(model)
    # Halfway between the kinds both may be likely; together they must not lose to another cluster.
    even = head(torch.tensor([[0.35, 0.2, 0.0, 0.45]]), torch.tensor([[20.0, 4.5]]))
    assert int(even.argmax()) in (2, 3)


@pytest.mark.parametrize("n_clusters", [0, 1, 81])
def test_a_number_that_no_cut_has(n_clusters: int) -> None:
    with pytest.raises(InvalidInput, match=r"be between 2 and the number of images \(80\); got"):
        cut(n_clusters)


def test_every_image_by_itself() -> None:
    labels, soft, _ = cut(80)
    assert sorted(labels.tolist()) == list(range(80))
    np.testing.assert_array_equal(soft.argmax(axis=1), labels)


class _Network:
    def apply(self, images: Images, layer: str = "top") -> Assignment:
        _, soft, features = example()
        return Assignment(features if layer == "top" else features[:, :1], soft)

    def network(self) -> torch.nn.Module:
        class Given(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                _, soft, features = example()
                return torch.from_numpy(soft), torch.from_numpy(features)

        return Given()


def test_the_model_repeats_the_cut_and_stays_a_network() -> None:
    _, soft, state = cut(4)
    model = cut_model(_Network(), state, CPU)
    images = Images(np.zeros((80, 1, 1, 1), np.uint8))
    np.testing.assert_array_equal(model.apply(images).soft, soft)
    assert model.apply(images, "below").features.shape == (80, 1)
    assert isinstance(model, NetworkModel)
    np.testing.assert_array_equal(model.network()(torch.zeros(80, 1, 1, 1))[0].numpy(), soft)


@pytest.mark.parametrize("name", ["into", "first"])
def test_a_damaged_state_is_noticed(name: str) -> None:
    state = cut(2)[2]
    state.arrays[name] = state.arrays[name] + 5
    with pytest.raises(ValueError, match="do not fit together"):
        CutHead(state)
