from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.folders import make_run
from tests.report.pages import Page, parse_text

from selfsort.report.drawings import Picture
from selfsort.report.read import RunData, read_run
from selfsort.report.render.svg import draw_panels
from selfsort.report.sections import gallery as rooms
from selfsort.report.sections.gallery import gallery, samples, sizes
from selfsort.report.sections.pictures import Pictures


def shown(run: RunData) -> Page:
    return parse_text(gallery(run, Pictures(run), budget=10**7))


def test_each_cluster_has_a_card_the_largest_first(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=61, k=4))
    cards = shown(run).all("article", "card")
    order = sorted(range(4), key=lambda c: -int(run.sizes[c]))
    assert [card.attributes["id"] for card in cards] == [f"cluster-{c}" for c in order]
    assert f"{int(run.sizes[order[0]])} images" in cards[0].text


def test_a_card_says_which_class_it_mostly_holds(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", class_names=["cat", "<dog>", "owl"]))
    text = {card.attributes["id"]: card.text for card in shown(run).all("article")}
    assert "mostly <dog> (" in text["cluster-1"]


def test_every_picture_has_words(tmp_path: Path) -> None:
    page = shown(read_run(make_run(tmp_path / "run")))
    assert page.all("img")
    assert all(image.attributes["alt"] for image in page.all("img"))


def test_empty_clusters_are_named(tmp_path: Path) -> None:
    page = shown(read_run(make_run(tmp_path / "run", k=3, config={"settings": {"n_clusters": 5}})))
    assert len(page.all("article")) == 3
    assert "Without any image: 3, 4." in page.text_of_all


def test_without_pictures_numbers_remain(tmp_path: Path) -> None:
    page = shown(read_run(make_run(tmp_path / "run", n_thumbnails=0)))
    assert len(page.all("article")) == 3
    assert "kept no pictures" in page.text_of_all


def test_too_many_clusters_are_counted_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "MAX_CARDS", 2)
    page = shown(read_run(make_run(tmp_path / "run", k=5)))
    assert len(page.all("article")) == 2
    assert "The 3 smallest clusters are not shown." in page.text_of_all


def test_sizes_are_bars_or_for_many_clusters_a_histogram(tmp_path: Path) -> None:
    few = parse_text(draw_panels(sizes(read_run(make_run(tmp_path / "few", k=5)))))
    many = parse_text(draw_panels(sizes(read_run(make_run(tmp_path / "many", n=400, k=100, n_thumbnails=0)))))
    assert [e.text for e in few.all("figcaption")] == ["Images per cluster", "Images by confidence"]
    assert few.all("rect")[0].attributes["class"].startswith("box k")
    assert [e.text for e in many.all("figcaption")] == ["Clusters by size", "Images by confidence"]


def test_samples_stand_in_columns_the_surest_on_top(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", n=9, k=3))
    table, pictures = samples(run), Pictures(run)
    assert table is not None
    assert (table.columns, len(table.cells)) == (3, 18)
    for cluster in range(3):
        members = [row for row in range(9) if run.table.labels[row] == cluster]
        surest, top = max(members, key=lambda row: run.table.confidence[row]), table.cells[cluster]
        assert isinstance(top, Picture)
        assert top.title == str(cluster)
        assert (top.pixels == pictures.pixels(surest)).all()
    assert table.cells[-1] is None
