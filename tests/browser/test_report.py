"""The report as a user meets it: one file, opened from disk."""

from __future__ import annotations

import base64
import shutil
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


_STOP = """const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  const ring = Math.max(0, parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset));
  let isCut = false;
  for (let frame = one.parentElement; frame; frame = frame.parentElement) {
    if (frame === document.body || getComputedStyle(frame).overflowX === "visible") continue;
    const edge = frame.getBoundingClientRect();
    isCut ||= box.top - ring < edge.top - 0.5 || box.bottom + ring > edge.bottom + 0.5
      || box.left - ring < edge.left - 0.5 || box.right + ring > edge.right + 0.5;
  }
  const bar = document.querySelector(".bar").getBoundingClientRect();
  const isCovered = !one.closest(".bar, .skip") && (box.top < bar.bottom - 1 || box.top > innerHeight);
  const all = [...document.querySelectorAll("a[href], button, select, summary, [tabindex='0']")];
  return { place: all.indexOf(one), ring: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
    isCut, isCovered, what: one.outerHTML.slice(0, 90), id: one.id || one.className };"""


@pytest.fixture(scope="module")
def several(page: Path) -> Path:
    """Two runs side by side; the second is the first again."""
    shutil.copytree(page.parent, page.parent.with_name("again"))
    return write_report([page.parent, page.parent.with_name("again")], page.parent.with_name("several.html"))


@pytest.mark.parametrize("pages", ["page", "several"])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_walk_by_the_tab_key(
    browser: Browser, pages: str, width: int, is_dark: bool, request: pytest.FixtureRequest
) -> None:
    page: Path = request.getfixturevalue(pages)
    browser.narrow(width if width < 500 else None)
    browser.dark(is_dark)
    try:
        opened(browser, page)
        # Where it scrolls to is looked at, not how it gets there.
        browser.run("document.documentElement.style.scrollBehavior = 'auto'")
        visible = """return [...document.querySelectorAll("a[href], button, select, summary, [tabindex='0']")]
          .flatMap((one, i) => one.checkVisibility() ? [i] : [])"""
        browser.wait(lambda: not width < 500 or browser.all("figure[tabindex='0']"), "charts that scroll")
        wanted, stops = browser.run(visible), []
        for _ in range(len(wanted) + 5):
            browser.press(Keys.TAB)
            stop = browser.run(_STOP)
            if stop is None:
                break
            stops.append(stop)
        assert [stop["place"] for stop in stops] == wanted, "each control once, in the order of the page"
        assert [stop["what"] for stop in stops if stop["ring"] < 2] == [], "seen where one is"
        assert [stop["what"] for stop in stops if stop["isCut"]] == [], "the ring is whole"
        assert [stop["what"] for stop in stops if stop["isCovered"]] == [], "not below the bar"
    finally:
        browser.narrow(None)
        browser.dark(False)


def spoken(browser: Browser) -> dict[str, list[str]]:
    """Return what a screen reader says of everything that can be reached or is a table, by role."""
    found: dict[str, list[str]] = {}
    for node in browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]:
        can_focus = any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", []))
        role = node.get("role", {}).get("value", "")
        if not node.get("ignored") and (can_focus or role == "table") and role != "RootWebArea":
            found.setdefault(role, []).append(node.get("name", {}).get("value", "").strip())
    return found


def test_what_a_screen_reader_says_of_a_comparison(browser: Browser, several: Path) -> None:
    opened(browser, several)
    said = spoken(browser)
    assert [role for role, names in said.items() if "" in names] == []
    assert said["region"] == ["Runs", "Best, mean and standard deviation over seeds"]


def test_what_a_screen_reader_says(browser: Browser, page: Path) -> None:
    opened(browser, page)
    said = spoken(browser)
    assert [role for role, names in said.items() if "" in names] == []
    assert sorted(said["button"][-3:]) == ["a", "b", "c"], "the names of the clusters, not their numbers"
    branches = [name for name in said["DisclosureTriangle"] if "image" in name]
    assert branches
    assert not any(".png" in name for name in branches), "not the names of its pictures first"
    assert said["application"] == ["Map of 36 images, coloured by cluster"]
    browser.run("""const choice = document.querySelector("[data-choice=colour]");
        choice.value = "truth";
        choice.dispatchEvent(new Event("change"));""")
    assert spoken(browser)["application"] == ["Map of 36 images, coloured by true class"]
    assert "Keys: arrows move" in browser.text("#map-keys")
