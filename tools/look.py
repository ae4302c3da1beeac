"""Looks at pages in headless Chromium (Debian's): the manual, and the page of ``matrix --html``.

    nox -s docs -- look       wants the Debian packages chromium and chromium-driver

In a wide and in a narrow window, in light and in dark colours, nothing of a page of the built
manual may reach beyond it, except inside tables, which scroll by themselves; code is wrapped
(docs/_static/wrap.css), and every picture has loaded.  Text stands out from what lies behind it,
and a dark page is dark.  What is planted on each page is found first.  On the page of `matrix` both
heat maps are there, and a click on a cell opens its reason.  README is drawn with a small style
sheet of ours.  Nothing is asked of the network, and the console stays empty.  Pictures of the pages
are left in build/results/pages.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

from markdown_it import MarkdownIt
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

WIDTHS = (1300, 400)
SCHEMES = ("light", "dark")
MANUAL = Path("docs/_build/html")
PICTURES = Path("build/results/pages")
#: Pages that Sphinx makes by itself.
OWN = {"genindex", "search", "py-modindex"}

#: What reaches beyond the window, except in tables, which scroll; missing pictures; text that is
#: cut off inside a box that does not scroll.
CUT_OFF = """
const wide = document.documentElement.clientWidth + 1, found = [];
const scrolls = 'pre, .table-wrapper', article = document.querySelector('article');
const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
const range = document.createRange(), begin = e => e.textContent.trim().slice(0, 60);
while (texts.nextNode()) {
    const text = texts.currentNode;
    range.selectNode(text);
    if (!text.parentElement.closest(scrolls) && range.getBoundingClientRect().right > wide) {
        found.push(`text is cut off: ${begin(text)}`);
    }
}
for (const e of article.querySelectorAll(`${scrolls}, table, img, svg`)) {
    const inside = e.parentElement.closest(scrolls);
    if (!inside && e.getBoundingClientRect().right > wide) {
        found.push(`<${e.tagName.toLowerCase()}> is too wide: ${begin(e)}`);
    }
}
for (const e of article.querySelectorAll('pre')) {
    if (e.scrollWidth > e.clientWidth + 1) found.push(`code is cut off: ${begin(e)}`);
}
for (const e of article.querySelectorAll('*')) {
    const hides = ['hidden', 'clip'].includes(getComputedStyle(e).overflowX);
    if (hides && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 1) {
        found.push(`<${e.tagName.toLowerCase()}> hides text: ${begin(e)}`);
    }
}
for (const e of article.querySelectorAll('.contents, .error, .system-message')) {
    const told = getComputedStyle(e, '::before').content + e.className;
    if (/ERROR|error|system-message/.test(told)) found.push(`the page shows an error: ${begin(e)}`);
}
for (const image of document.images) {
    if (!image.complete || !image.naturalWidth) found.push(`no picture ${image.src}`);
}
return found.slice(0, 8);
"""
#: Text that is hard to read: its contrast with what lies behind it is under 3 (WCAG's least for
#: large text), or the page is not as dark or light as was asked for.
FAINT = """
const shine = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.04 ? v / 12.92 :
                                             ((v + 0.055) / 1.055) ** 2.4);
                     return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const parts = s => (s.match(/[\\d.]+/g) || []).map(Number);
const behind = e => { for (; e; e = e.parentElement) {
        const [r, g, b, a] = parts(getComputedStyle(e).backgroundColor);
        if (a === undefined || a > 0.9) return [r, g, b]; }
    return arguments[0] === 'dark' ? [19, 20, 22] : [255, 255, 255]; };
const found = [], seen = new Set(), root = document.querySelector('article') || document.body;
const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
    const e = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
    if (!text || seen.has(e) || !e.checkVisibility({visibilityProperty: true})) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    if (style.userSelect === 'none' || parts(style.color)[3] === 0) continue;
    const [a, b] = [shine(parts(style.color).slice(0, 3)), shine(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 3) found.push(`text is faint (${contrast.toFixed(1)}): ${text.slice(0, 40)}`);
}
const page = shine(behind(document.body));
if ((arguments[0] === 'dark') !== (page < 0.2)) found.push(`the page is not ${arguments[0]}`);
return found.slice(0, 8);
"""
#: Faults that the checks must find: text, code and a table that are too wide, and faint text.
FAULT = """
document.querySelector('article').insertAdjacentHTML('beforeend',
    '<p style="white-space: nowrap">' + 'wide '.repeat(500) + '</p>' +
    '<div class="highlight"><pre style="white-space: pre">' + 'wide '.repeat(500) + '</pre></div>' +
    '<table style="width: 3000px"><tr><td>wide</td></tr></table>' +
    '<p style="color: #777; background: #888">faint</p>');
"""


def browser() -> webdriver.Chrome:
    driver = shutil.which("chromedriver")
    if driver is None:
        sys.exit("no chromedriver: apt-get install chromium chromium-driver")
    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


def show(chrome: webdriver.Chrome, page: Path, width: int, scheme: str) -> list[str]:
    """Opens a page in a window of this width; what is wrong with the page as a whole."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    # A window has a least width; the page's is set by the device's.
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chrome.get(page.resolve().as_uri())
    chrome.save_screenshot(str(PICTURES / f"{page.parent.name}-{page.stem}-{width}-{scheme}.png"))
    wide = chrome.execute_script("return document.documentElement.scrollWidth")
    found = [f"the page is {wide} wide"] if wide > width + 1 else []
    return found + chrome.execute_script(FAINT, scheme)


def heard(chrome: webdriver.Chrome) -> list[str]:
    """What the page asked the network for, and what it told the console."""
    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = [each for each in messages if each["method"] == "Network.requestWillBeSent"]
    urls = [each["params"]["request"]["url"] for each in sent]
    foreign = [url for url in urls if not url.startswith(("file:", "data:"))]
    asked = [f"asks the network for {url}" for url in foreign]
    return asked + [f"console: {entry['message']}" for entry in chrome.get_log("browser")]


def look_at_manual(chrome: webdriver.Chrome, page: Path, width: int, scheme: str) -> list[str]:
    show(chrome, page, width, scheme)
    chrome.execute_script(FAULT)
    told = " ".join(chrome.execute_script(CUT_OFF) + chrome.execute_script(FAINT, scheme))
    for each in ("text is cut off", "code is cut off", "<table> is too wide", "text is faint"):
        if each not in told:
            return [f"what was planted was not found: {each}"]
    return show(chrome, page, width, scheme) + chrome.execute_script(CUT_OFF)


def look_at_readme(chrome: webdriver.Chrome, page: Path, width: int, scheme: str) -> list[str]:
    return show(chrome, page, width, scheme)


def look_at_matrix(chrome: webdriver.Chrome, page: Path, width: int, scheme: str) -> list[str]:
    found = show(chrome, page, width, scheme)
    for name in ("before", "after"):
        cells = chrome.find_elements(By.CSS_SELECTOR, f"#{name} tbody td[class]")
        shown = [cell for cell in cells if cell.is_displayed() and cell.text]
        if len(shown) < 9:
            found.append(f"the map {name!r} has {len(shown)} cells")
    link = chrome.find_element(By.CSS_SELECTOR, "#after tbody a, #before tbody a")
    target = link.get_attribute("href").partition("#")[2]
    chrome.execute_script("arguments[0].scrollIntoView({inline: 'center'})", link)
    link.click()
    script = "return document.getElementById(decodeURIComponent(arguments[0])).open"
    try:  # the page hears of the click later than we do
        WebDriverWait(chrome, 10).until(lambda it: it.execute_script(script, target))
    except TimeoutException:
        found.append(f"a click does not open {target!r}")
    return found


def drawn_readme() -> Path:
    """README as a page: wide code and tables scroll, as where it is read."""
    text = Path("README.md").read_text(encoding="utf-8")
    body = MarkdownIt("gfm-like", {"linkify": False}).render(text)
    body = body.replace('src="docs/', f'src="{Path("docs").resolve().as_uri()}/')
    style = (
        ":root { color-scheme: light dark } body { margin: 1em auto; max-width: 60em;"
        " padding: 0 1em; font-family: sans-serif; background: Canvas } img { max-width: 100% }"
        " pre, table { display: block; overflow-x: auto }"
        " @media (prefers-color-scheme: dark) { a { color: #8ab4f8 } }"
    )
    page = PICTURES / "readme.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><style>{style}</style>{body}')
    return page


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    pages = [page for page in sorted(MANUAL.rglob("*.html")) if page.stem not in OWN]
    if len(pages) < 15:
        sys.exit(f"{len(pages)} pages in {MANUAL}: build the manual first (nox -s docs)")
    looks = dict.fromkeys(pages, look_at_manual)
    matrix = PICTURES / "matrix.html"
    command = [sys.executable, "-m", "dlshim", "matrix", "--html", str(matrix)]
    subprocess.run(command, stdout=subprocess.DEVNULL)  # what fails there is not looked at here
    looks[matrix] = look_at_matrix
    looks[drawn_readme()] = look_at_readme
    chrome, found = browser(), []
    try:
        for page, look in looks.items():
            for width, scheme in itertools.product(WIDTHS, SCHEMES):
                wrong = look(chrome, page, width, scheme) + heard(chrome)
                found += [f"{page.name} at {width}, {scheme}: {each}" for each in wrong]
    finally:
        chrome.quit()
    print(
        "\n".join(found)
        or f"nothing is wrong with {len(looks)} pages at {WIDTHS} pixels, {SCHEMES}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
