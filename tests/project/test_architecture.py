"""docs/architecture.rst shows every folder and file, docs/threads.rst every shared thing.

Who writes what is shared is told by the compiler: in a copy of src/ each member and each variable
of the table is `const`. What is then refused is a write; so is an address that is given to
anything that may write, unless it is a function of the thing's own file.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from project.tree import LAYERS, ROOT, SRC, absent, compiler, without_comments

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
file_heads: Any = importlib.import_module("file_heads")

PAGE = ROOT / "docs" / "architecture.rst"
SHARED = ROOT / "docs" / "threads.rst"

# ---- folders and files ----------------------------------------------------------------------


def sections(page: str) -> dict[str, str]:
    """Folder -> what stands below its heading."""
    parts = re.split(r"^``src/(\w+)/``\n[~^\"'-]+\n", page, flags=re.M)
    # The last one ends where a heading of another kind begins.
    texts = [
        re.split(r"^\S.*\n(?:=|-|~|\^){4,}$", text, maxsplit=1, flags=re.M)[0]
        for text in parts[2::2]
    ]
    return dict(zip(parts[1::2], texts, strict=True))


def faults(page: str, src: Path) -> list[str]:
    """What of the folders of a tree the page does not show, or shows in another order."""
    told = sections(page)
    tree = {folder.name for folder in src.iterdir() if folder.is_dir()}
    found = [] if list(told) == [name for name in LAYERS if name in tree] else ["order of folders"]
    for folder in sorted(tree):
        says, _, listed = told.get(folder, "").partition(".. dlshim-files:: ")
        if not says.strip():
            found.append(f"{folder}: nothing says what it is")
        if listed.strip() != folder:
            found.append(f"{folder}: its files are not listed")
        for names, sentence in file_heads.files(src / folder):
            if not 10 < len(sentence) < 280:
                found.append(f"{folder}/{names[0]} does not say in a sentence what it is")
    return found


def test_every_folder_and_every_file_says_what_it_is() -> None:
    assert {folder.name for folder in SRC.iterdir() if folder.is_dir()} == set(LAYERS)
    assert faults(PAGE.read_text(), SRC) == []


def test_faults_of_the_page_are_seen(tmp_path: Path) -> None:
    page = (
        "``src/abi/``\n~~~~~~~~~~~~\n\nOthers.\n\n.. dlshim-files:: core\n\n"
        "``src/core/``\n~~~~~~~~~~~~~\n\n.. dlshim-files:: core\n\nNext\n----\n\n* x\n"
    )
    for file, text in {
        "core/a.h": "/* What others\n * have made (T3).  More. */\n",
        "core/a.c": "int x;\n",
        "core/b.c": "int x;\n",
        "abi/c.def": "/* Rows. */\n",
    }.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    assert faults(page, tmp_path) == [
        "abi: its files are not listed",
        "abi/c.def does not say in a sentence what it is",
        "core: nothing says what it is",
        "core/b.c does not say in a sentence what it is",
    ]
    assert file_heads.files(tmp_path / "core")[0] == (
        ["a.h", "a.c"],
        "What others have made (T3)",
    )


# ---- shared things --------------------------------------------------------------------------

#: Functions that make, clear or free an object, or are hooks for tests: nobody else sees it then.
LIFE = re.compile(r"(^|_)(new|bare|init|exec|clear|empty|dealloc|free|hook)($|_of_|_plain$)")
ATOMIC = r"\batomic_(?:store|exchange|compare_exchange|fetch)\w*\(\s*&[^,;]*?{}"


class Row(NamedTuple):
    names: list[str]
    files: set[str]
    lock: str


class Write(NamedTuple):
    file: str
    function: str
    name: str


def rows(page: str) -> list[Row]:
    """The table "Shared things": names, files, and what says of the lock."""
    found = re.search(r"^\.\. list-table:: Shared things\n((?:(?:   .*)?\n)+)", page, re.M)
    assert found, "no table of shared things"
    cells = [re.split(r"\n     - ", row) for row in re.split(r"\n   \* - ", found[1])[2:]]
    return [
        Row(
            re.findall(r"``([a-z][\w.]*)``", what),
            set(re.findall(r"``src/([\w/.]+)``", files)),
            lock.strip(),
        )
        for what, files, lock in cells
    ]


def without_text(body: str) -> str:
    """The same with blanks for comments."""
    return re.sub(r"/\*.*?\*/", lambda found: " " * len(found[0]), body, flags=re.S)


def make_constant(src: Path, name: str) -> bool:
    """Whether a member, or a variable that a header declares, was found and is const now."""
    record, _, word = name.rpartition(".")
    for path in sorted(src.rglob("*.[ch]")):
        text = path.read_text()
        if record:
            end = re.search(rf"^\}} {record};|^struct {record} \{{", text, re.M)
            if not end:
                continue
            head = list(re.finditer(r"^(?:typedef )?struct\b[^;{]*\{", text[: end.end()], re.M))[-1]
            body = text[head.end() : text.index("\n}", head.end()) + 1]
            # The last word of its declaration, or one of several before a comma.
            member = re.search(rf"^ [^;(]*?\b({word})\b(?=[^;(]*;)", without_text(body), re.M)
            if not member:
                return False
            at = head.end() + member.start(1)
        else:
            variable = re.search(rf"^DLS_EXTERN [^;()]*?\b({word})\b", text, re.M)
            if not variable:
                continue
            at = variable.start(1)
        path.write_text(f"{text[:at]}const {text[at:]}")
        return True
    return False


def is_static(src: Path, name: str, files: set[str]) -> bool:
    """A variable that one file has for itself: nobody else can name it."""
    texts = [without_comments((src / file).read_text()) for file in files]
    plain = rf"^(?:static|_Thread_local|thread_local)\b[^;={{]*\b{name}\b[^;(]*[;=]"
    record = rf"^static struct[\w ]*\{{(?:\n(?!\}}).*)*\n\}}[^;]*\b{name}\b"
    return any(re.search(f"{plain}|{record}", text, re.M) for text in texts)


def homes(src: Path, files: set[str]) -> set[str]:
    """The functions of these files."""
    texts = [without_comments((src / file).read_text()) for file in files]
    return {name for text in texts for name in re.findall(r"^(\w+)\(", text, re.M)}


def what_gcc_says(src: Path) -> str:
    flags = ["-std=c11", "-fsyntax-only", "-fno-diagnostics-show-caret", f"-I{src}"]
    flags += ["-isystem", sysconfig.get_path("include"), "-DPy_LIMITED_API=0x030A0000"]
    flags += ["-isystem", str(ROOT / "shim" / "include")]

    def one(path: Path) -> str:
        command = [compiler(), *flags, str(path)]
        env = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(command, capture_output=True, text=True, env=env, check=False).stderr

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return "".join(pool.map(one, sorted(src.rglob("*.c"))))


def seen_as(name: str) -> str:
    """A member follows a dot or an arrow; members of one name are not told apart."""
    record, _, word = name.rpartition(".")
    return rf"(?:->|\.){word}\b" if record else rf"\b{word}\b"


def writes(src: Path, table: list[Row]) -> set[Write]:
    """Each write to a thing of the table that happens elsewhere than the table says."""
    files = {
        name: row.files
        for row in table
        for name in row.names
        if not is_static(src, name, row.files)
    }
    found = set()

    def add(file: str, function: str, text: str, callee: str | None) -> None:
        hit = [name for name in files if re.search(seen_as(name), text)]
        for name in hit or ["?"]:
            at_home = file in files.get(name, ()) or callee in homes(src, files.get(name, set()))
            if not at_home and not LIFE.search(function):
                found.add(Write(file, function, name))

    function = ""
    for line in what_gcc_says(src).splitlines():
        if head := re.search(r"[Ii]n function '(\w+)'", line):
            function = head[1]
        place = re.match(
            rf"{re.escape(str(src))}/([\w/.]+):(\d+):\d+: (?:error|warning): (.*)", line
        )
        if place and re.search(r"read-only|discards '(?:_Atomic )?const'", place[3]):
            callee = re.search(r"passing argument \d+ of '(\w+)'", place[3])
            text = (src / place[1]).read_text().splitlines()[int(place[2]) - 1]
            add(place[1], function, text, callee and callee[1])
    # The compiler lets atomic stores pass.
    for path in src.rglob("*.[ch]"):
        text = without_comments(path.read_text())
        for name in files:
            for hit in re.finditer(ATOMIC.format(seen_as(name)), text):
                above = ["", *re.findall(r"^(\w+)\(", text[: hit.start()], re.M)]
                add(path.relative_to(src).as_posix(), above[-1], hit[0], None)
    return found


def constant_copy(src: Path, folder: Path, table: list[Row]) -> tuple[Path, list[str]]:
    """A copy of src/ where nothing of the table can be written, and the names that are nowhere."""
    copy = folder / "src"
    shutil.copytree(src, copy)
    # What the macros of lock.h are with a GIL, in the words that the patterns know.
    swap = r"DLS_SWAP\(([^,]+), (\w+), ([^,]+), (.+)\);"
    for path in copy.rglob("*.[ch]"):
        if path.name != "lock.h":
            text = re.sub(r"DLS_ATOMIC\(([^()]+)\)", r"\1", path.read_text())
            path.write_text(re.sub(swap, r"\1 \2 = \3; \3 = \4;", text))
    names = [(name, row.files) for row in table for name in row.names]
    return copy, [
        name
        for name, files in names
        if not is_static(copy, name, files) and not make_constant(copy, name)
    ]


@pytest.fixture(scope="module")
def gcc() -> None:
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        absent("no Python.h: the headers of this Python are not installed")
    macros = [compiler(), "-dM", "-E", "-x", "c", os.devnull]
    text = subprocess.run(macros, capture_output=True, text=True, check=True).stdout
    if "__GNUC__" not in text or "__clang__" in text:
        absent("only gcc's messages are understood")


def test_the_table_names_files_and_locks() -> None:
    table = rows(SHARED.read_text())
    assert len(table) >= 30
    locks = re.findall(r"\bDLS_LOCK_\w+", (SRC / "core" / "lock.h").read_text())
    for row in table:
        assert row.names and row.lock, row
        assert row.files and all((SRC / file).is_file() for file in row.files), row
        assert set(re.findall(r"DLS_LOCK_\w+", row.lock)) <= set(locks), row


#: The line of a variable of a file that is no constant; the beginning of an object that threads
#: share, and its atomic members.
KINDS = r"(?:DLS_ATOMIC\([^()]*\)|_Atomic \w+|atomic_\w+|DLS_PER_THREAD \w+|\w+)"
VARIABLE = re.compile(rf"(?:static )?{KINDS} \*?(\w+[^(){{}}=;]*)(?: = [^;{{]*|= \{{.*)?;")
NO_VARIABLE = re.compile(r"((static )?const|typedef|return|extern|goto|else|enum|#|struct \w+;)")
OBJECT = re.compile(r"typedef struct (dls_plan|dls_state|dls_producer|dls_tensor|dls_kernel) \{")
MEMBER = re.compile(r" +(?:DLS_ATOMIC\([^()]*\)|_Atomic \w+|atomic_\w+)\s+(\w+);")
#: The locks themselves, and weak references, which are CPython's.
OTHERS = {"dls_lock_flags", "weakrefs"}


def shared(src: Path) -> set[str]:
    """The names of what several threads may write."""
    found: set[str] = set()
    for path in sorted(src.glob("*/*.[ch]")):
        here = False
        for line in without_comments(path.read_text()).splitlines():
            here = bool(OBJECT.match(line)) or (here and not line.startswith("}"))
            member = MEMBER.match(line) if here else None
            names = VARIABLE.match(line) if path.suffix == ".c" else None
            if member:
                found.add(member[1])
            elif names and not NO_VARIABLE.match(line):
                found |= set(re.findall(r"(\w+)(?:\[[^\]]*\])*(?:, |$)", names[1]))
    return found - OTHERS


def test_what_is_shared_is_in_the_table() -> None:
    table = SHARED.read_text().partition(".. list-table:: Shared things")[2]
    told = set(re.findall(r"``(?:\w+\.)?(\w+)``", table))
    assert len(shared(SRC)) > 40
    assert shared(SRC) - told == set(), "docs/threads.rst has no row"


def test_what_is_shared_is_written_in_its_only_file(gcc: None, tmp_path: Path) -> None:
    table = rows(SHARED.read_text())
    copy, lost = constant_copy(SRC, tmp_path, table)
    assert lost == [], "the table names what is not in src/"
    found = writes(copy, table)
    print(f"written elsewhere: {sorted(found)}")
    assert found == set()


def test_a_write_elsewhere_is_seen(gcc: None, tmp_path: Path) -> None:
    page = (
        ".. list-table:: Shared things\n   :header-rows: 1\n\n   * - what\n     - file\n"
        "     - lock\n   * - ``box.count``, ``box.word`` and ``everywhere``, three things\n"
        f"     - ``{'src/'}core/box.c``\n     - none\n\nNext\n"
    )
    src = tmp_path / "here"
    (src / "core").mkdir(parents=True)
    (src / "core" / "box.h").write_text(
        "typedef struct {\n    int other;\n    int count; /* of things */\n"
        "    _Atomic int word;\n} box;\nDLS_EXTERN int everywhere;\nvoid box_add(int *count);\n"
    )
    (src / "core" / "box.c").write_text(
        '#include "core/box.h"\nint everywhere;\nvoid\nbox_add(int *count)\n{\n'
        "    everywhere = ++*count;\n}\n"
    )
    (src / "core" / "user.c").write_text(
        '#include <stdatomic.h>\n#include "core/box.h"\nvoid elsewhere(int *);\n'
        "void\nwell_behaved(box *b)\n{\n    b->other = b->count;\n    box_add(&b->count);\n}\n"
        "void\nuser_init(box *b)\n{\n    b->count = 0;\n}\n"
        "void\none(box *b)\n{\n    b->count = 1;\n}\n"
        "void\ntwo(box *b)\n{\n    elsewhere(&b->count);\n}\n"
        "void\nthree(box *b)\n{\n    everywhere++;\n    atomic_store(&b->word, 3);\n}\n"
    )
    table = rows(page)
    copy, lost = constant_copy(src, tmp_path, table)
    assert lost == []
    assert writes(copy, table) == {
        Write("core/user.c", "one", "box.count"),
        Write("core/user.c", "two", "box.count"),
        Write("core/user.c", "three", "everywhere"),
        Write("core/user.c", "three", "box.word"),
    }
