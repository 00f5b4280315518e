from __future__ import annotations

import re
from pathlib import Path

import pytest

from selfsort.bench.cells import NO_ENCODER, PROTOCOLS, Cell
from selfsort.bench.datasets import DATASETS
from selfsort.bench.scripts import SCRIPTS
from selfsort.bench.summary import summarise, title_of
from selfsort.bench.tables import ALIASES, TABLES, Row, Table, find_table
from selfsort.errors import InvalidInput
from selfsort.methods.recipes import recipes_of
from selfsort.metrics.published import published


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_cell_can_be_set_up_and_stands_once(table: Table) -> None:
    cells = table.cells([0])
    contents = [str(cell.content()) for cell in cells]
    n_rows = sum(not row.is_straight for row in table.rows)
    assert len(set(contents)) == len(cells) == n_rows * len(table.datasets)
    assert len({row.name for row in table.rows}) == len(table.rows)
    assert all(cell.protocol in PROTOCOLS for cell in cells)
    assert set(table.datasets) <= set(DATASETS)


def test_rows_that_claim_a_published_number_have_one() -> None:
    for table in TABLES.values():
        for row in (row for row in table.rows if row.is_published):
            name, features = row.printed_as or row.method, row.features or table.features
            columns = [row.printed_on or DATASETS[dataset].printed_as or dataset for dataset in table.datasets]
            found = [bool(published(name, column, features)) for column in columns]
            # What was learned elsewhere, or made by hand, was shown on one data set each; DBC's peers on some.
            is_partial = row.encoder not in (NO_ENCODER, "jule@self", "jule/paper@self") or name in (
                "dec",
                "dae-kmeans",
                "kmeans-dbc",
            )
            is_claimed = any(found) if is_partial else all(found)
            assert is_claimed, (table.name, row.name)


def test_features_of_another_data_set_stand_beside_their_printed_figures() -> None:
    found = {(s.row.encoder, s.dataset): s.published("nmi") for s in summarise(TABLES["jule-transfer"], {})}
    assert found["none", "usps"] == 0.874
    assert found["jule@mnist-test:top-2", "usps"] == found["jule/paper@mnist-test:top-2", "usps"] == 0.908
    assert found["jule@usps:top-2", "mnist-test"] is None
    assert found["jule/paper@usps:top-2", "mnist-test"] is None
    by_hand = {(s.row.encoder, s.row.method, s.dataset): s.published("nmi") for s in summarise(TABLES["jule-12"], {})}
    assert by_hand["hog", "ncuts", "mnist-test"] == 0.423
    assert by_hand["hog", "ncuts", "umist"] is None


@pytest.mark.parametrize(
    ("table", "means"),
    [("gatcluster-3-160", [0.669]), ("gatcluster-4", [0.735, 0.666, 0.678, 0.719, 0.645])],
)
def test_the_sweeps_of_gatcluster_stand_beside_their_printed_means(table: str, means: list[float]) -> None:
    assert [summary.published_runs("acc")[1] for summary in summarise(TABLES[table], {})] == means


def test_best_mean_and_deviation_of_gatcluster_are_those_printed() -> None:
    found = {
        summary.row.printed_as or "gatcluster": summary.published_runs("nmi")
        for summary in summarise(TABLES["gatcluster-2"], {})
    }
    assert found["gatcluster-no-am"] == (0.416, 0.383, 0.015)
    assert found["gatcluster"] == (0.446, 0.415, 0.022)
    (dog,) = (s for s in summarise(TABLES["gatcluster-1-imagenet-dog-128"], {}) if s.row.is_published)
    assert dog.published_runs("acc") == (0.333, None, None)


@pytest.mark.parametrize(
    ("dataset", "settings"),
    [
        ("stl10", {"M": 1000, "gray": True}),
        ("imagenet10", {"M": 1000, "gray": True}),
        ("imagenet-dog", {"M": 1500, "gray": False, "map_side": 4, "arch": "dog-96"}),
        ("imagenet-dog-128", {"M": 1500, "gray": False, "map_side": 4, "arch": "dog-128"}),
        ("cifar10", {"M": 4000, "gray": True}),
        ("cifar100-20", {"M": 6000, "gray": True}),
    ],
)
def test_the_printed_settings_of_gatcluster_are_those_of_the_data_set(
    dataset: str, settings: dict[str, object]
) -> None:
    (cell,) = (cell for cell in TABLES[f"gatcluster-1-{dataset}"].cells([0]) if cell.recipe == "paper")
    full = cell.full_settings()
    assert {name: full[name] for name in settings} == settings


def test_recipes_for_named_data_stand_in_a_table() -> None:
    shown = {row.recipe for table in TABLES.values() for row in table.rows if row.method == "gatcluster"}
    assert {recipe.name for recipe in recipes_of("gatcluster") if recipe.image_shape} <= shown


def test_a_table_has_the_nmi_of_the_figures_beside_it() -> None:
    for table in TABLES.values():
        for summary in summarise(table, {}):
            printed = summary._printed()
            if printed is not None and printed.nmi is not None:
                assert printed.nmi_variant == table.nmi_variant, (table.name, summary.row.name)


def test_what_a_page_says_of_nmi_is_what_its_table_shows() -> None:
    pages = Path(__file__).parents[2] / "docs" / "methods"
    named = {"geometric": "NMI (geometric)", "max": "NMI (by the larger entropy", "arithmetic": "NMI (arithmetic"}
    for page in sorted(pages.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(r"<!-- records: (\S+) [^>]*nmi", text):
            above = text[: block.start()].rpartition("ACC / NMI")[2]
            assert f"NMI{above}".startswith(named[find_table(block[1]).nmi_variant]), (page.name, block[1])


def test_the_sweeps_of_secu_stand_beside_their_printed_figures() -> None:
    table = TABLES["secu-size"]
    shown = [summary.published("ari") for summary in summarise(table, {})]
    assert shown == [0.730, 0.776, 0.766, 0.751]
    assert [summary.published("acc") for summary in summarise(TABLES["secu-batch"], {})] == [0.879, 0.883, 0.881, 0.879]


PRINTED = (
    *("jule-3", "jule-4", "jule-7", "jule-10", "jule-11", "jule-12", "jule-13", "jule-14", "jule-transfer"),
    *(
        "jule-5",
        "jule-6",
        "jule-8",
        "jule-codebook",
        "jule-ks",
        "jule-eta",
        "jule-alpha",
        "dbc",
        "dbc-alpha",
        "dbc-nj",
        "dbc-init",
    ),
    *("dac-mnist", "dac-cifar10", "gatcluster-1-stl10", "gatcluster-2", "gatcluster-3-96", "gatcluster-4"),
    *("secu-size", "secu-entropy", "secu-self-label"),
)


@pytest.mark.parametrize("name", PRINTED)
def test_every_printed_table_has_a_name(name: str) -> None:
    if ALIASES.get(name, name) in SCRIPTS:
        assert SCRIPTS[ALIASES.get(name, name)].trials
    else:
        assert find_table(name).rows


def test_the_network_of_a_row_is_learned_on_its_own_data_set() -> None:
    table = TABLES["jule-4"]
    of_paper = {
        name: "paper-faces" if name in ("umist", "frgc", "cmu-pie", "ytf") else "paper" for name in table.datasets
    }
    assert {cell.encoder for cell in table.cells([0])} == {
        *(f"jule@{name}" for name in table.datasets),
        *(f"jule/{recipe}@{name}" for name, recipe in of_paper.items()),
    }
    cell = next(cell for cell in table.cells([0]) if cell.encoder == "jule/paper-faces@umist")
    assert cell.base == Cell(dataset="umist", method="jule", seed=0, recipe="paper-faces")
    assert cell.base.full_settings()["gamma"] == 2.0


@pytest.mark.parametrize("table", ["jule-3", "jule-ks", "faithful"])
def test_faces_have_their_own_rate_of_merging(table: str) -> None:
    rates = {
        cell.dataset: cell.full_settings()["eta"]
        for cell in TABLES[table].cells([0])
        if cell.method == "jule" and cell.recipe.startswith("paper")
    }
    assert (rates["umist"], rates["cmu-pie"], rates["coil20"]) == (0.2, 0.2, 0.9)


def test_hand_crafted_features_are_clustered_as_they_are() -> None:
    settings = TABLES["jule-12"].cells([0])[0].full_settings()["encoder"]
    assert (settings["mirror"], settings["centre"]) == (False, False)


def test_both_results_of_jule_are_one_cell() -> None:
    table = TABLES["jule-3"]
    straight, again = (row for row in table.rows if row.method == "jule" and row.recipe == "auto")
    cell = table.cell(straight, "usps", 0)
    assert cell == table.cell(again, "usps", 0)
    found = {"acc": 0.8, "nmi_geometric": 0.7, "ari": 0.6}
    record = {**cell.content(), "scores_sf": found, "scores": {name: value + 0.1 for name, value in found.items()}}
    shown = {s.row.name: s for s in summarise(table, {"key": record}) if s.records}
    assert shown["jule, SF"].mean("acc") == 0.8
    assert shown["jule, SF"].published("acc") == 0.922
    assert shown["jule"].mean("acc") == pytest.approx(0.9)
    assert shown["jule"].published("acc") == 0.950


def test_a_measured_nmi_is_of_the_kind_that_was_printed() -> None:
    table = TABLES["dbc"]
    row = next(row for row in table.rows if row.recipe == "taught")
    record = {**table.cell(row, "usps", 0).content(), "scores": {"nmi_geometric": 0.9, "nmi_max": 0.8}}
    (shown,) = (s for s in summarise(table, {"key": record}) if s.records)
    assert shown.mean("nmi") == 0.8
    assert title_of("nmi", table) == "NMI (max)"


def test_only_what_is_random_is_measured_with_several_seeds_and_breadth_comes_first() -> None:
    rows = (Row("kmeans", is_random=True), Row("ac-gdl"))
    table = Table(name="t", title="t", rows=rows, datasets=("umist", "usps"))
    assert [(cell.seed, cell.dataset, cell.method) for cell in table.cells([4, 5])] == [
        (4, "umist", "kmeans"),
        (0, "umist", "ac-gdl"),
        (4, "usps", "kmeans"),
        (0, "usps", "ac-gdl"),
        (5, "umist", "kmeans"),
        (5, "usps", "kmeans"),
    ]
    assert len(table.cells()) == 2 * (3 + 1)


def test_a_near_miss_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"got 'clasic'. Did you mean classic\?"):
        find_table("clasic")
