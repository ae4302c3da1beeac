"""Breaks dlshim on purpose, one action at a time, and insists that the tests notice.

    python tools/mutants.py             every mutant
    python tools/mutants.py WORD ...    those whose name has the word
    python tools/mutants.py --list      their names

A matrix that is green proves something only if it turns red when an edge, a wait or a context is
missing.  The C source marks what may be left out: ``/* mutant: NAME */`` alone on a line means the
statement or row below it, and at the end of a line what stands on that line, as ``# mutant: NAME``
does in ``shim/habits.py``.  MUTANTS says what is done with it.  Each mutant is compiled without
optimisation, with the objects of all other files used again, and a child runs the checks of
tests/device on it, on the fake drivers, until one fails: those of the sample that ``python -m
pytest`` runs, which has to notice by itself.
Needs a C compiler and pytest in the running interpreter; the package that is installed there is
left alone.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
sys.path.insert(0, str(TESTS))
import sampling  # noqa: E402

CC = shlex.split(os.environ.get("CC", "gcc"))
#: Without NDEBUG: a broken contract ends the run, as a failed check does.
FLAGS = ["-std=c11", "-O0", "-fPIC", "-fvisibility=hidden", "-DPy_LIMITED_API=0x030a0000", "-MMD"]
#: A driver with events of whole devices, and one without.
VARIANTS = ("13.0", "12.2")
MODULES = (
    *("test_matrix", "test_managed", "test_copies", "test_release", "test_sync_threads"),
    *("test_work_stream", "test_wait", "test_labels", "test_copies_to_devices", "test_like"),
    *("test_arrow_events", "test_orders"),
)
#: The same on ROCm.
HIP_VARIANTS = ("hip6", "hip5", "hip7")
HIP_MODULES = (
    *("test_matrix", "test_copies", "test_failures", "test_wait", "test_copies_to_devices"),
    *("test_like", "test_managed", "test_cuda_interface", "test_arrow_events", "test_orders"),
)

# ---- what is done with marked code -----------------------------------------------------------

#: From the marked text to what stands there instead.  A plain text stands there as it is, with
#: "{}" for the marked text and "{NAME}" for what another marker of the same file marks.
Change = Callable[[str], str]


def changed(text: str, how: str | Change) -> str:
    return how.replace("{}", text) if isinstance(how, str) else how(text)


def value_of(statement: str) -> tuple[int, int]:
    """Where the value is that a statement returns, tests or assigns; an expression is all value."""
    found = re.match(r"\s*(return |if \(|[^;]*? = )", statement)
    begin = found.end() if found else 0
    return begin, begin + end_of(statement[begin:], ");")


def end_of(text: str, ends: str) -> int:
    """Where the first of these characters is that stands in no brackets; else the end."""
    depth = 0
    for at, char in enumerate(text):
        if depth == 0 and char in ends:
            return at
        depth += (char in "([{") - (char in ")]}")
    return len(text)


def parts_of(text: str, separator: str) -> list[str]:
    """The text between separators that stand in no brackets; every second part is a separator."""
    parts, depth, begin = [], 0, 0
    for found in re.finditer(rf"{separator}|[()\[\]{{}}]", text):
        if len(found[0]) == 1 and found[0] in "()[]{}":
            depth += 1 if found[0] in "([{" else -1
        elif depth == 0:
            parts += [text[begin : found.start()], found[0]]
            begin = found.end()
    return [*parts, text[begin:]]


def value(how: str | Change) -> Change:
    """The value that the statement returns, tests or assigns is another."""

    def change(text: str) -> str:
        begin, end = value_of(text)
        return text[:begin] + changed(text[begin:end], how) + text[end:]

    return change


def operand(number: int, how: str | Change) -> Change:
    """An operand of &&, || or ?: in the value is another; the first is 1."""

    def change(text: str) -> str:
        parts = parts_of(text, r"\s*(?:&&|\|\||[?]|(?<!\?):)\s*")
        parts[2 * number - 2] = changed(parts[2 * number - 2], how)
        return "".join(parts)

    return value(change)


def argument(number: int, how: str | Change) -> Change:
    """An argument of the first call in the value, or of a row, is another; the first is 1."""

    def change(text: str) -> str:
        begin = text.index("(") + 1
        end = begin + end_of(text[begin:], ")")
        parts = parts_of(text[begin:end], r",\s*")
        parts[2 * number - 2] = changed(parts[2 * number - 2], how)
        return text[:begin] + "".join(parts) + text[end:]

    return value(change)


def passes(what: str) -> Change:
    """A row of sync_rules.def passes the producer another stream."""
    return argument(4, what)


def does(what: str) -> Change:
    """A row of sync_rules.def has another task."""
    return argument(5, what)


def without(word: str) -> Change:
    """A row of habits.py does not have the trait."""
    return lambda text: re.sub(rf"\b{word}\b ?", "", text)


class Mutant(NamedTuple):
    name: str
    changes: Mapping[str, str | Change]  # by the name of the marker
    first: str  # where it is likely to be seen
    variant: str

    @property
    def places(self) -> list[tuple[str, tuple[str, ...]]]:
        """Where it is looked for: drivers, and the files with the checks."""
        if self.variant in HIP_VARIANTS:
            return [(variant, HIP_MODULES) for variant in HIP_VARIANTS]
        return [(self.variant, (self.first,)), *[(variant, MODULES) for variant in VARIANTS]]


def mutant(
    name: str,
    marker: str,
    how: str | Change,
    first: str = MODULES[0],
    variant: str = VARIANTS[0],
) -> Mutant:
    return Mutant(name, {marker: how}, first, variant)


def rocm(name: str, marker: str, how: str | Change, variant: str = HIP_VARIANTS[0]) -> Mutant:
    return Mutant(f"ROCm, {name}", {marker: how}, HIP_MODULES[0], variant)


OUT = ""  # it is left out
EVENTS = "test_arrow_events"

# fmt: off
MUTANTS = [
    # --- nothing is done ---
    mutant("no edge", "edge of P", "return DLS_OK;"),
    mutant("no edge of the whole device", "edge of the device", "return DLS_OK;"),
    mutant("the host does not wait for P", "wait for P", "return DLS_OK;", "test_managed"),
    mutant("the host does not wait for the device", "wait for the device", "return DLS_OK;",
           variant="12.2"),
    mutant("a record without a wait", "wait for the event", OUT),
    mutant("a wait without a record", "record", operand(3, "GPU_OK")),
    mutant("no second edge for torch", "torch, 2", does("NOTHING")),
    mutant("None on managed memory is no wait", "managed, None", does("NOTHING"), "test_managed"),
    mutant("None on managed memory is an edge", "managed, old, None", does("SYNC"), "test_managed"),
    mutant("modern producers are passed no stream", "modern", passes("PASS_MINUS_1")),
    mutant("old producers are believed to sync", "CUDA, old", does("NOTHING")),
    mutant("who ignores the stream is believed", "CUDA, stream ignored", does("NOTHING")),
    mutant("no edge for the event of a column", "edge of an event", "return DLS_OK;", EVENTS),
    mutant("the host does not wait for the event of a column", "wait for an event",
           "return DLS_OK;", EVENTS),
    # --- something else is done ---
    mutant("the host waits for the event of a column, and not S", "event, S",
           argument(4, "WAIT_EVENT"), EVENTS),
    mutant("S waits for the event of a column, and not the host", "event, the host",
           argument(4, "EVENT_EDGE"), EVENTS),
    mutant("a column's event is not looked at", "event of a column",
           argument(3, "(dls_producer_stream){.known = DLS_P_UNKNOWN}"), EVENTS),
    mutant("a column's event is no work", "event of a column",
           argument(3, "(dls_producer_stream){.known = DLS_P_READY}"), EVENTS),
    mutant("an event in a capture is waited for", "event in a capture", OUT, EVENTS),
    mutant("an empty chunk's event is taken", "event of an empty chunk", operand(1, "false"),
           EVENTS),
    mutant("an edge from L instead of P", "record", operand(3, argument(2, "dls_gpu_stream(1)"))),
    mutant("an edge from L where P is not known", "edge of the device", "{edge of P}"),
    mutant("an edge to L instead of S", "wait of S", argument(1, "dls_gpu_stream(1)")),
    mutant("the host waits where an edge would do", "edge of P", "{wait for P}"),
    mutant("the whole device instead of P", "edge of P", "{edge of the device}"),
    mutant("None for torch stays None", "CUDA, None", passes("PASS_NONE")),
    mutant("None for JAX becomes 1", "JAX, None", OUT, "test_like_bare"),
    mutant("None becomes 1 for a library nobody knows", "unknown library, None", OUT,
           "test_like_bare"),
    mutant("torch's own current device is not set", "torch's device", OUT, "test_like_bare"),
    mutant("paddle's own current device is not set", "paddle's device", OUT, "test_like_bare"),
    mutant("paddle before 3.3 is believed to sync", "paddle before 3.3",
           without("IGNORES_STREAM"), "test_like_bare"),
    mutant("an omitted stream is an explicit None", "omitted stream", operand(1, "false"),
           "test_like_bare"),
    mutant("-1 for JAX", "JAX, -1", passes("PASS_MINUS_1")),
    mutant("-1 is synced all the same", "old, -1", does("SYNC")),
    mutant("managed memory is read while kernels run", "concurrent access", operand(3, "false"),
           "test_managed"),
    # --- contexts ---
    mutant("no context is pushed", "context entered", OUT),
    mutant("no context is popped", "context left", OUT),
    mutant("the current context, whosever the memory is", "context of the memory", value("NULL")),
    mutant("the memory's context for any stream", "context of the stream", value("false")),
    mutant("S in the context of P", "context of S", value("false")),
    mutant("producers are called in whatever context is current", "context of the producer",
           value("false")),
    # --- events ---
    Mutant("an event is given back before it is waited for",
           {"wait for the event": "{event given back}\n{}", "event given back": OUT},
           "test_orders", "12.5"),
    mutant("an event is destroyed before it is waited for", "wait for the event",
           "dls_gpu_event_end(&run->place_p, event); {}"),
    mutant("events are lost", "event not kept", OUT, "test_sync_threads", "12.5"),
    mutant("events are not kept", "event kept", value("false")),
    # --- captures ---
    mutant("no capture probe", "capture", value("false")),
    mutant("L is not asked about captures of others", "capture", operand(1, "false")),
    mutant("S is not asked", "capture of S", value("false")),
    mutant("one capture is as two", "same capture", operand(3, "false")),
    mutant("two captures are as one", "same capture", operand(3, "true")),
    # --- who knows what ---
    mutant("the policy is not heard", "policy", operand(2, "false")),
    mutant("producer_stream is not heard", "producer_stream", value("false")),
    mutant("a library's current stream is not asked for", "current stream of a library",
           operand(1, "false")),
    mutant("the stream of an interface dict is not heard", "stream of an interface", OUT),
    mutant("a Tensor forgets its stream", "stream of a Tensor", value("ready")),
    mutant("every thread's stream is one", "stream of another thread", operand(1, "false")),
    mutant("empty arrays are synced", "empty array", value("false")),
    mutant("torch takes 2", "torch refuses 2", without("REFUSES_TWO")),
    # --- what libraries mean by no stream ---
    mutant("None of numba says that nothing is unfinished", "None of numba", value("false")),
    mutant("PyCUDA's stream is not known", "stream of PyCUDA", OUT),
    mutant("JAX is told a stream", "stream for JAX", value("false"), "test_cuda_interface"),
    # --- what libraries say wrongly ---
    mutant("a wrong label is believed", "true label", OUT, "test_labels"),
    mutant("CV-CUDA is believed to sync", "CV-CUDA ignores the stream",
           without("IGNORES_STREAM")),
    # --- consumers whose stream nobody knows ---
    mutant("the host does not wait for its own stream", "CUDA, wait", does("NOTHING"), "test_wait"),
    mutant("the host waits for L instead of its own stream", "CUDA, wait", does("WAIT_L"),
           "test_wait"),
    mutant("JAX is not asked to wait", "JAX, wait", passes("PASS_1"), "test_wait"),
    mutant("who knows no stream is not waited for", "CUDA, old, wait", does("NOTHING"),
           "test_wait"),
    mutant("who ignores the stream is not waited for", "CUDA, stream ignored, wait",
           does("NOTHING"), "test_wait"),
    mutant("without a context nobody waits", "no stream of our own", value("false"), "test_wait"),
    mutant("to_capsule does not wait", "to_capsule waits", OUT, "test_wait"),
    # --- copies and release ---
    mutant("a copy is not synced", "nothing to do",
           value("{} || sync->transfer == DLS_TRANSFER_TO_HOST"), "test_copies"),
    mutant("a copy is not waited for", "wait for a copy", value("GPU_OK"), "test_copies"),
    mutant("a slab is read before it has arrived", "wait for a slab", OUT, "test_copies"),
    mutant("copies on a stream that blocks", "stream of copies", argument(2, "0"), "test_copies"),
    mutant("copies on L", "stream of our own", value("1"), "test_copies"),
    mutant("a guard that waits for nothing", "guard waits", OUT, "test_release"),
    mutant("a guard that records nothing", "guard records", value("GPU_OK"), "test_release"),
    # --- copies to a device, and their end ---
    mutant("a copy on a device does not come after the work there", "work before a copy",
           "return 0;", "test_copies_to_devices"),
    mutant("a copy to a device is not waited for", "wait for a copy to a device", value("GPU_OK"),
           "test_copies_to_devices"),
    mutant("new memory is used before its turn", "wait for new memory", OUT,
           "test_copies_to_devices"),
    mutant("managed memory is copied while kernels run", "host copies to a device",
           operand(2, "false"), "test_copies_to_devices"),
    mutant("what a producer has moved is not synced again", "moved by the producer",
           argument(2, operand(1, "false")), "test_copies_to_devices"),
    mutant("a copy to a device does not ask about captures", "capture before a copy",
           operand(1, "false"), "test_copies_to_devices"),
    mutant("memory is freed while others use it", "wait before memory is freed", OUT,
           "test_copies_to_devices"),
    mutant("memory is freed after L alone", "record before memory is freed",
           value("place->api->event_record(event, dls_gpu_stream(1))"), "test_copies_to_devices"),
    mutant("memory of a pool is freed at once", "memory of a pool", operand(1, "{} && stream == 0"),
           "test_copies_to_devices"),
    mutant("pools where nothing stands for all work", "pools of the device", operand(1, "true"),
           "test_copies_to_devices", "12.2"),
    mutant("copies queue behind what is freed", "stream of freed memory",
           operand(2, argument(2, "DLS_POOL_COPIES")), "test_copies_to_devices"),
    mutant("memory is freed during a capture", "memory freed during a capture", operand(1, "true"),
           "test_copies_to_devices"),
    mutant("memory that waits is lost", "memory that waits", OUT, "test_copies_to_devices"),
    mutant("a copy by the host waits for nobody", "work before a copy by the host", "return 0;",
           "test_copy_order"),
    mutant("a copy forgets the stream that was named", "P of a copy", OUT, "test_copy_order"),
    mutant("a copy is not in the context of S", "context of a copy",
           argument(1, "driver->legacy"), "test_copy_axes"),
    mutant("memory is freed while others use it in the device's own context",
           "the device's own place", value("GPU_OK"), "test_copy_axes"),
    # --- a stream that is refused ---
    mutant("None is not tried", "None after a refusal", operand(1, "false"),
           "test_refused_streams"),
    mutant("a refused -1 is not learned", "learned of -1", OUT, "test_refused_streams"),
    mutant("a row's -1 is passed", "-1 that is refused", value("false"), "test_refused_streams"),
    mutant("None stands for -1 in a capture", "None during a capture", value("false"),
           "test_refused_streams"),
    mutant("the table tells the stream from which it was copied", "copied memory", value("false"),
           "test_copies_to_devices"),
    mutant("a library's memory is used before its turn", "memory of a library", "return 0;",
           "test_like"),
    mutant("a library allocates while it captures", "capture of a library", value("false"),
           "test_like"),
    # --- the C table ---
    mutant("the table answers no stream", "stream of the table", operand(1, "false"),
           "test_work_stream"),
    mutant("the table syncs nothing", "unknown stream", operand(1, "false"), "test_work_stream"),
    mutant("a Tensor's stream is not told to the table", "stream of a Tensor for the table",
           "p->known = DLS_P_READY;", "test_work_stream"),
    # --- homes ---
    mutant("memory of another library does not follow the home", "stream of another home", OUT,
           "test_homes"),
    mutant("memory is allocated for another stream", "stream of allocated memory",
           value("target.stream"), "test_homes"),
    mutant("memory for no stream is not waited for", "wait for allocated memory",
           value("DLS_OK"), "test_homes"),
    mutant("a result forgets the stream of its kernel", "stream of a result", OUT, "test_homes"),
    # --- the GIL, and errors ---
    mutant("the GIL is kept", "GIL", OUT),
    mutant("errors of the driver are hidden", "error of the driver", value("true"),
           "test_failures"),
    # --- ROCm ---
    rocm("no wait", "wait of S", value("GPU_OK")),
    rocm("the device is not waited for", "wait for the device", "return DLS_OK;"),
    rocm("an edge from the default stream", "record", operand(3, argument(2, "dls_gpu_stream(0)"))),
    rocm("the device is not set", "device set", value("GPU_OK")),
    rocm("the device is not put back", "device put back", value("false")),
    rocm("the device is the memory's for any stream", "device of the stream", operand(2, "false")),
    rocm("a copy to a device is not waited for", "wait for a copy to a device", value("GPU_OK")),
    rocm("new memory is the current device's", "device of new memory", value("0")),
    rocm("the memory types of 5", "ROCm 6", value("false")),
    rocm("the memory types of 6", "ROCm 6", value("true"), "hip5"),
    rocm("no capture probe", "capture", value("false")),
    rocm("the default stream is not asked about captures", "capture", operand(1, "false")),
    rocm("two captures are as one", "same capture", operand(3, "true")),
    rocm("copies on a stream that blocks", "stream of copies", argument(2, "0")),
    rocm("errors are left for others", "error of ROCm", OUT),
    rocm("the host does not wait for its own stream", "ROCm, wait", does("NOTHING")),
    rocm("1 is a stream", "ROCm, 1", OUT),
    rocm("None is 1", "ROCm, None", passes("PASS_1")),
    rocm("who ignores the stream is believed", "ROCm, stream ignored", does("NOTHING")),
    rocm("-1 is synced all the same", "old, -1", does("SYNC")),
    rocm("nobody waits for pinned memory", "pinned memory, old", does("NOTHING")),
]
# fmt: on

# ---- markers -----------------------------------------------------------------------------------

MARKER = re.compile(r"(?:/\*|#) mutant: (.+?)(?: \*/|$)", re.M)
#: Beside the source tree.
HABITS = "../shim/habits.py"


class Failed(Exception):
    """The run itself is at fault: it proves nothing."""


class Place(NamedTuple):
    """Code that a marker marks."""

    file: str  # from src/
    begin: int
    end: int


def marked(text: str, marker: re.Match[str]) -> tuple[int, int]:
    """Where the code is that a marker marks."""
    line = text.rfind("\n", 0, marker.start()) + 1
    if before := text[line : marker.start()].strip():
        begin = line + text[line:].index(before)
        return begin, begin + len(before)
    begin = marker.end() + len(text[marker.end() :]) - len(text[marker.end() :].lstrip())
    if re.match(r"if \(", text[begin:]):
        begin_block = begin + end_of(text[begin:], "{")
        return begin, begin_block + 1 + end_of(text[begin_block + 1 :], "}") + 1
    ends = ";" if not re.match(r"[A-Z_]+\(", text[begin:]) else "\n"
    end = begin + end_of(text[begin:], ends)
    return begin, end + (ends == ";")


def find_places(src: Path) -> dict[str, list[Place]]:
    """What each marker of a source tree marks; one name stands in one file alone."""
    found: dict[str, list[Place]] = {}
    for path in [*sorted(src.glob("*/*")), *src.glob(HABITS)]:
        text = path.read_text()
        for marker in MARKER.finditer(text):
            place = Place(Path(os.path.relpath(path, src)).as_posix(), *marked(text, marker))
            found.setdefault(marker[1], []).append(place)
    for name, places in found.items():
        if len({place.file for place in places}) > 1:
            raise Failed(f"the marker {name!r} is in {' and '.join(p.file for p in places)}")
    return found


def check_markers(places: Mapping[str, list[Place]], mutants: Iterable[Mutant]) -> None:
    """Every marker has a mutant, and every mutant its markers."""
    wanted = {marker for mutant in mutants for marker in mutant.changes}
    if lost := sorted(wanted - places.keys()):
        raise Failed(f"mutants, but no marker in src: {', '.join(lost)}")
    if idle := sorted(places.keys() - wanted):
        raise Failed(f"markers in src, but no mutant: {', '.join(idle)}")


def apply(mutant: Mutant, places: Mapping[str, list[Place]], src: Path) -> tuple[str, str]:
    """The file that a mutant changes, and what is in it then."""
    spots = [(place, how) for name, how in mutant.changes.items() for place in places[name]]
    (file,) = {place.file for place, _ in spots}
    text = (src / file).read_text()
    new = text
    for place, how in sorted(spots, key=lambda spot: spot[0].begin, reverse=True):
        instead = changed(text[place.begin : place.end], how)
        for name in re.findall(r"\{([^{};\n]+)\}", how if isinstance(how, str) else ""):
            (other,) = places[name]
            instead = instead.replace(f"{{{name}}}", text[other.begin : other.end])
        new = new[: place.begin] + instead + new[place.end :]
    if new == text:
        raise Failed(f"mutant {mutant.name!r} changes nothing")
    return file, new


CHILD = """
import importlib, sys
import dlshim._core
import drivers
import pytest
from drivers import checks
folder, library, variant, module = sys.argv[1:]
assert dlshim._core.__file__.startswith(folder), dlshim._core.__file__
drv = (drivers.load_hip if variant in drivers.HIP_VARIANTS else drivers.load)(library)
found = importlib.import_module("device." + module)
for name, check in list(vars(found).items()):
    known = name in getattr(found, "FAULTS", {})
    if not name.startswith("check_") or known or not checks.applies(check, variant):
        continue
    drv.reset()
    print("in", module, name.removeprefix("check_"), file=sys.stderr, flush=True)
    try:
        check(drv)
    except (Exception, pytest.fail.Exception) as error:
        text = " ".join(str(error).split())
        print(f"{module}: {name.removeprefix('check_')}: {text[:160]}")
        sys.exit(1)
"""


def call(command: list[str], **options: object) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise Failed(f"{' '.join(command)}\n{done.stderr}")


def compile_file(tree: Path, file: str, target: Path, flags: Iterable[str] = FLAGS) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    include = ["-I", ".", "-isystem", sysconfig.get_paths()["include"]]
    include += ["-isystem", str(ROOT / "shim" / "include")]
    call([*CC, *flags, *include, "-c", file, "-o", str(target)], cwd=tree)


class Build:
    """The source as it is: every object, and what each was made from."""

    def __init__(self, folder: Path, root: Path = ROOT, flags: Iterable[str] = FLAGS) -> None:
        self.folder, self.tree = folder, root / "src"
        self.places = find_places(self.tree)
        check_markers(self.places, MUTANTS)
        self.files = sorted(str(f.relative_to(self.tree)) for f in self.tree.glob("*/*.c"))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = ((self.tree, file, self.object(file), flags) for file in self.files)
            list(pool.map(lambda job: compile_file(*job), jobs))

    def object(self, file: str) -> Path:
        return self.folder / "objects" / f"{file}.o"

    def made_from(self, file: str) -> list[str]:
        """The C files that have to be compiled again when `file` changes."""

        def reads(each: str) -> set[str]:
            rule = self.object(each).with_suffix(".d").read_text().split(":", 1)[1]
            return {os.path.normpath(name) for name in rule.replace("\\\n", " ").split()}

        return [each for each in self.files if file in reads(each)]

    def package(self, name: str, new: dict[str, Path]) -> Path:
        """A folder with the package, linked from our objects but for new ones."""
        site = self.folder / name / "site"
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(self.tree.parent / "shim", site / "dlshim", ignore=ignored)
        objects = [str(new.get(file, self.object(file))) for file in self.files]
        library = site / "dlshim" / "_core.abi3.so"
        call([*CC, "-shared", "-o", str(library), *objects, "-ldl", "-lpthread"])
        return site

    def mutant(self, mutant: Mutant) -> Path:
        name = re.sub(r"[^\w-]", "", mutant.name.replace(" ", "-"))
        file, text = apply(mutant, self.places, self.tree)
        if file == HABITS:
            site = self.package(name, {})
            (site / "dlshim" / Path(file).name).write_text(text)
            return site
        tree = self.folder / name / "src"
        shutil.copytree(self.tree, tree)
        (tree / file).write_text(text)
        new = {}
        for each in self.made_from(file):
            new[each] = self.folder / name / "objects" / f"{each}.o"
            compile_file(tree, each, new[each])
        if not new:
            raise Failed(f"mutant {mutant.name!r}: nothing is compiled from src/{file}")
        return self.package(name, new)


class Runner:
    """Runs the checks on a package, on fake drivers that are compiled once."""

    def __init__(self, folder: Path) -> None:
        from drivers import build

        variants = sorted({variant for m in MUTANTS for variant, _ in m.places})
        self.libraries = {variant: build(variant, folder / "drivers") for variant in variants}

    def run(self, site: Path, variant: str, modules: Iterable[str]) -> str | None:
        """None when every check passes, else the first that does not.  As pytest runs them: a
        process for each file, so that none meets the events and contexts of another's checks."""
        return next(filter(None, (self.run_one(site, variant, each) for each in modules)), None)

    def run_one(self, site: Path, variant: str, module: str) -> str | None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(TESTS)])}
        env[sampling.VARIABLE] = "1"
        command = [sys.executable, "-c", CHILD, str(site), str(self.libraries[variant]), variant]
        try:
            done = subprocess.run(
                [*command, module], capture_output=True, text=True, timeout=120, env=env
            )
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode == 0:
            return None
        if done.returncode == 1 and done.stdout:
            return done.stdout.strip().splitlines()[-1]
        where = [line for line in done.stderr.splitlines() if line.startswith("in ")][-1:]
        what = [line for line in done.stderr.splitlines() if line.startswith("fake driver:")][:1]
        if done.returncode < 0 and where:
            return f"{' '.join(where)}: signal {-done.returncode} {' '.join(what)}"
        raise Failed(f"the checks do not run:\n{done.stderr[-2000:]}")

    def kill(self, mutant: Mutant, site: Path) -> str | None:
        """What sees the mutant; None: it lives."""
        for variant, modules in mutant.places:
            seen = self.run(site, variant, modules)
            if seen is not None:
                return f"{variant} {seen}"
        return None


def chosen(words: list[str]) -> list[Mutant]:
    if len({mutant.name for mutant in MUTANTS}) != len(MUTANTS):
        raise Failed("two mutants have one name")
    return [m for m in MUTANTS if not words or any(word in m.name for word in words)]


def check(mutants: list[Mutant], folder: Path) -> int:
    begun = time.monotonic()
    build, runner = Build(folder), Runner(folder)
    site = build.package("unchanged", {})
    wanted: dict[str, set[str]] = {}
    for variant, modules in (place for mutant in mutants for place in mutant.places):
        wanted.setdefault(variant, set()).update(modules)
    for variant, modules in sorted(wanted.items()):
        if seen := runner.run(site, variant, sorted(modules)):
            raise Failed(f"the source as it is fails already, so nothing is proved: {seen}")
    print(f"unchanged: every check passes ({time.monotonic() - begun:.0f} s)", flush=True)

    def one(mutant: Mutant) -> str:
        site = build.mutant(mutant)
        seen = runner.kill(mutant, site)
        shutil.rmtree(site.parent)
        print(f"{'KILLED' if seen else 'LIVES '} {mutant.name}: {seen or ''}"[:200], flush=True)
        return seen or ""

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = list(pool.map(one, mutants))
    living = [m.name for m, found in zip(mutants, seen, strict=True) if not found]
    seconds = time.monotonic() - begun
    print(f"{len(mutants) - len(living)} of {len(mutants)} mutants killed in {seconds:.0f} s")
    for name in living:
        print(f"no check of tests/device notices: {name}", file=sys.stderr)
    return 1 if living else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        print("\n".join(mutant.name for mutant in MUTANTS))
        return 0
    with tempfile.TemporaryDirectory() as name:
        try:
            mutants = chosen(arguments)
            if not mutants:
                raise Failed("no mutant has such a name")
            return check(mutants, Path(name).resolve())
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
