from __future__ import annotations

import json
from typing import Any

import pytest

from selfsort.errors import InvalidInput
from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename, Split, from_json, kind_of, to_json

EVERY_KIND: list[Edit] = [
    Rename(3, "cats & <dogs>"),
    Rename(3, ""),
    Merge((1, 2), 2),
    Split(0, ((7, (1, 5)), (8, (2,)))),
    Move((4, 5), 9),
    Mark((1,), True),
]


@pytest.mark.parametrize("edit", EVERY_KIND, ids=kind_of)
def test_an_edit_survives_json(edit: Edit) -> None:
    assert from_json(kind_of(edit), json.loads(json.dumps(to_json(edit)))) == edit


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("drop", {}),
        (None, {}),
        (["move"], {"rows": [1], "to": 0}),
        ("move", None),
        ("move", [1, 2]),
        ("move", {"rows": [1]}),
        ("move", {"rows": [1], "to": 0, "more": 1}),
        ("move", {"rows": "12", "to": 0}),
        ("move", {"rows": 1, "to": 0}),
        ("move", {"rows": [1.5], "to": 0}),
        ("move", {"rows": [True], "to": 0}),
        ("move", {"rows": [-1], "to": 0}),
        ("move", {"rows": [1], "to": 2**62}),
        ("merge", {"clusters": [1, None], "into": 1}),
        ("rename", {"cluster": 0, "name": 5}),
        ("rename", {"cluster": 0, "name": "x" * 81}),
        ("rename", {"cluster": 0, "name": "a\x1b[31m"}),
        ("split", {"cluster": 0, "parts": [[1, [2], 3]]}),
        ("split", {"cluster": 0, "parts": {"1": [2]}}),
        ("mark", {"rows": [1], "is_wrong": 1}),
    ],
)
def test_anything_else_is_refused(kind: Any, values: Any) -> None:
    with pytest.raises(InvalidInput, match=r"the edits of this run cannot be used \(.+\)\. Expected .+ move it away"):
        from_json(kind, values)
