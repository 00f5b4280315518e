from __future__ import annotations

import json
from dataclasses import replace

from tests.conftest import Command

from selfsort.cli.doctor import Machine, advise

GOOD = Machine(
    cores=8,
    threads=8,
    load=0.5,
    memory_gb=32,
    accelerator="mps",
    extras=dict.fromkeys(("pretrained", "onnx", "explore", "heic"), True),
    cache=None,
)


def test_it_shows_the_machine_and_the_extras(selfsort: Command) -> None:
    done = selfsort("doctor")
    assert done.code == 0, done.err
    assert all(word in done.out for word in ("cores", "memory", "accelerator", "encoders", "heic", "explore"))
    answer = json.loads(selfsort("doctor", "--json").out)
    assert answer["cores"] >= 1
    assert answer["memory_gb"] > 0
    assert set(answer["extras"]) >= {"pretrained", "onnx", "explore", "heic"}


def test_what_would_make_it_faster() -> None:
    assert advise(GOOD) == ["Nothing is missing."]
    bare = replace(GOOD, extras=dict.fromkeys(GOOD.extras, False))
    assert advise(bare) == ['For photographs: pip install "selfsort[photos]"']
    assert advise(replace(GOOD, extras={**GOOD.extras, "heic": False})) == [
        'For photographs: pip install "selfsort[heic]"'
    ]
    assert "keep the 8 cores busy" in advise(replace(GOOD, load=20.0))[0]
    assert "unset OMP_NUM_THREADS" in advise(replace(GOOD, threads=1))[0]
    assert "a graphics card helps" in advise(replace(GOOD, accelerator=None))[0]
