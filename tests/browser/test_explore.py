"""`selfsort explore` as a user meets it: looked at, clicked through, edited, undone, exported."""

from __future__ import annotations

import csv
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from PIL import Image
from tests.browser.chromium import Browser, Keys
from tests.conftest import write_photos
from tests.explore.runs import fitted

from selfsort.explore.app import create_app
from selfsort.explore.connections import HOST, configure, listen
from selfsort.explore.desk import Desk
from selfsort.explore.editor import Editor
from selfsort.explore.guard import Door, Guard
from selfsort.explore.pictures import Pictures
from selfsort.runs.folder import RunFolder, Thumbnails
from selfsort.runs.stacks import save_stacks
from selfsort.stacks.stack import Member, Stack
from selfsort.types import Clustering, State

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='harm'>.png"


class Server:
    """The real server, in a thread of this process."""

    def __init__(self, run: Path, port: int = 0) -> None:
        self.editor = Editor.open(run)
        pictures = Pictures.open(self.editor.folder, self.editor.table.names)
        self._listener = listen(port)
        self.port = self._listener.getsockname()[1]
        self.home = f"http://{HOST}:{self.port}/"
        self._door = Door(self.port)
        self._server = uvicorn.Server(configure(Guard(create_app(Desk(self.editor, pictures)), self._door)))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self._thread.start()

    def new_link(self) -> str:
        return self.home.rstrip("/") + self._door.new_link()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()
        self.editor.close()


@pytest.fixture(scope="module")
def photo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("photos")
    photos = write_photos(home / "photos", n_per_class=20)
    next((photos / "a").glob("*.png")).rename(photos / "a" / HOSTILE)
    fitted(photos, home / "run")
    return home / "run"


@pytest.fixture
def server(browser: Browser, photo_run: Path, tmp_path: Path) -> Iterator[Server]:
    shutil.copytree(photo_run, tmp_path / "run")
    started = Server(tmp_path / "run")
    yield started
    browser.open("about:blank")  # the page may still be fetching, and would complain
    started.stop()


SEEN = """
const box = document.getElementById("gallery").getBoundingClientRect();
return [...document.querySelectorAll(".tile:not([hidden])")].filter((tile) => {
  const place = tile.getBoundingClientRect();
  return place.bottom > box.top && place.top < box.bottom;
})"""
IN_SIGHT = f"{SEEN}.length"
BLANK = f"{SEEN}.filter((tile) => tile.classList.contains('pending')).length"


def loaded(browser: Browser, server: Server) -> None:
    browser.open(server.new_link())
    browser.wait(lambda: browser.run(IN_SIGHT) > 0 and browser.run(BLANK) == 0, "the gallery is visible")


def sizes(browser: Browser) -> dict[str, int]:
    """Read names and sizes in one step: between two the page may have drawn another list."""
    pairs: list[list[str]] = browser.run(
        """return [...document.querySelectorAll(".cluster")]
          .map((e) => [".label", ".size"].map((part) => e.querySelector(part).textContent));"""
    )
    return {name: int(size.replace(",", "")) for name, size in pairs}


class TestOpening:
    def test_the_link_gives_way_to_the_bare_address(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        assert browser.run("return location.href") == server.home
        (cookie,) = browser.driver.get_cookies()
        assert cookie["name"] == f"selfsort-{server.port}"
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/")
        assert browser.run("return document.cookie") == "", "no script can read it"
        browser.driver.refresh()
        browser.wait(lambda: browser.run(IN_SIGHT) > 0, "the page is still open to this browser")

    def test_a_dead_link(self, browser: Browser, server: Server) -> None:
        link = server.new_link()
        for _ in range(2):  # who is in may click on it again
            browser.open(link)
            browser.wait(lambda: browser.run(IN_SIGHT) > 0, "the gallery is visible")
        browser.driver.delete_all_cookies()  # any other browser
        browser.open(link)
        assert "Press Enter in the terminal" in browser.text("body")
        assert browser.all("#gallery") == []
        assert all("403" in complaint for complaint in browser.complaints())
        loaded(browser, server)  # a fresh one lets it in again

    def test_a_link_in_another_page(self, browser: Browser, server: Server, tmp_path: Path) -> None:
        link = server.new_link()
        (tmp_path / "page.html").write_text(f"<a href='{link}'>selfsort</a>", encoding="utf-8")
        browser.open((tmp_path / "page.html").as_uri())
        browser.click("a")
        browser.wait(lambda: "copy the link into the address bar" in browser.text("body"), "a way out")
        assert all("403" in complaint for complaint in browser.complaints())
        browser.open(link)
        browser.wait(lambda: browser.run(IN_SIGHT) > 0, "the link was not used up")

    def test_an_open_page_whose_server_was_started_again(
        self, browser: Browser, photo_run: Path, tmp_path: Path
    ) -> None:
        shutil.copytree(photo_run, tmp_path / "run")
        first = Server(tmp_path / "run")
        try:
            loaded(browser, first)
        finally:
            first.stop()
        second = Server(tmp_path / "run", first.port)
        try:
            browser.press("j")
            browser.wait(lambda: "Press Enter in the terminal" in browser.text("#toasts"), "what to do")
            browser.open("about:blank")
            # Between the two servers a name or a picture may have been asked for as well.
            assert all("403" in complaint or "REFUSED" in complaint for complaint in browser.complaints())
        finally:
            second.stop()

    def test_another_run_on_the_same_port_shows_its_own_pictures(
        self, browser: Browser, photo_run: Path, tmp_path: Path
    ) -> None:
        """Pictures may be kept by the browser, and their addresses are the same."""
        shutil.copytree(photo_run, tmp_path / "run")
        first = Server(tmp_path / "run")
        try:
            loaded(browser, first)
            kept = browser.driver.execute_async_script(FETCHED, "api/names?row=0")
            browser.open("about:blank")
        finally:
            first.stop()
        second = Server(large_run(tmp_path / "other", 100, 4), first.port)
        try:
            loaded(browser, second)
            shown = browser.driver.execute_async_script(FETCHED, "api/names?row=0")
            assert len(kept) == len(shown) == 1
            assert kept != shown
            browser.open("about:blank")
        finally:
            second.stop()


FETCHED = "const [path, done] = arguments; fetch(path).then((answer) => answer.json()).then(done)"


class TestLooking:
    def test_the_gallery(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        assert sum(sizes(browser).values()) == 60
        assert browser.text("#title") in sizes(browser)
        assert "20 images" in browser.text(".titles .facts")
        assert browser.run("return document.querySelectorAll('.tile:not([hidden])').length") == 20

    def test_pictures_are_those_of_the_images(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        rows = server.editor.listing(server.editor.overview().clusters[0].id, "typical").rows
        drawn = browser.run(
            """const canvas = document.querySelector("#tile-5 canvas");
            return [...canvas.getContext("2d").getImageData(80, 80, 1, 1).data];"""
        )
        path = Path(server.editor.folder.config["source"]["path"]) / server.editor.table.names[rows[5]]
        with Image.open(path) as picture:
            expected = picture.convert("RGB").resize((160, 160)).getpixel((80, 80))
        assert isinstance(expected, tuple)
        assert np.abs(np.array(drawn[:3]) - np.array(expected)).max() < 40

    def test_going_around(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        first = browser.text("#title")
        browser.press("j")
        browser.wait(lambda: browser.text("#title") != first, "the next cluster")
        browser.driver.back()
        browser.wait(lambda: browser.text("#title") == first, "back")
        browser.click("#views li:nth-child(1) button")
        browser.wait(lambda: browser.text("#title") == "All images", "all images")
        browser.click("#views li:nth-child(2) button")
        browser.wait(lambda: browser.one("#empty").is_displayed(), "an empty view says so")
        assert "Nothing is marked wrong" in browser.text("#empty")

    def test_more_like_this(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        browser.click("#tile-3")
        browser.press("s")
        browser.wait(lambda: browser.text("#title").startswith("More like"), "similar images")
        browser.wait(lambda: "59 images" in browser.text(".titles .facts"), "all others are ranked")
        browser.press(Keys.ESCAPE)
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: "More like" not in browser.text("#title"), "back")

    def test_one_image(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        browser.click("#tile-0")
        browser.press(Keys.ENTER)
        browser.wait(lambda: browser.all(".lightbox img.enlarged"), "the picture")
        name = browser.text(".lightbox .file")
        browser.press(Keys.ARROW_RIGHT)
        browser.wait(lambda: browser.text(".lightbox .file") != name, "the next one")
        browser.press("x")
        browser.wait(lambda: "wrong" in browser.text(".lightbox dl"), "marked from here")
        browser.press(Keys.ESCAPE)
        browser.wait(lambda: not browser.all("dialog"), "closed")
        assert server.editor.overview().n_wrong == 1

    def test_full_size_and_back(self, browser: Browser, photo_run: Path, tmp_path: Path) -> None:
        photos = write_photos(tmp_path / "photos")
        Image.effect_noise((2400, 1600), 60).save(photos / "a" / "0.png")
        server = Server(fitted(photos, tmp_path / "run").path)
        try:
            loaded(browser, server)
            browser.click("#views li:nth-child(1) button")
            browser.wait(lambda: browser.text("#title") == "All images", "all images")
            browser.press(Keys.HOME, Keys.ENTER)
            wide = "return document.querySelector('.lightbox img')?.naturalWidth"
            browser.wait(lambda: browser.run(wide) == 1280, "large enough for the screen")
            browser.wait(lambda: browser.one(".lightbox button[aria-pressed='false']").is_displayed(), "more of it")
            browser.press("f")
            browser.wait(lambda: browser.run(wide) == 2400, "every pixel")
            assert browser.run("return document.querySelector('.lightbox img').clientWidth") == 2400

            def scrolled() -> bool:
                browser.press(Keys.ARROW_RIGHT)  # the first one may come before the frame that can be scrolled
                return bool(browser.run("return document.querySelector('.picture').scrollLeft > 0"))

            browser.wait(scrolled, "scrolled")
            browser.press(Keys.ESCAPE)
            browser.wait(lambda: browser.run(wide) == 1280, "back")
            browser.press(Keys.ESCAPE)
            browser.wait(lambda: not browser.all("dialog"), "closed")
        finally:
            browser.open("about:blank")
            server.stop()

    def test_names_stay_text(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        browser.click("#views li:nth-child(1) button")
        row = server.editor.names.index(f"a/{HOSTILE}")
        browser.wait(lambda: HOSTILE in browser.one(f"#tile-{row}").get_dom_attribute("title"), "the name")
        browser.click(f"#tile-{row}")
        browser.press(Keys.ENTER)
        browser.wait(lambda: HOSTILE in browser.text(".lightbox .file"), "the name again")
        browser.press(Keys.ESCAPE)
        browser.press("j", "r")
        browser.wait(lambda: browser.all("dialog input"), "rename")
        browser.press(HOSTILE, Keys.ENTER)
        browser.wait(lambda: browser.text("#title") == HOSTILE, "a name for the cluster")
        assert HOSTILE in sizes(browser)
        assert "harm" not in browser.driver.title.replace(HOSTILE, "")
        assert browser.all("img") == []

    def test_light_and_dark(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        colour = "return getComputedStyle(document.body).backgroundColor"
        browser.dark(True)
        dark = browser.run(colour)
        browser.dark(False)
        light = browser.run(colour)
        assert dark != light
        browser.click("#theme")
        assert browser.run(colour) == dark
        browser.driver.refresh()
        browser.wait(lambda: browser.run(colour) == dark, "the choice is kept")


NAMELESS = """
return [...document.querySelectorAll("button, a, input, select, dialog, nav, [role=option], [role=listbox]")].filter(
  (one) => one.checkVisibility() && !(one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
    || one.textContent.trim() || one.title)).map((one) => one.outerHTML)"""
SIDEWAYS = """
return [document.documentElement, ...document.querySelectorAll("dialog[open], dialog[open] *, .side, .head")].filter(
  (one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).textOverflow !== "ellipsis"
    && (one === document.documentElement || /auto|scroll/.test(getComputedStyle(one).overflowX)))
  .map((one) => one.outerHTML)"""


class TestTelephone:
    def test_nothing_is_cut_off_or_nameless_and_every_window_has_a_way_out(
        self, browser: Browser, server: Server
    ) -> None:
        browser.narrow(390)
        try:
            loaded(browser, server)
            browser.click("#tile-0")
            for key, window in {
                "?": ".keys",
                "m": ".picker",
                "e": ".exports",
                "c": "dialog.tree",
                "r": "dialog",
            }.items():
                browser.press(key)
                browser.wait(browser.one_is_shown(window), window)
                assert browser.run(SIDEWAYS) == [], window
                assert browser.run(NAMELESS) == [], window
                browser.run(
                    """[...document.querySelectorAll("dialog button")]
                      .find((one) => ["Close", "Cancel"].includes(one.ariaLabel ?? one.textContent)).click()"""
                )
                browser.wait(lambda: not browser.all("dialog"), "closed without a keyboard")
            labels = "return [...document.querySelectorAll('.twig .label')].every((one) => one.clientWidth > 60)"
            browser.press("c")
            browser.wait(lambda: browser.all(".twig .label"), "the tree")
            assert browser.run(labels), "names of branches can be read"
            browser.press(Keys.ESCAPE)
        finally:
            browser.narrow(None)


class TestEditing:
    def test_edit_undo_redo_and_export(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        before = sizes(browser)
        first, second, third = before

        browser.press("r")
        browser.wait(lambda: browser.all("dialog input"), "rename")
        browser.press("squares", Keys.ENTER)
        browser.wait(lambda: browser.text("#title") == "squares", "renamed")

        browser.click("#tile-1")
        browser.hold(Keys.SHIFT, Keys.ARROW_RIGHT)
        browser.wait(lambda: browser.text(".n-selected") == "2 selected", "a range")
        browser.press("m")
        browser.wait(lambda: browser.all(".picker input"), "where to")
        browser.press(second, Keys.ENTER)
        after = {**{name: size for name, size in before.items() if name != first}, "squares": 18, second: 22}
        browser.wait(lambda: sizes(browser) == after, "moved")

        browser.click("#tile-0")
        browser.press("x")
        browser.wait(lambda: browser.all("#tile-0.wrong"), "marked")

        browser.click("#undo")
        browser.wait(lambda: not browser.all("#tile-0.wrong"), "the mark is gone")
        browser.hold(Keys.CONTROL, "z")
        browser.wait(lambda: sizes(browser)["squares"] == 20, "the move is undone")
        browser.click("#redo")
        browser.wait(lambda: sizes(browser) == after, "and done again")

        browser.press("e")
        browser.wait(lambda: browser.all("[data-export]"), "export")
        for kind in ("labels", "folders", "model-input"):
            browser.click(f"[data-export='{kind}']")
        browser.wait(lambda: len(browser.all(".result code")) == 3, "all three are written")
        paths = [Path(text) for text in browser.texts(".result code")]
        assert all(path.exists() for path in paths)
        with paths[0].open(newline="") as file:
            labels = [row["label"] for row in csv.DictReader(file)]
        assert {name: labels.count(name) for name in set(labels)} == after
        assert len(list((paths[1] / "squares").iterdir())) == 18
        browser.press(Keys.ESCAPE)
        assert third in sizes(browser)

    def test_merge_and_split(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        first, second, _ = sizes(browser)
        browser.click("#merge")
        browser.wait(lambda: browser.all(".picker input"), "merge")
        browser.press(second, Keys.ENTER)
        browser.wait(lambda: 40 in sizes(browser).values(), "merged")
        assert not {first, second} & set(sizes(browser)), "the proposed names spoke of the parts"
        browser.click("#split")
        browser.wait(lambda: browser.all("dialog input"), "split")
        browser.press(Keys.ENTER)
        browser.wait(lambda: len(sizes(browser)) == 3, "split again")
        assert sum(sizes(browser).values()) == 60

    def test_a_new_cluster_by_mouse(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        for place in (2, 5):
            browser.run("arguments[0].querySelector('.tick').click()", browser.one(f"#tile-{place}"))
        browser.click("#move")
        browser.wait(lambda: browser.all(".picker li button"), "where to")
        browser.click(".picker li:first-child button")
        browser.wait(lambda: 2 in sizes(browser).values(), "a cluster of two")
        browser.click("#history")
        browser.wait(lambda: browser.all(".history li"), "history")
        assert "move 2 images to Cluster 3" in browser.text(".history").lower().replace("cluster", "Cluster")
        browser.press(Keys.ESCAPE)

    def test_dragging_onto_a_cluster(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        other = server.editor.overview().clusters[1]
        # Headless browsers do not drag by mouse, so the events are made by hand.
        browser.run(
            """const data = new DataTransfer();
            const send = (selector, kind) => document.querySelector(selector)
              .dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
            send("#tile-4", "dragstart"); send(arguments[0], "dragover"); send(arguments[0], "drop");""",
            f"[data-cluster='{other.id}']",
        )
        browser.wait(lambda: sizes(browser)[other.name] == other.size + 1, "moved")


N_LARGE = 100_000


class TestTree:
    def test_another_number_is_seen_and_made(self, browser: Browser, server: Server) -> None:
        loaded(browser, server)
        browser.click("#tree")
        browser.wait(lambda: browser.text("#tree-said") == "3 clusters, as the run has", "the tree")
        own = set(browser.texts(".tree div.twig .label, .tree summary.twig .label"))
        assert set(sizes(browser)) <= own
        assert browser.run("return document.querySelector('#make-cut').disabled")
        browser.run(
            "const s = document.querySelector('#tree-number'); s.value = 5; s.dispatchEvent(new Event('input'))"
        )
        browser.wait(lambda: browser.text("#make-cut") == "Make a run with 5 clusters", "the number")
        assert len(browser.all(".tree div.twig")) == 5
        drawn = (
            """return [...document.querySelectorAll(".tree canvas")].every((one) => one.width > 1 && one.height > 1)"""
        )
        browser.wait(lambda: browser.run(drawn), "the pictures of the tree")
        browser.click(".tree details[open] > summary")
        browser.wait(lambda: browser.all(".tree details:not([open])"), "a branch is closed")
        browser.click("#make-cut")
        made = server.editor.folder.path.resolve().with_name("run-k5")
        browser.wait(lambda: f"selfsort explore {made}" in browser.text(".tree .result"), "the new run")
        assert RunFolder.open(made).n_clusters == 5


def large_run(path: Path, n_images: int, n_clusters: int) -> Path:
    """A finished run whose pictures are in an array beside it, written without clustering anything."""
    labels = np.arange(n_images) % n_clusters
    pixels = np.zeros((n_images, 8, 8, 1), np.uint8)
    pixels[:, 2:6, 2:6, 0] = (40 + 20 * labels)[:, None, None]
    source = path.with_suffix(".npy")
    np.save(source, pixels)
    from selfsort.data.datasets import fingerprint
    from selfsort.data.options import ReadOptions
    from selfsort.types import Images

    config = {
        "method": "kmeans",
        "settings": {"n_clusters": n_clusters},
        "seed": 0,
        "image": {"height": 8, "width": 8, "channels": 1, "fit": "crop"},
        "source": ReadOptions(path=str(source)).to_json(),
        "fingerprint": fingerprint(Images(pixels)),
    }
    folder = RunFolder.create(path, config)
    soft = np.eye(n_clusters, dtype=np.float32)[labels]
    features = np.random.default_rng(0).normal(size=(n_images, 4)).astype(np.float32) + 5 * soft[:, :4]
    folder.save_thumbnails(Thumbnails(np.array([0]), pixels[:1]))
    folder.save_result(Clustering(labels, soft, features, State()), [str(row) for row in range(n_images)])
    return path


def test_a_hundred_thousand_images(browser: Browser, tmp_path: Path) -> None:
    server = Server(large_run(tmp_path / "large", N_LARGE, 8))
    try:
        loaded(browser, server)
        browser.click("#views li:nth-child(1) button")
        browser.wait(lambda: browser.text(".titles .facts") == "100,000 images", "all images")
        # However long the list, only what is near exists.
        assert browser.run("return document.querySelectorAll('.tile').length") < 1000
        for share in (0.5, 1.0, 0.25):
            browser.run(
                "const g = document.getElementById('gallery'); g.scrollTop = arguments[0] * g.scrollHeight", share
            )
            browser.wait(lambda: browser.run(IN_SIGHT) > 20 and browser.run(BLANK) == 0, "no blank rows")
        browser.run("document.getElementById('gallery').scrollTop = 1e9")
        browser.wait(lambda: browser.all(f"#tile-{N_LARGE - 1}"), "the last image")
        browser.click(f"#tile-{N_LARGE - 1}")
        browser.press("s")
        browser.wait(lambda: browser.text("#title") == f"More like {N_LARGE - 1}", "similar among all")
    finally:
        browser.open("about:blank")  # a page that still asks for something would complain
        server.stop()


SCROLL = """
const done = arguments[arguments.length - 1];
const box = document.getElementById("gallery");
let blank = 0, seen = 0, frames = 0;
const frame = () => {
  const around = box.getBoundingClientRect();
  for (const tile of document.querySelectorAll(".tile:not([hidden])")) {
    const place = tile.getBoundingClientRect();
    if (place.bottom <= around.top || place.top >= around.bottom) continue;
    seen += 1;
    if (tile.classList.contains("pending")) blank += 1;
  }
  box.scrollTop += arguments[0];
  frames += 1;
  if (frames < arguments[1]) requestAnimationFrame(frame);
  else done([seen, blank]);
};
requestAnimationFrame(frame);
"""


def test_scrolling_leaves_no_blank_rows(browser: Browser, tmp_path: Path) -> None:
    server = Server(large_run(tmp_path / "long", 10_000, 4))
    try:
        loaded(browser, server)
        browser.driver.set_script_timeout(120)
        seen, blank = browser.driver.execute_async_script(SCROLL, 60, 100)
        assert seen > 2000
        assert blank == 0
    finally:
        browser.open("about:blank")  # a page that still asks for something would complain
        server.stop()


def test_stacks_have_badges_and_a_view(browser: Browser, photo_run: Path, tmp_path: Path) -> None:
    shutil.copytree(photo_run, tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    labels = folder.label_table().labels
    first, second, third = np.flatnonzero(labels == labels[0])[:3].tolist()
    save_stacks(folder, [Stack(second, (Member(first, "burst"), Member(third, "copy")))])
    server = Server(tmp_path / "run")
    browser.open(server.new_link())
    browser.wait(lambda: "Stacks of duplicates" in browser.text("#views"), "the view of stacks")
    browser.open(f"{server.home}#cluster/{labels[0]}")
    browser.wait(
        lambda: sorted(filter(None, browser.texts(".tile:not([hidden]) .badge"))) == ["+2", "+2", "★ +2"], "badges"
    )
    browser.click(".tile.best .badge")
    browser.wait(lambda: browser.text("#title") == "A stack", "the stack opens")
    assert [browser.text(f"#tile-{i} .badge") for i in range(3)] == ["★ best", "burst", "copy"]
    browser.press(Keys.ENTER)
    browser.wait(lambda: "proposed best" in browser.text(".lightbox dl"), "what it is in its stack")
    browser.press(Keys.ESCAPE)
    browser.press(Keys.ESCAPE)
    browser.press(Keys.ESCAPE)
    browser.wait(lambda: browser.text("#title") != "A stack", "Escape leads back")
    browser.open("about:blank")
    server.stop()


def test_learning_from_corrections_opens_the_run_it_made(browser: Browser, server: Server) -> None:
    browser.open(server.new_link())
    browser.wait(lambda: browser.all(".tile:not([hidden])"), "images")
    assert not browser.one("#learn").is_displayed()
    server.editor.move([0, 1], None, "mine")
    browser.driver.refresh()
    browser.wait(browser.one_is_shown("#learn"), "the button")
    browser.click("#learn")
    browser.wait(lambda: "run-corrections" in browser.text("#run"), "the new run")
    browser.wait(lambda: "what you put right" in browser.text("#toasts"), "what has changed")
    assert "mine" in browser.text("#clusters")


NAMELESS = """
const named = (e) => (e.getAttribute("aria-label") || e.title || e.innerText || e.labels?.[0]?.innerText || "").trim();
return [...document.querySelectorAll("button, input, select, a[href], summary, [tabindex='0']")]
  .filter((e) => e.checkVisibility() && !named(e)).map((e) => e.outerHTML.slice(0, 120));
"""
FOCUSED = """
const e = document.activeElement;
return e === document.body ? "" : e.id || e.innerText || e.ariaLabel || e.tagName;
"""


def walk(browser: Browser, limit: int = 80) -> list[str]:
    """Press Tab until it comes round; return what had the focus."""
    browser.run("document.activeElement.blur()")
    seen: list[str] = []
    for _ in range(limit):
        browser.press(Keys.TAB)
        now = str(browser.run(FOCUSED))
        if not now or (seen and now == seen[0]):
            break
        seen.append(now)
    return seen


def test_tab_reaches_every_control_and_each_has_a_name(browser: Browser, server: Server) -> None:
    server.editor.rename(0, "cats")
    browser.open(server.new_link())
    browser.wait(lambda: browser.all(".tile:not([hidden])"), "images")
    seen = walk(browser)
    for control in ("undo", "history", "learn", "tree", "export", "theme", "help", "find", "rename", "order", "size"):
        assert control in seen, seen
    assert seen.index("gallery") > seen.index("find")
    assert browser.run(NAMELESS) == []
    browser.run("document.getElementById('gallery').focus()")
    browser.press(Keys.ENTER)
    browser.wait(browser.one_is_shown(".lightbox img"), "one image")
    inside = walk(browser)
    for label in ("Previous image", "Next image", "Close"):
        assert label in inside or any(label in one for one in inside) or browser.all(f'[aria-label="{label}"]'), inside
    assert browser.run(NAMELESS) == []


OVERLAPS = """
const shown = [...document.querySelectorAll(".lightbox button")].filter((e) => e.checkVisibility());
const boxes = shown.map((e) => [e.ariaLabel || e.innerText, e.getBoundingClientRect()]);
const meet = (p, q) => p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1;
const found = [];
for (const [i, [a, p]] of boxes.entries())
  for (const [b, q] of boxes.slice(i + 1))
    if (meet(p, q)) found.push(`${a} / ${b}`);
return found;
"""
OUTSIDE = """
const shown = [...document.querySelectorAll(".lightbox button")].filter((e) => e.checkVisibility());
return shown.filter((e) => e.getBoundingClientRect().right > innerWidth).length;
"""


@pytest.mark.parametrize("width", [390, 1280])
def test_no_two_buttons_of_an_image_lie_on_each_other(browser: Browser, server: Server, width: int) -> None:
    try:
        browser.narrow(width if width < 1000 else None)
        browser.open(server.new_link())
        browser.wait(lambda: browser.all(".tile:not([hidden])"), "images")
        browser.run("document.getElementById('gallery').focus()")
        browser.press(Keys.ENTER)
        browser.wait(browser.one_is_shown(".lightbox img"), "one image")
        assert browser.run(OVERLAPS) == []
        assert browser.run(OUTSIDE) == 0
    finally:
        browser.narrow(None)
