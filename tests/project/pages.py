"""The code blocks of the manual's pages: which there are, and how each is run.

    python tests/project/pages.py PAGE NUMBER       runs one part of a page, as the tests do

A part is what shares its names: a page, or a section that begins with ``.. needs: torch, jax`` and
ends at the next heading.  In a page these lines, which no reader sees, stand before a block:

``.. needs: a, b``       the part that begins here wants these modules
``.. setup:``            its indented lines are run and not shown
``.. not run: REASON``   the next block is not run, for this reason

In Markdown they are HTML comments: ``<!-- not run: REASON -->``.

In a block without prompts, ``# SomeError: words`` behind a statement says that it raises this
error, with these words in its message.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: What every part may use.
ALWAYS = ("numpy",)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_ONLY_FIRST_FAILURE
#: In ``needs``: the fake driver of the kit, whose memory is the host's.
FAKE_CUDA = "fake cuda"
#: In ``needs``: a compiler of C++, which no library brings.
COMPILER = "c++"
MARK = re.compile(r"(?:\.\.|<!--) (needs|setup|not run):\s*(.*?)\s*(?:-->)?$")
SHELL = re.compile(r"(python3?|pip|nox|sudo|apt-get|git|cd|\.) ")
COMMAND = "python -m dlshim"
RAISES = re.compile(r"# (\w+(?:Error|Warning)): (.*)$")


@dataclass
class Block:
    """One block of code, or of hidden setup."""

    line: int
    #: "session" (with prompts), "python", "shell", "setup", or another language's name
    kind: str
    text: str
    #: Why it is not run; "" where it is.
    reason: str = ""


@dataclass
class Part:
    """Blocks that share their names, and the modules that they want."""

    page: str
    number: int
    title: str
    needs: tuple[str, ...] = ALWAYS
    blocks: list[Block] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page}:{self.title}" if self.number else self.page

    @property
    def modules(self) -> set[str]:
        return {*ALWAYS, *self.needs} - {FAKE_CUDA, COMPILER}

    @property
    def is_run(self) -> bool:
        return any(not block.reason and block.kind != "setup" for block in self.blocks)


def pages() -> list[Path]:
    """All that has code for readers: the manual, and what is read in the repository itself."""
    folder = ROOT / "docs"
    found = [*folder.glob("*.rst"), *folder.glob("*.md"), *(folder / "results").glob("*.rst")]
    return sorted([*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _body(lines: list[str], at: int, more_than: int) -> tuple[int, str]:
    """The indented lines after line `at`: where they end, and their text."""
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > more_than):
        end += 1
    return end, textwrap.dedent("\n".join(lines[at + 1 : end])).strip("\n") + "\n"


def _kind(text: str, language: str = "") -> str:
    if text.lstrip().startswith(">>>"):
        return "session"
    if language in ("sh", "console", "bash") or (not language and SHELL.match(text)):
        return "shell"
    return language if language not in ("", "pycon") else "python"


def _is_heading(lines: list[str], at: int) -> bool:
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return bool(lines[at].strip()) and bool(re.fullmatch(r"(=+|-+|~+)", below.strip()))


def _rst(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """(line, what it is, text) of headings, marks and blocks of a reStructuredText page."""
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        text = line.strip()
        if mark := MARK.fullmatch(text):
            end, body = _body(lines, at, _indent(line)) if mark[1] == "setup" else (end, "")
            if mark[1] == "not run":
                end, more = _body(lines, at, _indent(line))
                body = " ".join([mark[2], *more.split()])
            yield at, mark[1], body or mark[2]
        elif directive := re.match(r"\.\. (?:code-block|code|sourcecode):: *(\S*)", text):
            end, body = _body(lines, at, _indent(line))
            yield at, _kind(body, directive[1]), body
        elif text.endswith("::") and not text.startswith(".. "):
            end, body = _body(lines, at, _indent(line))
            yield at, _kind(body), body
        elif text.startswith(">>>"):
            while end < len(lines) and lines[end].strip():
                end += 1
            yield at, "session", textwrap.dedent("\n".join(lines[at:end])) + "\n"
        elif _is_heading(lines, at):
            end += 1
            yield at, "heading", text
        at = end


def _markdown(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if mark := MARK.fullmatch(line.strip()):
            yield at, mark[1], mark[2]
        elif fence := re.match(r"```(\w*)$", line):
            while end < len(lines) and lines[end].strip() != "```":
                end += 1
            body = "\n".join(lines[at + 1 : end]) + "\n"
            end += 1
            yield at, _kind(body, fence[1]), body
        elif line.startswith("#"):
            yield at, "heading", line.lstrip("# ")
        at = end


def parts(page: Path) -> list[Part]:
    """The parts of a page; the first is the page itself, without the sections that are apart."""
    lines = page.read_text(encoding="utf-8").splitlines()
    read = _markdown if page.suffix == ".md" else _rst
    name = page.relative_to(ROOT).as_posix()
    found = [Part(name, 0, "")]
    part, title, reason = found[0], "", ""
    for number, what, text in read(lines):
        if what == "heading":
            part, title = found[0], text
            part.title = part.title or title
        elif what == "needs":
            needs = tuple(word.strip() for word in text.split(","))
            if title == part.title:
                part.needs = needs
            else:
                part = Part(name, len(found), title, needs)
                found.append(part)
        elif what == "not run":
            reason = text
        else:
            part.blocks.append(Block(number + 1, what, text, reason))
            reason = ""
    return found


# ---- running --------------------------------------------------------------------------------


def _session(block: Block, names: dict[str, Any], page: str) -> int:
    test = doctest.DocTestParser().get_doctest(block.text, names, page, page, block.line)
    failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(test, clear_globs=False)
    names.update(test.globs)
    return failed


def _plain(block: Block, names: dict[str, Any], where: str) -> int:
    """Runs the statements of a block without prompts; returns how many are not as they say."""
    failed = 0
    lines = block.text.splitlines()
    for node in ast.parse(block.text).body:
        code = compile(ast.Module([node], []), where, "exec")
        told = RAISES.search(lines[(node.end_lineno or 1) - 1])
        if told is None:
            exec(code, names)
            continue
        try:
            exec(code, names)
        except Exception as error:
            if type(error).__name__ == told[1] and told[2] in str(error):
                continue
            print(f"{where}: {told[0]!r} is told, and this was raised: {error!r}")
        else:
            print(f"{where}: {told[0]!r} is told, and nothing was raised")
        failed += 1
    return failed


def _shell(text: str) -> int:
    """Runs the lines of a block; each is a command of dlshim that must succeed."""
    failed = 0
    for line in filter(None, (line.partition("  #")[0].strip() for line in text.splitlines())):
        if not line.startswith(COMMAND):
            print(f"only commands of dlshim are run: {line}")
            return 1
        command = [sys.executable, *shlex.split(line)[1:]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{line}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
            failed += 1
    return failed


def run(part: Part) -> int:
    """How many blocks of a part are not as they are shown."""
    names: dict[str, Any] = {"__name__": "__main__"}
    if FAKE_CUDA in part.needs:
        import drivers  # what answers to the name of the driver is decided once for a process

        names["__driver__"] = drivers.load(drivers.built("13.0"))
    failed = 0
    for block in part.blocks:
        if block.reason:
            continue
        where = f"{part.page}, line {block.line}"
        if block.kind == "session":
            failed += bool(_session(block, names, part.page))
        elif block.kind == "shell":
            failed += bool(_shell(block.text))
        elif block.kind in ("python", "setup"):
            failed += bool(_plain(block, names, where))
        else:
            print(f"{where}: nobody runs {block.kind}")
            failed += 1
    return failed


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    page, number = sys.argv[1:]
    sys.exit(1 if run(parts(ROOT / page)[int(number)]) else 0)
