"""A real browser, and what every page must not do in it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
)
PATIENCE = 60
# What a click or a look can meet while the page is drawing.
_PASSING = (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    NoSuchElementException,
    StaleElementReferenceException,
)


@dataclass
class Browser:
    """The few things that the tests do with a page."""

    driver: webdriver.Chrome

    @classmethod
    def start(cls, width: int = 1280, height: int = 860) -> Browser:
        # Not skipped where they are missing: a test that was asked for and cannot run has failed.
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        assert chromium, "chromium is not installed: use `make test-browser`"
        assert driver, "chromedriver is not installed: use `make test-browser`"
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for flag in (*_FLAGS, f"--window-size={width},{height}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        return cls(webdriver.Chrome(options=options, service=Service(driver)))

    def open(self, address: str) -> None:
        self.driver.get(address)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def one_is_shown(self, selector: str) -> Callable[[], bool]:
        """Return a question to wait for."""
        return lambda: self.one(selector).is_displayed()

    def click(self, selector: str) -> None:
        """Click as soon as that is possible: after an edit the page draws its lists anew."""

        def done() -> bool:
            self.one(selector).click()
            return True

        self.wait(done, f"{selector} can be clicked")

    def text(self, selector: str) -> str:
        """Return what can be read there, in one step: the page may replace the element at any moment."""
        found: str = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return found

    def texts(self, selector: str) -> list[str]:
        found: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector
        )
        return found

    def press(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def hold(self, held: str, key: str) -> None:
        webdriver.ActionChains(self.driver).key_down(held).send_keys(key).key_up(held).perform()

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait(self, done: Callable[[], object], what: str) -> None:
        WebDriverWait(self.driver, PATIENCE, 0.05, ignored_exceptions=_PASSING).until(lambda _: done(), what)

    def narrow(self, width: int | None) -> None:
        """Show the page as a telephone does; None is the window again."""
        if width is None:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            return
        metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, is_dark: bool) -> None:
        value = "dark" if is_dark else "light"
        features = {"features": [{"name": "prefers-color-scheme", "value": value}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", features)

    def complaints(self) -> list[str]:
        """What the page wrote to the console, and refusals of the security policy."""
        log = self.driver.execute("getLog", {"type": "browser"})
        return [entry["message"] for entry in log["value"]]

    def save(self, path: Path) -> None:
        self.driver.save_screenshot(str(path))


__all__ = ["Browser", "Keys"]
