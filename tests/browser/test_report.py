"""The report as a user meets it: one file, opened from disk."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.browser.chromium import Browser, Keys
from tests.conftest import write_photos
from tests.explore.runs import fitted

from selfsort.report.build import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("report")
    photos = write_photos(home / "photos", n_per_class=12)
    (photos / "a" / "<img src=x onerror=alert(1)>.jpg").write_bytes(b"no picture")
    folder = fitted(photos, home / "run", labels_from_folders=True)
    return write_report([folder.path], None)


def opened(browser: Browser, page: Path) -> None:
    browser.open(page.as_uri())
    browser.wait(lambda: browser.run("return document.readyState") == "complete", "the page")


def test_every_section_is_there_and_nothing_is_fetched(browser: Browser, page: Path) -> None:
    opened(browser, page)
    for link in browser.all(".links a"):
        target = (link.get_dom_attribute("href") or "").removeprefix("#")
        assert browser.one(f"[id='{target}']").is_displayed()
    assert (
        browser.run("return performance.getEntriesByType('resource').filter((r) => !r.name.startsWith('data:')).length")
        == 0
    )
    broken = "return [...document.images].filter((i) => i.loading !== 'lazy' && i.complete && !i.naturalWidth).length"
    assert browser.run(broken) == 0


def test_every_picture_has_words(browser: Browser, page: Path) -> None:
    opened(browser, page)
    assert browser.run("return [...document.images].filter((i) => !i.alt).length") == 0
    unnamed = """return [...document.querySelectorAll("svg")].filter((s) => !s.getAttribute("aria-label")
        && s.getAttribute("aria-hidden") !== "true").length"""
    assert browser.run(unnamed) == 0
    assert browser.run("return document.querySelectorAll('canvas:not([aria-label])').length") == 0


def test_the_map_by_keyboard(browser: Browser, page: Path) -> None:
    opened(browser, page)
    browser.run("document.querySelector('.stage canvas').focus()")
    browser.press("n")
    browser.wait(lambda: browser.one(".peek").is_displayed(), "an image of the map")
    first = browser.text(".peek")
    browser.press("n")
    browser.wait(lambda: browser.text(".peek") != first, "the next one")
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: not browser.one(".peek").is_displayed(), "let go")


def test_light_and_dark(browser: Browser, page: Path) -> None:
    opened(browser, page)
    colour = "return getComputedStyle(document.body).backgroundColor"
    browser.dark(True)
    dark = browser.run(colour)
    browser.dark(False)
    assert browser.run(colour) != dark
    browser.click("#theme")
    assert browser.run(colour) == dark


def test_it_prints(browser: Browser, page: Path) -> None:
    opened(browser, page)
    printed = base64.b64decode(browser.driver.print_page())
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000


def test_a_narrow_window_does_not_scroll_sideways(browser: Browser, page: Path) -> None:
    opened(browser, page)
    size = browser.driver.get_window_size()
    try:
        browser.driver.set_window_size(500, 800)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.driver.set_window_size(size["width"], size["height"])


def test_a_long_name_is_read_whole_on_a_telephone(browser: Browser, page: Path) -> None:
    browser.narrow(390)
    try:
        opened(browser, page)
        browser.run("document.querySelector('.card h3').append(' and other things that one wears in winter'.repeat(3))")
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        outside = """return [...document.querySelectorAll(".card h3")].filter((one) => one.getBoundingClientRect().right
          > one.closest(".card").getBoundingClientRect().right).length"""
        assert browser.run(outside) == 0
        nameless = """return [...document.querySelectorAll("button, a, select, summary")].filter((one) =>
          !(one.textContent.trim() || one.ariaLabel || one.title)).length"""
        assert browser.run(nameless) == 0
    finally:
        browser.narrow(None)


def test_branches_of_the_tree_open_and_close(browser: Browser, page: Path) -> None:
    opened(browser, page)
    browser.run("document.querySelector('#tree').scrollIntoView({ behavior: 'instant' })")
    assert browser.run("return document.querySelectorAll('#tree .twig img').length") > 6
    closed = "#tree details:not([open]) > summary"
    n_closed = len(browser.all(closed))
    assert n_closed >= 1
    browser.click(closed)
    browser.wait(lambda: len(browser.all(closed)) == n_closed - 1, "the branch is open")
    assert browser.one("#tree details[open] .twigs .twig").is_displayed()
