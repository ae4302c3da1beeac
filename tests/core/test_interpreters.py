"""T10: interpreters that end while exports live, modules that are imported anew, and a program that
starts and ends Python several times."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project.tree import ROOT, compiler

import dlshim
from doubles import child

pytestmark = pytest.mark.once

# --- subinterpreters of the old kind, which share the GIL ------------------------------

COMMON = """
import array, ctypes as C, sys
from doubles import capsules as caps

def give(addresses, held):
    '''Read and give back, by each generation in turn.'''
    for k, address in enumerate(addresses):
        name = caps.VERSIONED if k % 2 else caps.LEGACY
        kind = caps.ManagedTensorVersioned if k % 2 else caps.ManagedTensor
        tensor = kind.from_address(address).dl_tensor
        data = (C.c_int * 6).from_address(tensor.data + tensor.byte_offset)
        assert list(data) == [0, 1, 2, 3, 4, 5], k
        caps.call_deleter(address, name, held=held)

def make(dlshim):
    from doubles.delegating import Source
    x = array.array("i", range(6))
    sources = (dlshim.upgrade(x, copy=True), dlshim.upgrade(x), dlshim.upgrade(Source()),
               dlshim.from_dlpack(x), dlshim.upgrade(Source(), copy=True))
    addresses = []
    for source in sources:
        for version in (None, (1, 0)):
            capsule = source.__dlpack__(max_version=version)
            addresses.append(caps.pointer_of(capsule))
            caps.rename(capsule)
    return addresses
"""
OUTER = """
import gc
import _testcapi
import dlshim
from dlshim import _core
assert dlshim.upgrade(bytearray(3)).__dlpack__()
HEAD = f"import sys; sys.path[:] = {sys.path!r}"

def inside(code):
    assert _testcapi.run_in_subinterp("\\n".join((HEAD, COMMON, code))) == 0
    gc.collect()

def finish(rounds):
    # Before 3.12 a thread of a subinterpreter is taken for one that must not touch Python:
    # its deleters leak rather than wait for ever.  From 3.12 on, what an interpreter that has
    # ended had made is leaked too, because its objects may be gone with it (T10).
    live = _core._counters()["live"]
    assert live <= rounds, live
    taken = dlshim.from_dlpack(dlshim.upgrade(array.array("i", range(6))))
    assert memoryview(taken).tolist() == [0, 1, 2, 3, 4, 5]
    print("end")
"""
OUTWARD = """
slots = (C.c_size_t * 10)()
for turn in range(3):
    inside(f'''
import builtins, dlshim
from doubles.delegating import Source
(C.c_size_t * 10).from_address({C.addressof(slots)})[:] = make(dlshim)
builtins.alive = [dlshim.from_dlpack(bytes(3)), dlshim.upgrade(Source()),
                  dlshim.upgrade(bytearray(3)).__dlpack__()]
''')
    give(list(slots), HELD)
finish(3)
"""
INWARD = """
for turn in range(3):
    addresses = make(dlshim)
    gc.collect()
    inside(IMPORT + f"\\ngive({addresses}, HELD)")
finish(3)
"""


def needs_subinterpreters():
    testcapi = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
    if not hasattr(testcapi, "run_in_subinterp"):
        pytest.skip("this _testcapi has no run_in_subinterp")


@pytest.mark.parametrize("held", [True, False], ids=["held", "released"])
def test_T10_exports_outlive_the_subinterpreter_that_made_them(held):
    """Read and given back in the main one, with and without the GIL."""
    needs_subinterpreters()
    code = f"COMMON = {COMMON!r}\n{COMMON}\n{OUTER}\nHELD = {held}\n{OUTWARD}"
    assert child.run(code).strip() == "end"


@pytest.mark.parametrize(
    ("imports", "held"),
    [
        pytest.param("", True, id="without-held"),
        pytest.param("", False, id="without-released"),
        pytest.param("import dlshim", True, id="with-held"),
        pytest.param("import dlshim", False, id="with-released"),
    ],
)
def test_T10_a_subinterpreter_gives_back_what_the_main_one_made(imports, held):
    """One that has imported dlshim, or has not."""
    needs_subinterpreters()
    tail = INWARD.replace("HELD", str(held)).replace("IMPORT", repr(imports))
    code = f"COMMON = {COMMON!r}\n{COMMON}\n{OUTER}\n{tail}"
    assert child.run(code).strip() == "end"


ISOLATED = """
import gc, sys
import ctypes as C
import _interpreters as interpreters
import dlshim
from doubles import capsules as caps
assert dlshim.from_dlpack(b"abc").shape == (3,)
slots = (C.c_size_t * 2)()
used = C.cast(C.c_char_p(caps._NAMES[caps.USED_VERSIONED]), C.c_void_p).value
INNER = f'''
import sys; sys.path[:] = {sys.path!r}
import ctypes as C
import dlshim
get = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))
rename = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_void_p)(("PyCapsule_SetName", C.pythonapi))
slots = (C.c_size_t * 2).from_address({C.addressof(slots)})
x = bytearray(range(6))
for k, source in enumerate((dlshim.upgrade(x), dlshim.from_dlpack(x))):
    capsule = source.__dlpack__(max_version=(1, 0))
    slots[k] = get(capsule, b"dltensor_versioned")
    rename(capsule, {used})
'''
for turn in range(3):
    inner = interpreters.create(interpreters.new_config("isolated", gil="shared"))
    failure = interpreters.run_string(inner, INNER)
    assert failure is None, failure.formatted
    if FIRST == "interpreter":
        interpreters.destroy(inner)
    gc.collect()
    for address in slots:
        caps.call_deleter(address, caps.VERSIONED, held=HELD)
    if FIRST == "export":
        interpreters.destroy(inner)
assert dlshim.from_dlpack(b"abc").shape == (3,)
print("end")
"""


@pytest.mark.parametrize("held", [True, False], ids=["held", "released"])
@pytest.mark.parametrize("first", ["export", "interpreter"])
def test_T10_exports_of_an_interpreter_with_an_allocator_of_its_own(first, held):
    """Given back in the main one, before that interpreter ends or after."""
    pytest.importorskip("_interpreters", reason="ctypes loads in isolated ones from 3.13 on")
    code = f"FIRST, HELD = {first!r}, {held}\n{ISOLATED}"
    assert child.run(code).strip() == "end"


# --- modules --------------------------------------------------------------------------

AGAIN = """
import gc, importlib, sys
import dlshim
from dlshim import _core
from doubles.delegating import SIX, Source
import array

def exchange(module, source):
    for taken in (module.from_dlpack(module.upgrade(source)),
                  module.from_dlpack(module.to_capsule(source)),
                  module.from_dlpack(module.upgrade(source).__dlpack__(max_version=(1, 0))),
                  module.from_dlpack(source)):
        assert memoryview(taken).tolist() == SIX

def reload():
    return importlib.reload(dlshim)

def anew():
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlshim"]:
        del sys.modules[name]
    return importlib.import_module("dlshim")

def core_alone():
    del sys.modules["dlshim._core"]
    return importlib.reload(dlshim)

x = array.array("i", SIX)
old = [dlshim]
kept = []
for turn in range(4):
    module = {how}()
    for each in {{id(m): m for m in (*old, module)}}.values():
        for source in (x, Source(), *kept):
            exchange(each, source)
    kept = [module.upgrade(x), module.from_dlpack(Source()), old[-1].from_dlpack(x)]
    capsules = [module.upgrade(x).__dlpack__(), old[-1].to_capsule(x, max_version=(1, 0))]
    old.append(module)
    del old[:-2]
    gc.collect()
    for source in (*kept, *capsules):
        assert memoryview(old[-1].from_dlpack(source)).tolist() == SIX
del kept, capsules, source
gc.collect()
# `taken` of the last turn is gone with its frame.
assert _core._counters()["live"] == 0, _core._counters()
print("end")
"""


@pytest.mark.parametrize("how", ["reload", "anew", "core_alone"])
def test_T10_objects_of_a_module_that_is_imported_anew(how):
    """Objects of the old and of the new one exchange with each other, and both with others."""
    out = child.run(AGAIN.format(how=how), options=("-W", "error"), silent=True)
    assert out.strip() == "end"


KEYS = """
import ctypes, sys
import dlshim
api = ctypes.pythonapi
api.PyThread_tss_alloc.restype = ctypes.c_void_p
made = []
while len(made) < 5000:
    key = ctypes.c_void_p(api.PyThread_tss_alloc())
    if api.PyThread_tss_create(key) != 0:
        break
    made.append(key)
for key in made[-5:]:
    api.PyThread_tss_delete(key)
kept = []
for turn in range(8):
    del sys.modules["dlshim._core"]
    import dlshim._core
    kept.append(dlshim._core)
print("end")
"""


def test_T10_imports_use_up_no_thread_local_keys():
    """A process has some 1000 of them; the modules share theirs."""
    assert child.run(KEYS).strip() == "end"


# --- dlshim.track() ---------------------------------------------------------------------

TRACKED = """
def kinds(dlshim):
    return [one.kind for one in dlshim.live()]

tracking = dlshim.track()
kept = dlshim.from_dlpack(array.array("i", range(6)))
capsule = dlshim.upgrade(kept).__dlpack__()
inside('''
import dlshim
kept = dlshim.from_dlpack(array.array("i", range(6)))
assert dlshim.live() == [], "it is not on in this interpreter"
with dlshim.track():
    capsule = dlshim.upgrade(kept).__dlpack__()
    assert [one.kind for one in dlshim.live()] == ["legacy"]
''')
assert kinds(dlshim) == ["Tensor", "legacy"]
del capsule
inside('''
import dlshim
with dlshim.track():
    pass
assert dlshim.live() == []
''')
assert kinds(dlshim) == ["Tensor"], "another interpreter took note of the end"

for name in [name for name in sys.modules if name.partition(".")[0] == "dlshim"]:
    del sys.modules[name]
import dlshim as anew
other = anew.from_dlpack(array.array("i", range(6)))
assert anew.live() == []
tracking.stop()
assert kinds(dlshim) == ["Tensor"]
print("end")
"""


def test_tracking_is_of_one_interpreter_and_of_one_import():
    needs_subinterpreters()
    out = child.run(f"COMMON = {COMMON!r}\n{COMMON}\n{OUTER}\n{TRACKED}", silent=True)
    assert out.strip() == "end"


# --- a program that embeds Python -----------------------------------------------------

SCRIPT = """
import array, builtins
import dlshim
from dlshim import _core
SIX = list(range(6))
class Source:
    def __init__(self):
        self.memory = array.array("i", SIX)
    def __dlpack__(self, **keywords):
        return dlshim.upgrade(self.memory).__dlpack__(**keywords)
    def __dlpack_device__(self):
        return (1, 0)
x = array.array("i", SIX)
for source in (x, Source()):
    assert memoryview(dlshim.from_dlpack(dlshim.upgrade(source))).tolist() == SIX
    assert memoryview(dlshim.from_dlpack(dlshim.to_capsule(source))).tolist() == SIX
newer = {"max_version": (1, 0)}
readable = [dlshim.upgrade(source, copy=True).__dlpack__(**newer) for source in (x, Source())]
kept = [dlshim.upgrade(source).__dlpack__(**newer)
        for source in (x, Source(), dlshim.from_dlpack(x))]
builtins.alive = [dlshim.from_dlpack(x), dlshim.upgrade(Source()), dlshim.upgrade(x).__dlpack__()]
"""
ROUNDS = 4


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """The program, linked with the shared library of this Python."""
    library, folder = (sysconfig.get_config_var(name) for name in ("LDLIBRARY", "LIBDIR"))
    if not sysconfig.get_config_var("Py_ENABLE_SHARED") or not Path(folder, library).exists():
        pytest.skip("no shared library of this Python to embed")
    program = tmp_path_factory.mktemp("programs") / "embedded"
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror"]
    link = [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{library[3:].partition('.so')[0]}"]
    source = ROOT / "tests" / "programs" / "embedded.c"
    command = [compiler(), *flags, f"-I{sysconfig.get_path('include')}", str(source), *link]
    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    built = subprocess.run(
        [*command, "-o", str(program)], capture_output=True, text=True, env=plain
    )
    if "Python.h" in built.stderr:
        pytest.skip("Python.h is not here")
    assert built.returncode == 0, built.stderr
    return program


def run_embedded(program, when):
    """What it printed, once it has ended without a word."""
    packages = [str(Path(dlshim.__file__).parent.parent)]
    # ASan's own runtime must come first in whatever loads an extension built with it.
    env = {**os.environ, "PYTHONHOME": sys.base_prefix, "PYTHONPATH": os.pathsep.join(packages)}
    if "ASAN_OPTIONS" in env:
        env["ASAN_OPTIONS"] += ":detect_leaks=0"
    command = [str(program), SCRIPT, str(ROUNDS), when]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=child.HANGS)
    assert (done.returncode, done.stderr) == (0, ""), (done.stdout, done.stderr)
    return done.stdout.splitlines()


def test_T10_python_ends_and_starts_again(embedded):
    """What was exported is given back after the end; the copies can still be read there."""
    told = run_embedded(embedded, "ended")
    assert told == [f"round {k}, 0 kept" for k in range(1, ROUNDS + 1)]


def test_T10_python_starts_again_while_exports_of_before_live(embedded):
    told = run_embedded(embedded, "never")
    assert told == [f"round {k}, {5 * k} kept" for k in range(1, ROUNDS + 1)]


def test_T10_exports_of_before_are_given_back_once_python_runs_again(embedded):
    told = run_embedded(embedded, "again")
    assert told == [f"round {k}, 5 kept" for k in range(1, ROUNDS + 1)]
