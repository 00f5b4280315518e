"""One browser for all tests of this folder; every test ends by looking at the console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.browser.chromium import Browser


@pytest.fixture(scope="session")
def _chromium() -> Iterator[Browser]:
    browser = Browser.start()
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(_chromium: Browser) -> Iterator[Browser]:
    _chromium.open("about:blank")
    _chromium.complaints()
    yield _chromium
    assert _chromium.complaints() == []
