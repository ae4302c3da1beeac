"""Counts the words of the built manual: those of the user's tree, and of the rest.

    python tools/words.py docs/_build/html [--pages]

A word is what stands between spaces and has a letter or a digit, in text, code and tables.  Tables
that are made from recorded data (class ``recorded``) are counted apart.  The user's tree is what
docs/index.rst leads to by itself; docs/contributors.rst leads to the rest.  The status is 1 where
the user's tree has more than MOST words.  The session `docs` runs this.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

MOST = 35_000
DOCS = Path(__file__).parents[1] / "docs"
#: What has no end in HTML.
EMPTY = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Article(HTMLParser):
    """The words of a page's article, and those of its recorded tables."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = []
        self.texts: dict[bool, list[str]] = {False: [], True: []}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in EMPTY:
            return
        classes = (dict(attrs).get("class") or "").split()
        kind = "article" if tag == "article" else "recorded" if "recorded" in classes else tag
        self.inside.append(kind)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY and self.inside:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if "article" in self.inside and not {"script", "style", "title"} & {*self.inside}:
            self.texts["recorded" in self.inside].append(data)


def words(page: Path) -> tuple[int, int]:
    """How many words a page has, and how many more in its recorded tables."""
    article = Article()
    article.feed(page.read_text(encoding="utf-8"))
    told, recorded = (
        sum(bool(re.search(r"\w", word)) for word in " ".join(article.texts[each]).split())
        for each in (False, True)
    )
    return told, recorded


def listed(page: str) -> list[str]:
    """The pages that the lists of contents of a page lead to."""
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    trees = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text, re.M)
    return [name for tree in trees for name in re.findall(r"^   ([\w/-]+)$", tree, re.M)]


def main(built: str, *options: str) -> int:
    trees = {
        "users": ["index", *listed("index")],
        "contributors and sceptics": listed("contributors"),
    }
    for tree, pages in trees.items():
        found = {page: words(Path(built, f"{page}.html")) for page in pages}
        if "--pages" in options:
            for page, (told, recorded) in sorted(found.items(), key=lambda each: -each[1][0]):
                print(f"  {page:20} {told:7} {recorded:7}")
        told, recorded = (sum(column) for column in zip(*found.values(), strict=True))
        print(f"for {tree}: {told} words, and {recorded} of recorded data")
        if tree == "users" and told > MOST:
            print(f"at most {MOST} are wanted")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
