from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from tests.report.folders import make_run
from tests.report.pages import parse_text

from selfsort.report.read import RunData, read_run
from selfsort.report.sections import compare
from selfsort.report.sections.compare import best_mean_std, changed_settings, comparison, group_runs, swept_setting
from selfsort.types import Json


def run(path: Path, seed: int, *, n: int = 60, **config: Json) -> RunData:
    return read_run(make_run(path / f"run{len(list(path.iterdir()))}", n=n, seed=seed, config=dict(config)))


def settings(**values: float) -> Json:
    return {"n_clusters": 3, **values}


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path: Path) -> None:
    runs = [run(tmp_path, s, settings=settings(eta=0.9)) for s in (0, 1)] + [
        run(tmp_path, 0, settings=settings(eta=0.2))
    ]
    assert [[r.config["seed"] for r in group.runs] for group in group_runs(runs)] == [[0, 1], [0]]
    assert changed_settings(runs) == ["eta"]
    other = read_run(make_run(tmp_path / "other", config={"method": "other", "settings": settings(width=3)}))
    assert changed_settings([*runs, other]) == ["eta"], "another method has other settings, which is no news"


def test_best_mean_and_deviation_over_seeds_are_in_the_table(tmp_path: Path) -> None:
    runs = [run(tmp_path, seed) for seed in (0, 1, 2)]
    acc = np.array([r.scores["acc"] for r in runs])
    page = parse_text(comparison(runs))
    cells = [e.text for e in page.all("td")]
    assert f"{acc.max():.3f} / {acc.mean():.3f} / {acc.std(ddof=1):.3f}" in cells
    assert "0, 1, 2" in cells
    assert [e.attributes["href"] for e in page.all("a")] == ["#r0-run", "#r1-run", "#r2-run"]


def test_one_run_per_group_has_no_spread_table(tmp_path: Path) -> None:
    runs = [run(tmp_path, 0, settings=settings(eta=0.9)), run(tmp_path, 0, settings=settings(eta=0.2))]
    assert "Best, mean" not in comparison(runs)


def test_agreement_is_complete_with_oneself_and_the_same_both_ways(tmp_path: Path) -> None:
    runs = [run(tmp_path, 0), run(tmp_path, 1)]
    page = parse_text(comparison(runs))
    (ari, nmi) = page.all("figure", "matrix")
    assert ari.text.count("1.00") >= 2
    assert "NMI (geometric)" in nmi.text


def test_runs_over_other_images_are_not_compared_label_by_label(tmp_path: Path) -> None:
    page = parse_text(comparison([run(tmp_path, 0), run(tmp_path, 0, n=30)]))
    assert "cannot be compared" in page.text_of_all
    assert not page.all("figure", "matrix")


def test_a_sweep_is_drawn_when_one_number_was_varied(tmp_path: Path) -> None:
    runs = [run(tmp_path, 0, settings=settings(eta=e, other=1)) for e in (0.2, 0.5, 0.9)]
    assert swept_setting(runs) == "eta"
    assert "Scores by eta" in comparison(runs)


def test_two_varied_settings_or_words_are_no_sweep(tmp_path: Path) -> None:
    two = [run(tmp_path, 0, settings=settings(a=i, b=i)) for i in (0, 1)]
    words = [run(tmp_path, 0, settings={"n_clusters": 3, "graph": g}) for g in ("local", "global")]
    methods = [run(tmp_path, 0), read_run(make_run(tmp_path / "other", config={"method": "jule"}))]
    assert [swept_setting(runs) for runs in (two, words, methods)] == [None, None, None]


def test_one_value_has_no_spread() -> None:
    assert best_mean_std(np.array([])) == ""
    assert best_mean_std(np.array([0.25])) == "0.250"


class TestCopies:
    def table(self, tmp_path: Path) -> list[list[str]]:
        runs = [read_run(make_run(tmp_path / name, has_truth=False)) for name in ("one_a", "two")]
        return compare.comparison_table(runs, compare.changed_settings(runs))

    def test_columns_that_say_nothing_are_left_out(self, tmp_path: Path) -> None:
        titles, *rows = self.table(tmp_path)
        assert titles == ["run", "images from", "method", "seed", "images", "clusters", "time"]
        assert all(all(row) for row in rows)

    def test_csv_can_be_read_back(self, tmp_path: Path) -> None:
        table = self.table(tmp_path)
        assert list(csv.reader(io.StringIO(compare.as_csv(table)))) == table

    def test_latex_is_escaped(self, tmp_path: Path) -> None:
        text = compare.as_latex(self.table(tmp_path))
        assert text.startswith("\\begin{tabular}{lllllll}\n\\toprule\nrun & images from &")
        assert "one\\_a & shapes & kmeans & 0 & 60 & 3 & 2.5 s \\\\\n" in text

    def test_they_are_on_the_page(self, tmp_path: Path) -> None:
        runs = [read_run(make_run(tmp_path / name)) for name in ("a", "b")]
        page = str(compare.comparison(runs))
        assert "This table as CSV" in page
        assert "This table as LaTeX" in page
