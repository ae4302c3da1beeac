"""`import dlshim` imports dlshim, quickly, and nothing else is ever imported by it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dlshim.libraries import BY_KEY

BUDGET_MS = 2.0


def child(code: str) -> object:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_import_time_is_shown() -> None:
    code = (
        "import json, sys, time\n"
        "def once():\n"
        "    for name in [n for n in sys.modules if n.split('.')[0] == 'dlshim']:\n"
        "        del sys.modules[name]\n"
        "    start = time.perf_counter(); import dlshim\n"
        "    return (time.perf_counter() - start) * 1e3\n"
        "print(json.dumps(once()))"
    )
    times = sorted(float(str(child(code))) for _ in range(5))
    print(
        f"import dlshim: {times[0]:.2f} ms at best, {times[-1]:.2f} ms at worst "
        f"(meant: {BUDGET_MS} ms)"
    )
    assert times[0] > 0


ENTRIES = {
    "upgrade": "dlshim.upgrade(x).__dlpack__()",
    "from_dlpack": "dlshim.from_dlpack(x)",
    "to_capsule": "dlshim.to_capsule(x)",
    "inspect": "dlshim.inspect(x, export=True)",
    "enums": "dlshim.DLDeviceType(1)",
    "refusal": "refused(dlshim.upgrade, 3.0)",
}
#: Packages that dlshim knows about; none may appear in sys.modules.
ARRAY_LIBRARIES = {library.module.partition(".")[0] for library in BY_KEY.values()} | {
    "jaxlib", "open3d", "mxnet", "dpctl", "dpnp"
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_entry_point_imports_an_array_library(entry: str) -> None:
    code = (
        "import array, dlshim, json, sys\n"
        "def refused(function, *arguments):\n"
        "    try: function(*arguments)\n"
        "    except dlshim.UnsupportedObjectError: return\n"
        "    raise SystemExit('not refused')\n"
        "x = array.array('f', [1, 2])\n"
        f"{ENTRIES[entry]}\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    loaded = child(code)
    assert isinstance(loaded, list) and "dlshim" in loaded
    assert not set(loaded) & ARRAY_LIBRARIES


#: What the help of no command needs.
LATE = {"importlib.metadata", "json", "pathlib"}

#: Modules that a command line does not import, nor any submodule of theirs.
NOT_NEEDED = {
    "--help": {"argparse", "dataclasses", "importlib.metadata", "json", "dlshim.known"},
    "--version": {"argparse", "dataclasses", "importlib.metadata", "json", "dlshim.known"},
    "matrix --help": {*LATE, "subprocess", "ctypes", "dlshim.matrix"},
    "doctor --help": {*LATE, "subprocess", "ctypes", "dlshim.matrix", "dlshim.known"},
    "explain --help": {"importlib.metadata", "dlshim.known"},
    "inspect --help": {*LATE, "dlshim.trial.asked", "dlshim.report"},
    "streams --help": {"importlib.metadata", "dlshim.known"},
    "inspect bytearray(3)": {"importlib.metadata", "dlshim.known", "dlshim.trial.asked"},
}


@pytest.mark.parametrize("line", NOT_NEEDED)
def test_a_command_imports_only_what_it_needs(line: str) -> None:
    code = (
        "import contextlib, io, sys\n"
        "before = set(sys.modules)\n"
        "from dlshim.cli.main import main\n"
        "with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):\n"
        f"    main({line.split()!r})\n"
        "new = sorted(set(sys.modules) - before)\n"
        "import json; print(json.dumps(new if out.getvalue() else []))"
    )
    loaded = child(code)
    assert isinstance(loaded, list) and "dlshim.cli.main" in loaded
    not_needed = NOT_NEEDED[line]
    assert not [n for n in loaded if any(f"{n}.".startswith(f"{x}.") for x in not_needed)]
