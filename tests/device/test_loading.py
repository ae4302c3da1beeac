"""Finding the driver: every way in which there is none says its own thing, and where no driver is
needed none is looked for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from project.debian_packages import NotHere, unpacked
from project.tree import REQUIRED, driver_calls

from doubles import child
from drivers import built, run_with_driver
from drivers.library import COMMON, CUDA, compile_library, compiler

#: What needs a driver, by name, and what does not.  Every child of this file begins with it.
USES = """
import ctypes, gc, os, sys
import dlshim
from doubles import capsules as caps
from doubles.cuda_interface import CudaOnly, empty
from doubles.producers import P0ToDlpack, P1, P1a, P2

room = (ctypes.c_char * 64)()
AT = ctypes.addressof(room)
CUDA, MANAGED, HANDLE = (2, 0), (13, 0), 0x7c2000000010

def up(cls, device=CUDA, shape=(2, 3), data=AT, **options):
    return dlshim.upgrade(cls(shape, device=device, data=data), **options)

NEEDS = {
    "edge": lambda: up(P1a).__dlpack__(stream=HANDLE),
    "legacy stream": lambda: up(P1a).__dlpack__(),
    "a function": lambda: up(P0ToDlpack).__dlpack__(stream=2),
    "a raw capsule": lambda: dlshim.upgrade(
        caps.make(device=CUDA, data=AT)).__dlpack__(stream=1, max_version=(1, 0)),
    "producer_stream": lambda: up(P1a, producer_stream=1).__dlpack__(stream=2),
    "managed memory on the host": lambda: up(P2, MANAGED).__dlpack__(),
    "a copy": lambda: dlshim.upgrade(P1a(device=CUDA, data=AT), device="cpu").__dlpack__(),
    "CUDA array interface": lambda: dlshim.upgrade(CudaOnly(address=AT)).__dlpack__(stream=-1),
    "guard": lambda: up(P2, on_release="guard").__dlpack__(stream=HANDLE, max_version=(1, 0)),
}
NEEDS_NOT = {
    "minus one": lambda: up(P1a).__dlpack__(stream=-1),
    "minus one, modern": lambda: up(P2).__dlpack__(stream=-1, max_version=(1, 0)),
    "minus one, function": lambda: up(P0ToDlpack).__dlpack__(stream=-1),
    "minus one, managed": lambda: up(P2, MANAGED).__dlpack__(stream=-1),
    "minus one, Tensor": lambda: dlshim.from_dlpack(
        P1a(device=CUDA, data=AT), stream=-1).__dlpack__(stream=-1),
    "modern, handle": lambda: up(P2).__dlpack__(stream=HANDLE, max_version=(1, 0)),
    "modern, None": lambda: up(P2).__dlpack__(max_version=(1, 0)),
    "nothing there": lambda: up(P1a, shape=(0, 3)).__dlpack__(stream=HANDLE),
    "nothing there, managed": lambda: up(P1a, MANAGED, shape=(0, 3)).__dlpack__(),
    "nothing there, CUDA array interface":
        lambda: dlshim.upgrade(empty()).__dlpack__(stream=HANDLE),
    "nothing there, Tensor": lambda: dlshim.from_dlpack(
        P1a((0, 3), device=CUDA, data=AT)).__cuda_array_interface__["stream"],
    "nothing there, copy, capsule": lambda: dlshim.upgrade(
        caps.make((0, 3), device=CUDA), device="cpu").__dlpack__(),
    "nothing there, copy, Tensor": lambda: dlshim.from_dlpack(
        P2((0, 3), device=CUDA)).__dlpack__(dl_device=(1, 0)),
    "host": lambda: up(P2, (1, 0)).__dlpack__(stream=HANDLE),
    "host, CUDA's stream": lambda: up(P1a, (1, 0)).__dlpack__(stream=2),
    "pinned": lambda: up(P2, (3, 0)).__dlpack__(max_version=(1, 0)),
    "pinned, handle": lambda: up(P1a, (3, 0)).__dlpack__(stream=HANDLE),
    "same": lambda: up(P1a, unknown_stream="same").__dlpack__(stream=HANDLE),
    "same, managed": lambda: up(P1a, MANAGED, unknown_stream="same").__dlpack__(),
    "P is S": lambda: up(P1a, producer_stream=HANDLE).__dlpack__(stream=HANDLE),
    "P is ready": lambda: up(P1a, producer_stream=-1).__dlpack__(stream=HANDLE),
    "the device": lambda: up(P2).__dlpack_device__(),
    "inspect": lambda: dlshim.inspect(P2(device=CUDA, data=AT)),
    "the interface of a Tensor": lambda: dlshim.from_dlpack(
        P2(device=CUDA, data=AT), stream=2).__cuda_array_interface__["stream"] == 2 or 1 / 0,
}

# Before the array is there nobody knows that it is empty: the driver is looked for, and not missed.
LOOKS = {
    "nothing there, copy": lambda: dlshim.upgrade(
        P1a((0, 3), device=CUDA), device="cpu").__dlpack__(),
    "nothing there, copy, modern": lambda: dlshim.upgrade(
        P2((0, 3), device=CUDA), device="cpu").__dlpack__(),
}

def refused(what):
    try:
        NEEDS[what]()
    except BufferError as error:
        return str(error)
    raise AssertionError(f"{what} went through")

def all_refused():
    texts = {what: refused(what) for what in NEEDS}
    gc.collect()
    assert not caps.accounts(), caps.accounts()
    return texts

def all_go(uses=NEEDS_NOT | LOOKS):
    for what, go in uses.items():
        try:
            go()
        except Exception as error:
            raise AssertionError(what) from error
    gc.collect()
    assert not caps.accounts(), caps.accounts()
"""
TELLS = """
for what, text in all_refused().items():
    assert "{text}" in text, (what, text)
"""


def in_process(code: str) -> str:
    return child.run(USES + code)


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


def required_names() -> list[str]:
    """The functions that dlshim cannot do without, from its own list."""
    return driver_calls("cuda", "MUST")


@pytest.fixture(scope="module")
def no_real_driver() -> None:
    """What follows is about a machine without one."""
    code = "import ctypes, sys\nfor n in ('libcuda.so.1', 'libcuda.so'):\n    ctypes.CDLL(n)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    if done.returncode == 0:
        pytest.skip("this machine has a CUDA driver, and here the subject is that there is none")


def run_beside(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """In a child whose loader finds the libraries of `folder` first."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    return in_process(code)


# --- no driver --------------------------------------------------------------------------


@pytest.mark.usefixtures("no_real_driver")
def test_without_a_library() -> None:
    in_process("all_go()" + TELLS.format(text="no driver (libcuda.so.1) can be loaded here"))


@pytest.mark.usefixtures("no_real_driver")
def test_a_library_that_comes_later_is_found() -> None:
    in_process(
        f"""
refused("edge")
import drivers
drv = drivers.load({str(built("13.0"))!r})
drv.start()
address = drv.alloc(64)
stream = drv.stream_new(blocking=False)
drv.clear_log()
dlshim.upgrade(P1a((2, 3), device=CUDA, data=address)).__dlpack__(stream=stream)
assert "cuCtxRecordEvent" in drv.calls()
"""
    )


@pytest.mark.parametrize(
    ("variant", "text"),
    [("stub", "toolkit's stub, not a driver (error 34)"), ("nodev", "no device (error 100)")],
)
def test_a_driver_that_cannot_start(variant: str, text: str) -> None:
    code = (
        TELLS.format(text=text)
        + """
all_go()
assert drv.counts()["cuInit"] == 1, "a failed start is remembered: it costs 10 to 15 ms"
assert set(drv.counts()) == {"cuInit"}
all_refused()
assert drv.counts()["cuInit"] == 1
"""
    )
    run_with_driver(variant, USES + code)


def test_the_messages_of_each_case_differ_and_name_the_object_and_a_cure() -> None:
    code = "print(refused('edge'))"
    texts = {v: run_with_driver(v, USES + code) for v in ("stub", "nodev")}
    assert len(set(texts.values())) == 2
    for text in texts.values():
        assert "P1a" in text and re.search(r"take its folder|stream=-1|update", text), text


def test_any_other_failure_to_start_is_an_error_of_its_own() -> None:
    run_with_driver(
        "13.0",
        USES
        + """
drv.reset(hard=True, start=False)
drv.fail_next("cuInit", 999)
try:
    NEEDS["edge"]()
except RuntimeError as error:
    assert "cuInit" in str(error) and "999" in str(error), error
else:
    raise AssertionError("hidden")
""",
    )


# --- a library that is too old ----------------------------------------------------------


def test_every_function_that_must_be_there_is_named_when_it_is_not(tmp_path: Path) -> None:
    """A driver of CUDA 8 has no cuStreamGetCtx, and so on: one library for each."""
    names = required_names()
    assert len(names) == 25
    libraries = {}
    for missing in names:
        text = "".join(f"int {name}(void) {{ return 999; }}\n" for name in names if name != missing)
        libraries[missing] = str(small_library(tmp_path / missing, text))
    in_process(
        f"""
for missing, path in {libraries!r}.items():
    if os.fork() == 0:
        ctypes.CDLL(path)
        text = refused("edge")
        os._exit(f"the driver lacks {{missing}}," not in text)
    assert os.wait()[1] == 0, missing
"""
    )


def test_a_function_that_was_lost_to_an_older_abi(tmp_path: Path) -> None:
    """The whole fake, but for one required function; nothing of it is called."""
    defines = ("FAKE_VERSION=8000", "cuStreamGetCtx=absent_here")
    path = compile_library([*COMMON, *CUDA], "libcuda.so.1", defines, tmp_path)
    in_process(
        f"""
import drivers
drv = drivers.load({str(path)!r})
for text in all_refused().values():
    assert "lacks cuStreamGetCtx, which every release since 9.2 has; update it" in text, text
all_go()
assert not drv.counts()
"""
    )


# --- which library ----------------------------------------------------------------------


def exploding(folder: Path) -> Path:
    """Whoever loads it dies."""
    text = "#include <stdlib.h>\n__attribute__((constructor)) static void go(void) { abort(); }\n"
    return small_library(folder, text)


def test_where_no_driver_is_needed_none_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exploding(tmp_path)
    run_beside(tmp_path, "all_go(NEEDS_NOT)", monkeypatch)


def test_the_exploding_library_would_have_been_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exploding(tmp_path)
    code = "\nif os.fork() == 0:\n    refused({!r})\nassert os.WTERMSIG(os.wait()[1]) == 6\n"
    for what in ("edge", "a copy", "managed memory on the host", "CUDA array interface", "guard"):
        run_beside(tmp_path, code.format(what), monkeypatch)


def test_the_mapped_library_comes_before_any_that_could_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also under the second name: a second copy of a driver would be a second driver."""
    exploding(tmp_path / "path")
    answers = "".join(f"int {name}(void) {{ return 100; }}\n" for name in required_names())
    mapped = small_library(tmp_path / "mapped", answers, soname="libcuda.so")
    code = f"""
ctypes.CDLL({str(mapped)!r})
assert "no device (error 100)" in refused("edge")
"""
    run_beside(tmp_path / "path", code, monkeypatch)


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcuda.so"])
@pytest.mark.usefixtures("no_real_driver")
def test_both_names_are_tried(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "".join(f"int {each}(void) {{ return 34; }}\n" for each in required_names())
    small_library(tmp_path, answers, soname=name)
    run_beside(tmp_path, 'assert "stub" in refused("edge")', monkeypatch)


# --- after a fork -----------------------------------------------------------------------

# The fake ends the process at any call from a forked child.
FORKED = """
drv.start()
address = drv.alloc(64)
managed = drv.alloc(64, kind="managed")
S = drv.stream_new(blocking=False)
def make(cls=P1a, device=CUDA, data=address, **options):
    return dlshim.upgrade(cls((2, 3), device=device, data=data), **options)
kept = {
    "edge": make().__dlpack__(stream=S),
    "tensor": dlshim.from_dlpack(P1a((2, 3), device=CUDA, data=address), stream=S),
    "unsynced": dlshim.from_dlpack(P1a((2, 3), device=CUDA, data=address), stream=-1),
    "copy": dlshim.upgrade(
        P1a((2, 3), device=CUDA, data=address), device="cpu").__dlpack__(max_version=(1, 0)),
    "guarded": make(P2, on_release="guard").__dlpack__(stream=S, max_version=(1, 0)),
}
before = drv.counts()
assert before["cuCtxRecordEvent"]

def told(go):
    try:
        go()
    except BufferError as error:
        assert "forked" in str(error) and "spawn" in str(error), error
    else:
        raise AssertionError("went through")

def in_child():
    told(lambda: make().__dlpack__(stream=S))
    told(lambda: make(producer_stream=1).__dlpack__(stream=S))
    told(lambda: make(P2, MANAGED, managed).__dlpack__())
    told(lambda: kept["tensor"].__dlpack__(stream=1))
    told(lambda: kept["unsynced"].__cuda_array_interface__)
    told(lambda: dlshim.upgrade(CudaOnly(address=address)).__dlpack__(stream=-1))
    told(lambda: dlshim.upgrade(
        P1a((2, 3), device=CUDA, data=address), device="cpu").__dlpack__())
    told(lambda: make(P2, on_release="guard").__dlpack__(stream=S))
    make(P2).__dlpack__(stream=S)
    kept["tensor"].__dlpack__(stream=-1)
    kept["tensor"].__dlpack__(stream=S)
    assert kept["tensor"].__cuda_array_interface__["stream"] == S
    kept.clear()
    all_go()
"""


def test_a_forked_child_is_refused_what_needs_the_driver_and_nothing_else() -> None:
    code = """
child = os.fork()
if child == 0:
    try:
        in_child()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert drv.counts() == before
make().__dlpack__(stream=S)
assert drv.counts() != before, "the parent goes on"
kept.clear()
"""
    run_with_driver("13.0", USES + FORKED + code)


def test_a_child_of_a_child_is_one_too() -> None:
    code = """
def twice():
    if os.fork() == 0:
        if os.fork() == 0:
            told(lambda: make().__dlpack__(stream=S))
            kept.clear()
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
    assert os.wait()[1] == 0
twice()
"""
    run_with_driver("13.0", USES + FORKED + code)


def test_a_child_that_was_forked_before_the_driver_was_used_may_use_it() -> None:
    run_with_driver(
        "13.0",
        USES
        + """
up(P2).__dlpack__(stream=-1)
if os.fork() == 0:
    drv.start()
    address, S = drv.alloc(64), drv.stream_new(blocking=False)
    dlshim.upgrade(P1a((2, 3), device=CUDA, data=address)).__dlpack__(stream=S)
    os._exit("cuCtxRecordEvent" not in drv.calls())
assert os.wait()[1] == 0
""",
    )


def test_to_have_looked_for_a_driver_is_not_to_have_used_it() -> None:
    """An empty dict has dlshim look which runtimes are mapped; none is, none is started."""
    path = str(built("13.0"))
    child.run(
        USES
        + f"""
dlshim.upgrade(empty()).__dlpack__()
if os.fork() == 0:
    import drivers
    drv = drivers.load({path!r})
    drv.start()
    address, S = drv.alloc(64), drv.stream_new(blocking=False)
    dlshim.upgrade(P1a((2, 3), device=CUDA, data=address)).__dlpack__(stream=S)
    os._exit("cuCtxRecordEvent" not in drv.calls())
assert os.wait()[1] == 0
"""
    )


def test_multiprocessing_by_fork_ends_cleanly() -> None:
    """What a worker inherited dies in the worker, at its end, after the interpreter."""
    code = """
import multiprocessing
def work(_):
    try:
        make().__dlpack__(stream=S)
    except BufferError as error:
        return str(error)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all("forked" in text for text in pool.map(work, range(4)))
"""
    run_with_driver("13.0", USES + FORKED + code)


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
    code = (
        f"""
ctypes.CDLL({str(real_library)!r})
"""
        + TELLS.format(text="the driver finds no device (error 100)")
        + """
all_go()
"""
    )
    in_process(code)


def test_the_real_driver_has_every_function_that_must_be_there(real_library: Path) -> None:
    names = required_names()
    code = f"library = ctypes.CDLL({str(real_library)!r})\nfor n in {names!r}: getattr(library, n)"
    in_process(code)


def test_with_a_driver_everything_that_needs_one_uses_it() -> None:
    """The control of this file."""
    run_with_driver(
        "13.0",
        USES
        + """
drv.start()
for what, go in NEEDS.items():
    drv.clear_log()
    before = sum(drv.counts().values())
    try:
        go()
    except (BufferError, RuntimeError):
        pass  # the memory of these is none of the driver's
    assert sum(drv.counts().values()) > before, what
""",
    )
