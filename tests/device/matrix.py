"""The matrix of streams: its axes, and what has to come of every cell.

Nothing in this file is read from dlshim or from a run.  The producers' rows are rule S3 of
docs/streams.rst, unknown streams S12, captures S14, contexts S15, driver calls S10 and S16, and who
comes after whom is as S13 says, all by hand.  ``matrix_run`` carries cells out and compares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from zlib import crc32

# --- axes ---------------------------------------------------------------------------------

#: Where the producer's work is unfinished: the legacy stream, the per-thread one, a handle.
P_KINDS = ("L", "PTDS", "B", "N")  # B: blocking, N: non-blocking
#: What the consumer passes; "P" is the handle of the producer's own stream.
S_ARGUMENTS = ("omitted", "None", "-1", "0", "1", "2", "B", "N", "P")
#: (device of the array, device whose context is current)
PLACES = tuple(itertools.product((0, 1), (0, 1, None)))
POLICIES = ("auto", "legacy", "same", "error")
#: Who captures: S, P, both in one graph, both in two, another stream of the context (blocking or
#: not), a stream of the other device.
CAPTURES = ("S", "P", "one", "two", "other B", "other N", "elsewhere")

#: Drivers, and what they can.
CAPTURES_KNOWN = {"9.2": False, "12.2": True, "12.5": True, "13.0": True}
DEVICE_EVENTS = {"9.2": False, "12.2": False, "12.5": True, "13.0": True}


@dataclass(frozen=True)
class Cell:
    producer: str
    p: str = "N"
    s: str = "N"
    device: int = 0
    current: int | None = 0
    capture: str = "none"
    policy: str = "auto"
    named: bool = False  # producer_stream= says P
    versioned: bool = True
    override: bool = False  # S comes as the option stream=, the consumer passes something else
    empty: bool = False  # there are no elements
    form: str = ""  # the streams are objects of this form (doubles.streams); L is their 0

    def __str__(self) -> str:
        shown = [f"{self.producer}, P={self.p}, stream={self.s}"]
        if (self.device, self.current) != (0, 0):
            shown.append(f"device {self.device} (current: {self.current})")
        if self.capture != "none":
            shown.append(f"capture {self.capture}")
        if self.policy != "auto":
            shown.append(f"unknown_stream={self.policy}")
        shown += ["producer_stream=P"] * self.named + ["stream= option"] * self.override
        shown += ["empty"] * self.empty + [self.form] * bool(self.form)
        return ", ".join([*shown, "versioned" if self.versioned else "legacy"])


# --- S3: what producers are passed, and the task that is left for dlshim ------------------

ABSENT = "absent"  # the keyword is not given
ASKED = "S"  # what the consumer said, as a number
SYNC, EDGE_FROM_L, NOTHING = "sync", "edge from L", "nothing"

#: For no stream and None, for 1, for -1, for 2, for a handle: (passed, task).
ROWS: dict[str, tuple[tuple[object, str], ...]] = {
    "M": ((1, NOTHING), (1, NOTHING), (-1, NOTHING), (2, NOTHING), (ASKED, NOTHING)),
    "torch": ((1, NOTHING), (1, NOTHING), (-1, NOTHING), (1, EDGE_FROM_L), (ASKED, NOTHING)),
    "JAX": ((None, NOTHING), (1, NOTHING), (None, NOTHING), (2, NOTHING), (ASKED, NOTHING)),
    "U": ((None, NOTHING), (1, NOTHING), (-1, NOTHING), (2, NOTHING), (ASKED, NOTHING)),
    "I": ((None, SYNC), (None, SYNC), (None, NOTHING), (None, SYNC), (None, SYNC)),
    "O": ((ABSENT, SYNC), (ABSENT, SYNC), (ABSENT, NOTHING), (ABSENT, SYNC), (ABSENT, SYNC)),
    "TF": ((ABSENT, NOTHING),) * 5,
}
COLUMNS = {"omitted": 0, "None": 0, "1": 1, "-1": 2, "2": 3, "B": 4, "N": 4}


@dataclass(frozen=True)
class Producer:
    """A kind: its row, and what it says of P itself."""

    row: str
    #: "known": the protocol or the library says P; "L": it is taken for L; "ready": nothing pends
    knows: str = "unknown"
    called: bool = True  # has __dlpack__: it can be asked with a stream
    waits: frozenset[str] = frozenset()  # values for which the library makes the host wait
    picky: bool = False  # refuses while another device is current
    reads_dict: bool = False  # a CUDA array interface: the pointer's device is asked
    checked: bool = False  # its label is checked (S26)
    says_0: bool = False  # device 0, whatever its memory's


PRODUCERS = {
    "torch": Producer("torch", picky=True),
    "torch 2.9": Producer("torch", picky=True),
    "torch 2.8": Producer("torch"),
    "cupy": Producer("M"),
    "cupy 13": Producer("M"),
    "warp": Producer("M"),
    "jax": Producer("JAX", waits=frozenset({"omitted", "None", "-1"})),
    "unheard of": Producer("U"),
    "nanobind": Producer("I"),
    "tvm-ffi": Producer("I", "known"),
    "cv-cuda": Producer("I", "known", checked=True, says_0=True),
    "no keyword": Producer("O"),
    "tensorflow": Producer("TF", waits=frozenset(S_ARGUMENTS), checked=True),
    "capsule": Producer("O", called=False),
    "versioned capsule": Producer("O", called=False),
    "toDlpack": Producer("O", called=False),
    "cupy's toDlpack": Producer("O", "known", called=False),
    "table": Producer("O", "known", called=False),
    "cai 0": Producer("O", called=False, reads_dict=True),
    "cai 1": Producer("O", called=False, reads_dict=True),
    "cai 2": Producer("O", called=False, reads_dict=True),
    "cudf": Producer("O", called=False, reads_dict=True),
    "torch's cai 2": Producer("O", "known", called=False, reads_dict=True),
    "warp's cai 2": Producer("O", "known", called=False, reads_dict=True),
    "numba's cai 2": Producer("O", "known", called=False, reads_dict=True),
    "cai 3": Producer("O", "known", called=False, reads_dict=True),
    "cai 3, None": Producer("O", "ready", called=False, reads_dict=True),
    "cai 3, no key": Producer("O", "ready", called=False, reads_dict=True),
    "numba": Producer("O", "known", called=False, reads_dict=True),
    "pycuda": Producer("O", "L", called=False, reads_dict=True),
    "rmm": Producer("O", "L", called=False, reads_dict=True),
    "pylibcudf": Producer("O", "L", called=False, reads_dict=True),
}


# --- S13: is a read on S synced with a write on P? ---------------------------------------

#: Rows: P. Columns: S. X: no.
_ORDER = ("L", "PTDS", "B", "N")
UNSYNCED = {
    "nothing": {"L": "...X", "PTDS": "..XX", "B": ".XXX", "N": "XXXX"},
    "edge(P,S)": dict.fromkeys(_ORDER, "...."),
    "edge(L,S)": {"L": "....", "PTDS": "....", "B": "....", "N": "XXXX"},
    "edge(device,S)": dict.fromkeys(_ORDER, "...."),
    "sync(device)": dict.fromkeys(_ORDER, "...."),
}


def racy(action: str, p: str, s: str) -> bool:
    """`s` is a kind of stream; the very stream P is synced with itself."""
    return s != "P" and UNSYNCED[action][p][_ORDER.index(s)] == "X"


# --- what comes of a cell -----------------------------------------------------------------


@dataclass
class Expected:
    """`error`: the class's name and a piece of the message.  `passed`: see ROWS.  `action`: what
    dlshim does itself.  `racy`: whether the consumer's read races; None: it cannot be made."""

    error: tuple[str, str] | None = None
    passed: object = ABSENT
    action: str = "nothing"
    racy: bool | None = None
    dies: bool = False  # the capture, because no probe could see it (S14)
    asked: int = 1  # calls of the producer, when its way is known
    effects: list[str] = field(default_factory=list)  # dlshim's own calls, see `sequence`


def as_stream(s: str, p: str) -> str:
    """The kind of stream that the consumer works on; the value "P" is P's own kind."""
    named = {"omitted": "L", "None": "L", "1": "L", "2": "PTDS", "-1": "N"}
    return named.get(s, p if s == "P" else s)


def is_p(cell: Cell) -> bool:
    """S is the very stream P."""
    if cell.s == "P":
        return True
    return (cell.p, as_stream(cell.s, cell.p)) in (("L", "L"), ("PTDS", "PTDS")) and cell.s != "-1"


def value_of(cell: Cell) -> str:
    """The column's name of what the consumer passes."""
    return {"L": "1", "PTDS": "2"}.get(cell.p, cell.p) if cell.s == "P" else cell.s


def rule_of(cell: Cell) -> tuple[object, str]:
    return ROWS[PRODUCERS[cell.producer].row][COLUMNS[value_of(cell)]]


def action_of(variant: str, cell: Cell, task: str) -> str:
    """S3 and S12: the action, or "refuse unknown"; captures not yet thought of."""
    if task == NOTHING:
        return "nothing"
    if task == EDGE_FROM_L:
        return "edge(L,S)"
    knows = PRODUCERS[cell.producer].knows
    if knows == "ready":
        return "nothing"
    if knows == "known" or cell.named:
        return "nothing" if is_p(cell) else "edge(P,S)"
    if cell.policy == "same" and knows != "L":
        return "nothing"
    if cell.policy == "error" and knows != "L":
        return "refuse unknown"
    if cell.policy == "legacy" or knows == "L":
        return "nothing" if as_stream(cell.s, cell.p) == "L" else "edge(L,S)"
    return "edge(device,S)" if DEVICE_EVENTS[variant] else "sync(device)"


def captured(cell: Cell, stream: str) -> bool:
    """What a probe of the stream tells (S14): L says so while a blocking stream captures."""
    if cell.capture in ("none", "elsewhere"):
        return False
    s_captures, p_captures = (
        cell.capture in ("S", "one", "two"),
        cell.capture in ("P", "one", "two"),
    )
    if cell.s == "P":
        s_captures = p_captures = s_captures or p_captures
    if stream == "P" and cell.p in ("B", "N"):
        return p_captures
    if stream == "S" and cell.s in ("B", "N", "P") and as_stream(cell.s, cell.p) in ("B", "N"):
        return s_captures
    kind = {"P": cell.p, "S": as_stream(cell.s, cell.p), "L": "L"}[stream]
    blocking = (
        (s_captures and cell.s == "B")
        or (p_captures and cell.p == "B")
        or cell.capture == "other B"
    )
    return kind == "L" and blocking


def any_captures(cell: Cell) -> bool:
    """Some stream of the context captures, whether a probe sees it or not."""
    return cell.capture not in ("none", "elsewhere")


def with_capture(cell: Cell, action: str) -> tuple[str, bool]:
    """S14: (the action or "refuse capture", whether a capture dies all the same)."""
    if action == "nothing" or action.startswith("refuse") or cell.capture == "none":
        return action, False
    if action == "edge(P,S)":
        s, p = captured(cell, "S"), captured(cell, "P")
        if cell.s == "omitted" and p:
            return "nothing", False  # who names no stream inside a capture takes part in it
        fine = s == p and (not s or cell.capture == "one")
        return (action if fine else "refuse capture"), False
    if action == "edge(L,S)":
        return ("refuse capture" if captured(cell, "S") or captured(cell, "L") else action), False
    if captured(cell, "S") or captured(cell, "L"):
        return "refuse capture", False
    return ("refuse capture", True) if any_captures(cell) else (action, False)


def would_use_l(cell: Cell, passed: object) -> bool:
    """Is the producer told to sync with L though the consumer did not name L?  While P or a
    blocking stream captures that would end the capture, so that it is not asked (S14; error 906).
    Where P is L there is nothing to sync."""
    told = passed == 1 and value_of(cell) != "1" and not cell.empty
    return told and not (cell.p == "L" and cell.s in ("omitted", "None"))


ZERO = ("ValueError", "stream=0 is not a stream of CUDA")
UNKNOWN = ("BufferError", "unknown_stream=")
CAPTURE = ("BufferError", "a graph capture is running, and this export would break it\n  ")


def expect(variant: str, cell: Cell) -> Expected:
    producer = PRODUCERS[cell.producer]
    if value_of(cell) == "0":
        return Expected(error=ZERO, asked=0)
    passed, task = rule_of(cell)
    if cell.empty:
        task = NOTHING  # S10: empty
    if would_use_l(cell, passed) and (captured(cell, "L") or captured(cell, "P")):
        if producer.row != "torch" or cell.s != "omitted":
            return Expected(error=CAPTURE, asked=0)
        passed = -1  # what torch does where no stream is named
    action, dies = with_capture(cell, action_of(variant, cell, task))
    refused = {"refuse unknown": UNKNOWN, "refuse capture": CAPTURE}.get(action)
    expected = Expected(refused, passed, "nothing" if refused else action, dies=dies)
    if refused is None and not cell.empty:
        expected.racy = is_racy(cell, producer, action, passed)
    wrong_device = cell.current != cell.device and not (cell.current is None and cell.device == 0)
    if producer.picky and cell.s == "-1" and wrong_device:
        expected.asked = 2  # S10: only after its refusal, in the right context
    expected.effects = sequence(variant, cell, expected)
    return expected


def is_racy(cell: Cell, producer: Producer, action: str, passed: object) -> bool:
    """-1 is passed on, or, in a capture, instead of no stream."""
    unsynced = cell.s == "-1" or (passed == -1 and producer.row == "torch")
    honours = producer.row in ("M", "torch", "JAX", "U") and not unsynced
    if honours or cell.s in producer.waits:
        return False
    return not (is_p(cell) and cell.s != "-1") and racy(action, cell.p, as_stream(cell.s, cell.p))


# --- S10, S16: what the driver is called for ---------------------------------------------------


def sequence(variant: str, cell: Cell, expected: Expected) -> list[str]:
    """The calls that change something; C is the context of the array.  Events lie in the pool.

    "producer" stands for whatever the producer calls; a context that was pushed for its sake
    alone and in which it called nothing is left out.
    """
    producer = PRODUCERS[cell.producer]
    calls: list[str] = []
    if producer.called and expected.asked:
        calls += around_producer(cell, producer, expected)
    record = {
        "edge(P,S)": f"cuEventRecord {name_of(cell, 'P')} in C",
        "edge(L,S)": "cuEventRecord L in C",
        "edge(device,S)": "cuCtxRecordEvent C in C",
    }
    if expected.action in record:
        wait = f"cuStreamWaitEvent {name_of(cell, 'S')} in C"
        calls += ["push C", record[expected.action], wait, "pop"]
    elif expected.action == "sync(device)":
        calls += ["push C", "cuCtxSynchronize C", "pop"]
    elif expected.dies and DEVICE_EVENTS[variant]:
        calls += ["push C", "cuCtxRecordEvent C in C -> 900", "cuEventDestroy_v2", "pop"]
    elif expected.dies:
        calls += ["push C", "cuCtxSynchronize C -> 900", "pop"]
    return calls


def name_of(cell: Cell, stream: str) -> str:
    """As the fake's log calls it."""
    if stream == "S":
        if cell.s == "P":
            return name_of(cell, "P")
        return {"L": "L", "PTDS": "PTDS"}.get(as_stream(cell.s, cell.p), "S")
    return {"L": "L", "PTDS": "PTDS"}.get(cell.p, "P")


def makes_calls(cell: Cell, passed: object) -> bool:
    """Does this library call the driver when it is asked so?  See doubles.device."""
    library = cell.producer
    if library in ("nanobind", "tvm-ffi", "cv-cuda", "no keyword"):
        return False
    if library in ("torch", "torch 2.9", "jax", "tensorflow"):
        return True  # torch looks at the current device, JAX and TensorFlow do not compare streams
    if passed == -1:
        return False
    if library in ("torch 2.8", "cupy", "cupy 13"):
        return True  # at least which device is current
    same = cell.p == "L" if passed == 1 else is_p(cell)  # warp
    return not same


def around_producer(cell: Cell, producer: Producer, expected: Expected) -> list[str]:
    if not makes_calls(cell, expected.passed):
        return []
    if cell.s == "-1":
        return ["producer", "push C", "producer", "pop"] if expected.asked == 2 else ["producer"]
    # S15: pushed where another context is current, or none.
    return ["producer"] if cell.current == cell.device else ["push C", "producer", "pop"]


# --- the products -------------------------------------------------------------------------


def in_generations(cells: Iterator[Cell]) -> Iterator[Cell]:
    """Half of the cells ask for a legacy capsule; which, has nothing to do with any axis."""
    for cell in cells:
        yield replace(cell, versioned=bool(crc32(str(cell).encode()) & 1))


def everywhere() -> Iterator[Cell]:
    """Every producer, P and S; on both devices, with either current, or none."""
    for producer, p, s, (device, current) in itertools.product(
        PRODUCERS, P_KINDS, S_ARGUMENTS, PLACES
    ):
        yield Cell(producer, p, s, device, current)


#: One of each kind, for the products with more axes.
UNSYNCING = ("nanobind", "no keyword", "capsule", "toDlpack", "cai 2")
KNOWING = ("tvm-ffi", "table", "numba's cai 2", "cai 3", "numba", "pycuda", "rmm")
READY = ("cai 3, None", "tensorflow")
HONOURING = ("torch", "cupy", "warp", "jax")


def policies() -> Iterator[Cell]:
    """unknown_stream and producer_stream: they matter to those who do not sync, to nobody else."""
    for producer, p, s, policy, named, (device, current) in itertools.product(
        (*UNSYNCING, "cai 3", "cai 3, None", "numba", "pycuda", "torch", "cupy"),
        P_KINDS,
        ("None", "-1", "1", "2", "B", "N", "P"),
        POLICIES,
        (False, True),
        ((0, 0), (1, None)),
    ):
        if policy != "auto" or named:
            yield Cell(producer, p, s, device, current, policy=policy, named=named)


def overridden() -> Iterator[Cell]:
    """The option stream= replaces whatever the consumer passes."""
    for producer, p, s in itertools.product(
        ("torch", "jax", "nanobind", "no keyword", "capsule", "cai 3"), P_KINDS, S_ARGUMENTS
    ):
        if s != "omitted":
            yield Cell(producer, p, s, override=True)


def capturing() -> Iterator[Cell]:
    """Captures; the producers that sync themselves are asked only where they need call nothing."""
    for producer, p, s, capture, policy, named in itertools.product(
        (*UNSYNCING, *KNOWING, *READY[:1], *HONOURING),
        P_KINDS,
        ("omitted", "None", "-1", "2", "B", "N", "P"),
        CAPTURES,
        ("auto", "legacy", "same"),
        (False, True),
    ):
        cell = Cell(producer, p, s, capture=capture, policy=policy, named=named)
        to_sync = ROWS[PRODUCERS[producer].row][0][1] == SYNC
        if policy != "auto" and (named or PRODUCERS[producer].knows != "unknown" or not to_sync):
            continue
        if capture_is_possible(cell):
            yield cell


def leaves_capture_alone(cell: Cell) -> bool:
    """Whether what the library calls itself can do no harm: where it can, it is its own affair."""
    if cell.producer == "jax" and cell.s in ("omitted", "None", "-1"):
        return False  # it waits
    if cell.s == "-1" or (cell.s == "P" and cell.p in ("B", "N")):
        return True
    if cell.s == "omitted" and cell.producer == "torch":
        return cell.capture != "elsewhere"
    told_l = cell.s in ("omitted", "None") or (cell.s == "2" and cell.producer == "torch")
    return told_l and (captured(cell, "L") or cell.capture != "P")


def capture_is_possible(cell: Cell) -> bool:
    """L cannot capture, nor is the per-thread stream made to."""
    if cell.producer in HONOURING and not leaves_capture_alone(cell):
        return False
    s_must = cell.capture in ("S", "one", "two")
    p_must = cell.capture in ("P", "one", "two")
    return not (s_must and cell.s not in ("B", "N")) and not (p_must and cell.p not in ("B", "N"))


def empty() -> Iterator[Cell]:
    """Arrays of no elements: nothing is synced, and unknown_stream="error" is no error."""
    for producer, p, s, (device, current) in itertools.product(
        PRODUCERS, ("L", "N"), S_ARGUMENTS, ((0, 0), (1, 0), (1, None))
    ):
        yield Cell(producer, p, s, device, current, policy="error", empty=True)


#: As the classes of doubles.streams are called.
FORMS = (
    *("TorchOldStream", "TorchStream", "TorchPlainStream", "CupyOldStream", "CupyStream"),
    *("NumbaOldStream", "NumbaStream", "CudaCoreStream", "AttributeStream", "RmmStream"),
    "WarpStream",
)


def objects() -> Iterator[Cell]:
    """Stream objects of every library, for S and for P: as their handle, and 0 is L (5)."""
    for producer, p, s, form in itertools.product(
        ("torch", "cupy", "nanobind", "no keyword", "capsule", "cai 3"),
        P_KINDS,
        ("None", "1", "2", "B", "N", "P"),
        FORMS,
    ):
        yield Cell(producer, p, s, named=True, form=form)


PRODUCTS = {
    "everywhere": everywhere,
    "policies": policies,
    "overridden": overridden,
    "capturing": capturing,
    "empty": empty,
    "objects": objects,
}


# --- S16 to the letter: every call, for one export of each kind ----------------------------

_POINTER = ["mode 2", "cuPointerGetAttributes", "mode 0"]
_HERE = ["cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGet"]  # is the device's context current?

#: By action, for a raw capsule on the device whose context is current, and a handle S.  "?" marks
#: what drivers before CUDA 10.1 have not (captures), "id" what those before 12 have not.
GOLDEN = {
    "edge(P,S)": [
        "cuStreamGetCtx P",
        "push C",
        *("? cuStreamIsCapturing S", "? cuStreamIsCapturing P"),
        *("id cuCtxGetId", "cuEventRecord P in C", "cuStreamWaitEvent S in C", "id cuCtxGetId"),
        "pop",
    ],
    "edge(L,S)": [
        *_POINTER,
        "push C",
        *("? cuStreamIsCapturing S", "? cuStreamIsCapturing L"),
        *("id cuCtxGetId", "cuEventRecord L in C", "cuStreamWaitEvent S in C", "id cuCtxGetId"),
        "pop",
    ],
    "edge(device,S)": [
        *_POINTER,
        "push C",
        *("? cuStreamIsCapturing S", "? cuStreamIsCapturing L"),
        *("id cuCtxGetId", "cuCtxRecordEvent C in C", "cuStreamWaitEvent S in C", "id cuCtxGetId"),
        "pop",
    ],
    "sync(device)": [
        *_POINTER,
        "push C",
        *("? cuStreamIsCapturing S", "? cuStreamIsCapturing L"),
        "cuCtxSynchronize C",
        "pop",
    ],
    # A library that syncs itself, its context being current: one question, of 6 ns a call.
    "pass": [*_HERE, "producer"],
    "nothing": [],
}


def golden(variant: str, action: str) -> list[str]:
    lines = []
    for line in GOLDEN[action]:
        if line.startswith(("? ", "mode")):
            if CAPTURES_KNOWN[variant]:
                lines.append(line.removeprefix("? "))
        elif line.startswith("id "):
            if variant != "9.2":
                lines.append(line.removeprefix("id "))
        else:
            lines.append(line)
    return lines
