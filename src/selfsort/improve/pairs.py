"""What a person has put right teaches a network: pairs that belong together, pairs that do not.

A corrected picture makes a pair with every picture of a batch: the two belong together if they are in one cluster as
corrected, and else they do not. A picture marked wrong makes pairs with those it must not be with, and with no others.
Pairs are scored as DAC does (Chang et al., ICCV 2017): -log p_i.p_j for those that belong together, -log (1 - p_i.p_j)
for the others, where p are the assignments of the network. What the network was sure of before is its teacher for all
other pictures, so that it keeps what it knew.

Statistics of batch normalisation stay as they are: a batch of corrections is not like the data.
Shape letters: N images, B of a batch, S corrected ones in it, K clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfsort.improve.corrections import Said
from selfsort.learning.batches import tensor_of
from selfsort.learning.checkpoint import pack_module
from selfsort.learning.seeds import torch_generator
from selfsort.progress import track
from selfsort.types import I64, Inputs, NetworkModel, State

_EPS = 1e-6
_PARTS = ("net", "encoder")
"""What the methods call the network that they keep."""


@dataclass(frozen=True, kw_only=True)
class PairSettings:
    """How the network is taught; the same for every method."""

    n_steps: int = 300
    batch_size: int = 128
    n_said: int = 48
    """Corrected pictures in a step, at most."""
    lr: float = 1e-4
    weight: float = 1.0
    """Of the pairs, against one for what the network knew."""


def pair_loss(sim_SB: Tensor, same_SB: Tensor, counts_SB: Tensor) -> Tensor:
    """Return the mean over pairs that belong together, and that over those that do not, added.

    >>> sim, same = torch.tensor([[0.5, 0.25]]), torch.tensor([[True, False]])
    >>> round(pair_loss(sim, same, torch.ones(1, 2, dtype=torch.bool)).item(), 4)  # log 2 + log 4/3
    0.9808
    """
    together = -(sim_SB.clamp(_EPS, 1).log())
    apart = -((1 - sim_SB).clamp(_EPS, 1).log())
    parts = [
        (loss * chosen).sum() / chosen.sum().clamp(min=1)
        for loss, chosen in ((together, same_SB & counts_SB), (apart, ~same_SB & counts_SB))
    ]
    return parts[0] + parts[1]


def can_be_taught(model: object, state: State) -> bool:
    """Whether a model is one network whose weights are all that its state keeps of it."""
    return isinstance(model, NetworkModel) and _part_of(model, state) is not None


def teach(
    model: NetworkModel,
    state: State,
    images: Inputs,
    labels: I64,
    said: Said,
    *,
    device: torch.device,
    seed: int,
    settings: PairSettings | None = None,
) -> State:
    """Train the network of a model, in place, and return its state as it is then.

    Args:
        model: of a run.
        state: as the run keeps it.
        images: (N,) of the run.
        labels: (N,) as corrected; -1 for images that say nothing.
        said: which of them a person has decided, and which are wrong where they are.
        device: where to train.
        seed: decides every draw.
        settings: None for the usual ones.
    """
    part = _part_of(model, state)
    assert part is not None, "see can_be_taught"
    chosen = settings or PairSettings()
    pixels, network = tensor_of(images, device), model.network().eval()
    weights = list(getattr(model, part).parameters())
    for weight in weights:
        weight.requires_grad_(True)
    label_N = torch.from_numpy(labels)
    decided_S = torch.from_numpy(np.concatenate([said.rows, said.wrong]))
    is_wrong_S = torch.arange(len(decided_S)) >= len(said.rows)
    knew_N, sure_N = _answers(network, images, device)
    others = (sure_N >= sure_N.median()) & (label_N >= 0)
    others[decided_S] = False
    teachers_T = torch.nonzero(others)[:, 0]
    if not len(teachers_T) or not len(decided_S):
        return state
    optimizer, draw = torch.optim.Adam(weights, chosen.lr), torch_generator(seed, "pairs")
    for _ in track(range(chosen.n_steps), "learning from corrections", chosen.n_steps):
        place = torch.randperm(len(decided_S), generator=draw)[: chosen.n_said]
        rows_S, wrong_S = decided_S[place], is_wrong_S[place]
        rows_T = teachers_T[torch.randint(len(teachers_T), (chosen.batch_size,), generator=draw)]
        rows_B = torch.cat([rows_S, rows_T])
        p_BK = network(pixels.floats(rows_B))[0]
        n_said = len(rows_S)
        same_SB = label_N[rows_S][:, None] == label_N[rows_B][None, :]
        of_wrong_B = torch.cat([wrong_S, torch.zeros(len(rows_T), dtype=torch.bool)])
        # Where a wrong one belongs nobody has said: it is not with the others of its cluster, and that is all.
        counts_SB = torch.where(wrong_S[:, None], same_SB, True) & ~of_wrong_B[None, :]
        counts_SB[:, :n_said].fill_diagonal_(False)
        meant_SB = same_SB & ~wrong_S[:, None]
        loss = pair_loss(p_BK[:n_said] @ p_BK.T, meant_SB.to(device), counts_SB.to(device)) * chosen.weight
        loss = loss + F.nll_loss(p_BK[n_said:].clamp(_EPS, 1).log(), knew_N[rows_T].to(device))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return State({**state.arrays, **pack_module(part, getattr(model, part))}, state.meta)


def _answers(network: nn.Module, images: Inputs, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return what the network says of each image, and how sure it is."""
    pixels = tensor_of(images, device)
    with torch.no_grad():
        parts = [network(pixels.floats(rows))[0].max(dim=1) for rows in pixels.even_chunks(2**18, at_most=2**11)]
    return torch.cat([part.indices for part in parts]).cpu(), torch.cat([part.values for part in parts]).cpu()


def _part_of(model: object, state: State) -> str | None:
    """Name the network that a model keeps, if its state holds it under the same name.

    A model whose own images vote keeps their features as well, which another network would not have given.
    """
    if hasattr(model, "votes"):
        return None
    for part in _PARTS:
        net = getattr(model, part, None)
        if isinstance(net, nn.Module) and set(pack_module(part, net)) <= set(state.arrays):
            return part
    return None
