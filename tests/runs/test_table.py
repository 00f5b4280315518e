from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from selfsort.runs.table import label_csv, read_columns


def written(path: Path, names: list[str], labels: list[int], confidence: list[float]) -> Path:
    path.write_bytes(label_csv(names, np.array(labels), np.array(confidence, np.float32)))
    return path


def test_a_table_as_we_write_it(tmp_path: Path) -> None:
    names = ["a.png", "", "ü/b c.png", "caf\udce9.png", "-1"]
    draw = np.random.default_rng(0)
    sure = [0.0, 1.0, 0.5, *draw.random(2).tolist()]
    found = read_columns(written(tmp_path / "labels.csv", names, [0, 12, 999_999, -1, 7], sure))
    assert found is not None
    assert list(found.names) == names
    assert found.names == tuple(names)
    assert found.labels.tolist() == [0, 12, 999_999, -1, 7]
    assert found.confidence.dtype == np.float32
    assert found.confidence.tolist() == [np.float32(f"{float(np.float32(one)):.6f}") for one in sure]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name,cluster,confidence\n",
        "cluster,name,confidence\na,1,0.500000\n",
        "name,cluster,confidence\na,1,0.500000",
        "name,cluster,confidence\na,1\n",
        "name,cluster,confidence\na,1,0.500000\nb,1,2,0.500000\n",
        "name,cluster,confidence\na,1,0.500000,\nb,1\n",
        'name,cluster,confidence\n"a,b",1,0.500000\n',
        "name,cluster,confidence\r\na,1,0.500000\r\n",
        "name,cluster,confidence\na,x,0.500000\n",
        "name,cluster,confidence\na,,0.500000\n",
        "name,cluster,confidence\na,-,0.500000\n",
        "name,cluster,confidence\na,1.0,0.500000\n",
        "name,cluster,confidence\na,1234567890123456789,0.500000\n",
        "name,cluster,confidence\na,1,0.5\n",
        "name,cluster,confidence\na,1,.500000\n",
        "name,cluster,confidence\na,1,nan\n",
        "name,cluster,confidence\na,1,1e-0000001\n",
        "name,cluster,confidence\na,1,-0.500000\n",
        "name,cluster,confidence\na,1,7.000000\n",
        "name,cluster,confidence\na,1,0.50000x\n",
    ],
)
def test_any_other_form_is_left_to_others(tmp_path: Path, text: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(text, newline="")
    assert read_columns(path) is None
