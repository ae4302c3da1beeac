"""Locks: they need no object, and what is called while one is held can neither block nor detach."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import ROOT, SRC, absent, compiler, without_comments

#: What begins and ends the holding of a lock.
BEGIN = re.compile(r"\b(?:DLS_LOCK(?:_CAPSULE|_STATE)?|DLS_IMPORT_BEGIN|dls_lock_take)\(")
END = re.compile(r"\b(?:DLS_UNLOCK|DLS_IMPORT_END|dls_lock_give)\(")
#: The files where these are made.
MAKERS = ("core/lock.h", "core/lock.c")

#: What may be called under a lock, besides functions of ours that call nothing else.  None of it
#: allocates, waits, detaches from the interpreter, runs foreign code or drops a reference.
INNOCUOUS = {
    # words and bytes
    *("atomic_load", "atomic_store", "atomic_exchange", "memcpy", "memcmp", "strcmp"),
    *("atomic_load_explicit", "atomic_store_explicit", "atomic_fetch_add", "atomic_init"),
    *("atomic_fetch_add_explicit", "offsetof", "sizeof"),
    # reads and counts of objects whose type is known
    *("Py_XINCREF", "Py_NewRef", "Py_XNewRef", "PyTuple_CheckExact", "PyTuple_Size"),
    *("PyTuple_GetItem", "PyDict_Check", "Py_REFCNT", "_Py_IsOwnedByCurrentThread"),
    *("_Py_atomic_load_uint32_relaxed", "_Py_atomic_load_ssize_relaxed"),
    "PyUnstable_Object_IsUniquelyReferenced",
    # names of a capsule: no exception is set where it is one.  PyCapsule_GetPointer sets one where
    # a consumer that knows nothing of our locks has renamed the capsule just now.
    *("PyCapsule_GetName", "PyCapsule_SetName"),
}
#: Words before a parenthesis that call nothing.
WORDS = {"if", "for", "while", "switch", "return", "assert", "sizeof", "void"}


def code(path: Path) -> str:
    """As it is without a GIL, and without the lines of the preprocessor."""
    parts = r"^#ifdef DLS_FREE_THREADED\n((?:(?!#(?:if|endif)).*\n)*?)#else\n(?:(?!#).*\n)*#endif\n"
    text = re.sub(parts, r"\1", without_comments(path.read_text()), flags=re.M)
    return re.sub(r"^#.*\n", "", text, flags=re.M)


def functions(path: Path) -> dict[str, list[str]]:
    """The bodies of the functions of a file, by name: there may be one for each build."""
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"^(\w+)\([^;{]*?\)\n\{\n(.*?)^\}", code(path), re.M | re.S):
        found.setdefault(match[1], []).append(match[2])
    return found


def calls(text: str) -> set[str]:
    return set(re.findall(r"\b([A-Za-z_]\w*)\(", text)) - WORDS


def sections(text: str) -> list[str]:
    """What stands between taking a lock and giving it."""
    found = []
    for begin in BEGIN.finditer(text):
        end = END.search(text, begin.end())
        rest = text[begin.end() : end.start() if end else None]
        found.append(rest.partition(";")[2])
    return found


def noxious(src: Path) -> set[tuple[str, str]]:
    """(file, what is called under a lock there, in the end, and is not on the list)."""
    files = sorted(src.rglob("*.[ch]"))
    everywhere: dict[str, list[str]] = {}
    for path in files:
        everywhere.update(functions(path))
    found = set()
    for path in files:
        name = path.relative_to(src).as_posix()
        if name in MAKERS:
            continue
        bodies = everywhere | functions(path)
        waiting = {call for part in sections(code(path)) for call in calls(part)}
        seen: set[str] = set()
        while waiting:
            call = waiting.pop()
            seen.add(call)
            if call in INNOCUOUS:
                continue
            if BEGIN.match(f"{call}(") or call not in bodies:
                found.add((name, call))
            for body in bodies.get(call, ()):
                waiting |= calls(body) - seen
    return found


def test_nothing_blocks_or_detaches_under_a_lock() -> None:
    taken = {path.relative_to(SRC).as_posix(): sections(code(path)) for path in SRC.rglob("*.c")}
    assert sum(map(len, taken.values())) > 30
    for file in ("python/capsule.c", "exchange/objects.c", "types/plan_table.c"):
        assert taken[file], file
    assert noxious(SRC) == set()


def test_a_call_under_a_lock_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "static void\nhelp(void)\n{\n    deeper();\n}\n\nvoid\ndeeper(void)\n{\n    malloc(3);\n}\n"
        "\nvoid\none(void)\n{\n    DLS_LOCK(first(x));\n    help();\n    strcmp(a, b);\n"
        "#ifdef DLS_FREE_THREADED\n    strcmp(a, b);\n#else\n    free(b);\n#endif\n"
        "    DLS_UNLOCK();\n    free(x);\n}\n"
        "\nvoid\ntwo(void)\n{\n    dls_lock_take(DLS_LOCK_POOL);\n    DLS_LOCK_STATE();\n"
        "    DLS_UNLOCK();\n    dls_lock_give(DLS_LOCK_POOL);\n}\n"
    )
    assert noxious(tmp_path) == {("a.c", "malloc"), ("a.c", "DLS_LOCK_STATE")}


def test_no_lock_is_python_s() -> None:
    """They hand over to threads that a forked child has not, and some want an object."""
    words = r"\bPy_?(?:CriticalSection|BEGIN_CRITICAL|Mutex|Thread_\w*lock)"
    found = {path.name for path in SRC.rglob("*.[ch]") if re.search(words, code(path))}
    assert found == set()


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")
def test_a_lock_takes_any_address_and_is_free_after_a_fork(tmp_path: Path) -> None:
    """Compiled as for an interpreter without the GIL, and without Python."""
    line = [compiler(), "-std=c11", "-D_GNU_SOURCE", "-DDLS_FREE_THREADED=1", "-O2", "-Wall"]
    source = ROOT / "tests" / "programs" / "locks.c"
    line += ["-Werror", f"-I{SRC}", str(source), str(SRC / "core" / "lock.c")]
    made = subprocess.run(
        [*line, "-o", str(tmp_path / "locks"), "-pthread"], capture_output=True, text=True
    )
    if "pthread.h" in made.stderr:
        absent("no pthread.h")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([tmp_path / "locks"], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout) == (0, "0 wrong\n")
