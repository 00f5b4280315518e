"""ONNX files that are damaged, lie about themselves, or reach for what is not theirs: one sentence each."""

from __future__ import annotations

import os
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from tests.encoders.onnx_files import FLOAT, conv_model, graph_model, saved

from selfsort.encoders.onnx import OnnxEncoder, open_onnx
from selfsort.errors import InvalidInput, MissingData


def opened(path: Path) -> OnnxEncoder:
    return open_onnx(path, device=torch.device("cpu"))


def image_input(axes: list[int | str] | None = None, dtype: int = FLOAT, name: str = "x") -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, axes or ["n", 3, 8, 8])


def flat(name: str = "y") -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, None)


def field(number: int, content: bytes) -> bytes:
    """A message inside a message, as protobuf writes it."""
    size, length = b"", len(content)
    while length >= 0x80:
        size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


class TestDamage:
    @pytest.mark.parametrize(
        "content",
        [
            b"\x00",
            b"not a model at all",
            b"PK\x03\x04" * 10,
            b"\xff" * 64,
            b"\x3a\xff\xff\xff\xff\x0f",
            b"{}",
            b"\x0b\x0c",
        ],
    )
    def test_no_model(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(InvalidInput, match=r"m\.onnx cannot be read: it .*Export or download it again"):
            opened(tmp_path / "m.onnx")

    def test_every_length_of_a_cut_file(self, tmp_path: Path) -> None:
        whole = conv_model().SerializeToString()
        for length in range(1, len(whole), 7):
            (tmp_path / "m.onnx").write_bytes(whole[:length])
            with pytest.raises(InvalidInput, match=r"m\.onnx"):
                opened(tmp_path / "m.onnx")

    def test_flipped_bytes_never_end_in_a_traceback(self, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        whole, random = conv_model().SerializeToString(), np.random.default_rng(0)
        refused = 0
        for _ in range(150):
            damaged = bytearray(whole)
            damaged[random.integers(len(whole))] = random.integers(256)  # also in names, which are then not UTF-8
            (tmp_path / "m.onnx").write_bytes(damaged)
            try:
                opened(tmp_path / "m.onnx")
            except (InvalidInput, MissingData):
                refused += 1
        assert refused > 20
        assert capfd.readouterr() == ("", "")

    def test_nothing_there(self, tmp_path: Path) -> None:
        with pytest.raises(MissingData, match="does not exist"):
            opened(tmp_path / "m.onnx")
        (tmp_path / "m.onnx").touch()
        with pytest.raises(InvalidInput, match=r"m\.onnx is empty"):
            opened(tmp_path / "m.onnx")
        with pytest.raises(InvalidInput, match="is not a file"):
            opened(tmp_path)

    def test_a_note_of_git_lfs(self, tmp_path: Path) -> None:
        (tmp_path / "m.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with pytest.raises(InvalidInput, match="git lfs pull"):
            opened(tmp_path / "m.onnx")

    @pytest.mark.parametrize("surplus", ["nodes", "values"])
    def test_a_million_empty_parts(self, surplus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each costs two bytes of the file and would cost hundreds of memory."""
        monkeypatch.setattr("selfsort.encoders._protobuf._MOST_PARTS", 10_000)
        graph = field(1, b"") * 20_000 if surplus == "nodes" else field(5, b"\x25\x00\x00\x00\x00" * 20_000)
        (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString() + field(7, graph))
        tracemalloc.start()
        with pytest.raises(InvalidInput, match="it has more than 10,000 parts"):
            opened(tmp_path / "m.onnx")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 20

    def test_a_nest_of_graphs(self, tmp_path: Path) -> None:
        inner = b""
        for _ in range(200):  # a graph has a node, that has an attribute, that has a graph
            inner = field(1, field(5, field(6, inner)))
        (tmp_path / "m.onnx").write_bytes(field(7, inner))
        with pytest.raises(InvalidInput, match="nested more than 100 deep"):
            opened(tmp_path / "m.onnx")


class TestNoImages:
    @pytest.mark.parametrize(
        ("inputs", "why"),
        [
            ([image_input(["n", 77], TensorProto.INT64, "input_ids")], r"input_ids is of type tensor\(int64\)"),
            ([image_input(["n", 77])], "x has 2 axes"),
            ([image_input(["n", 3, 16, 224, 224])], "x has 5 axes"),
            ([image_input(["n", 4, 8, 8])], "x has 4 channels"),
            ([image_input(["n", 3, 8, 8], TensorProto.STRING)], "of type tensor"),
            ([image_input(), image_input(["n", 7], TensorProto.INT64, "input_ids")], r"2 inputs \(x, input_ids\)"),
            ([], "0 inputs"),
        ],
        ids=["tokens", "rows", "films", "four channels", "text", "two inputs", "none"],
    )
    def test_they_are_refused(self, inputs: list[onnx.ValueInfoProto], why: str, tmp_path: Path) -> None:
        nodes = [helper.make_node("Shape", [given.name], [f"shape of {given.name}"]) for given in inputs] or [
            helper.make_node("Constant", [], ["c"], value_floats=[1.0])
        ]
        outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.INT64, None) for node in nodes]
        if not inputs:
            outputs = [flat("c")]
        path = saved(graph_model(nodes, inputs, outputs), tmp_path / "m.onnx")
        with pytest.raises(InvalidInput, match=rf"m\.onnx takes no images: .*{why}.*Export the part"):
            opened(path)

    def test_an_input_with_a_default_is_not_required(self, tmp_path: Path) -> None:
        model = conv_model()
        model.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [5, 3, 2, 2]))
        assert opened(saved(model, tmp_path / "m.onnx")).dim == 5

    def test_an_enormous_input(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="the height of images must be between 1 and 4096; got 1000000"):
            opened(saved(conv_model(("n", 3, 1_000_000, 1_000_000)), tmp_path / "m.onnx"))


def test_operators_of_somebody_are_named(tmp_path: Path) -> None:
    node = helper.make_node("Whiten", ["x"], ["y"], domain="org.example")
    path = saved(graph_model([node], [image_input()], [flat()], domains=["org.example"]), tmp_path / "m.onnx")
    with pytest.raises(InvalidInput, match=r"operators that onnxruntime does not have: org\.example\.Whiten"):
        opened(path)


def test_operators_that_the_file_defines_are_no_strangers(tmp_path: Path) -> None:
    model = conv_model()
    double = helper.make_function(
        "org.example",
        "Double",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    model.functions.append(double)
    model.opset_import.append(helper.make_opsetid("org.example", 1))
    model.graph.node.append(helper.make_node("Double", ["scores"], ["twice"], domain="org.example"))
    model.graph.output.append(flat("twice"))
    path = saved(model, tmp_path / "m.onnx")
    assert open_onnx(path, output="twice", device=torch.device("cpu")).dim == 5


def test_unknown_operators_without_a_domain(tmp_path: Path) -> None:
    path = saved(
        graph_model([helper.make_node("Whiten", ["x"], ["y"])], [image_input()], [flat()]), tmp_path / "m.onnx"
    )
    with pytest.raises(InvalidInput, match=r"onnxruntime cannot open m\.onnx: .*Whiten"):
        opened(path)


class TestOutsideData:
    def model_with_weights_at(self, path: Path, location: str, **facts: str) -> Path:
        model = conv_model()
        (weights,) = model.graph.initializer
        (path.parent / "inside.bin").write_bytes(weights.raw_data)
        weights.ClearField("raw_data")
        weights.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **facts}.items():
            weights.external_data.add(key=key, value=value)
        return saved(model, path)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """A folder for the model, beside a secret of the right size."""
        (tmp_path / "secret.bin").write_bytes(bytes(240))
        (tmp_path / "model").mkdir()
        return tmp_path / "model"

    def test_inside_its_folder(self, place: Path) -> None:
        path = self.model_with_weights_at(place / "m.onnx", "inside.bin", offset="0", length="240")
        assert opened(path).dim == 5

    @pytest.mark.parametrize(
        "location",
        [
            "{secret}",
            "../secret.bin",
            "sub/../../secret.bin",
            "..\\secret.bin",
            "C:\\secret.bin",
            "\\\\server\\secret.bin",
            "",
            ".",
            "a\0b",
            "link.bin",
            "folder/secret.bin",
            "*/_ORT_MEM_ADDR_/*",
        ],
    )
    def test_outside_its_folder(self, location: str, place: Path) -> None:
        (place / "link.bin").symlink_to(place.parent / "secret.bin")
        (place / "folder").symlink_to(place.parent)
        (place / "sub").mkdir()
        (place / "*" / "_ORT_MEM_ADDR_").mkdir(parents=True)
        (place / "*" / "_ORT_MEM_ADDR_" / "*").write_bytes(bytes(240))
        path = self.model_with_weights_at(place / "m.onnx", location.format(secret=place.parent / "secret.bin"))
        with pytest.raises(InvalidInput, match="lies outside its folder"):
            opened(path)

    @pytest.mark.parametrize("hide", ["subgraph", "sparse", "function"])
    def test_hidden_deep_inside(self, hide: str, place: Path) -> None:
        tensor = numpy_helper.from_array(np.zeros(60, np.float32), "t")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../secret.bin")
        constant = helper.make_node("Constant", [], ["c"], value=tensor)
        model = conv_model()
        if hide == "subgraph":
            branch = helper.make_graph([constant], "branch", [], [flat("c")])
            model.graph.node.append(helper.make_node("If", ["yes"], ["z"], then_branch=branch, else_branch=branch))
            model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
        elif hide == "function":
            model.functions.append(
                helper.make_function("own", "F", [], ["c"], [constant], [helper.make_opsetid("", 17)])
            )
        else:
            places = numpy_helper.from_array(np.arange(60), "places")
            model.graph.sparse_initializer.append(helper.make_sparse_tensor(tensor, places, [60]))
        with pytest.raises(InvalidInput, match=r"weights at '\.\./secret\.bin', which lies outside"):
            opened(saved(model, place / "m.onnx"))

    def test_a_store_of_links(self, tmp_path: Path) -> None:
        """Both files are links into one other folder, as in the cache of Hugging Face."""
        for folder in ("blobs", "snapshot"):
            (tmp_path / folder).mkdir()
        self.model_with_weights_at(tmp_path / "blobs" / "b1", "inside.bin")
        (tmp_path / "snapshot" / "m.onnx").symlink_to(tmp_path / "blobs" / "b1")
        (tmp_path / "snapshot" / "inside.bin").symlink_to(tmp_path / "blobs" / "inside.bin")
        assert opened(tmp_path / "snapshot" / "m.onnx").dim == 5

    def test_not_there(self, place: Path) -> None:
        with pytest.raises(MissingData, match=r"weights in 'gone\.bin', which is not there"):
            opened(self.model_with_weights_at(place / "m.onnx", "gone.bin"))

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
    def test_a_pipe(self, place: Path) -> None:
        os.mkfifo(place / "pipe")
        with pytest.raises(InvalidInput, match="lies outside its folder"):
            opened(self.model_with_weights_at(place / "m.onnx", "pipe"))

    def test_too_short(self, place: Path) -> None:
        path = self.model_with_weights_at(place / "m.onnx", "inside.bin")
        (place / "inside.bin").write_bytes(bytes(100))
        with pytest.raises(InvalidInput, match=r"inside\.bin has 100 bytes, and m\.onnx needs 240 of it"):
            opened(path)

    @pytest.mark.parametrize(
        ("facts", "why"),
        [
            ({"offset": "8"}, "needs 248 of it"),
            ({"offset": "9" * 18}, "needs 1,000,000,000,000,000,239 of it"),
            ({"offset": "-1"}, "a place that is no whole number"),
            ({"offset": "9" * 30}, "a place that is no whole number"),
            ({"length": "239"}, "needs 240 bytes and says it has 239"),
        ],
    )
    def test_impossible_places(self, facts: dict[str, str], why: str, place: Path) -> None:
        with pytest.raises(InvalidInput, match=why):
            opened(self.model_with_weights_at(place / "m.onnx", "inside.bin", **facts))


class TestGiants:
    def lie(self, path: Path, change: Callable[[onnx.TensorProto], object]) -> Path:
        model = conv_model()
        change(model.graph.initializer[0])
        return saved(model, path)

    @pytest.mark.parametrize("dims", [[1 << 40], [1 << 62, 1 << 62], [-1], [5, 3, 2, 3], [2] * 65])
    def test_claims_of_a_tensor(self, dims: list[int], tmp_path: Path) -> None:
        path = self.lie(tmp_path / "m.onnx", lambda tensor: (tensor.ClearField("dims"), tensor.dims.extend(dims)))
        tracemalloc.start()
        with pytest.raises(InvalidInput, match=r"does not hold them|no possible shape"):
            opened(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 24

    def test_claims_of_a_tensor_without_raw_bytes(self, tmp_path: Path) -> None:
        def change(tensor: onnx.TensorProto) -> None:
            tensor.ClearField("raw_data")
            tensor.float_data.extend([1.0, 2.0])
            tensor.dims[0] = 1 << 40

        with pytest.raises(InvalidInput, match="does not hold them"):
            opened(self.lie(tmp_path / "m.onnx", change))

    def test_a_sparse_tensor(self, tmp_path: Path) -> None:
        model = conv_model()
        one = numpy_helper.from_array(np.ones(1, np.float32), "s")
        model.graph.sparse_initializer.append(
            helper.make_sparse_tensor(one, numpy_helper.from_array(np.zeros(1, np.int64), "i"), [1 << 20, 1 << 20])
        )
        with pytest.raises(InvalidInput, match="a sparse tensor claims 1,099,511,627,776 values"):
            opened(saved(model, tmp_path / "m.onnx"))

    def test_a_tensor_that_is_made_at_run_time(self, tmp_path: Path) -> None:
        model = graph_model(
            [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])],
            [image_input()],
            [flat()],
            [numpy_helper.from_array(np.array([1 << 20, 1 << 20, 8, 8]), "s")],
        )
        with pytest.raises(InvalidInput, match=r"onnxruntime cannot open m\.onnx|m\.onnx failed on images"):
            opened(saved(model, tmp_path / "m.onnx"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_features_that_are_no_numbers(value: float, tmp_path: Path) -> None:
    model = conv_model()
    (weights,) = model.graph.initializer
    weights.raw_data = struct.pack("<f", value) + weights.raw_data[4:]
    encoder = opened(saved(model, tmp_path / "m.onnx"))
    with pytest.raises(InvalidInput, match=r"m\.onnx gave values that are no numbers .* for 2 of 2 images"):
        encoder.features(torch.rand(2, 3, 8, 8))
