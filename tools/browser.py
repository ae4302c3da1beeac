"""Looks at the page of ``python -m dlshim matrix --html`` in headless Chromium (Debian's), and has
what tools/look.py needs for that, too.

    nox -s browser            wants the Debian packages chromium and chromium-driver

At a wide and at a narrow window: both heat maps are there, the page is no wider than the window
(tables scroll in boxes of their own), a click on a cell opens its reason, nothing is asked of the
network, and the console stays empty.  Pictures are left in build/results.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

WIDTHS = (1400, 480)
RESULTS = Path("build/results")


def browser() -> webdriver.Chrome:
    driver = shutil.which("chromedriver")
    if driver is None:
        sys.exit("no chromedriver: apt-get install chromium chromium-driver")
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


def requests(chrome: webdriver.Chrome) -> list[str]:
    """What the page asked for, but the file itself."""
    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = [each for each in messages if each["method"] == "Network.requestWillBeSent"]
    urls = [each["params"]["request"]["url"] for each in sent]
    return [url for url in urls if not url.startswith(("file:", "data:"))]


def show(chrome: webdriver.Chrome, page: Path, width: int) -> None:
    """Open a page in a window of this width."""
    # A window has a least width; the page's is set by the device's.
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chrome.get(page.resolve().as_uri())


def heard(chrome: webdriver.Chrome) -> list[str]:
    """What the page asked the network for, and what it told the console."""
    asked = [f"asked the network for {url}" for url in requests(chrome)]
    return asked + [f"console: {entry['message']}" for entry in chrome.get_log("browser")]


def look_at(
    pages: list[Path],
    widths: tuple[int, ...],
    faults: Callable[[webdriver.Chrome, Path, int], list[str]],
) -> int:
    """Print what `faults` finds in the pages; return the exit status."""
    chrome = browser()
    try:
        found = [
            fault for page in pages for width in widths for fault in faults(chrome, page, width)
        ]
    finally:
        chrome.quit()
    print("\n".join(found) or f"nothing is wrong with {len(pages)} pages at {widths} pixels")
    return 1 if found else 0


def faults(chrome: webdriver.Chrome, page: Path, width: int) -> list[str]:
    """What is wrong with the page in a window of this width."""
    show(chrome, page, width)
    found = []
    for name in ("before", "after"):
        cells = chrome.find_elements(By.CSS_SELECTOR, f"#{name} tbody td[class]")
        shown = [cell for cell in cells if cell.is_displayed() and cell.text]
        if len(shown) < 9:
            found.append(f"the map {name!r} has {len(shown)} cells")
    wide = chrome.execute_script("return document.documentElement.scrollWidth")
    if wide > width:
        found.append(f"the page is {wide} wide")
    chrome.save_screenshot(str(RESULTS / f"page-{width}.png"))
    link = chrome.find_element(By.CSS_SELECTOR, "#after tbody a, #before tbody a")
    target = link.get_attribute("href").partition("#")[2]
    chrome.execute_script("arguments[0].scrollIntoView({inline: 'center'})", link)
    link.click()
    script = "return document.getElementById(decodeURIComponent(arguments[0])).open"
    try:  # the page hears of the click later than we do
        WebDriverWait(chrome, 10).until(lambda it: it.execute_script(script, target))
    except TimeoutException:
        found.append(f"a click does not open {target!r}")
    chrome.save_screenshot(str(RESULTS / f"page-{width}-reason.png"))
    return [f"{width}: {each}" for each in found + heard(chrome)]


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    page = RESULTS / "page.html"
    command = [sys.executable, "-m", "dlshim", "matrix", "--html", str(page)]
    subprocess.run([*command, *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
    return look_at([page], WIDTHS, faults)


if __name__ == "__main__":
    sys.exit(main())
