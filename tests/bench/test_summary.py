from __future__ import annotations

from typing import Any

import pytest

from selfsort.bench.cells import Cell
from selfsort.bench.summary import summarise
from selfsort.bench.tables import Row, Table

ROWS = (Row("kmeans", is_random=True, is_published=True), Row("ac-gdl"))
TABLE = Table(name="small", title="A small table", rows=ROWS, datasets=("umist",))


def record(method: str, seed: int, nmi: float, **changes: Any) -> dict[str, Any]:
    return encoded_record(method, seed, nmi, "none", **changes)


def encoded_record(method: str, seed: int, nmi: float, encoder: str, **changes: Any) -> dict[str, Any]:
    content = Cell(dataset="umist", method=method, seed=seed, encoder=encoder).content()
    scores = {"nmi_geometric": nmi, "acc": nmi / 2, "ari": 0.1}
    return {**content, "scores": scores, "cpu_seconds": 2.0, "peak_memory_mb": None, **changes}


def test_means_and_spreads_stand_beside_what_was_published() -> None:
    kmeans, gdl = summarise(TABLE, {"a": record("kmeans", 1, 0.5), "b": record("kmeans", 0, 0.7)})
    assert kmeans.mean("nmi") == pytest.approx(0.6)
    assert kmeans.spread("nmi") == pytest.approx(0.1)
    assert (kmeans.published("nmi"), kmeans.published("acc"), kmeans.published("ari")) == (0.609, 0.419, None)
    assert (kmeans.published("seconds"), kmeans.mean("seconds"), kmeans.mean("memory")) == (None, 2.0, None)
    assert [found["seed"] for found in kmeans.records] == [0, 1]
    assert gdl.records == ()
    expected = {"best": pytest.approx(0.35), "mean": pytest.approx(0.3), "spread": pytest.approx(0.05)}
    assert kmeans.to_json()["acc"] == {**expected, "published": 0.419}


def test_the_newest_of_one_seed_counts_and_other_settings_do_not() -> None:
    records = {"a": record("kmeans", 0, 0.1), "b": record("kmeans", 0, 0.9)}
    records["c"] = record("kmeans", 1, 0.2, settings_digest="of other defaults")
    kmeans, _ = summarise(TABLE, records)
    assert kmeans.values("nmi") == [0.9]
    assert kmeans.spread("nmi") is None


def test_an_encoder_makes_another_row_which_says_what_encoding_took() -> None:
    encoder = "efficientnet-lite0"
    table = Table(name="small", title="t", rows=(Row("kmeans"), Row("kmeans", encoder=encoder)), datasets=("umist",))
    found = {
        "a": encoded_record("kmeans", 0, 0.9, encoder, dimension=1280, encode_ms=12.5),
        "b": record("kmeans", 0, 0.3),
    }
    scratch, encoded = summarise(table, found)
    assert (scratch.row.seen, encoded.row.seen) == ("from scratch", "with efficientnet-lite0")
    assert (scratch.mean("nmi"), encoded.mean("nmi")) == (0.3, 0.9)
    assert (scratch.to_json()["encode_ms"], encoded.to_json()["encode_ms"]) == (None, 12.5)
    assert encoded.to_json()["dimension"] == 1280
    assert (scratch.to_json()["encoder"], encoded.to_json()["encoder"]) == ("none", encoder)


def test_a_refusal_is_shown_where_nothing_was_scored() -> None:
    refused = record("ac-gdl", 0, 0.1)
    del refused["scores"]
    _, gdl = summarise(TABLE, {"a": {**refused, "refused": "too many images"}})
    assert (gdl.refused, gdl.records) == ("too many images", ())
    assert gdl.to_json()["refused"] == "too many images"
