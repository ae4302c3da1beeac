"""Which HIP runtime: the copy that is mapped, the one that knows the pointer, never one that nobody
has loaded; and that nothing is called where nothing is needed (rules S7 and S10)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
from project.debian_packages import NotHere, unpacked
from project.tree import REQUIRED, driver_calls

import dlshim
from doubles import child
from drivers import built, run_with_driver
from drivers.library import compiler

LIVE = ("hip5", "hip6", "hip7")

#: What needs a runtime, by name, and what does not.  Every child of this file begins with it.
USES = """
import ctypes, gc, os, sys
import dlshim
from doubles import capsules as caps
from doubles.cuda_interface import CudaOnly, empty
from doubles.producers import P0ToDlpack, P1, P1a, P2

room = (ctypes.c_char * 64)()
AT = ctypes.addressof(room)
ROCM, PINNED, HANDLE = (10, 0), (11, 0), 0x7d2000000010

def up(cls, device=ROCM, shape=(2, 3), data=AT, **options):
    return dlshim.upgrade(cls(shape, device=device, data=data), **options)

NEEDS = {
    "edge": lambda: up(P1a).__dlpack__(stream=HANDLE),
    "default stream": lambda: up(P1a).__dlpack__(),
    "a function": lambda: up(P0ToDlpack).__dlpack__(stream=0),
    "a raw capsule": lambda: dlshim.upgrade(
        caps.make(device=ROCM, data=AT)).__dlpack__(stream=0, max_version=(1, 0)),
    "producer_stream": lambda: up(P1a, producer_stream=0).__dlpack__(stream=HANDLE),
    "a copy": lambda: dlshim.upgrade(P1a(device=ROCM, data=AT), device="cpu").__dlpack__(),
    "pinned, P named": lambda: up(P1a, PINNED, producer_stream=0).__dlpack__(),
}
NEEDS_NOT = {
    "minus one": lambda: up(P1a).__dlpack__(stream=-1),
    "minus one, modern": lambda: up(P2).__dlpack__(stream=-1, max_version=(1, 0)),
    "minus one, function": lambda: up(P0ToDlpack).__dlpack__(stream=-1),
    "minus one, Tensor": lambda: dlshim.from_dlpack(
        P1a(device=ROCM, data=AT), stream=-1).__dlpack__(stream=-1),
    "modern, handle": lambda: up(P2).__dlpack__(stream=HANDLE, max_version=(1, 0)),
    "modern, None": lambda: up(P2).__dlpack__(max_version=(1, 0)),
    "modern, 0": lambda: up(P2).__dlpack__(stream=0),
    "nothing there": lambda: up(P1a, shape=(0, 3)).__dlpack__(stream=HANDLE),
    "nothing there, copy, capsule": lambda: dlshim.upgrade(
        caps.make((0, 3), device=ROCM), device="cpu").__dlpack__(),
    "host": lambda: up(P2, (1, 0)).__dlpack__(stream=HANDLE),
    "pinned": lambda: up(P2, PINNED).__dlpack__(max_version=(1, 0)),
    "pinned, handle": lambda: up(P1a, PINNED).__dlpack__(stream=HANDLE),
    "same": lambda: up(P1a, unknown_stream="same").__dlpack__(stream=HANDLE),
    "P is S": lambda: up(P1a, producer_stream=HANDLE).__dlpack__(stream=HANDLE),
    "P is S, both the default": lambda: up(P1a, producer_stream=0).__dlpack__(),
    "P is ready": lambda: up(P1a, producer_stream=-1).__dlpack__(stream=HANDLE),
    "the device": lambda: up(P2).__dlpack_device__(),
    "inspect": lambda: dlshim.inspect(P2(device=ROCM, data=AT)),
}
# A runtime that is mapped is asked these, for the producer's sake: its device is made current, and
# no capture is to be broken by what it does.
QUESTIONS = {"hipRuntimeGetVersion", "hipGetDeviceCount", "hipGetDevice", "hipStreamIsCapturing",
             "hipGetErrorName", "hipGetLastError"}
ASKS = {what: QUESTIONS for what in (
    "modern, handle", "modern, None", "modern, 0", "nothing there", "same", "P is S",
    "P is S, both the default", "P is ready")}

def refused(what):
    try:
        NEEDS[what]()
    except BufferError as error:
        return str(error)
    raise AssertionError(f"{what} went through")

def all_refused(text):
    for what in NEEDS:
        told = refused(what)
        assert text in told, (what, told)
    gc.collect()
    assert not caps.accounts(), caps.accounts()

def all_go():
    for what, go in NEEDS_NOT.items():
        try:
            go()
        except Exception as error:
            raise AssertionError(what) from error
    gc.collect()
    assert not caps.accounts(), caps.accounts()
"""
NONE_MAPPED = "no HIP runtime is in this process"
EDGE = """
# Of a runtime that does not know the pointer: each has its own current device, and nobody can tell
# before the export whose array it is.
ASKED = {"hipRuntimeGetVersion", "hipPointerGetAttributes", "hipGetLastError", "hipGetDevice",
         "hipSetDevice"}

def edge(drv, device=1):
    '''A kernel on P, an export, a kernel on S; what the runtime was called for.'''
    from doubles import rocm
    p, s = drv.stream_new(device, False, name="P"), drv.stream_new(device, False, name="S")
    x = rocm.NoKw(drv, p, device=device)
    assert not x.write()
    drv.clear_log()
    for options in ({"producer_stream": p}, {}):
        caps.take(dlshim.upgrade(x, **options).__dlpack__(stream=s)).release()
        assert not drv.read(s, x.address), drv.races()
        drv.call("hipStreamSynchronize", s)
        assert not x.write()
    assert drv.device() == 0 and not drv.gil_held_calls(every=True)
    return set(drv.calls())

def copy(drv, device=1):
    '''The same to the host.'''
    from doubles import rocm
    p = drv.stream_new(device, False, name="P")
    x = rocm.NoKw(drv, p, device=device)
    assert not x.write()
    for options in ({"producer_stream": p}, {}):
        taken = caps.take(dlshim.upgrade(x, device="cpu", **options).__dlpack__())
        assert taken.values() == x.values() and not drv.host_read(taken.view.data, 24)
        taken.release()
    assert drv.device() == 0 and not drv.races() and not drv.gil_held_calls(every=True)
"""


def in_process(code: str) -> str:
    return child.run(USES + EDGE + code)


def with_runtime(variant: str, code: str, *arguments: object) -> str:
    return run_with_driver(variant, USES + EDGE + code, *arguments)


def small_library(folder: Path, text: str, name: str) -> Path:
    """A library of a few lines, in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    source, target = folder / "library.c", folder / name
    source.write_text(text)
    command = [compiler(), "-shared", "-fPIC", "-O0", f"-Wl,-soname,{name}"]
    done = subprocess.run(
        [*command, "-o", str(target), str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return target


# --- none ---------------------------------------------------------------------------------


def test_without_a_runtime() -> None:
    in_process(f"all_refused({NONE_MAPPED!r})\nall_go()")


def test_the_message_names_the_object_and_a_cure() -> None:
    text = in_process("print(refused('edge'))")
    assert "P1a" in text and "import the library that made it" in text and "stream=-1" in text


def test_none_is_ever_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second copy would know nothing of the framework's streams."""
    text = "#include <stdlib.h>\n__attribute__((constructor)) static void go(void) { abort(); }\n"
    for name in ("libamdhip64.so", *(f"libamdhip64.so.{n}" for n in (4, 5, 6, 7))):
        small_library(tmp_path, text, name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    in_process(f"all_refused({NONE_MAPPED!r})\nall_go()")
    # The control: they would have been found.
    loads = (
        "if os.fork() == 0:\n    ctypes.CDLL('libamdhip64.so.6')\nassert os.wait()[1] & 127 == 6"
    )
    in_process(loads)


@pytest.mark.parametrize("variant", LIVE)
def test_a_runtime_that_comes_later_is_found(variant: str) -> None:
    in_process(
        f"""
refused("edge")
import drivers
drv = drivers.load_hip({str(built(variant))!r})
drv.start()
assert "hipDeviceSynchronize" in edge(drv)
copy(drv)
"""
    )


def required_names() -> list[str]:
    """The functions that dlshim cannot do without, from its own list."""
    return driver_calls("hip", "MUST")


def test_a_runtime_that_lacks_a_function_is_none(tmp_path: Path) -> None:
    """Nothing of it is called."""
    names = required_names()
    assert len(names) == 17
    libraries = []
    for missing in names:
        text = "#include <stdlib.h>\n" + "".join(
            f"int {name}(void) {{ abort(); }}\n" for name in names if name != missing
        )
        libraries.append(str(small_library(tmp_path / missing, text, "libamdhip64.so.4")))
    in_process(
        f"""
for path in {libraries!r}:
    if os.fork() == 0:
        ctypes.CDLL(path)
        all_refused("HIP runtime")
        os._exit(0)
    assert os.wait()[1] == 0, path
"""
    )


# --- a runtime without a device -----------------------------------------------------------


@pytest.mark.parametrize("variant", ["hip-nodev5", "hip-nodev6"])
def test_a_runtime_without_a_device(variant: str) -> None:
    with_runtime(
        variant,
        """
all_refused("finds no device")
drv.clear_log()
for what in NEEDS_NOT:
    NEEDS_NOT[what]()
    assert set(drv.calls()) <= ASKS.get(what, set()), (what, drv.calls())
    drv.clear_log()
""",
    )


@pytest.mark.parametrize("variant", LIVE)
def test_where_no_runtime_is_needed_none_is_called(variant: str) -> None:
    with_runtime(
        variant,
        """
drv.start()
for what in NEEDS_NOT:
    NEEDS_NOT[what]()
    assert set(drv.calls()) <= ASKS.get(what, set()), (what, drv.calls())
    drv.clear_log()
""",
    )


def test_with_a_runtime_everything_that_needs_one_uses_it() -> None:
    """The control of this file."""
    with_runtime(
        "hip6",
        """
drv.start()
for what, go in NEEDS.items():
    drv.clear_log()
    before = sum(drv.counts().values())
    try:
        go()
    except (BufferError, RuntimeError):
        pass  # the memory of these is none of the runtime's
    assert sum(drv.counts().values()) > before, what
""",
    )


# --- its name -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.6.4.60443-abc"]
)
def test_the_file_may_be_called_otherwise_than_its_soname(name: str, tmp_path: Path) -> None:
    """Wheels of torch bundle torch/lib/libamdhip64.so with the soname of its release."""
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(built("hip6"), folder / name)
    in_process(
        f"""
import drivers
drv = drivers.load_hip({str(folder / name)!r})
drv.start()
edge(drv)
"""
    )


@pytest.mark.parametrize("name", ["amdhip64.so", "xlibamdhip64.so.6", "libamdhip.so.6"])
def test_other_files_are_no_runtime(name: str, tmp_path: Path) -> None:
    shutil.copy(built("hip6"), tmp_path / name)
    in_process(f"ctypes.CDLL({str(tmp_path / name)!r})\nall_refused({NONE_MAPPED!r})")


# --- several ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"), [("hip5", "hip6"), ("hip6", "hip5"), ("hip7", "hip6"), ("hip6", "hip7")]
)
def test_of_several_runtimes_the_one_that_knows_the_pointer(first: str, second: str) -> None:
    with_runtime(
        first,
        """
import drivers
other = drivers.load_hip(arguments[0])
for each in (drv, other):
    each.start()
for one, two in ((drv, other), (other, drv), (drv, other)):
    two.clear_log()
    called = edge(one)
    assert {"hipEventRecord", "hipStreamWaitEvent"} <= called, called
    assert set(two.calls()) <= ASKED, two.calls()
    assert two.device() == 0
""",
        str(built(second)),
    )


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip5")])
def test_no_error_is_left_in_the_runtime_that_does_not_know_the_pointer(
    first: str, second: str
) -> None:
    with_runtime(
        first,
        """
import drivers
other = drivers.load_hip(arguments[0])
for each in (drv, other):
    each.start()
for each in (drv, other):
    edge(each)
    assert drv.last_error() == other.last_error() == 0, (drv.last_error(), other.last_error())
""",
        str(built(second)),
    )


@pytest.mark.parametrize(
    ("first", "second"), [("hip5", "hip6"), ("hip6", "hip7"), ("hip7", "hip5")]
)
def test_copies_with_several_runtimes(first: str, second: str) -> None:
    """On a stream of the runtime that knows the pointer; who has to be asked for the memory first
    is passed -1, and synced when the address is known."""
    with_runtime(
        first,
        """
import drivers
from doubles import rocm
other = drivers.load_hip(arguments[0])
for each in (drv, other):
    each.start()
for each in (drv, other, drv):
    p = each.stream_new(1, False, name="P")
    for cls in (rocm.RawFn, rocm.Cai3, rocm.Cai2, rocm.ToDlpack, rocm.NoKw, rocm.Careful):
        x = cls(each, p, device=1)
        assert not x.write()
        source = x() if cls is rocm.RawFn else x
        taken = caps.take(dlshim.upgrade(source, device="cpu").__dlpack__())
        assert taken.view.device == (1, 0)
        assert taken.values() == caps.numbers((2, 3), "float32")
        assert not each.host_read(taken.view.data, 24) and not each.races(), each.races()
        taken.release()
        del source
    assert drv.device() == other.device() == drv.last_error() == other.last_error() == 0
""",
        str(built(second)),
    )


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip7")])
def test_interfaces_with_several_runtimes(first: str, second: str) -> None:
    with_runtime(
        first,
        """
import drivers
from doubles import rocm
other = drivers.load_hip(arguments[0])
for each in (drv, other):
    each.start()
for each in (drv, other, drv):
    for named in (True, False):
        p, s = each.stream_new(1, False), each.stream_new(1, False)
        x = (rocm.Cai3 if named else rocm.Cai2)(each, p, device=1)
        assert not x.write()
        upgraded = dlshim.upgrade(x)
        assert upgraded.__dlpack_device__() == (10, 1)
        taken = caps.take(upgraded.__dlpack__(stream=s))
        assert taken.view.device == (10, 1) and not each.read(s, x.address), each.races()
        taken.release()
        assert drv.device() == other.device() == 0
""",
        str(built(second)),
    )


@pytest.mark.parametrize(("first", "second"), [("hip5", "hip6"), ("hip6", "hip7")])
def test_producers_of_several_runtimes_on_another_device(first: str, second: str) -> None:
    """CuPy records on the current device's stream, which is another one: a race that nobody
    sees.  torch refuses."""
    with_runtime(
        first,
        """
import drivers
from doubles import rocm, device as fake
other = drivers.load_hip(arguments[0])
for each in (drv, other):
    each.start()
for each in (drv, other):
    for cls in (rocm.CupyRocm, rocm.TorchRocm):
        p, s = each.stream_new(1, False), each.stream_new(1, False)
        x = fake.named(cls)(each, p, device=1)
        assert not x.write()
        taken = caps.take(dlshim.upgrade(x).__dlpack__(stream=s))
        assert not each.read(s, x.address), each.races()
        taken.release()
        assert drv.device() == other.device() == 0
""",
        str(built(second)),
    )


def test_two_copies_of_one_release(tmp_path: Path) -> None:
    shutil.copytree(built("hip6").parent, tmp_path / "copy")
    with_runtime(
        "hip6",
        """
import drivers
other = drivers.load_hip(arguments[0])
for each in (drv, other):
    each.start()
for one, two in ((drv, other), (other, drv)):
    two.clear_log()
    assert "hipEventRecord" in edge(one)
    assert set(two.calls()) <= ASKED, two.calls()
""",
        str(tmp_path / "copy" / built("hip6").name),
    )


def test_a_second_runtime_that_comes_later() -> None:
    """It is looked for when no runtime that is known knows the pointer."""
    with_runtime(
        "hip6",
        """
drv.start()
edge(drv)
import drivers
other = drivers.load_hip(arguments[0])
other.start()
edge(other)
edge(drv)
""",
        str(built("hip5")),
    )


def test_the_stream_of_another_runtime_is_an_error_that_says_so() -> None:
    with_runtime(
        "hip6",
        """
import drivers
from doubles import rocm
other = drivers.load_hip(arguments[0])
drv.start(), other.start()
x = rocm.NoKw(drv, drv.stream_new(0, False))
try:
    dlshim.upgrade(x, producer_stream=other.stream_new(0, False)).__dlpack__(stream=0)
except RuntimeError as error:
    assert "second HIP runtime" in str(error) and "709" in str(error), error
else:
    raise AssertionError("went through")
assert drv.device() == 0
""",
        str(built("hip5")),
    )


def test_cuda_and_rocm_in_one_process() -> None:
    with_runtime(
        "hip6",
        """
import drivers
from doubles import device as fake
cuda = drivers.load(arguments[0])
drv.start(), cuda.start()
edge(drv)
assert cuda.calls() == [], cuda.calls()
drv.clear_log()
p, s = cuda.stream_new(1, False), cuda.stream_new(1, False)
x = fake.NoKw(cuda, p, device=1)
x.write()
caps.take(dlshim.upgrade(x).__dlpack__(stream=s)).release()
assert not cuda.read(s, x.address) and drv.calls() == [], drv.calls()
""",
        str(built("13.0")),
    )


# --- after a fork -------------------------------------------------------------------------

# The fake ends the process at any call from a forked child.
FORKED = """
drv.start()
address = drv.alloc(64)
S = drv.stream_new(0, False)
def make(cls=P1a, device=ROCM, data=address, **options):
    return dlshim.upgrade(cls((2, 3), device=device, data=data), **options)
kept = {
    "edge": make().__dlpack__(stream=S),
    "tensor": dlshim.from_dlpack(P1a((2, 3), device=ROCM, data=address), stream=S),
    "copy": dlshim.upgrade(
        P1a((2, 3), device=ROCM, data=address), device="cpu").__dlpack__(),
}
before = drv.counts()
assert before["hipDeviceSynchronize"]

def told(go):
    try:
        go()
    except BufferError as error:
        assert "forked" in str(error) and "spawn" in str(error), error
    else:
        raise AssertionError("went through")

def in_child():
    told(lambda: make().__dlpack__(stream=S))
    told(lambda: make(producer_stream=0).__dlpack__(stream=S))
    told(lambda: kept["tensor"].__dlpack__(stream=0))
    told(lambda: dlshim.upgrade(
        P1a((2, 3), device=ROCM, data=address), device="cpu").__dlpack__())
    told(lambda: dlshim.upgrade(CudaOnly(address=address)).__dlpack__(stream=-1))
    assert dlshim.upgrade(empty()).__dlpack_device__()[0] == 10
    make(P2).__dlpack__(stream=S)
    kept["tensor"].__dlpack__(stream=-1)
    kept["tensor"].__dlpack__(stream=S)
    kept.clear()
    all_go()

def in_fork(go):
    child = os.fork()
    if child == 0:
        try:
            go()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize("variant", LIVE)
def test_a_forked_child_is_refused_what_needs_the_runtime_and_nothing_else(variant: str) -> None:
    with_runtime(
        variant,
        FORKED
        + """
in_fork(in_child)
assert drv.counts() == before
make().__dlpack__(stream=S)
assert drv.counts() != before, "the parent goes on"
kept.clear()
""",
    )


def test_a_child_that_was_forked_before_the_runtime_was_used_may_use_it() -> None:
    with_runtime(
        "hip6",
        """
up(P2).__dlpack__(stream=-1)
if os.fork() == 0:
    drv.start()
    edge(drv)
    os._exit(0)
assert os.wait()[1] == 0
""",
    )


# --- Debian's real runtime ----------------------------------------------------------------

#: ROCm 5.2.3 and what it is linked with.
REAL = (
    *("libamdhip64-5", "libhsa-runtime64-1", "libhsakmt1", "libnuma1", "libelf1", "libdrm2"),
    "libdrm-amdgpu1",
)


@pytest.fixture(scope="module")
def real_runtime() -> Iterator[Path]:
    """The folder of AMD's libamdhip64.so.5 as Debian packages it: never kept, never committed."""
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        pytest.skip("AMD's runtime is not here (DLSHIM_FETCH=1 gets it from Debian)")
    try:
        with unpacked(" ".join(REAL), "bookworm") as files:
            yield next(files.rglob("libamdhip64.so.5")).parent
    except NotHere as reason:
        pytest.skip(f"AMD's runtime cannot be had from Debian: {reason}")


def test_the_real_runtime_without_a_device(
    real_runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("here is a device, and the subject is that there is none")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(real_runtime))
    in_process(
        """
library = ctypes.CDLL("libamdhip64.so.5")
version, count = ctypes.c_int(), ctypes.c_int(9)
assert library.hipRuntimeGetVersion(ctypes.byref(version)) == 0
assert 50200000 <= version.value < 50300000, version
assert library.hipGetDeviceCount(ctypes.byref(count)) == 100 and count.value == 0
assert library.hipDeviceSynchronize() == 101
all_refused("finds no device")
all_go()
"""
    )


def test_the_real_runtime_has_every_function_that_must_be_there(
    real_runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(real_runtime))
    names = required_names()
    in_process(
        f"library = ctypes.CDLL('libamdhip64.so.5')\nfor n in {names!r}: getattr(library, n)"
    )


#: ROCm 6.4 is built for a newer C library than this machine may have: it comes with its own.
REAL_6 = (
    *("libamdhip64-6", "libhsa-runtime64-1", "libnuma1", "libelf1t64", "libdrm2", "libzstd1"),
    *("libdrm-amdgpu1", "libamd-comgr3", "libc6", "libstdc++6", "libgcc-s1", "zlib1g"),
)


@pytest.fixture(scope="module")
def beside_real_6() -> Iterator[list[str]]:
    """The command that runs this Python by the loader of the suite that has libamdhip64.so.6."""
    if not REQUIRED and os.environ.get("DLSHIM_FETCH") != "1":
        pytest.skip("AMD's runtime is not here (DLSHIM_FETCH=1 gets it from Debian)")
    try:
        with unpacked(" ".join(REAL_6), "sid") as files:
            own = next(files.rglob("libamdhip64.so.6")).parent
            (loader, *_) = files.rglob("ld-linux-*.so.*")
            python = Path(sys.executable).resolve()
            paths = [str(own), str(python.parent.parent / "lib"), "/usr/lib", str(SYSTEM)]
            command = [str(loader), "--library-path", ":".join(paths), str(python)]
            probe = "import ctypes; ctypes.CDLL('libamdhip64.so.6')"
            done = subprocess.run([*command, "-c", probe], capture_output=True, check=False)
            if done.returncode:
                pytest.skip(f"this Python does not run by another loader: {done.stderr[-200:]!r}")
            yield command
    except NotHere as reason:
        pytest.skip(f"AMD's runtime 6 cannot be had from Debian: {reason}")


SYSTEM = Path("/usr/lib") / (sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu")


def test_the_real_runtime_6_without_a_device(beside_real_6: list[str]) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("here is a device, and the subject is that there is none")
    code = (
        USES
        + """
library = ctypes.CDLL("libamdhip64.so.6")
version, count = ctypes.c_int(), ctypes.c_int(9)
assert library.hipRuntimeGetVersion(ctypes.byref(version)) == 0
assert 60000000 <= version.value < 80000000, version
assert library.hipGetDeviceCount(ctypes.byref(count)) == 100 and count.value == 0
assert library.hipDeviceSynchronize() == 100
all_refused("finds no device")
all_go()
"""
        + f"for n in {required_names()!r}: getattr(library, n)\n"
    )
    paths = [child.TESTS, str(Path(dlshim.__file__).parent.parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [*beside_real_6, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
