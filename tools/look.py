"""Looks at every page of the built manual in headless Chromium (Debian's), wide and narrow.

    nox -s look               wants the Debian packages chromium and chromium-driver

At both widths nothing of a page may reach beyond the window, except inside tables, which scroll by
themselves; code is wrapped (docs/_static/wrap.css).  Every picture must have loaded; nothing is
asked of the network; the console stays empty.  What is planted on each page is found first.
Pictures of the pages are left in build/results.
"""

from __future__ import annotations

import sys
from pathlib import Path

from selenium import webdriver

sys.path.insert(0, str(Path(__file__).parent))
from browser import RESULTS, heard, look_at, show

WIDTHS = (1300, 400)
PAGES = Path("docs/_build/html")
PICTURES = RESULTS / "pages"
#: Pages that Sphinx makes by itself.
OWN = {"genindex", "search", "py-modindex"}

#: What reaches beyond the window, except in tables, which scroll; and missing pictures.
CUT_OFF = """
const wide = document.documentElement.clientWidth + 1, found = [];
const scrolls = 'pre, .table-wrapper', article = document.querySelector('article');
const texts = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
const range = document.createRange();
while (texts.nextNode()) {
    const text = texts.currentNode;
    range.selectNode(text);
    if (!text.parentElement.closest(scrolls) && range.getBoundingClientRect().right > wide) {
        found.push(`text is cut off: ${text.textContent.trim().slice(0, 60)}`);
    }
}
for (const e of article.querySelectorAll(`${scrolls}, table, img, svg`)) {
    const inside = e.parentElement.closest(scrolls);
    if (!inside && e.getBoundingClientRect().right > wide) {
        const text = e.textContent.trim().slice(0, 60);
        found.push(`<${e.tagName.toLowerCase()}> is too wide: ${text}`);
    }
}
for (const e of article.querySelectorAll('pre')) {
    if (e.scrollWidth > e.clientWidth + 1) {
        found.push(`code is cut off: ${e.textContent.trim().slice(0, 60)}`);
    }
}
if (document.documentElement.scrollWidth > wide) {
    found.push(`the page is ${document.documentElement.scrollWidth} wide`);
}
for (const image of document.images) {
    if (!image.complete || !image.naturalWidth) found.push(`no picture ${image.src}`);
}
return found.slice(0, 5);
"""

#: Text that is cut off inside a box that does not scroll.
HIDDEN = """
const found = [];
for (const e of document.querySelectorAll('article *')) {
    const style = getComputedStyle(e);
    if (['hidden', 'clip'].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1
            && e.clientWidth > 1) {
        found.push(`<${e.tagName.toLowerCase()}> hides text: ` + e.textContent.trim().slice(0, 60));
    }
}
return found.slice(0, 5);
"""


def faults(chrome: webdriver.Chrome, page: Path, width: int) -> list[str]:
    """What is wrong with a page in a window of this width."""
    if width == WIDTHS[0] and not sees_a_fault(chrome, page):
        return [f"{page.name}: what was planted was not found"]
    show(chrome, page, width)
    found = chrome.execute_script(CUT_OFF) + chrome.execute_script(HIDDEN) + heard(chrome)
    name = page.relative_to(PAGES).with_suffix("").as_posix()
    chrome.save_screenshot(str(PICTURES / f"{name.replace('/', '-')}-{width}.png"))
    return [f"{name} at {width}: {each}" for each in found]


#: What the check must find: text and a table that are too wide.
FAULT = """
document.querySelector('article').insertAdjacentHTML('beforeend',
    '<p style="white-space: nowrap">' + 'wide '.repeat(500) + '</p>' +
    '<div class="highlight"><pre style="white-space: pre">' + 'wide '.repeat(500) + '</pre></div>' +
    '<table style="width: 3000px"><tr><td>wide</td></tr></table>');
"""


def sees_a_fault(chrome: webdriver.Chrome, page: Path) -> bool:
    chrome.get(page.resolve().as_uri())
    chrome.execute_script(FAULT)
    told = " ".join(chrome.execute_script(CUT_OFF))
    return all(
        each in told for each in ("text is cut off", "code is cut off", "<table> is too wide")
    )


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    pages = [page for page in sorted(PAGES.rglob("*.html")) if page.stem not in OWN]
    if len(pages) < 15:
        sys.exit(f"{len(pages)} pages in {PAGES}: build the manual first (nox -s docs)")
    return look_at(pages, WIDTHS, faults)


if __name__ == "__main__":
    sys.exit(main())
