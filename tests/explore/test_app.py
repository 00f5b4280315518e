from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from PIL import Image
from schemathesis import GenerationMode
from schemathesis.core.result import Ok
from tests.explore.runs import fitted

from selfsort.explore.app import MAX_NAMES, create_app
from selfsort.explore.desk import Desk
from selfsort.explore.editor import Editor
from selfsort.explore.guard import Door, Guard
from selfsort.explore.pictures import Pictures
from selfsort.runs.folder import RunFolder
from selfsort.runs.stacks import save_stacks
from selfsort.stacks.stack import Member, Stack

EVERY_ADDRESS = [
    "/api/clusters",
    "/api/cuts",
    "/api/edits",
    "/api/exports",
    "/api/exports/{name}",
    "/api/history",
    "/api/images/{row}",
    "/api/lessons",
    "/api/names",
    "/api/pictures/{row}",
    "/api/redo",
    "/api/rows",
    "/api/run",
    "/api/sheet",
    "/api/similar",
    "/api/stacks",
    "/api/tree",
    "/api/undo",
]


def client_of(editor: Editor) -> TestClient:
    door = Door(80)
    guarded = Guard(create_app(Desk(editor, Pictures.open(editor.folder, editor.table.names))), door)
    # A fault must be an answer here, as it would be in the browser.
    client = TestClient(guarded, base_url="http://127.0.0.1/", raise_server_exceptions=False)
    assert client.get(door.new_link()).status_code == 200
    return client


@pytest.fixture
def client(editor: Editor) -> Iterator[TestClient]:
    with client_of(editor) as found:
        yield found


def get(client: TestClient, path: str) -> Any:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(client: TestClient, path: str, body: object = None, status: int = 200) -> Any:
    answer = client.post(path, json=body) if body is not None else client.post(path)
    assert answer.status_code == status, answer.text
    return answer.json()


class TestLooking:
    def test_the_run(self, client: TestClient) -> None:
        found = get(client, "api/run")
        assert (found["name"], found["method"], found["n_images"]) == ("run", "kmeans", 18)
        assert (found["pictures"], found["note"]) == ("source", None)

    def test_clusters_and_their_images(self, client: TestClient, editor: Editor) -> None:
        clusters = get(client, "api/clusters")["clusters"]
        assert sum(cluster["size"] for cluster in clusters) == 18
        listing = get(client, f"api/rows?cluster={clusters[0]['id']}&order=name")
        assert len(listing["rows"]) == clusters[0]["size"]
        assert (listing["wrong"], listing["moved"], listing["clusters"]) == ([], [], None)
        everything = get(client, "api/rows")
        assert everything["rows"] == list(range(18))
        assert everything["clusters"] == editor.table.labels.tolist()
        assert get(client, "api/rows?cluster=99")["rows"] == []

    def test_more_like_this(self, client: TestClient) -> None:
        found = get(client, "api/similar?row=0&row=1&count=5")
        assert len(found["rows"]) == len(found["scores"]) == 5
        assert not {0, 1} & set(found["rows"])
        assert client.get("api/similar?row=18").status_code == 404
        assert client.get("api/similar").status_code == 422

    def test_stacks_of_duplicates(self, run: Path) -> None:
        save_stacks(
            RunFolder.open(run), [Stack(7, (Member(2, "burst"), Member(9, "copy"))), Stack(4, (Member(5, "resized"),))]
        )
        with client_of(editor := Editor.open(run)) as client:
            assert get(client, "api/stacks")[0] == {"rows": [7, 2, 9], "kinds": ["burst", "copy"]}
            assert get(client, "api/rows?view=stacks&order=unsure")["rows"] == [7, 2, 9, 4, 5]
        editor.close()

    def test_a_run_in_which_nobody_looked_for_duplicates(self, client: TestClient) -> None:
        assert get(client, "api/stacks") == []
        assert get(client, "api/rows?view=stacks")["rows"] == []

    def test_one_image(self, client: TestClient, editor: Editor) -> None:
        found = get(client, "api/images/3")
        label = int(editor.table.labels[3])
        assert (found["name"], found["cluster"], found["original_cluster"]) == (editor.names[3], label, label)

    def test_names_of_the_images_in_view(self, client: TestClient, editor: Editor) -> None:
        assert get(client, "api/names?row=3&row=0") == [editor.names[3], editor.names[0]]
        assert client.get(f"api/names?row={len(editor)}").status_code == 404
        assert client.get("api/names").status_code == 422
        assert client.get("api/names?" + "&".join(f"row={row}" for row in range(MAX_NAMES + 1))).status_code == 422

    def test_pictures(self, client: TestClient) -> None:
        sheet = client.get("api/sheet?row=0&row=1&row=2")
        assert sheet.headers["x-missing"] == ""
        with Image.open(io.BytesIO(sheet.content)) as picture:
            assert picture.size == (480, 160)
        large = client.get("api/pictures/0")
        assert large.headers["content-type"] == "image/png"
        assert client.get("api/pictures/0?full=true").content == large.content, "a small one has nothing to add"
        assert client.get("api/pictures/18").status_code == 404
        assert client.get("api/sheet?row=18").status_code == 404

    def test_the_page_and_nothing_else(self, client: TestClient) -> None:
        page = client.get("")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        for name in ("explorer.js", "explorer.css", "icon.svg"):
            assert f'"./{name}"' in page.text or f'"{name}"' in page.text
            assert client.get(name).status_code == 200
        for name in ("sources.sha256", "docs", "redoc", "nothing"):
            assert client.get(name).status_code == 404


class TestEditing:
    def test_one_of_each_kind(self, client: TestClient) -> None:
        done = post(client, "api/edits", {"kind": "rename", "cluster": 0, "name": "cats"})
        assert {cluster["id"]: cluster["name"] for cluster in done["overview"]["clusters"]}[0] == "cats"
        done = post(client, "api/edits", {"kind": "merge", "clusters": [0, 1], "into": 0})
        assert done["clusters"] == [0]
        done = post(client, "api/edits", {"kind": "split", "cluster": 0, "parts": 2})
        assert done["clusters"] == [0, 3]
        done = post(client, "api/edits", {"kind": "move", "rows": [0, 1]})
        assert done["clusters"] == [4]
        done = post(client, "api/edits", {"kind": "mark", "rows": [0], "is_wrong": True})
        assert (done["overview"]["n_wrong"], done["overview"]["n_edits"]) == (1, 5)
        assert get(client, "api/rows?view=wrong")["wrong"] == [0]
        assert [entry["text"] for entry in get(client, "api/history")][:2] == [
            "mark 1 image",
            "move 2 images to Cluster 4",
        ]

    def test_undo_and_redo(self, client: TestClient) -> None:
        before = get(client, "api/clusters")
        post(client, "api/edits", {"kind": "merge", "clusters": [0, 1]})
        after = get(client, "api/clusters")
        assert post(client, "api/undo")["clusters"] == before["clusters"]
        assert post(client, "api/redo") == after
        assert post(client, "api/redo", status=409)["detail"] == "There is nothing to redo."

    @pytest.mark.parametrize(
        ("asked", "status"),
        [
            ({"kind": "rename", "cluster": 99, "name": "x"}, 409),
            ({"kind": "merge", "clusters": [0, 99]}, 409),
            ({"kind": "merge", "clusters": [0, 1], "into": 2}, 409),
            ({"kind": "split", "cluster": 0, "parts": 20}, 409),
            ({"kind": "move", "rows": [18], "to": 0}, 409),
            ({"kind": "move", "rows": [0, 0], "to": 0}, 409),
            ({"kind": "move", "rows": [], "to": 0}, 422),
            ({"kind": "move", "rows": ["../x"], "to": 0}, 422),
            ({"kind": "move", "rows": [0], "to": 0, "path": "/etc/passwd"}, 422),
            ({"kind": "delete"}, 422),
            ({}, 422),
            ([], 422),
        ],
    )
    def test_what_does_not_fit_is_refused_in_words(self, client: TestClient, asked: object, status: int) -> None:
        before = get(client, "api/clusters")
        assert len(post(client, "api/edits", asked, status)["detail"]) > 20
        assert get(client, "api/clusters") == before

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"\xff\xfe",
            b'{"kind": "rename", "cluster": 0, "name": "\\ud800"}',
            b"[" * 20_000,
            b"NaN",
            b'"\\ud800"',
        ],
    )
    def test_bytes_that_are_no_request(self, client: TestClient, body: bytes) -> None:
        answer = client.post("api/edits", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
        assert answer.json()["detail"]

    def test_exports_are_written_and_fetched(self, client: TestClient, editor: Editor) -> None:
        done = post(client, "api/exports", {"kind": "labels"})
        answer = client.get(f"api/exports/{done['file']}")
        assert answer.content == Path(done["path"]).read_bytes()
        assert "attachment" in answer.headers["content-disposition"]
        assert post(client, "api/exports", {"kind": "folders"})["file"] is None
        post(client, "api/exports", {"kind": "../labels"}, 422)


SECRETS = ("config.json", "labels.csv", "edits.sqlite", "../../../../../../etc/passwd", "app.py", "__init__.py")
CLIMBS = ("", "../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "%252e%252e%252f", "....//", "/", "%00", "..;/")


class TestTree:
    def test_its_leaves_are_the_images_and_its_clusters_those_of_the_run(self, client: TestClient) -> None:
        tree = get(client, "api/tree")
        assert (tree["n_clusters"], tree["n_parts"], len(tree["nodes"])) == (3, 18, 35)
        assert tree["nodes"][-1]["size"] == 18
        whole = tree["nodes"][: 2 * 18 - 3]
        children = {child for node in whole for child in node["children"]}
        clusters = [node for i, node in enumerate(whole) if i not in children]
        overview = get(client, "api/clusters")
        assert {(node["name"], node["size"]) for node in clusters} == {
            (one["name"], one["size"]) for one in overview["clusters"]
        }
        assert all(0 < len(node["pictures"]) <= 5 for node in tree["nodes"])

    def test_it_shows_the_names_that_were_given(self, client: TestClient) -> None:
        get(client, "api/tree")
        post(client, "api/edits", {"kind": "rename", "cluster": 1, "name": "<b>cats"})
        assert any(node["name"] == "<b>cats" for node in get(client, "api/tree")["nodes"])

    def test_a_cut_is_a_run_beside_this_one_with_the_corrections(self, client: TestClient, editor: Editor) -> None:
        post(client, "api/edits", {"kind": "rename", "cluster": 1, "name": "cats"})
        made = post(client, "api/cuts", {"clusters": 5})
        assert Path(made["path"]) == editor.folder.path.resolve().with_name("run-k5")
        assert made["carried"] == "carried over: 1 name"
        other = Editor.open(Path(made["path"]))
        try:
            assert "cats" in {one.name for one in other.overview().clusters}
            assert other.tree().n_clusters == 5
        finally:
            other.close()

    @pytest.mark.parametrize(("clusters", "status"), [(1, 422), (19, 409), ("5", 422), (2.5, 422), (None, 422)])
    def test_numbers_that_cannot_be(self, client: TestClient, clusters: object, status: int) -> None:
        assert post(client, "api/cuts", {"clusters": clusters}, status)["detail"]


class TestNoWayOut:
    """No address may lead to a file that the page does not offer."""

    @pytest.mark.parametrize("place", ["", "api/exports/", "api/pictures/", "api/images/", "api/sheet/", "static/"])
    def test_paths_that_climb(self, client: TestClient, place: str) -> None:
        for secret, climb in itertools.product(SECRETS, CLIMBS):
            for path in (f"{place}{climb}{secret}", f"{place}{climb * 3}{quote(secret, safe='')}"):
                answer = client.get(path)
                assert answer.status_code in (404, 405, 422), path
                assert not [word for word in (b"root:", b"fingerprint", b"SQLite") if word in answer.content], path

    @pytest.mark.parametrize("row", ["-1", "1e3", "0x1", "%31%00", "99999999999999999999999", "..", "1%2f..%2f1"])
    def test_numbers_that_are_none(self, client: TestClient, row: str) -> None:
        for path in (f"api/pictures/{row}", f"api/images/{row}", f"api/sheet?row={row}", f"api/similar?row={row}"):
            assert client.get(path, follow_redirects=False).status_code in (404, 422), path

    def test_an_export_that_is_a_link(self, client: TestClient, editor: Editor) -> None:
        (editor.folder.path / "exports").mkdir()
        (editor.folder.path / "exports" / "labels-001.csv").symlink_to("/etc/passwd")
        assert client.get("api/exports/labels-001.csv").status_code == 404


HOSTILE = [
    "<img src=x onerror=alert(1)>.png",
    '"><script>alert(1)<%2fscript>.png',
    "' onmouseover='alert(1).png",
    "..%2f..%2fetc%2fpasswd.png",
    "a b&c=d#e?f.png",
    "line\nbreak\x1b[31m.png",
    "\u202egnp.exe.png",
    "日本語 naïve 🐈.png",
]


def hostile_editor(tmp_path: Path) -> Editor:
    photos = tmp_path / "photos"
    photos.mkdir()
    for i, name in enumerate([*HOSTILE, os.fsdecode(b"caf\xe9.png")]):
        Image.fromarray(np.full((8, 8, 3), 25 * i, np.uint8)).save(photos / name)
    return Editor.open(fitted(photos, tmp_path / "<b>run<script>", clusters=2).path)


def test_names_are_data_and_nothing_else(tmp_path: Path) -> None:
    editor = hostile_editor(tmp_path)
    with client_of(editor) as client:
        every_name = "api/names?" + "&".join(f"row={row}" for row in range(len(editor)))
        for path in (every_name, "api/run", "api/clusters", "api/rows"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
        names = get(client, every_name)
        assert HOSTILE[0] in names
        assert not [name for name in names if {"\x1b", "\u202e"} & set(name)]
        for row in range(len(names)):
            assert get(client, f"api/images/{row}")["name"] == names[row]
            assert client.get(f"api/pictures/{row}").headers["content-type"] == "image/png"
        post(client, "api/edits", {"kind": "rename", "cluster": 0, "name": HOSTILE[0]})
        assert HOSTILE[0] in [cluster["name"] for cluster in get(client, "api/clusters")["clusters"]]
        for kind in ("labels", "folders", "model-input"):
            post(client, "api/exports", {"kind": kind})
        assert HOSTILE[0] not in client.get("").text
    editor.close()


TAKES_NOTHING = {f"/api/{name}" for name in ("clusters", "history", "lessons", "redo", "run", "stacks", "tree", "undo")}
REQUESTS = [(path, GenerationMode.POSITIVE) for path in EVERY_ADDRESS] + [
    (path, GenerationMode.NEGATIVE) for path in EVERY_ADDRESS if path not in TAKES_NOTHING
]


@pytest.mark.parametrize(("path", "mode"), REQUESTS)
def test_no_askedis_too_much(editor: Editor, path: str, mode: GenerationMode) -> None:
    """Whatever is asked, as described or not: no fault of ours, and an answer of the form that was promised."""
    app = create_app(Desk(editor, Pictures.open(editor.folder, editor.table.names)))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    n_examples = 30 if mode is GenerationMode.POSITIVE else 15
    for found in schema.include(path=path).get_all_operations():
        assert isinstance(found, Ok)
        operation = found.ok()

        @settings(
            derandomize=True,
            max_examples=n_examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Any) -> None:
            answer = case.call()
            assert answer.status_code < 500, answer.text
            if mode is GenerationMode.POSITIVE:
                case.validate_response(answer)

        ask()


def test_the_description_has_every_address(client: TestClient) -> None:
    paths = json.loads(client.get("openapi.json").text)["paths"]
    assert sorted(paths) == EVERY_ADDRESS
