"""What the commands say as JSON, recorded as text that can be read and compared line by line.

``python -m dlshim`` runs in child processes that see nothing of this machine's libraries: a folder
with the installed dlshim, NumPy and ml_dtypes, and libraries that are made up (`RELEASES`), which
are a name and a release and nothing else.  Nothing of dlshim is called but the command line, so
that code can be moved.  `LEFT_OUT`, `OF_NUMPY` and `TEXTS` are all that is not compared.

A command is a group of the transcript, and is recorded as the others are.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from project.tree import ROOT, read_toml

from . import stock
from .store import Bodies

#: Distribution, module, release: what is installed, as far as the commands can see.
NEWEST = {
    "numpy": ("numpy", "2.4.6"),
    "ml_dtypes": ("ml_dtypes", "0.6.0"),
    "torch": ("torch", "2.13.0"),
    "jax": ("jax", "0.10.2"),
    "paddlepaddle": ("paddle", "3.3.1"),
    "tensorflow": ("tensorflow", "2.21.0"),
    "warp-lang": ("warp", "1.19.0"),
    "apache-tvm-ffi": ("tvm_ffi", "0.1.15"),
    "pyarrow": ("pyarrow", "26.0.1"),
    "mlx": ("mlx", "0.32.4"),
    "cupy": ("cupy", "14.0.1"),
    "onnxruntime": ("onnxruntime", "1.31.1"),
    "nanoarrow": ("nanoarrow", "0.9.0"),
    "mpi4py": ("mpi4py", "4.1.2"),
    "array-api-strict": ("array_api_strict", "2.6.1"),
    "dpctl": ("dpctl", "0.21.1"),
    "dpnp": ("dpnp", "0.19.0"),
    "numba-cuda": ("numba", "0.61.0"),
    "cuda-core": ("cuda", "1.2.0"),
}
OLDER = NEWEST | {
    "numpy": ("numpy", "1.26.4"),
    "torch": ("torch", "2.6.0"),
    "jax": ("jax", "0.4.38"),
    "paddlepaddle": ("paddle", "2.6.2"),
    "tensorflow": ("tensorflow", "2.12.0"),
    "warp-lang": ("warp", "1.5.0"),
    "pyarrow": ("pyarrow", "17.0.0"),
    "mlx": ("mlx", "0.24.0"),
    "cupy": ("cupy", "13.3.0"),
    "onnxruntime": ("onnxruntime", "1.20.0"),
    "mpi4py": ("mpi4py", "3.1.6"),
    "array-api-strict": ("array_api_strict", "2.1.0"),
}
UNHEARD_OF = {name: (module, "99.0") for name, (module, _) in NEWEST.items()}
RELEASES = {
    "newest": NEWEST,
    "older": OLDER,
    "unheard of": UNHEARD_OF,
    "two": {name: NEWEST[name] for name in ("numpy", "torch")},
    "none": {},
}

#: Members whose value is not compared: the machine's, the interpreter's, or an address.
LEFT_OUT = {"address", "aligned_to", "dlshim", "extension", "python", "drivers", "objects"}
#: Dropped of arrays of NumPy: its releases show and answer in different ways.
OF_NUMPY = {"generation", "learned"}
#: Dropped of trials too: the release, which a child process reads of the machine's NumPy.
OF_TRIALS = OF_NUMPY | {"version"}
#: In texts: addresses, and names of modules of the kit and of NumPy.
TEXTS = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x..."),
    (re.compile(r"\bdlshim_testing\.doubles\."), "doubles."),
    (re.compile(r"\bnumpy\.ma\.core\."), "numpy.ma."),
)

FILE = "told.json"
CHILD = (
    f"FILE = {FILE!r}"
    + """
import contextlib, io, json, runpy, sys
sys.path[:0] = json.loads(sys.argv[1])
for name, version in json.loads(sys.argv[2]).items():  # NumPy's own number is the machine's
    with contextlib.suppress(ImportError):
        __import__(name).__version__ = version
for line in sys.stdin:
    sys.argv = ["dlshim", *json.loads(line)]
    said, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        try:
            runpy.run_module("dlshim", run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code
    lines = wrong.getvalue().rstrip().splitlines()
    last = lines[-2:] if lines[-1:] and lines[-1].startswith("  ") else lines[-1:]  # a cure
    if FILE in sys.argv:
        said = io.StringIO(open(FILE).read())
    print(json.dumps([status, said.getvalue(), last]), flush=True)
"""
)


def installed(folder: Path, releases: dict[str, tuple[str, str]], real: Iterable[str]) -> None:
    """Fill a folder that is a ``site-packages``; real: what is linked into it."""
    for name in real:
        found = find_spec(name)
        assert found is not None and found.origin is not None, f"{name} is not installed"
        home = Path(found.origin).parent
        (folder / name).symlink_to(home)
        if (libraries := home.parent / f"{name}.libs").is_dir():
            (folder / libraries.name).symlink_to(libraries)
    for distribution, (module, version) in releases.items():
        if not (folder / module).exists():
            (folder / module).mkdir()
            (folder / module / "__init__.py").write_text("raise ImportError('it is made up')\n")
        told = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        )


def run(
    commands: list[list[str]], releases: dict[str, tuple[str, str]], real: Iterable[str] = ()
) -> list[tuple[int, str, list[str]]]:
    """The exit status, the output and the last line of errors of each command.

    A command that writes to the file FILE says what that holds.
    """
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        installed(folder, releases, ["dlshim", *real])
        path = [str(folder), str(ROOT / "tests"), str(ROOT / "tests" / "transcript")]
        numbers = {module: version for module, version in releases.values() if module in real}
        kept = ("PATH", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        done = subprocess.run(
            [
                sys.executable,
                "-s",
                "-S",
                "-c",
                CHILD,
                json.dumps(path),
                json.dumps(numbers),
            ],
            input="".join(json.dumps(each) + "\n" for each in commands),
            capture_output=True,
            encoding="utf-8",
            env=environment | {"PYTHONPATH": str(folder)},  # for the children of matrix
            cwd=folder,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(commands), done.stderr[-2000:]
    return [(status, said, wrong) for status, said, wrong in answers]


def plain(value: Any, dropped: Collection[str] = ()) -> Any:
    """A value without what `LEFT_OUT` and `TEXTS` name, and without the members to be dropped."""
    if isinstance(value, dict):
        return {
            name: "..." if name in LEFT_OUT and each is not None else plain(each, dropped)
            for name, each in value.items()
            if name not in dropped
        }
    if isinstance(value, list):
        return [plain(each, dropped) for each in value]
    if isinstance(value, str):
        for found, recorded in TEXTS:
            value = found.sub(recorded, value)
    return value


def short(value: Any) -> Any:
    """Without the members that say nothing."""
    if isinstance(value, list):
        return [short(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: short(each) for name, each in value.items() if each not in (None, "", [], {})}


def lines(value: Any, name: str = "") -> Iterator[str]:
    """One line for each member of what a command says; lists of dicts have one for each dict."""
    head = f"{name}: " if name else ""
    if isinstance(value, dict) and not name:
        for key, each in value.items():
            yield from lines(each, key)
    elif isinstance(value, dict) and len(json.dumps(value)) > 400:
        for key, each in value.items():
            yield from lines(each, f"{name}.{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for each in value:
            yield head + json.dumps(each)
    else:
        yield head + json.dumps(value)


def body(answer: tuple[int, str, list[str]], dropped: Collection[str] = ()) -> list[str]:
    status, said, wrong = answer
    is_json = said[:1] in ("{", "[")
    found = short(plain(json.loads(said), dropped)) if is_json else said.splitlines()
    return [f"exit status {status}", *lines(found), *map(str, plain(wrong))]


# --- the commands -----------------------------------------------------------------------------


#: A trial takes a process, so that some objects are enough; tests/core/test_trial.py has the rest.
TRIED = stock.ALIGNED[::8]


def inspect() -> Bodies:
    """Each object as it is, what an export adds, and what NumPy makes of some."""
    commands = [
        ["inspect", expression, "--json", *more]
        for expression in (*stock.UNALIGNED, *stock.DOUBLES, *stock.ALIGNED)
        for more in (
            [],
            ["--export"],
            *([["--to", "numpy.from_dlpack"]] if expression in TRIED else []),
        )
    ]
    answers: dict[str, list[tuple[int, str, list[str]]]] = {}
    for command, answer in zip(
        commands, run(commands, NEWEST, ("numpy", "ml_dtypes")), strict=True
    ):
        answers.setdefault(command[1], []).append(answer)
    return {name: inspected(name, told) for name, told in answers.items()}


def inspected(name: str, answers: list[tuple[int, str, list[str]]]) -> list[str]:
    """The body of one object.

    Which generation an array of NumPy exports is its release's affair, so that is not told.
    """
    plainly, exported, *tried = answers
    of_numpy = "stock.numpy(" in name
    told = body(plainly, OF_NUMPY if of_numpy else ())
    more = [line for line in body(exported) if line not in told and not of_numpy]
    lines_tried = [line for each in tried for line in body(each, OF_TRIALS) if "verdicts" in line]
    return [*told, *(f"with --export: {line}" for line in more), *lines_tried]


def doctor() -> Bodies:
    return {
        name: body(run([["doctor", "--json", "--no-trial"]], releases)[0])
        for name, releases in RELEASES.items()
    }


def explain() -> Bodies:
    """The examples of tests/interop/messages.toml, one by one and all together, and no message."""
    examples = read_toml(ROOT / "tests" / "interop" / "messages.toml")["message"]
    texts = {" ".join(each["text"].split()): each["text"] for each in examples}
    texts["all of them"] = "\n".join(each["text"] for each in examples)
    texts["nothing that is known"] = "KeyError: 'a'"
    answers = run([["explain", "--json", text] for text in texts.values()], NEWEST)
    return {name: body(answer) for name, answer in zip(texts, answers, strict=True)}


def streams() -> Bodies:
    told = json.loads(run([["streams", "--json"]], NEWEST)[0][1])
    return {
        f"{device}, {producer}": list(lines(values))
        for device, producers in told.items()
        for producer, values in producers.items()
    }


def matrix() -> Bodies:
    """What Python's own buffers and raw capsules exchange; no library is needed for these."""
    command = ["matrix", "--only", "stdlib,capsule", "--no-cost", "--json", FILE]
    return {"stdlib,capsule": body(run([command], {})[0])}


COMMANDS = {each.__name__: each for each in (inspect, doctor, explain, streams, matrix)}
