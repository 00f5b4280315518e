"""Runs made by earlier versions: they open, predict, report, export and go on, through names that have changed since.

`tests/runs` holds one finished and one interrupted run of every method, in format 1, as version 0.1.0 wrote them before
the package was rearranged. Most weights of the larger networks were set to zero, to keep the files small;
`expected.json` holds what that version made of them: soft assignments of the finished runs, labels of the resumed ones.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import Command

from selfsort import load
from selfsort.data.synthetic import shapes
from selfsort.metrics.external import scores

RUNS = Path(__file__).with_name("runs")
EXPECTED: dict[str, dict[str, list[int] | list[list[float]]]] = json.loads((RUNS / "expected.json").read_text())
N_CLUSTERS = 3
IMAGES, LABELS = shapes(8, size=16, seed=1, n_classes=N_CLUSTERS)
finished_run = pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith("-finished")])
interrupted_run = pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith("-interrupted")])


@pytest.fixture
def run(name: str, tmp_path: Path) -> Path:
    folder = tmp_path / name
    with zipfile.ZipFile(RUNS / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.npz"
    np.savez(path, images=IMAGES.pixels, labels=LABELS)
    return path


@finished_run
def test_a_finished_run_predicts_as_it_did(name: str, run: Path) -> None:
    soft = load(run, device="cpu").predict_proba(IMAGES.pixels)
    np.testing.assert_allclose(soft, EXPECTED[name]["soft"], atol=2e-3)


@finished_run
def test_a_finished_run_is_scored_reported_and_exported(
    name: str, run: Path, source: Path, selfsort: Command, tmp_path: Path
) -> None:
    assert selfsort("predict", run, source, "--out", "new.csv").code == 0
    assert "ACC" in selfsort("score", run).out
    assert selfsort("report", run).code == 0
    page = (run / "report.html").read_text()
    assert "</html>" in page
    done = selfsort("export", run, "--to", "csv", "--out", "labels.csv")
    assert done.code == 0, done.err
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == len(IMAGES) + 1


@finished_run
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_a_finished_run_is_cut(name: str, n_clusters: int, run: Path, selfsort: Command) -> None:
    done = selfsort("cut", run, "--clusters", n_clusters, "--out", "cut")
    assert done.code == 0, done.err
    first, cut = (load(path, device="cpu") for path in (run, Path("cut")))
    pairs = set(zip(first.labels_.tolist(), cut.labels_.tolist(), strict=True))
    assert len(set(cut.labels_.tolist())) == n_clusters
    assert len(pairs) == max(n_clusters, len(set(first.labels_.tolist()))), "the one is nested in the other"
    if first.soft_.shape[1] > len(set(first.labels_.tolist())):
        return  # a cluster without images goes along with another
    before, after = first.predict_proba(IMAGES.pixels), cut.predict_proba(IMAGES.pixels)
    if n_clusters == 2:
        of_cluster = np.eye(2)[[dict(pairs)[cluster] for cluster in range(before.shape[1])]]
        np.testing.assert_allclose(after, before @ of_cluster, atol=1e-5)
    else:  # a part never takes an image from another cluster
        assert set(zip(before.argmax(axis=1).tolist(), after.argmax(axis=1).tolist(), strict=True)) <= pairs


@interrupted_run
def test_an_interrupted_run_goes_on_to_its_end(name: str, run: Path, source: Path, selfsort: Command) -> None:
    assert not (run / "labels.csv").exists()
    done = selfsort("fit", "--resume", run, source)
    assert done.code == 0, done.err
    found = np.array([int(line.split(",")[1]) for line in (run / "labels.csv").read_text().splitlines()[1:]])
    assert len(found) == len(IMAGES)
    # Another processor rounds differently and may sort a border image elsewhere.
    expected = np.array(EXPECTED[name]["labels"])
    # Other versions of UMAP number the same clusters otherwise, and so do spectral methods on other processors, whose
    # eigenvectors may point the other way.
    if name.startswith(("umap", "ncuts", "sc-")):
        assert scores(found, expected)["acc"] >= 0.7
    elif name.startswith("dac"):
        # Where its last ReLU cuts off all clusters they are equal, and rounding decides: those are left out.
        soft = np.load(run / "soft.npy")
        is_clear = np.ptp(soft, axis=1) > 1e-3
        assert is_clear.sum() >= len(IMAGES) / 2
        assert np.mean(found[is_clear] == expected[is_clear]) >= 0.7
    else:
        assert np.mean(found == expected) >= 0.7


def test_every_method_has_its_stored_runs() -> None:
    from selfsort.methods.registry import METHODS

    newer = {"leiden", "teach"}  # than the runs, which are of before the package was rearranged
    for name in (*(METHODS.keys() - newer), "self-label"):
        assert {f"{name}-finished", f"{name}-interrupted"} <= EXPECTED.keys()
