from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from selfsort.explore.guard import Door, Guard, new_token

PORT = 8000


@pytest.fixture
def door() -> Door:
    return Door(PORT)


def cookie_of(door: Door) -> dict[str, str]:
    name, _, value = door.set_cookie.partition(";")[0].partition("=")
    return {name: value}


@pytest.fixture
def stranger(door: Door) -> Iterator[TestClient]:
    """A browser that has not opened a link."""
    app = FastAPI()

    @app.get("/api/thing")
    def thing() -> dict[str, int]:
        return {"answer": 42}

    with TestClient(Guard(app, door), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False) as found:
        yield found


@pytest.fixture
def client(door: Door, stranger: TestClient) -> TestClient:
    """A browser that has the cookie."""
    stranger.cookies.update(cookie_of(door))
    return stranger


class TestLinks:
    def test_a_link_is_exchanged_for_a_cookie(self, door: Door, stranger: TestClient) -> None:
        answer = stranger.get(door.new_link())
        assert (answer.status_code, answer.headers["location"], answer.text) == (303, "/", "")
        cookie, *attributes = answer.headers["set-cookie"].split("; ")
        assert cookie.partition("=")[0] == "selfsort-8000"
        assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=Strict"]
        assert answer.headers["cache-control"] == "no-store"
        assert stranger.get("/api/thing").json() == {"answer": 42}

    def test_the_cookie_is_not_the_token(self, door: Door) -> None:
        assert door.new_link().removeprefix("/open/") not in door.set_cookie

    def test_a_second_use_is_refused_and_says_what_to_do(self, door: Door, stranger: TestClient) -> None:
        link = door.new_link()
        stranger.get(link)
        stranger.cookies.clear()
        answer = stranger.get(link)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert "Press Enter in the terminal" in answer.text

    def test_who_is_in_may_open_a_dead_link(self, door: Door, stranger: TestClient) -> None:
        """A browser may fetch what is typed before it is asked for, and then again."""
        link = door.new_link()
        stranger.get(link)
        answer = stranger.get(link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "set-cookie" not in answer.headers

    def test_only_the_newest_link_opens(self, door: Door, stranger: TestClient) -> None:
        first, second = door.new_link(), door.new_link()
        assert stranger.get(first).status_code == 403
        assert stranger.get(second).status_code == 303

    def test_every_browser_needs_its_own(self, door: Door, stranger: TestClient) -> None:
        for _ in range(3):
            stranger.cookies.clear()
            stranger.get(door.new_link())
            assert stranger.get("/api/thing").status_code == 200

    @pytest.mark.parametrize("change", [str.upper, lambda s: s[:-1], lambda s: s + "x", lambda s: "/x" + s])
    def test_nearly_a_link(self, door: Door, stranger: TestClient, change: Callable[[str], str]) -> None:
        link = door.new_link()
        assert stranger.get(change(link)).status_code == 403
        assert stranger.get(link).status_code == 303, "the link is not used up"

    @pytest.mark.parametrize("path", ["/open/", "/open/None", "/open"])
    def test_no_link_is_none(self, stranger: TestClient, path: str) -> None:
        assert stranger.get(path).status_code == 403

    @pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS"])
    def test_only_a_visit_uses_it_up(self, door: Door, stranger: TestClient, method: str) -> None:
        link = door.new_link()
        assert stranger.request(method, link).status_code == 403
        assert stranger.get(link).status_code == 303

    @pytest.mark.parametrize(
        "headers", [{"host": "evil.example"}, {"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}]
    )
    def test_nobody_else_can_use_it_up(self, door: Door, stranger: TestClient, headers: dict[str, str]) -> None:
        link = door.new_link()
        assert stranger.get(link, headers=headers).status_code in (403, 421)
        assert stranger.get(link).status_code == 303


class TestCookies:
    def test_among_others(self, door: Door, stranger: TestClient) -> None:
        ((name, value),) = cookie_of(door).items()
        for header in (f"a=1; {name}={value}", f"{name}=x; {name}={value}", f'bad"; =;;\xff={{}}; {name}={value};'):
            assert stranger.get("/api/thing", headers={b"cookie": header.encode("latin-1")}).status_code == 200, header

    def test_not_the_right_one(self, door: Door, stranger: TestClient) -> None:
        ((name, value),) = cookie_of(door).items()
        for header in (
            "",
            name,
            f"{name}=",
            f"{name}={value[:-1]}",
            f"{name}={value}x",
            f"{name}=\xff",
            f"{name}x={value}",
            f"selfsort={value}",
            f"a={name}={value}",
        ):
            answer = stranger.get("/api/thing", headers={b"cookie": header.encode("latin-1")})
            assert answer.status_code == 403, header
            assert value not in answer.text

    def test_of_a_server_on_another_port(self, stranger: TestClient) -> None:
        other = Door(PORT + 1)
        stranger.cookies.update(cookie_of(other))
        assert stranger.get("/api/thing").status_code == 403
        assert stranger.get(other.new_link()).status_code == 403

    def test_of_the_server_that_had_this_port_before(self, stranger: TestClient) -> None:
        stranger.cookies.update(cookie_of(Door(PORT)))
        assert stranger.get("/api/thing").status_code == 403

    @pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
    def test_it_is_asked_for_whatever_the_method(self, stranger: TestClient, method: str) -> None:
        assert stranger.request(method, "/api/thing").status_code == 403

    @pytest.mark.parametrize("path", ["/", "/api/thing", "/explorer.js", "/openapi.json", "//api"])
    def test_it_is_asked_for_wherever(self, stranger: TestClient, path: str) -> None:
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert answer.headers["connection"] == "close", "who is not let in keeps no connection"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "127.0.0.1", "localhost:9", "[::1]:8000"])
def test_this_machine_by_any_of_its_names(client: TestClient, host: str) -> None:
    assert client.get("/api/thing", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "localhost:8000@evil.example", "", "0.0.0.0"],
)
def test_a_domain_that_was_made_to_point_here_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/api/thing", headers={"host": host}).status_code == 421


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
def test_other_pages_are_refused_even_with_the_cookie(client: TestClient, headers: dict[str, str]) -> None:
    assert client.get("/api/thing", headers=headers).status_code == 403


def test_the_page_itself_may_ask(client: TestClient) -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.get("/api/thing", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/api/thing", "/nothing", "/open/x"])
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
    assert headers["vary"] == "cookie"
    assert not [name for name in headers if name.startswith("access-control")]


def test_a_preflight_gets_nothing(client: TestClient) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = client.options("/api/thing", headers=headers)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_tokens_are_long_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43
