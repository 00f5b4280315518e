"""Encoders that learn along with a method."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tests.encoders.small import SmallEncoder, TinyConvEncoder, TinyConvNet, blobs
from torch import nn

from selfsort.encoders.finetune import check_tunable, finetuning, tunable, tuned
from selfsort.encoders.fitted import FittedEncoder, On, Part, fit_encoder
from selfsort.encoders.options import EncodeConfig
from selfsort.encoders.pictures import Pictures
from selfsort.errors import InvalidInput
from selfsort.learning.batches import tensor_of
from selfsort.methods.registry import METHODS
from selfsort.types import Images, Snapshot, State, Tunable

CPU = torch.device("cpu")


def fitted(finetune: str, images: Images, on: On = "features") -> tuple[FittedEncoder, Tunable]:
    config = EncodeConfig(finetune=finetune)  # type: ignore[arg-type]
    part = Part(TinyConvEncoder(), is_general=True)
    encoder, found = fit_encoder(
        (part,), Pictures(images, (), None), config, on=on, with_views=False, device=CPU, folder=None
    )
    return encoder, tunable(encoder, found, images)


def learned(method: str, inputs: Tunable, **settings: object) -> Snapshot:
    kind = METHODS[method]
    config = kind.config.from_json({"n_clusters": 3, **settings})
    *_, last = finetuning(kind).train(inputs, config, device=CPU, seed=0)
    return last


@pytest.mark.parametrize("on", ["features", "maps"])
def test_at_the_beginning_it_sees_what_it_saw(on: On) -> None:
    images = blobs(40, side=11)
    _, inputs = fitted("all", images, on)
    found = tensor_of(inputs, CPU).floats(torch.arange(40))
    assert found.requires_grad
    np.testing.assert_allclose(found.detach().numpy(), inputs.features, atol=1e-5)


def test_copies_are_augmented_as_pixels() -> None:
    images = blobs(40)
    _, inputs = fitted("all", images)
    tensor, idx = tensor_of(inputs, CPU), torch.arange(40)
    first, again, other = (
        tensor.augmented(idx, (), torch.Generator().manual_seed(seed)).detach() for seed in (1, 1, 2)
    )
    torch.testing.assert_close(first, again)
    assert not torch.allclose(first, other)
    assert not torch.allclose(first, tensor.floats(idx))
    torch.testing.assert_close(first.norm(dim=1), torch.ones(40))


def test_only_what_is_asked_for_is_trained() -> None:
    images = blobs(40)
    for finetune, expected in (("last", {"last", "last_norm"}), ("all", {"first", "norm", "last", "last_norm"})):
        encoder, inputs = fitted(finetune, images)
        result = learned("dac", inputs, epochs=2, batch_size=10, pool_size=20).result
        assert result is not None
        part = cast(TinyConvNet, tuned(encoder, result.model).network((8, 8, 3)).networks[0])  # type: ignore[index]
        before = TinyConvNet().state_dict()
        moved = {name for name, value in part.state_dict().items() if not torch.equal(value, before[name])}
        # Neither the rest of the weights nor any statistics of batch normalisation.
        assert moved == {name for name in before if name.split(".")[0] in expected and "run" not in name} - {
            name for name in before if "num_batches" in name
        }


def test_every_training_begins_with_the_encoder_as_it_was() -> None:
    _, inputs = fitted("all", blobs(40))
    before = {name: value.clone() for name, value in inputs.network.state_dict().items()}
    first, second = (learned("dac", inputs, epochs=1, batch_size=10).result for _ in range(2))
    assert first is not None
    assert second is not None
    for name, value in inputs.network.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    for name, array in first.model.arrays.items():
        np.testing.assert_array_equal(array, second.model.arrays[name])


def test_encoder_and_head_find_the_classes() -> None:
    _, inputs = fitted("all", blobs(60))
    run = learned("jule", inputs, epochs=3).result
    assert run is not None
    assert len(set(run.labels[:3].tolist())) == 3
    np.testing.assert_array_equal(run.labels, run.labels[np.arange(60) % 3])


def test_weights_that_do_not_fit_are_refused() -> None:
    encoder, _ = fitted("all", blobs(12))
    arrays = {"encoder.0.first.weight": np.zeros((1, 1), np.float32)}
    with pytest.raises(InvalidInput, match=r"the saved weights of 'encoder.0' must fit"):
        tuned(encoder, State(arrays))
    assert tuned(encoder, State({"net.weight": np.zeros(3, np.float32)})) is encoder


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if not method.finetunes])
def test_methods_that_teach_nothing_refuse(name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{name} cannot train its encoder, as encoder.finetune=last asks"):
        check_tunable(METHODS[name], (), EncodeConfig(finetune="last"))
    check_tunable(METHODS[name], (), EncodeConfig())


def test_an_encoder_without_stages_is_trained_whole_or_not() -> None:
    parts = (Part(SmallEncoder(), is_general=True),)
    with pytest.raises(InvalidInput, match="small does not say what its last stage is"):
        check_tunable(METHODS["dac"], parts, EncodeConfig(finetune="last"))
    check_tunable(METHODS["dac"], parts, EncodeConfig(finetune="all"))


class TestHuggingFace:
    """With tiny random models."""

    @pytest.mark.parametrize("kind", ["vit", "dinov2", "clip", "siglip", "resnet", "convnext", "dinov3_vit"])
    def test_their_last_stage(self, kind: str, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        from tests.encoders.huggingface_folders import save_tiny

        from selfsort.encoders.huggingface import open_huggingface

        save_tiny(kind, tmp_path)
        encoder = open_huggingface(tmp_path, CPU)
        network = encoder.network()
        last = {id(weight) for weight in network.last_weights()}  # type: ignore[operator]
        named = [name for name, weight in network.named_parameters() if id(weight) in last]
        assert 0 < len(last) < len(list(network.parameters()))
        assert not any("embed" in name and "position" not in name for name in named)
        images = blobs(12, side=encoder.shape[0])
        part, config = Part(encoder, is_general=True), EncodeConfig(finetune="last")
        opened, found = fit_encoder(
            (part,), Pictures(images, (), None), config, on="features", with_views=False, device=CPU, folder=None
        )
        result = learned("dac", tunable(opened, found, images), epochs=1, batch_size=6, pool_size=12).result
        assert result is not None
        after = cast(nn.ModuleList, tuned(opened, result.model).network(images.shape).networks)[0].state_dict()
        moved = {name for name, value in network.state_dict().items() if not torch.equal(value, after[name])}
        assert moved
        assert moved <= set(named)
