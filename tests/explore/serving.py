"""The server as it runs: in a process of its own, or in a thread around any application."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, OpenerDirector, ProxyHandler, Request, build_opener

import uvicorn

from selfsort.explore.connections import configure, listen
from selfsort.explore.guard import App


class Visitor:
    """A browser, as far as cookies are concerned."""

    def __init__(self) -> None:
        self.cookies = CookieJar()
        self._opener: OpenerDirector = build_opener(ProxyHandler({}), HTTPCookieProcessor(self.cookies))

    def get(self, address: str) -> bytes:
        with self._opener.open(address, timeout=30) as answer:
            content: bytes = answer.read()
            return content

    def ask(self, address: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(address, data=data, headers={"content-type": "application/json"})
        with self._opener.open(request, timeout=30) as answer:
            return json.load(answer)


@dataclass
class Server:
    """`selfsort explore`, and a browser that has opened its link."""

    process: subprocess.Popen[str]
    link: str
    visitor: Visitor = field(default_factory=Visitor)

    @property
    def home(self) -> str:
        return self.link.partition("/open/")[0]

    @property
    def token(self) -> str:
        return self.link.partition("/open/")[2]

    @property
    def port(self) -> int:
        return int(self.home.rpartition(":")[2])

    def enter(self) -> None:
        self.visitor.get(self.link)

    def ask(self, path: str, body: object = None) -> Any:
        return self.visitor.ask(f"{self.home}/{path}", body)


@contextmanager
def serving(run: Path, before: Sequence[str] = ()) -> Iterator[Server]:
    """Run the command, behind another one if need be."""
    command = [*before, sys.executable, "-m", "selfsort", "explore", str(run), "--no-browser"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("explore: http://127.0.0.1:"), process.communicate()
            yield Server(process, line.split()[1])
        finally:
            process.kill()


@contextmanager
def answering(app: App) -> Iterator[int]:
    """Serve an application in a thread of this process and give its port."""
    with listen(0) as listener:
        server = uvicorn.Server(configure(app))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
