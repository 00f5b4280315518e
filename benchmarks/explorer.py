"""How quickly the explorer shows a gallery, and whether scrolling runs ahead of the pictures, in chromium.

    python -m benchmarks.explorer RUN

Not part of `make bench`: it needs a browser, and seconds instead of ratios are what a user feels.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.browser.chromium import Browser

_REPEATS = 9

_IN_SIGHT = """
const box = document.getElementById("gallery").getBoundingClientRect();
const seen = [...document.querySelectorAll(".tile:not([hidden])")].filter((tile) => {
  const place = tile.getBoundingClientRect();
  return place.bottom > box.top && place.top < box.bottom;
});
const blank = seen.filter((tile) => tile.classList.contains("pending")).length;
"""
# Runs before the page's own script; notes when every tile in sight has its picture.
_PROBE = f"""
const look = () => {{
  if (document.getElementById("gallery")) {{
    {_IN_SIGHT}
    if (seen.length > 20 && !blank) {{ window.galleryAt = performance.now(); return; }}
  }}
  requestAnimationFrame(look);
}};
requestAnimationFrame(look);
"""
_SCROLL = f"""
const [step, n, done] = arguments;
const gallery = document.getElementById("gallery");
let frames = 0, shown = 0, missed = 0;
const start = performance.now();
const frame = () => {{
  {_IN_SIGHT}
  shown += seen.length; missed += blank; frames += 1;
  gallery.scrollTop += step;
  if (frames < n) requestAnimationFrame(frame);
  else done([shown, missed, performance.now() - start]);
}};
requestAnimationFrame(frame);
"""


def measure(address: str) -> None:
    browser = Browser.start(1280, 900)
    try:
        browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _PROBE})
        browser.driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        browser.open(address)
        times, after_load = [], []
        for _ in range(_REPEATS):
            browser.driver.refresh()
            browser.wait(lambda: browser.run("return window.galleryAt"), "the gallery")
            times.append(float(browser.run("return window.galleryAt")))
            loaded = browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd")
            after_load.append(times[-1] - float(loaded))
        print(f"first gallery: median {statistics.median(times):.0f} ms after the address was opened,", end=" ")
        print(f"{statistics.median(after_load):.0f} ms after load (largest {max(after_load):.0f} ms)")
        browser.click("#views li:nth-child(1) button")
        browser.driver.set_script_timeout(300)
        for step in (40, 120, 400):
            browser.run("document.getElementById('gallery').scrollTop = 0")
            time.sleep(1)
            shown, missed, milliseconds = browser.driver.execute_async_script(_SCROLL, step, 200)
            speed = 200_000 * step / milliseconds
            print(f"scrolling by {step} pixels a frame ({speed:,.0f} a second): {missed} of {shown} tiles were blank")
    finally:
        browser.driver.quit()


def main(run: Path) -> None:
    command = [sys.executable, "-m", "selfsort", "explore", str(run), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(line.split()[1] for line in server.stdout if line.startswith("explore: "))
            measure(address)
        finally:
            server.terminate()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
