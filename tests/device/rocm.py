"""The matrix on ROCm: what has to come of every cell (rule S7).

The axes and the cells are those of :mod:`device.matrix`, with devices instead of contexts, 0 for
the default stream, and no event of a whole device: an unknown P is a wait for the device.  As
there, nothing here is read from dlshim.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from device import matrix
from device.matrix import (
    ABSENT,
    ASKED,
    CAPTURE,
    CAPTURES,
    NOTHING,
    P_KINDS,
    POLICIES,
    S_ARGUMENTS,
    SYNC,
    UNKNOWN,
    Cell,
    Expected,
    Producer,
    as_stream,
    racy,
)

# --- what producers are passed, and the task for dlshim (S7) ---------------------------

ROCM, ROCM_HOST = 10, 11
PLACES = tuple(itertools.product((0, 1), repeat=2))  # (device of the array, current device)
WRONG = ("ValueError", "is not a stream of ROCm")

#: For no stream and None, for 0, for -1, for a handle: (passed, task).
ROWS: dict[str, tuple[tuple[object, str], ...]] = {
    "M": ((0, NOTHING), (0, NOTHING), (-1, NOTHING), (ASKED, NOTHING)),
    "torch": ((0, NOTHING), (0, NOTHING), (-1, NOTHING), (ASKED, NOTHING)),
    "U": ((None, NOTHING), (0, NOTHING), (-1, NOTHING), (ASKED, NOTHING)),
    "I": ((None, SYNC), (None, SYNC), (None, NOTHING), (None, SYNC)),
    "O": ((ABSENT, SYNC), (ABSENT, SYNC), (ABSENT, NOTHING), (ABSENT, SYNC)),
}
#: Who syncs with the stream that it is passed.
HONOURING = ("M", "torch", "U")
COLUMNS = {"omitted": 0, "None": 0, "0": 1, "-1": 2, "B": 3, "N": 3}

PRODUCERS = {
    "torch": Producer("torch", picky=True),
    "torch 2.9": Producer("torch", picky=True),
    "torch 2.8": Producer("torch"),
    "cupy": Producer("M"),
    "old cupy": Producer("M"),
    "unheard of": Producer("U"),
    "nanobind": Producer("I"),
    "tvm-ffi": Producer("I", "known"),
    "no keyword": Producer("O"),
    "capsule": Producer("O", called=False),
    "versioned capsule": Producer("O", called=False),
    "toDlpack": Producer("O", called=False),
    "cupy's toDlpack": Producer("O", "known", called=False),
    "table": Producer("O", "known", called=False),
    "cai 2": Producer("O", called=False, reads_dict=True),
    "torch's cai 2": Producer("O", "known", called=False, reads_dict=True),
    "cai 3": Producer("O", "known", called=False, reads_dict=True),
    "cai 3, None": Producer("O", "ready", called=False, reads_dict=True),
    "cai 3, no key": Producer("O", "ready", called=False, reads_dict=True),
}


def kind_of(s: str, p: str) -> str:
    """The kind of stream on which the consumer works."""
    return "L" if s == "0" else as_stream(s, p)


def column(cell: Cell) -> str:
    """What is passed for S; the handles of L and PTDS are 0 and 2."""
    return {"L": "0", "PTDS": "2"}.get(cell.p, cell.p) if cell.s == "P" else cell.s


def is_p(cell: Cell) -> bool:
    return cell.s == "P" or (cell.p == "L" and cell.s in ("omitted", "None", "0"))


def action_of(cell: Cell, task: str) -> str:
    if task == NOTHING:
        return "nothing"
    knows = PRODUCERS[cell.producer].knows
    if (cell.producer, cell.p) == ("tvm-ffi", "L"):
        knows = "unknown"  # its 0 may be the default stream, or that nobody said
    if knows == "ready":
        return "nothing"
    if knows == "known" or cell.named:
        return "nothing" if is_p(cell) else "edge(P,S)"
    if cell.policy == "same":
        return "nothing"
    if cell.policy == "error":
        return "refuse unknown"
    if cell.policy == "legacy":
        return "nothing" if kind_of(cell.s, cell.p) == "L" else "edge(L,S)"
    return "sync(device)"


def with_capture(cell: Cell, action: str) -> tuple[str, bool]:
    """As on CUDA (S14); `matrix` knows no 0."""
    return matrix.with_capture(replace(cell, s="1") if cell.s == "0" else cell, action)


def expect(cell: Cell) -> Expected:
    producer = PRODUCERS[cell.producer]
    if column(cell) in ("1", "2"):
        return Expected(error=WRONG, asked=0)
    passed, task = ROWS[producer.row][COLUMNS[column(cell)]]
    if cell.empty:
        task = NOTHING
    # It would sync with the default stream, and end the capture by that (906).
    assumed = passed == 0 and cell.s in ("omitted", "None") and cell.p != "L" and not cell.empty
    if assumed and (matrix.captured(cell, "L") or matrix.captured(cell, "P")):
        if producer.row != "torch" or cell.s != "omitted":
            return Expected(error=CAPTURE, asked=0)
        passed = -1  # what torch does where no stream is named
    action, dies = with_capture(cell, action_of(cell, task))
    refused = {"refuse unknown": UNKNOWN, "refuse capture": CAPTURE}.get(action)
    expected = Expected(refused, passed, "nothing" if refused else action, dies=dies)
    if refused is None and not cell.empty:
        honours = producer.row in HONOURING and cell.s != "-1" and passed != -1
        same = is_p(cell) and cell.s != "-1"
        kind = kind_of(cell.s, cell.p)
        expected.racy = not honours and not same and racy(action, cell.p, kind)
    if producer.picky and cell.s == "-1" and cell.current != cell.device:
        expected.asked = 2
    expected.effects = sequence(cell, expected)
    return expected


# --- S16: what is called ------------------------------------------------------------------


def name_of(cell: Cell, stream: str) -> str:
    """As the fake's log calls it."""
    own = {"L": "0", "PTDS": "PTDS"}
    if stream == "P" or cell.s == "P":
        return own.get(cell.p, "P")
    return own.get(kind_of(cell.s, cell.p), "S")


def sequence(cell: Cell, expected: Expected) -> list[str]:
    """The calls that change something; D is the array's device.  "set D" and "back" stand only
    where the other device is current, and not around nothing."""
    inner = {
        "edge(P,S)": [
            f"hipEventRecord {name_of(cell, 'P')} on D",
            f"hipStreamWaitEvent {name_of(cell, 'S')} on D",
        ],
        "edge(L,S)": ["hipEventRecord 0 on D", f"hipStreamWaitEvent {name_of(cell, 'S')} on D"],
        "sync(device)": ["hipDeviceSynchronize on D"],
    }.get(expected.action, [])
    if expected.dies:
        inner = ["hipDeviceSynchronize on D -> 900"]
    return [*around_producer(cell, expected), *moved(cell, inner)]


def moved(cell: Cell, calls: list[str]) -> list[str]:
    if not calls or cell.current == cell.device:
        return calls
    return ["set D", *calls, "back"]


def makes_calls(cell: Cell, passed: object) -> bool:
    """Does this library call the runtime when it is asked so?  See doubles.device."""
    library = cell.producer
    if PRODUCERS[library].row not in HONOURING:
        return False
    if library in ("torch", "torch 2.9"):
        return True  # looks at the current device
    if passed == -1:
        return False
    return library != "unheard of" or not is_p(cell)


def around_producer(cell: Cell, expected: Expected) -> list[str]:
    called = PRODUCERS[cell.producer].called and expected.asked
    if not called or not makes_calls(cell, expected.passed):
        return []
    if cell.s == "-1":
        again = ["set D", "producer", "back"] if expected.asked == 2 else []
        return ["producer", *again]
    return moved(cell, ["producer"])


#: By action, for a raw capsule on device 1 while device 0 is current, and a handle S.
GOLDEN = {
    "edge(P,S)": [
        *("hipPointerGetAttributes", "hipGetStreamDeviceId P", "hipGetDeviceCount"),
        *("hipGetDevice", "hipSetDevice 1", "hipStreamIsCapturing S", "hipStreamIsCapturing P"),
        *("hipEventRecord P", "hipStreamWaitEvent S", "hipSetDevice 0"),
    ],
    "edge(L,S)": [
        *("hipPointerGetAttributes", "hipGetDeviceCount", "hipGetDevice", "hipSetDevice 1"),
        *("hipStreamIsCapturing S", "hipStreamIsCapturing 0"),
        *("hipEventRecord 0", "hipStreamWaitEvent S", "hipSetDevice 0"),
    ],
    "sync(device)": [
        *("hipPointerGetAttributes", "hipGetDeviceCount", "hipGetDevice", "hipSetDevice 1"),
        *("hipStreamIsCapturing S", "hipStreamIsCapturing 0"),
        *("hipDeviceSynchronize", "hipSetDevice 0"),
    ],
    "nothing": [],
}


# --- the products -------------------------------------------------------------------------


def everywhere() -> Iterator[Cell]:
    for producer, p, s, (device, current) in itertools.product(
        PRODUCERS, P_KINDS, S_ARGUMENTS, PLACES
    ):
        yield Cell(producer, p, s, device, current)


def policies() -> Iterator[Cell]:
    for producer, p, s, policy, named, (device, current) in itertools.product(
        ("nanobind", "no keyword", "capsule", "toDlpack", "cai 2", "cai 3", "torch", "cupy"),
        P_KINDS,
        ("None", "-1", "0", "B", "N", "P"),
        POLICIES,
        (False, True),
        ((0, 0), (1, 0)),
    ):
        cell = Cell(producer, p, s, device, current, policy=policy, named=named)
        if (policy != "auto" or named) and not (named and p == "PTDS"):  # 2 cannot be named
            yield cell


def overridden() -> Iterator[Cell]:
    """The option stream= replaces whatever the consumer passes."""
    for producer, p, s in itertools.product(
        ("torch", "nanobind", "no keyword", "capsule", "cai 3"), P_KINDS, S_ARGUMENTS
    ):
        if s != "omitted":
            yield Cell(producer, p, s, override=True)


def capturing() -> Iterator[Cell]:
    for producer, p, s, capture, policy, named in itertools.product(
        (
            "nanobind",
            "no keyword",
            "capsule",
            "tvm-ffi",
            "table",
            "cai 2",
            "cai 3",
            "cai 3, None",
            "torch",
            "cupy",
        ),
        P_KINDS,
        ("omitted", "None", "-1", "0", "B", "N", "P"),
        CAPTURES,
        ("auto", "legacy", "same"),
        (False, True),
    ):
        cell = Cell(producer, p, s, capture=capture, policy=policy, named=named)
        to_sync = (
            PRODUCERS[producer].row not in HONOURING and PRODUCERS[producer].knows == "unknown"
        )
        if policy != "auto" and (named or not to_sync):
            continue
        if matrix.capture_is_possible(cell) and not (named and p == "PTDS"):
            yield cell


def empty() -> Iterator[Cell]:
    for producer, p, s, (device, current) in itertools.product(
        PRODUCERS, ("L", "N"), S_ARGUMENTS, ((0, 0), (1, 0))
    ):
        yield Cell(producer, p, s, device, current, policy="error", empty=True)


PRODUCTS: dict[str, Callable[[], Iterator[Cell]]] = {
    "everywhere": everywhere,
    "policies": policies,
    "overridden": overridden,
    "capturing": capturing,
    "empty": empty,
}
