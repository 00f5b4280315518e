from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from selfsort.explore.guard import Guard, new_token

TOKEN = "secret-token"


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = FastAPI()

    @app.get("/api/thing")
    def thing() -> dict[str, int]:
        return {"answer": 42}

    with TestClient(Guard(app, TOKEN), base_url="http://127.0.0.1:8000") as found:
        yield found


def test_who_knows_the_token_gets_an_answer(client: TestClient) -> None:
    answer = client.get(f"/{TOKEN}/api/thing")
    assert (answer.status_code, answer.json()) == (200, {"answer": 42})


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/api/thing",
        f"/{TOKEN}",
        f"/{TOKEN[:-1]}/api/thing",
        f"/{TOKEN}x/api/thing",
        f"/x/{TOKEN}/api/thing",
        "//api",
    ],
)
def test_nobody_else_does(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "42" not in answer.text
    assert TOKEN not in answer.text


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
def test_the_token_is_asked_for_whatever_the_method(client: TestClient, method: str) -> None:
    assert client.request(method, "/api/thing").status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "127.0.0.1", "localhost:9", "[::1]:8000"])
def test_this_machine_by_any_of_its_names(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/api/thing", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "localhost:8000@evil.example", "", "0.0.0.0"],
)
def test_a_domain_that_was_made_to_point_here_is_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/api/thing", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_pages_are_refused_even_with_the_token(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get(f"/{TOKEN}/api/thing", headers=headers).status_code == 403


def test_the_page_itself_may_ask(client: TestClient) -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.get(f"/{TOKEN}/api/thing", headers=headers).status_code == 200


@pytest.mark.parametrize("path", [f"/{TOKEN}/api/thing", f"/{TOKEN}/nothing", "/"])
def test_every_answer_carries_the_policy_and_none_allows_others(client: TestClient, path: str) -> None:
    headers = client.get(path, headers={"origin": "http://127.0.0.1:8000"}).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert not [name for name in headers if name.startswith("access-control")]


def test_a_preflight_gets_nothing(client: TestClient) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = client.options(f"/{TOKEN}/api/thing", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_tokens_are_long_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43
