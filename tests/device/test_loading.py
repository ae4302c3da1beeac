"""Finding the driver: every way in which there is none says its own thing, and where no driver is
needed none is looked for (rule S10).  What HIP has beside it, several runtimes in one process:
``test_hip_runtimes.py``."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from project.debian_packages import NotHere, unpacked
from project.tree import REQUIRED, driver_calls

from doubles import child, vendors
from drivers import ALL_LIVE, HIP_LIVE, built, run_with_driver
from drivers.library import COMMON, CUDA, compile_library, compiler

BEGIN = "from device.loading import *\nuse = Uses({name!r})\n"
NAMES = ("cuda", "rocm")
VENDORS = {"cuda": vendors.CUDA, "rocm": vendors.ROCM}
#: Where nothing that could be a driver is mapped, or can be loaded.
ABSENT = {
    "cuda": "no driver (libcuda.so.1) can be loaded here",
    "rocm": "no HIP runtime is in this process",
}
#: The files by which a driver could be found.
FILES = {
    "cuda": ("libcuda.so.1",),
    "rocm": ("libamdhip64.so", *(f"libamdhip64.so.{n}" for n in (4, 5, 6, 7))),
}
#: A variant of each.
ONE = {"cuda": "13.0", "rocm": "hip6"}
both = pytest.mark.parametrize("name", NAMES)


def in_process(name: str, code: str) -> str:
    return child.run(BEGIN.format(name=name) + code)


def with_driver(variant: str, code: str, *arguments: object, returncode: int = 0) -> str:
    name = "rocm" if variant.startswith("hip") else "cuda"
    begin = BEGIN.format(name=name)
    return run_with_driver(variant, begin + code, *arguments, returncode=returncode)


# --- libraries made for one test --------------------------------------------------------


def small_library(folder: Path, text: str, soname: str = "libcuda.so.1") -> Path:
    """A library of a few lines, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / "library.c", folder / soname
    source.write_text(text)
    command = [compiler(), "-shared", "-fPIC", "-O0", f"-Wl,-soname,{soname}"]
    done = subprocess.run(
        [*command, "-o", str(target), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


def required_names(name: str) -> list[str]:
    """The functions that dlshim cannot do without, from its own list."""
    return driver_calls("hip" if name == "rocm" else name, "MUST")


@functools.cache
def has_real_driver() -> bool:
    code = "import ctypes, sys\nfor n in ('libcuda.so.1', 'libcuda.so'):\n    ctypes.CDLL(n)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def no_real_driver(request: pytest.FixtureRequest) -> None:
    """What follows is about a machine without one.  A HIP runtime is never loaded by dlshim."""
    of_hip = any(str(value) == "rocm" or value in HIP_LIVE for value in params(request))
    if not of_hip and has_real_driver():
        pytest.skip("this machine has a CUDA driver, and here the subject is that there is none")


def params(request: pytest.FixtureRequest) -> list[object]:
    return list(request.node.callspec.params.values()) if hasattr(request.node, "callspec") else []


def run_beside(folder: Path, name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """In a child whose loader finds the libraries of `folder` first."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return in_process(name, code)


# --- no driver --------------------------------------------------------------------------


@both
@pytest.mark.usefixtures("no_real_driver")
def test_without_a_library(name: str) -> None:
    in_process(name, f"use.other_calls_pass()\nuse.driver_calls_refused({ABSENT[name]!r})")


@both
@pytest.mark.usefixtures("no_real_driver")
def test_data_that_are_on_no_device_have_another_cure(name: str) -> None:
    code = """
try:
    dlshim.upgrade(P2(), device=use.here).__dlpack__()
except BufferError as error:
    print(error)
"""
    told = in_process(name, code)
    assert ABSENT[name] in told and "stream=-1" not in told


#: What is refused without a driver, and the cure that is typed in.
CURES = {
    "a CUDA array interface": ("CudaOnly(address=AT)", {}, {"assume_device": (2, 0)}),
    "the same, ready": ("CudaOnly(address=AT)", {"stream": -1}, {"assume_device": (2, 0)}),
    "the same, without a policy": (
        "CudaOnly(address=AT)",
        {"stream": -1, "unknown_stream": "same", "device": (2, 0)},
        {"assume_device": (2, 0)},
    ),
    "a capsule": ("caps.make(device=use.here, data=AT)", {}, {"stream": -1}),
    "a policy": ("caps.make(device=use.here, data=AT)", {"producer_stream": 5}, {"stream": -1}),
    "a guard": (
        "P2(device=use.here, data=AT)",
        {"stream": -1, "on_release": "guard"},
        {"on_release": "contract"},
    ),
}


@pytest.mark.parametrize("what", CURES)
@pytest.mark.usefixtures("no_real_driver")
def test_the_cure_of_a_missing_driver_works(what: str) -> None:
    made, given, cure = CURES[what]
    code = f"""
x, again = {made}, {made}
try:
    dlshim.to_capsule(x, **{given!r})
    raise AssertionError("it went through")
except BufferError as error:
    print(error)
dlshim.to_capsule(again, **{given | cure!r})
"""
    told = in_process("cuda", code)
    assert ABSENT["cuda"] in told and all(name + "=" in told for name in cure)
    assert told.strip().count("\n") == 1, "the cures are one line"


@both
@pytest.mark.usefixtures("no_real_driver")
def test_what_the_call_was_given_is_no_advice_for_it(name: str) -> None:
    """Each option that is advised where a driver is missing, beside every other option."""
    child.program("advice_without_a_driver", name)


@pytest.mark.usefixtures("no_real_driver")
def test_a_copy_that_needs_a_driver_names_no_option() -> None:
    """It would be refused with each of them."""
    code = """
for given in ({}, {"stream": -1}, {"stream": -1, "unknown_stream": "same"}):
    x = caps.make(device=use.here, data=AT)
    try:
        dlshim.to_capsule(x, device="cpu", **given)
        raise AssertionError("it went through")
    except BufferError as error:
        assert str(error).endswith("can be loaded here\\n  install it"), error
        assert not hasattr(error, "_option_helps")
"""
    in_process("cuda", code)


@pytest.mark.parametrize("variant", ["13.0", *HIP_LIVE])
@pytest.mark.usefixtures("no_real_driver")
def test_a_library_that_comes_later_is_found(variant: str) -> None:
    name, load = ("rocm", "load_hip") if variant in HIP_LIVE else ("cuda", "load")
    in_process(
        name,
        f"""
use.refused("edge")
import drivers
drv = drivers.{load}({str(built(variant))!r})
drv.start()
assert {{use.vendor.device_sync, "cuCtxRecordEvent"}} & edge(drv)
copy(drv)
""",
    )


@pytest.mark.parametrize(
    ("variant", "text"),
    [("stub", "toolkit's stub, not a driver (error 34)"), ("nodev", "no device (error 100)")],
)
def test_a_driver_that_cannot_start_is_named_and_tried_once(variant: str, text: str) -> None:
    with_driver(
        variant,
        f"""
use.driver_calls_refused({text!r})
use.other_calls_pass()
assert drv.counts()["cuInit"] == 1, "a failed start is remembered: it costs 10 to 15 ms"
assert set(drv.counts()) == {{"cuInit"}}
use.driver_calls_refused({text!r})
assert drv.counts()["cuInit"] == 1
""",
    )


#: A runtime that is mapped is asked these, for the producer's sake: its device is made current, and
#: no capture is to be broken by what it does.
ASKS = """
QUESTIONS = {"hipRuntimeGetVersion", "hipGetDeviceCount", "hipGetDevice", "hipStreamIsCapturing",
             "hipGetErrorName", "hipGetLastError"}
ASKS = {what: QUESTIONS for what in (
    "modern, handle", "modern, None", "modern, default stream", "nothing there", "same", "P is S",
    "P is S, both the default", "P is ready", "nothing there, copy, Tensor")}
drv.clear_log()
for what, go in use.needs_not.items():
    go()
    assert set(drv.calls()) <= ASKS.get(what, set()), (what, drv.calls())
    drv.clear_log()
"""


@pytest.mark.parametrize("variant", ["hip-nodev5", "hip-nodev6"])
def test_a_runtime_without_a_device(variant: str) -> None:
    advice = (
        "\n  if the data are on the device, and ready, pass stream=-1, and for a copy "
        'unknown_stream="same" too'
    )
    advised = f"assert use.refused('edge').endswith({advice!r})\n"
    with_driver(variant, "use.driver_calls_refused('finds no device')\n" + advised + ASKS)


@pytest.mark.parametrize("variant", HIP_LIVE)
def test_where_no_runtime_is_needed_none_is_called(variant: str) -> None:
    """CUDA's driver knows nothing of an array until a context is current, so it is not asked so."""
    with_driver(variant, "drv.start()\n" + ASKS)


def test_the_messages_of_each_case_differ_and_name_the_object_and_a_cure() -> None:
    code = "print(use.refused('edge'))"
    texts = {variant: with_driver(variant, code) for variant in ("stub", "nodev")}
    texts["none"] = in_process("rocm", code)
    assert len(set(texts.values())) == 3
    cures = r"take its folder|import a library that brings it|stream=-1|update"
    for text in texts.values():
        assert "P1a" in text and re.search(cures, text), text
        assert text.strip().count("\n") == 1, f"the cures are one line: {text}"
    assert "import a library that brings it" in texts["none"] and "stream=-1" in texts["none"]


def test_any_other_failure_to_start_is_an_error_of_its_own() -> None:
    with_driver(
        "13.0",
        """
drv.reset(hard=True, start=False)
drv.fail_next("cuInit", 999)
try:
    use.needs["edge"]()
except RuntimeError as error:
    assert "cuInit" in str(error) and "999" in str(error), error
else:
    raise AssertionError("hidden")
""",
    )


# --- a library that is too old ----------------------------------------------------------

#: How many functions must be there, and what is said of one that is not.
LACKING = {"cuda": (26, "the driver lacks {},"), "rocm": (18, "HIP runtime")}


@both
def test_a_library_that_lacks_a_function_that_must_be_there(name: str, tmp_path: Path) -> None:
    """A driver of CUDA 8 has no cuStreamGetCtx, and so on: one library for each.  Nothing of it is
    called."""
    names, (count, text) = required_names(name), LACKING[name]
    assert len(names) == count
    libraries = {}
    for missing in names:
        code = "#include <stdlib.h>\n" + "".join(
            f"int {each}(void) {{ abort(); }}\n" for each in names if each != missing
        )
        libraries[missing] = str(small_library(tmp_path / missing, code, FILES[name][-1]))
    in_process(
        name,
        f"""
for missing, path in {libraries!r}.items():
    if os.fork() == 0:
        ctypes.CDLL(path)
        use.driver_calls_refused({text!r}.format(missing))
        os._exit(0)
    assert os.wait()[1] == 0, missing
""",
    )


def test_a_function_that_was_lost_to_an_older_abi(tmp_path: Path) -> None:
    """The whole fake, but for one required function; nothing of it is called."""
    defines = ("FAKE_VERSION=8000", "cuStreamGetCtx=absent_here")
    path = compile_library([*COMMON, *CUDA], "libcuda.so.1", defines, tmp_path)
    in_process(
        "cuda",
        f"""
import drivers
drv = drivers.load({str(path)!r})
use.driver_calls_refused("lacks cuStreamGetCtx, which every release since 9.2 has\\n  update it")
use.other_calls_pass()
assert not drv.counts()
""",
    )


# --- which library ----------------------------------------------------------------------


def exploding(folder: Path, name: str = "cuda") -> Path:
    """Whoever loads one of these dies."""
    text = "#include <stdlib.h>\n__attribute__((constructor)) static void go(void) { abort(); }\n"
    for file in FILES[name]:
        small_library(folder, text, file)
    return folder


@both
def test_where_no_driver_is_needed_none_is_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second copy of a HIP runtime would know nothing of the framework's streams: there none is
    loaded where it is needed either."""
    code = "use.other_calls_pass(also_looks=False)\n"
    if name == "rocm":
        code += f"use.other_calls_pass()\nuse.driver_calls_refused({ABSENT[name]!r})"
    run_beside(exploding(tmp_path, name), name, code, monkeypatch)


def test_the_exploding_library_would_have_been_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exploding(tmp_path)
    code = "\nif os.fork() == 0:\n    use.refused({!r})\nassert os.WTERMSIG(os.wait()[1]) == 6\n"
    for what in ("edge", "a copy", "managed memory on the host", "CUDA array interface", "guard"):
        run_beside(tmp_path, "cuda", code.format(what), monkeypatch)


def test_the_exploding_runtimes_could_have_been_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "if os.fork() == 0:\n    ctypes.CDLL('libamdhip64.so.6')\nassert os.wait()[1] & 127 == 6"
    run_beside(exploding(tmp_path, "rocm"), "rocm", code, monkeypatch)


def test_the_mapped_library_comes_before_any_that_could_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also under the second name: a second copy of a driver would be a second driver."""
    exploding(tmp_path / "path")
    answers = "".join(f"int {name}(void) {{ return 100; }}\n" for name in required_names("cuda"))
    mapped = small_library(tmp_path / "mapped", answers, soname="libcuda.so")
    code = f"""
ctypes.CDLL({str(mapped)!r})
assert "no device (error 100)" in use.refused("edge")
"""
    run_beside(tmp_path / "path", "cuda", code, monkeypatch)


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so"])
@pytest.mark.usefixtures("no_real_driver")
def test_both_names_are_tried(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "".join(f"int {each}(void) {{ return 34; }}\n" for each in required_names("cuda"))
    small_library(tmp_path, answers, soname=name)
    run_beside(tmp_path, "cuda", 'assert "stub" in use.refused("edge")', monkeypatch)


# --- after a fork -----------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["13.0", *HIP_LIVE])
def test_a_forked_child_is_refused_what_needs_the_driver_and_nothing_else(variant: str) -> None:
    with_driver(
        variant,
        """
forked = Forked(drv)
forked.fork(forked.in_child)
assert drv.counts() == forked.before
forked.make().__dlpack__(stream=forked.s)
assert drv.counts() != forked.before, "the parent goes on"
forked.kept.clear()
""",
    )


@both
def test_a_child_of_a_child_is_one_too(name: str) -> None:
    with_driver(
        ONE[name],
        """
forked = Forked(drv)
def once():
    forked.told(lambda: forked.make().__dlpack__(stream=forked.s))
    forked.kept.clear()
forked.fork(lambda: forked.fork(once))
""",
    )


@both
def test_a_child_that_was_forked_before_the_driver_was_used_may_use_it(name: str) -> None:
    with_driver(
        ONE[name],
        """
use.up(P2).__dlpack__(stream=-1)
if os.fork() == 0:
    drv.start()
    edge(drv)
    os._exit(0)
assert os.wait()[1] == 0
""",
    )


@both
def test_to_have_looked_for_a_driver_is_not_to_have_used_it(name: str) -> None:
    """An empty dict has dlshim look which runtimes are mapped; none is, none is started."""
    load = "load_hip" if name == "rocm" else "load"
    in_process(
        name,
        f"""
dlshim.upgrade(empty()).__dlpack__()
if os.fork() == 0:
    import drivers
    drv = drivers.{load}({str(built(ONE[name]))!r})
    drv.start()
    edge(drv)
    os._exit(0)
assert os.wait()[1] == 0
""",
    )


@both
def test_multiprocessing_by_fork_ends_cleanly(name: str) -> None:
    """What a worker inherited dies in the worker, at its end, after the interpreter."""
    with_driver(
        ONE[name],
        """
import multiprocessing
forked = Forked(drv)
def work(_):
    try:
        forked.make().__dlpack__(stream=forked.s)
    except BufferError as error:
        return str(error)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all("forked" in text for text in pool.map(work, range(4)))
""",
    )


# --- Debian's real driver ---------------------------------------------------------------


@pytest.fixture(scope="module")
def real_library() -> Iterator[Path]:
    """NVIDIA's libcuda.so.1 as Debian packages it: never kept, never committed."""
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        pytest.skip("NVIDIA's driver is not here (DLSHIM_FETCH=1 gets it from Debian's non-free)")
    try:
        with unpacked("libcuda1", "bookworm", "main contrib non-free") as files:
            (library,) = files.rglob("libcuda.so.1")
            yield library
    except NotHere as reason:
        pytest.skip(f"NVIDIA's driver cannot be had from Debian: {reason}")


def answer_of(library: Path) -> int:
    """What the driver itself says when it is started.  The nodes in /dev tell nothing: it makes
    /dev/nvidiactl where it may, device or not."""
    code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).cuInit(0))"
    return int(child.run(code))


def test_the_real_driver_without_a_device(real_library: Path) -> None:
    answer = answer_of(real_library)
    if answer == 0:
        pytest.skip("here is a device, and the subject is that there is none")
    assert answer == 100
    code = f"""
ctypes.CDLL({str(real_library)!r})
use.driver_calls_refused("the driver finds no device (error 100)")
use.other_calls_pass()
"""
    in_process("cuda", code)


def test_the_real_driver_has_every_function_that_must_be_there(real_library: Path) -> None:
    names = required_names("cuda")
    code = f"library = ctypes.CDLL({str(real_library)!r})\nfor n in {names!r}: getattr(library, n)"
    in_process("cuda", code)


@pytest.mark.parametrize("variant", [v for v in ALL_LIVE if v != "hip7"])
def test_with_a_driver_everything_that_needs_one_uses_it(variant: str) -> None:
    """The control of this file.  HIP 7 dies of streams that it has not made, as these are."""
    with_driver(
        variant,
        """
drv.start()
for what, go in use.needs.items():
    drv.clear_log()
    before = sum(drv.counts().values())
    try:
        go()
    except (BufferError, RuntimeError):
        pass  # the memory of these is none of the driver's
    assert sum(drv.counts().values()) > before, what
""",
    )
