from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from tests.improve.pupil import Pupil
from torch import Tensor, nn

from selfsort.augment.policy import Affine
from selfsort.data import from_array
from selfsort.improve.regroup import (
    cut_clusters,
    is_due,
    join_pieces,
    number_pieces,
    regroup,
    regroup_and_teach,
    renumbered,
)
from selfsort.learning.batches import PixelTensor
from selfsort.metrics.information import mutual_information
from selfsort.types import F64, I64

CPU = torch.device("cpu")


def information(counts: F64, groups: I64) -> float:
    """Mutual information of a table whose rows and columns are added up by group, cell by cell."""
    n = groups.max() + 1
    cells = np.zeros((n, n))
    for i, j in itertools.product(range(len(counts)), repeat=2):
        cells[groups[i], groups[j]] += (counts[i, j] + counts[j, i]) / (2 * counts.sum())
    total = 0.0
    for i, j in itertools.product(range(n), repeat=2):
        if cells[i, j]:
            total += cells[i, j] * math.log(cells[i, j] / (cells[i].sum() * cells[:, j].sum()))
    return total


def join_slowly(counts: F64, n_groups: int) -> I64:
    """The greedy rule as it is told: try every pair, compute the information afresh."""
    groups = np.arange(len(counts))
    while groups.max() + 1 > n_groups:
        pairs = itertools.combinations(range(groups.max() + 1), 2)
        tried = [np.where(groups == b, a, np.where(groups > b, groups - 1, groups)) for a, b in pairs]
        groups = max(tried, key=lambda numbers: information(counts, numbers))
    return groups


def same_partition(first: I64, second: I64) -> bool:
    return bool(((first[:, None] == first[None]) == (second[:, None] == second[None])).all())


class TestJoinPieces:
    @pytest.mark.parametrize("seed", range(5))
    def test_does_what_trying_every_pair_does(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        counts = rng.integers(0, 9, (8, 8)).astype(float) + np.diag(rng.integers(0, 60, 8))
        assert same_partition(join_pieces(counts, 3), join_slowly(counts, 3))

    def test_by_hand(self) -> None:
        # Copies wander between 0 and 2 and between 1 and 3, never across.
        counts = np.array([[6, 0, 4, 0], [0, 6, 0, 4], [4, 0, 6, 0], [0, 4, 0, 6]], dtype=float)
        groups = join_pieces(counts, 2)
        assert same_partition(groups, np.array([0, 1, 0, 1]))
        assert information(counts, groups) == pytest.approx(math.log(2))

    def test_few_pieces_are_left_alone(self) -> None:
        assert join_pieces(np.diag([3.0, 4.0]), 5).tolist() == [0, 1]

    def test_leaves_the_table_it_was_given(self) -> None:
        counts = np.ones((4, 4))
        join_pieces(counts, 2)
        assert (counts == 1).all()


class TestRenumbered:
    def test_keeps_the_number_of_the_larger_share(self) -> None:
        # Group 0 is most of cluster 2, group 1 most of cluster 0; cluster 1 went into both.
        groups, before = np.array([0, 0, 1, 1]), np.array([2, 1, 0, 1])
        assert renumbered(groups, before, np.array([9.0, 1.0, 8.0, 2.0]), 3).tolist() == [2, 2, 0, 0]


def classes(n: int = 400, seed: int = 0) -> tuple[PixelTensor, Tensor]:
    """Four classes of pictures: a bright quarter each."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    pixels = rng.integers(0, 60, (n, 8, 8))
    for i, quarter in enumerate(truth):
        top, left = 4 * (quarter // 2), 4 * (quarter % 2)
        pixels[i, top : top + 4, left : left + 4] += 150
    return PixelTensor(from_array(pixels.astype(np.uint8)), CPU), torch.from_numpy(truth)


def quarters(x_BCHW: Tensor) -> Tensor:
    """Mean brightness of the quarters, (B, 4): what tells the classes apart."""
    return nn.functional.avg_pool2d(x_BCHW, 4).flatten(1)


NUDGE = (Affine(translate=0.05),)


def joined_and_cut(x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Labels with two classes in one cluster and another one cut in two by noise."""
    features_B4 = quarters(x_BCHW)
    class_B = features_B4.argmax(dim=1)
    noise_B = (x_BCHW.flatten(1).sum(dim=1) * 1e4).long() % 2
    labels_B = torch.where(class_B == 1, 0, class_B)
    return torch.where((class_B == 3) & (noise_B == 1), 1, labels_B), features_B4


class TestRegroup:
    def test_parts_what_was_joined_and_joins_what_was_cut(self) -> None:
        pixels, truth = classes()
        found = regroup(joined_and_cut, pixels, NUDGE, 4)
        with torch.inference_mode():
            labels, features = joined_and_cut(pixels.floats(torch.arange(len(pixels))))
        assert found.gain > 0.1
        new = found.relabel(labels, features)
        assert same_partition(new.numpy(), truth.numpy())
        # What need not change keeps its number.
        assert (new[truth == 2] == 2).all()
        assert set(new[truth == 0].tolist()) | set(new[truth == 1].tolist()) == {0, 1}

    def test_good_clusters_stay(self) -> None:
        pixels, truth = classes()
        found = regroup(lambda x: (quarters(x).argmax(dim=1), quarters(x)), pixels, NUDGE, 4)
        assert found.gain == pytest.approx(0)
        assert (found.relabel(truth, quarters(pixels.floats(torch.arange(len(pixels))))) == truth).all()

    def test_an_empty_cluster_is_filled(self) -> None:
        pixels, truth = classes()

        def look(x_BCHW: Tensor) -> tuple[Tensor, Tensor]:
            features_B4 = quarters(x_BCHW)
            return features_B4.argmax(dim=1).clamp(max=2), features_B4

        found = regroup(look, pixels, NUDGE, 4)
        with torch.inference_mode():
            new = found.relabel(*look(pixels.floats(torch.arange(len(pixels)))))
        assert same_partition(new.numpy(), truth.numpy())

    def test_gain_is_that_of_the_tables(self) -> None:
        # All in one cluster: nothing is known; four equal classes: log 4.
        pixels, truth = classes()
        found = regroup(lambda x: (torch.zeros(len(x), dtype=torch.long), quarters(x)), pixels, NUDGE, 4)
        share = torch.bincount(truth).double() / len(truth)
        assert found.gain == pytest.approx(float(-(share * share.log()).sum()), abs=0.02)
        assert mutual_information(torch.diag(share).numpy()) == pytest.approx(float(-(share * share.log()).sum()))

    def test_many_clusters_are_not_cut(self) -> None:
        labels, features = torch.arange(40) % 600, torch.rand(40, 2)
        assert cut_clusters(labels, features, 600) == {}
        assert number_pieces(labels, features, {}).tolist() == (4 * labels).tolist()


class Net(nn.Module):
    """A linear reading of the quarters that starts with two classes joined and nothing in the last cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(4, 4)
        with torch.no_grad():
            self.read.weight.copy_(10 * torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [-1, -1, -1, -1]]))
            self.read.bias.zero_()

    def forward(self, x_BCHW: Tensor) -> Tensor:
        scores: Tensor = self.read(quarters(x_BCHW))
        return scores


class TestTeaching:
    def taught(self, n_rounds: int) -> tuple[Net, list[dict[str, float | int]], Tensor]:
        pixels, _ = classes()
        net = Net()
        pupil = Pupil(lambda x: (net(x).argmax(dim=1), quarters(x)), pixels, NUDGE, net)
        events = [regroup_and_teach(pupil, 4) for _ in range(n_rounds)]
        assert net.training or not events[-1]["regrouped"]
        return net, events, net(pixels.floats(torch.arange(len(pixels)))).argmax(dim=1)

    def test_teaches_the_network(self) -> None:
        _, events, labels = self.taught(3)
        _, truth = classes()
        assert same_partition(labels.numpy(), truth.numpy())
        assert float(events[0]["regrouping_gain"]) > 0.1
        assert 0 < float(events[0]["regrouping_moves"]) < 0.25
        assert [event["regrouped"] for event in events] == [1, 0, 0]

    def test_clusters_that_would_be_quite_others_are_left_alone(self) -> None:
        # All in one cluster: four new ones would move most images.
        pixels, _ = classes()
        pupil = Pupil(lambda x: (torch.zeros(len(x), dtype=torch.long), quarters(x)), pixels, NUDGE)
        event = regroup_and_teach(pupil, 4)
        assert event["regrouped"] == 0
        assert float(event["regrouping_gain"]) > 1
        assert float(event["regrouping_moves"]) > 0.5

    def test_repeats_itself(self) -> None:
        first, second = (self.taught(2)[0].state_dict() for _ in range(2))
        assert all(torch.equal(first[name], second[name]) for name in first)

    def test_a_network_with_nothing_to_correct_is_left_alone(self) -> None:
        pixels, _ = classes()
        net = Net()
        with torch.no_grad():
            net.read.weight.copy_(10 * torch.eye(4))
        before = net.read.weight.clone()
        event = regroup_and_teach(Pupil(lambda x: (net(x).argmax(dim=1), quarters(x)), pixels, NUDGE, net), 4)
        assert event["regrouped"] == 0
        assert torch.equal(net.read.weight, before)


def test_due_whenever_a_multiple_is_reached_or_passed() -> None:
    counts = [0, 3, 6, 9, 12, 15, 18, 20]
    due = [done for before, done in itertools.pairwise(counts) if is_due(before, done, 20, 5)]
    assert due == [6, 12, 15]  # 20 is for settling
