"""The page as a whole, on tiny run folders made here."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.report.folders import make_run
from tests.report.pages import Page, parse
from tests.report.stories import merging_run, pairing_run

from selfsort.data.options import ReadOptions
from selfsort.errors import CannotWrite, InvalidInput, MissingData
from selfsort.report import contents
from selfsort.report.build import write_figures, write_report
from selfsort.runs.launch import launch
from selfsort.runs.request import Request

FIGURES_OF_ALL = ["curves", "sizes", "map", "samples", "confusion", "mistakes", "reliability"]

HOSTILE = [
    "<img src=x onerror=alert(1)>.png",
    "</script><script>alert(2)</script>",
    "</title><style>*{display:none}</style>",
    "${style} $body {{x}} %s",
    '" onmouseover="alert(3)',
    "--><!--",
    "\udcff\x00\u202egnp.exe",
]


def test_a_run_gets_its_page_inside_its_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert write_report([run], None) == run / "report.html"
    page = parse(run / "report.html")
    assert {"summary", "clusters", "map", "sizes", "scores", "mistakes", "training"} <= page.ids


def test_several_runs_get_a_page_where_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [make_run(tmp_path / name, seed=i) for i, name in enumerate("ab")]
    monkeypatch.chdir(tmp_path)
    assert write_report(runs, None) == Path("report.html")
    page = parse(tmp_path / "report.html")
    assert {"comparison", "r0-run", "r1-run", "r0-clusters", "r1-clusters", "r0-cluster-0", "r1-map-data"} <= page.ids


@pytest.mark.parametrize("make", [make_run, merging_run, pairing_run])
def test_the_same_folder_gives_the_same_bytes(tmp_path: Path, make: object) -> None:
    run = make(tmp_path / "run")  # type: ignore[operator]
    first = write_report([run], tmp_path / "a.html").read_bytes()
    assert first == write_report([run], tmp_path / "b.html").read_bytes()


def test_a_page_is_whole_on_its_own(tmp_path: Path) -> None:
    page = parse(write_report([pairing_run(tmp_path / "run")], tmp_path / "x.html"))
    for element in page.elements:
        for name in ("src", "href", "srcset", "data", "action", "style"):
            value = element.attributes.get(name, "#")
            assert value.startswith(("#", "data:image/")), f"<{element.tag} {name}={value[:60]!r}>"
    assert "http" not in re.sub(r'http-equiv="', "", page.source)
    assert not page.all("link")
    assert "@import" not in page.source


def test_the_policy_allows_our_own_script_and_style_and_nothing_else(tmp_path: Path) -> None:
    page = parse(write_report([make_run(tmp_path / "run")], tmp_path / "x.html"))
    (policy,) = [e.attributes["content"] for e in page.all("meta") if "http-equiv" in e.attributes]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    scripts = [e for e in page.all("script") if "type" not in e.attributes]
    assert len(scripts) == 2
    for rule, elements in (("style-src", page.all("style")), ("script-src", scripts)):
        digests = [base64.b64encode(hashlib.sha256(e.text.encode()).digest()).decode() for e in elements]
        assert rules[rule].split() == [f"'sha256-{digest}'" for digest in digests]
    assert not [name for e in page.elements for name in e.attributes if name.startswith("on") or name == "style"]


def hostile_page(tmp_path: Path, n_runs: int) -> Page:
    names = HOSTILE + [f"{HOSTILE[i % len(HOSTILE)]}{i}" for i in range(60 - len(HOSTILE))]
    config = {
        "method": HOSTILE[0],
        "source": {"path": f"some/{HOSTILE[1].replace('/', '')}"},
        "settings": {"n_clusters": 3, HOSTILE[2]: HOSTILE[3]},
        "recipe": {"name": HOSTILE[4], "reason": HOSTILE[5]},
        "versions": {HOSTILE[0]: HOSTILE[1]},
    }
    skipped = [{"name": name, "reason": name} for name in HOSTILE]
    runs = [
        make_run(
            tmp_path / f"<b>{i}&amp;",
            names=names,
            class_names=HOSTILE[:3],
            warnings=HOSTILE,
            skipped=skipped,
            config=config,
            seed=i,
        )
        for i in range(n_runs)
    ]
    return parse(write_report(runs, tmp_path / "x.html"))


@pytest.mark.parametrize("n_runs", [1, 2])
def test_names_are_text_wherever_they_appear(tmp_path: Path, n_runs: int) -> None:
    page = hostile_page(tmp_path, n_runs)
    scripts = [e.attributes.get("type") for e in page.all("script")]
    assert sorted(map(str, scripts)) == sorted(["None", "None", *["application/json"] * n_runs])
    assert len(page.all("style")) == len(page.all("title")[:1]) == 1
    assert all(e.attributes["src"].startswith("data:image/") for e in page.all("img"))
    assert not [e for e in page.elements if {"onerror", "onmouseover"} & set(e.attributes)]
    assert HOSTILE[0] in page.text
    assert HOSTILE[3] in page.text
    assert "\u202e" not in page.source


def test_elements_are_named_once_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    page = hostile_page(tmp_path, 2)
    ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    assert {e.attributes["href"][1:] for e in page.all("a")} <= set(ids)


def test_pictures_and_drawings_have_words(tmp_path: Path) -> None:
    page = parse(write_report([pairing_run(tmp_path / "run")], tmp_path / "x.html"))
    assert all(e.attributes.get("alt") for e in page.all("img"))
    assert all(e.attributes.get("aria-label") for e in page.all("svg") + page.all("canvas"))
    assert page.all("html")[0].attributes["lang"] == "en"
    assert len(page.all("h1")) == 1


def test_a_hundred_thousand_images_stay_under_fifteen_megabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Noise is the worst there is for a picture's size; placing the dots is tested elsewhere.
    monkeypatch.setattr(
        "selfsort.report.sections.mapping.neighbour_map", lambda features: features[:, :2].astype(np.float64)
    )
    names = [f"holiday/{'x' * 150}/{i:06d}.jpeg" for i in range(100_000)]
    run = make_run(tmp_path / "run", n=100_000, k=60, side=64, channels=3, n_thumbnails=1450, names=names)
    size = write_report([run], None).stat().st_size
    assert 5_000_000 < size < 15_000_000


def test_a_run_of_two_images_has_a_page(tmp_path: Path) -> None:
    page = parse(write_report([make_run(tmp_path / "run", n=2, k=2, n_events=1)], None))
    assert "clusters" in page.ids


def test_nothing_to_report_on_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no run was named"):
        write_report([], None)


def test_a_bad_folder_leaves_no_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "labels.csv").unlink()
    with pytest.raises(MissingData):
        write_report([run], tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_a_page_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite):
        write_report([make_run(tmp_path / "run")], tmp_path / "file" / "x.html")


def test_several_runs_share_the_room_for_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "GALLERY_BYTES", 24_000)
    monkeypatch.setattr(contents, "TREE_BYTES", 24_000)
    monkeypatch.setattr(contents, "MAP_BYTES", 0)
    runs = [make_run(tmp_path / f"{i}", has_truth=False) for i in range(4)]
    alone = len(parse(write_report(runs[:1], tmp_path / "x.html")).all("img"))
    shared = len(parse(write_report(runs, tmp_path / "x.html")).all("img"))
    assert 0 < shared <= alone


def test_each_figure_is_written_as_png_and_svg_and_always_the_same(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=40, class_names=["$x$", "b", "c"])
    first = write_figures(run, tmp_path / "a")
    assert [path.name for path in first] == [f"{name}.{kind}" for name in FIGURES_OF_ALL for kind in ("png", "svg")]
    with Image.open(tmp_path / "a" / "confusion.png") as picture:
        assert min(picture.size) > 300
    second = write_figures(run, tmp_path / "b")
    assert [
        path.name for path, other in zip(first, second, strict=True) if path.read_bytes() != other.read_bytes()
    ] == []


def test_without_labels_pictures_or_steps_fewer_apply(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", n=2, k=2, has_truth=False, n_thumbnails=0, n_events=1)
    assert [path.name for path in write_figures(run, tmp_path)] == ["sizes.png", "sizes.svg"]


def test_a_run_stopped_before_its_first_step_has_no_clusters_to_speak_of(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=np.zeros((12, 8, 8), np.uint8))
    request = Request(
        source=ReadOptions(path=str(tmp_path / "a.npz")), clusters=3, method="kmeans", out=tmp_path / "run"
    )
    page = write_report([launch(request).folder.path], None).read_text()
    assert "There are no clusters yet." in page
    assert "has, so far," not in page
    assert "Clusters so far" not in page
    assert "1 of 3" not in page
