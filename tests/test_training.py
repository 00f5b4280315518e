from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selfsort import training
from selfsort.errors import InvalidInput, TrainingFailed
from selfsort.types import Images


def tiny_images(n: int = 10) -> Images:
    values = np.random.default_rng(0).integers(0, 256, (n, 4, 5, 3))
    return Images(values.astype(np.uint8))


def test_pixel_tensor_cuts_the_right_pixels() -> None:
    images = tiny_images()
    pixels = training.PixelTensor(images, torch.device("cpu"))
    batch = pixels.floats(torch.tensor([7, 2]))
    assert batch.shape == (2, 3, 4, 5)
    np.testing.assert_allclose(batch.numpy(), images.pixels[[7, 2]].transpose(0, 3, 1, 2) / 255, rtol=1e-6)
    assert torch.cat(list(pixels.chunks(4))).tolist() == list(range(10))


def test_pixel_tensor_reads_a_read_only_memory_map(tmp_path: object) -> None:
    pixels = tiny_images().pixels
    pixels.flags.writeable = False
    assert len(training.PixelTensor(Images(pixels), torch.device("cpu")).bytes(torch.arange(3))) == 3


def test_shuffled_batches_are_a_partition() -> None:
    generator = training.torch_generator(0, "order")
    batches = list(training.shuffled_batches(10, 4, generator))
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(torch.cat(batches).tolist()) == list(range(10))
    dropped = list(training.shuffled_batches(10, 4, generator, drop_last=True))
    assert [len(batch) for batch in dropped] == [4, 4]


def test_seeds_of_different_purposes_differ_and_repeat() -> None:
    assert training.derive_seed(1, "a") == training.derive_seed(1, "a")
    assert len({training.derive_seed(s, p) for s in range(5) for p in "abc"}) == 15
    first, second = (training.numpy_generator(3, "x").integers(1 << 30) for _ in range(2))
    assert first == second


def test_seeded_init_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    with training.seeded_init(0):
        first = nn.Linear(3, 3)
    with training.seeded_init(0):
        second = nn.Linear(3, 3)
    assert torch.equal(first.weight, second.weight)
    assert torch.equal(torch.get_rng_state(), before)


def test_run_epoch_is_plain_sgd_and_counts_what_it_skips() -> None:
    weight = nn.Parameter(torch.tensor([2.0]))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(batch: Tensor) -> Tensor | None:
        return None if 3 in batch else (weight**2).sum()

    stats = training.run_epoch(step, [torch.tensor([0, 1]), torch.tensor([3]), torch.tensor([2])], optimizer)
    # Two steps of w <- w - 0.1 * 2w from 2.0: losses 4.00 and 2.56, mean 3.28.
    assert weight.item() == pytest.approx(2.0 * 0.8**2)
    assert stats.loss == pytest.approx(3.28)
    assert (stats.steps, stats.skipped, stats.images) == (2, 1, 4)
    assert set(stats.event()) == {"loss", "skipped_batches", "seconds", "images_per_second"}


def test_an_epoch_without_a_single_step_has_loss_zero() -> None:
    weight = nn.Parameter(torch.zeros(1))
    assert training.run_epoch(lambda batch: None, [torch.tensor([0])], torch.optim.SGD([weight], lr=1.0)).loss == 0


def test_a_loss_that_is_not_a_number_is_said_in_plain_words() -> None:
    weight = nn.Parameter(torch.tensor([1.0]))
    with pytest.raises(TrainingFailed, match=r"the loss became nan during training\. It must stay a finite number"):
        training.run_epoch(lambda b: (weight * float("nan")).sum(), [torch.tensor([0])], torch.optim.SGD([weight], 0.1))


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_packed_state_continues_exactly(kind: type[torch.optim.Optimizer]) -> None:
    def build() -> tuple[nn.Module, torch.optim.Optimizer, torch.Generator]:
        with training.seeded_init(0):
            net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        options = {"lr": 0.05, "momentum": 0.9} if kind is not torch.optim.Adam else {"lr": 0.05}
        return net, kind(net.parameters(), **options), training.torch_generator(0, "data")  # type: ignore[arg-type]

    def steps(net: nn.Module, optimizer: torch.optim.Optimizer, generator: torch.Generator, n: int) -> None:
        for _ in range(n):
            optimizer.zero_grad()
            net(torch.randn(8, 4, generator=generator)).pow(2).mean().backward()
            optimizer.step()

    net, optimizer, generator = build()
    steps(net, optimizer, generator, 3)
    arrays = training.pack_module("net", net) | training.pack_optimizer("opt", optimizer)
    position = training.pack_generator(generator)
    steps(net, optimizer, generator, 3)

    other_net, other_optimizer, other_generator = build()
    training.unpack_module("net", other_net, arrays)
    training.unpack_optimizer("opt", other_optimizer, arrays)
    training.unpack_generator(other_generator, position)
    steps(other_net, other_optimizer, other_generator, 3)
    for name, value in net.state_dict().items():
        assert torch.equal(value, other_net.state_dict()[name]), name


def test_weights_of_another_shape_are_refused() -> None:
    arrays = training.pack_module("net", nn.Linear(3, 3))
    with pytest.raises(InvalidInput, match="the saved weights of 'net' must fit the network"):
        training.unpack_module("net", nn.Linear(3, 4), arrays)


def test_device_choice() -> None:
    assert training.choose_device("cpu").type == "cpu"
    with pytest.raises(InvalidInput, match=r"device 'gpu9' cannot be used here .* Try --device cpu"):
        training.choose_device("gpu9")
