"""The sync rules against a specification written out by hand, and the action for each task.

Nothing here is read from the code.  The numbers are those of docs/streams.rst: S1 says which values
a device knows, S3 to S9 give the cells of each device, S10 to S14 the actions for the tasks.
"""

from __future__ import annotations

import itertools

import pytest

import dlshim
import sampling
from dlshim import _core
from doubles import child
from doubles.streams import Queue, RmmStream

pytestmark = pytest.mark.once

VALUES = ("None", "-1", "0", "1", "2", "handle", "object", "wait")

#: What stands in a cell: the argument that the producer is passed ("-": none), and behind a comma
#: what dlshim does then.  An error alone: nobody is called.
NOTHING = ""
SYNC = "sync(P,S)"
SYNC_IF_KNOWN = "sync(P,S) if P is known"
WAIT = "wait(P)"
WAIT_IF_KNOWN = "wait(P) if P is known"
WAIT_L = "wait(L)"
WAIT_OWN = "wait(D)"
EDGE_FROM_L = "edge(L,S)"
REFUSED = "BufferError"
V, TY = "ValueError", "TypeError"

MODERN = "modern"
TORCH = "modern, not 2"
JAX = "modern, not -1"
UNKNOWN = "modern, unknown library"
IGNORES = "ignores stream"
OLD = "no stream"
WAITED = "has waited"
PRODUCERS = (MODERN, TORCH, JAX, UNKNOWN, IGNORES, OLD, WAITED)


def row(*cells: tuple[str, str] | str) -> dict[str, tuple[str, str] | str]:
    assert len(cells) == len(VALUES)
    return dict(zip(VALUES, cells, strict=True))


def all_values(cell: tuple[str, str]) -> dict[str, tuple[str, str] | str]:
    return row(*[cell] * len(VALUES))


def checked(cells: dict, errors: dict[str, str]) -> dict:
    """Values that are no stream of the device are refused before anybody is asked (S1)."""
    return cells | errors


# S9: None, any int from -1 on and any stream object are taken and not passed on.
HOST = {kind: all_values(("None", NOTHING)) for kind in (MODERN, TORCH, JAX, UNKNOWN, IGNORES)} | {
    kind: all_values(("-", NOTHING)) for kind in (OLD, WAITED)
}

# S1: 0 is ambiguous on CUDA; an object without a handle is no stream.
NO_STREAM = {"0": V, "object": TY}

# S25: a modern producer leads its work into a stream of dlshim's own, for which the host waits;
# JAX waits itself; for the others the host waits for P.
OWN = ("D", WAIT_OWN)
WAITS_ITSELF = ("None", "")

# S3: None becomes 1, but not for JAX, which waits for it, nor where nobody can tell P.
CUDA = {
    MODERN: row(("1", ""), ("-1", ""), V, ("1", ""), ("2", ""), ("S", ""), TY, OWN),
    TORCH: row(("1", ""), ("-1", ""), V, ("1", ""), ("1", EDGE_FROM_L), ("S", ""), TY, OWN),
    JAX: row(("None", ""), ("None", ""), V, ("1", ""), ("2", ""), ("S", ""), TY, WAITS_ITSELF),
    UNKNOWN: row(("None", ""), ("-1", ""), V, ("1", ""), ("2", ""), ("S", ""), TY, OWN),
    IGNORES: row(
        *(("None", SYNC), ("None", ""), V, ("None", SYNC), ("None", SYNC), ("None", SYNC), TY),
        ("None", WAIT),
    ),
    OLD: row(("-", SYNC), ("-", ""), V, ("-", SYNC), ("-", SYNC), ("-", SYNC), TY, ("-", WAIT)),
    WAITED: checked(all_values(("-", "")), NO_STREAM),
}

# S5, CUDA host: the inner call gets None; the reader of None is the host; nobody tracks copies into
# pinned memory, so an unknown P counts as none.  0 and objects without a handle are taken, but name
# no stream that could wait: the host does.
_PINNED = (
    WAIT_IF_KNOWN,
    "",
    WAIT_IF_KNOWN,
    SYNC_IF_KNOWN,
    SYNC_IF_KNOWN,
    SYNC_IF_KNOWN,
    WAIT_IF_KNOWN,
    WAIT_IF_KNOWN,
)
CUDA_HOST = {
    **{k: row(*[("None", o) for o in _PINNED]) for k in (MODERN, TORCH, JAX, UNKNOWN, IGNORES)},
    OLD: row(*[("-", task) for task in _PINNED]),
    WAITED: all_values(("-", "")),
}

# S4, CUDA managed: None is a wait of the host; the modern ones sync with L first.
CUDA_MANAGED = {
    MODERN: row(("1", WAIT_L), ("-1", ""), V, ("1", ""), ("2", ""), ("S", ""), TY, OWN),
    TORCH: row(("1", WAIT_L), ("-1", ""), V, ("1", ""), ("1", EDGE_FROM_L), ("S", ""), TY, OWN),
    JAX: row(("1", WAIT_L), ("None", ""), V, ("1", ""), ("2", ""), ("S", ""), TY, WAITS_ITSELF),
    UNKNOWN: row(("1", WAIT_L), ("-1", ""), V, ("1", ""), ("2", ""), ("S", ""), TY, OWN),
    IGNORES: row(
        *(("None", WAIT), ("None", ""), V, ("None", SYNC), ("None", SYNC), ("None", SYNC), TY),
        ("None", WAIT),
    ),
    OLD: row(("-", WAIT), ("-", ""), V, ("-", SYNC), ("-", SYNC), ("-", SYNC), TY, ("-", WAIT)),
    WAITED: checked(all_values(("-", "")), NO_STREAM),
}

# S7, ROCm: 0 is the default stream, 1 and 2 are none.
NO_ROCM = {"1": V, "2": V, "object": TY}
_MODERN_ROCM = row(("0", ""), ("-1", ""), ("0", ""), V, V, ("S", ""), TY, OWN)
ROCM = {
    MODERN: _MODERN_ROCM,
    TORCH: _MODERN_ROCM,
    JAX: _MODERN_ROCM | {"None": ("None", ""), "-1": ("None", ""), "wait": WAITS_ITSELF},
    UNKNOWN: _MODERN_ROCM | {"None": ("None", "")},
    IGNORES: checked(all_values(("None", SYNC)), NO_ROCM)
    | {"-1": ("None", ""), "wait": ("None", WAIT)},
    OLD: checked(all_values(("-", SYNC)), NO_ROCM) | {"-1": ("-", ""), "wait": ("-", WAIT)},
    WAITED: checked(all_values(("-", "")), NO_ROCM),
}
# S5 and S7: ROCm host is as CUDA host, but only what is above 2 names a stream.
_PINNED_ROCM = (
    WAIT_IF_KNOWN,
    "",
    WAIT_IF_KNOWN,
    WAIT_IF_KNOWN,
    WAIT_IF_KNOWN,
    SYNC_IF_KNOWN,
    WAIT_IF_KNOWN,
    WAIT_IF_KNOWN,
)
ROCM_HOST = {
    **{
        k: row(*[("None", o) for o in _PINNED_ROCM]) for k in (MODERN, TORCH, JAX, UNKNOWN, IGNORES)
    },
    OLD: row(*[("-", task) for task in _PINNED_ROCM]),
    WAITED: all_values(("-", "")),
}

# S6, oneAPI: queues; -1 becomes None.  A number above 2 is the address of a queue that Python
# cannot use: the host waits, for P, or for a queue of dlshim's into which a modern one leads.
NO_QUEUE = dict.fromkeys(("0", "1", "2"), TY)
_MODERN_ONEAPI = checked(all_values(("None", "")), NO_QUEUE) | {
    "object": ("S", ""),
    "wait": ("None", WAIT),
}
_IGNORES_ONEAPI = checked(all_values(("None", WAIT)), NO_QUEUE) | {"-1": ("None", "")}
ONEAPI = {
    **dict.fromkeys((MODERN, UNKNOWN), _MODERN_ONEAPI | {"handle": ("D", WAIT_OWN)}),
    # JAX waits on the host where it is passed None.
    JAX: _MODERN_ONEAPI,
    # torch drops the stream of an XPU tensor: its own is waited for, whoever reads.
    **dict.fromkeys((TORCH, IGNORES), _IGNORES_ONEAPI),
    OLD: row(*(("-", WAIT_IF_KNOWN), ("-", ""), TY, TY, TY, ("-", WAIT), ("-", SYNC), ("-", WAIT))),
    WAITED: checked(all_values(("-", "")), NO_QUEUE),
}

# S8, Metal and all others: None and -1 are portable, all else goes to a modern producer.
_MODERN_OTHER = row(
    *[(passed, "") for passed in ("None", "None", "0", "1", "2", "S", "S")], ("None", REFUSED)
)
OTHER = {
    **dict.fromkeys((MODERN, TORCH, JAX, UNKNOWN), _MODERN_OTHER),
    IGNORES: all_values(("None", REFUSED)) | dict.fromkeys(("None", "-1"), ("None", "")),
    OLD: all_values(("-", REFUSED)) | dict.fromkeys(("None", "-1"), ("-", "")),
    WAITED: all_values(("-", "")),
}

SPECIFICATION = {
    "host": HOST,
    "CUDA": CUDA,
    "CUDA host": CUDA_HOST,
    "CUDA managed": CUDA_MANAGED,
    "ROCm": ROCM,
    "ROCm host": ROCM_HOST,
    "oneAPI": ONEAPI,
    "other": OTHER,
}


def table() -> dict[tuple[str, str, str], tuple[str, str] | str]:
    """The code's table in the words of this file."""
    found = {}
    for cell in _core._sync_rules():
        place = (cell["device"], cell["producer"], cell["stream"])
        assert place not in found
        task = "" if cell["task"] == "-" else cell["task"]
        # S of a value that has a name is that value.
        named = cell["passed"] == "S" and cell["stream"] not in ("handle", "object")
        passed = cell["stream"] if named else cell["passed"]
        found[place] = task if task in (V, TY) else (passed, task)
        if task in (V, TY):
            assert cell["passed"] == "-", "nobody may be called before the value is refused"
    return found


def test_the_table_has_every_combination_once() -> None:
    assert set(table()) == set(itertools.product(SPECIFICATION, PRODUCERS, VALUES))


@pytest.mark.parametrize("device", SPECIFICATION)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_cells(device: str, producer: str) -> None:
    cells = table()
    assert {v: cells[device, producer, v] for v in VALUES} == SPECIFICATION[device][producer]


def test_minus_one_needs_nothing_of_dlshim() -> None:
    """-1 loads no driver, creates no event, makes no call."""
    refused = {("oneAPI", v) for v in NO_QUEUE} | {("ROCm", "1"), ("ROCm", "2")}
    for (device, producer, value), cell in table().items():
        if value == "-1":
            assert (device, value) not in refused
            assert cell[1] == "", (device, producer)


def test_torch_is_never_passed_two_nor_jax_minus_one_nor_a_host_producer_a_stream() -> None:
    for (device, producer, value), cell in table().items():
        passed = cell if isinstance(cell, str) else cell[0]
        if device in ("CUDA", "CUDA managed"):
            assert (producer, passed) not in ((TORCH, "2"), (JAX, "-1")), (device, value)
        if device in ("host", "CUDA host", "ROCm host"):
            assert passed in ("None", "-"), (device, producer, value)


# --- the action for a task ----------------------------------------------------------------

P_STREAM, OTHER_STREAM = 0x7C2000000010, 0x7C2000000020
EDGE = "edge(P,S)"
DEVICE_EDGE = "edge(whole device,S)"
WAITS_P = "the host waits for P"
WAITS_DEVICE = "the host waits for the whole device"
EVENT_EDGE = "S waits for the event"
WAITS_EVENT = "the host waits for the event"
REFUSE_CAPTURE = "BufferError: capture"
REFUSE_UNKNOWN = "BufferError: P is not known"
FACTS = (
    *("can_record_device", "host_must_be_alone"),
    *("s_captures", "p_captures", "one_capture", "device_captures"),
)
ALL_FACTS = [c for n in range(len(FACTS) + 1) for c in itertools.combinations(FACTS, n)]
#: In the order of the lists in the code: the hook takes and gives positions.
POLICIES = ("auto", "legacy", "same", "error")
KNOWLEDGE = ("unknown", "ready", "known", "event")
TASKS = (
    *("-", EDGE_FROM_L, SYNC, SYNC_IF_KNOWN, WAIT, WAIT_IF_KNOWN, WAIT_L, WAIT_OWN, REFUSED),
    *(V, TY),
)
ACTIONS = (
    *("nothing", EDGE, DEVICE_EDGE, EVENT_EDGE, WAITS_P, WAITS_EVENT, WAITS_DEVICE),
    *(REFUSE_CAPTURE, REFUSE_UNKNOWN, REFUSED),
)


def sync_action(
    task: str, known: str, p: int, s: int, policy: str, facts: tuple[str, ...] = ()
) -> str:
    asked = TASKS.index(task), KNOWLEDGE.index(known), p, s, POLICIES.index(policy)
    return ACTIONS[_core._sync_action(*asked, tuple(f in facts for f in FACTS))]


def outcome(task: str, known: str, p: int, s: int, policy: str) -> str:
    """Before a driver is asked for anything."""
    if task == "-":
        return "nothing"
    if task == WAIT_OWN:  # the producer led its work into a stream of dlshim's
        return WAITS_P
    if task in (EDGE_FROM_L, WAIT_L):  # the producer synced with L: that is P now
        known, p = "known", 1
    if known == "unknown" and policy == "legacy":  # S12: the policy says that P is L
        known, p = "known", 1
    if task == WAIT_L and policy == "same":  # S4: the way out where no driver can wait
        return "nothing"
    if task == EDGE_FROM_L:
        return "nothing" if s == 1 else EDGE
    if known == "ready":
        return "nothing"
    if task == WAIT_OWN:  # S6: P is that queue, so it is known
        return WAITS_P if known == "known" else REFUSED
    if task == REFUSED:
        same = known == "known" and p == s
        return "nothing" if same or policy == "same" else REFUSED
    host_reads = task in (WAIT, WAIT_IF_KNOWN, WAIT_L)
    if known == "event":  # no policy: the work is known, and an event is never S
        return WAITS_EVENT if host_reads else EVENT_EDGE
    if known == "known":
        if host_reads:
            return WAITS_P
        return "nothing" if p == s else EDGE  # S10: no call at all
    if task in (SYNC_IF_KNOWN, WAIT_IF_KNOWN) or policy == "same":
        return "nothing"
    if policy == "error":
        return REFUSE_UNKNOWN
    return WAITS_DEVICE if host_reads else DEVICE_EDGE


def with_facts(action: str, facts: tuple[str, ...]) -> str:
    """What the driver and running captures make of it."""
    if action == DEVICE_EDGE and "can_record_device" not in facts:  # S12
        action = WAITS_DEVICE
    if action in (WAITS_P, WAITS_EVENT) and "host_must_be_alone" in facts:  # S4: attribute 89 is 0
        action = WAITS_DEVICE
    at_stake = {  # S14: which captures the call would break
        EDGE: {"s_captures", "p_captures"} if "one_capture" not in facts else set(),
        WAITS_P: {"p_captures"},
        # An event does not tell whether it was recorded in a capture.
        EVENT_EDGE: {"s_captures", "p_captures", "device_captures"},
        WAITS_EVENT: {"s_captures", "p_captures", "device_captures"},
        DEVICE_EDGE: {"s_captures", "p_captures", "device_captures"},
        WAITS_DEVICE: {"s_captures", "p_captures", "device_captures"},
    }.get(action, set())
    return REFUSE_CAPTURE if at_stake & set(facts) else action


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "task", ["-", EDGE_FROM_L, SYNC, SYNC_IF_KNOWN, WAIT, WAIT_IF_KNOWN, WAIT_L, WAIT_OWN, REFUSED]
)
def test_the_action_for_each_task(task: str, policy: str) -> None:
    for known, p, s in itertools.product(
        KNOWLEDGE, (1, 2, P_STREAM), (1, 2, P_STREAM, OTHER_STREAM)
    ):
        expected = outcome(task, known, p, s, policy)
        for facts in ALL_FACTS:
            found = sync_action(task, known, p, s, policy, facts)
            assert found == with_facts(expected, facts), (known, p, s, facts)


def test_what_needs_no_driver_does_not_change_with_what_a_driver_says() -> None:
    """The code asks the pure function first, without facts: "nothing" must be final."""
    for task, known, policy in itertools.product(
        (SYNC, WAIT, SYNC_IF_KNOWN, WAIT_IF_KNOWN, WAIT_L, EDGE_FROM_L),
        KNOWLEDGE,
        POLICIES,
    ):
        first = sync_action(task, known, 1, 1, policy)
        if first in ("nothing", REFUSE_UNKNOWN):
            answers = {sync_action(task, known, 1, 1, policy, facts) for facts in ALL_FACTS}
            assert answers == {first}, (task, known, policy)


# --- values, before any device is known ---------------------------------------------------------


class Host:
    """A modern producer in host memory: whatever is a stream of some device is taken."""

    def __init__(self) -> None:
        self.streams: list[object] = []
        self.array = memoryview(bytearray(b"data"))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, *, stream: object = None, **_: object) -> object:
        self.streams.append(stream)
        return dlshim.to_capsule(self.array, max_version=(1, 0))


@pytest.mark.parametrize("wrong", [True, False, 1.0, "1", b"1", object()], ids=sampling.told_of)
def test_what_is_no_stream_anywhere(wrong: object) -> None:
    with pytest.raises(TypeError, match="stream"):
        dlshim.upgrade(Host()).__dlpack__(stream=wrong)


@pytest.mark.parametrize("wrong", [-2, -(2**70), 2**64, 2**70])
def test_what_is_out_of_range_everywhere(wrong: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        dlshim.upgrade(Host()).__dlpack__(stream=wrong)


@pytest.mark.parametrize(
    "stream",
    [None, -1, 0, 1, 2, P_STREAM, 2**64 - 1, RmmStream(P_STREAM), Queue()],
    ids=sampling.told_of,
)
def test_host_memory_takes_any_stream_and_forwards_none(stream: object) -> None:
    host = Host()
    capsule = dlshim.upgrade(host).__dlpack__(stream=stream, max_version=(1, 0))
    assert _core._peek(capsule)["device"] == (1, 0)
    assert set(host.streams) <= {None}


# --- the command ---------------------------------------------------------------------------------

NO_RICH = "import sys; sys.modules['rich'] = None"
COMMAND = "import sys; from dlshim.cli.main import main; sys.exit(main({arguments!r}))"


def shown(value: str, cell: tuple[str, str] | str) -> str:
    """A refusal hides what was passed; a value that goes through as it is, is S."""
    if isinstance(cell, str):
        return cell
    passed, task = cell
    if task == REFUSED:
        return task
    forwarded = passed == value and value in ("0", "1", "2", "handle", "object")
    return " -> ".join(filter(None, ("S" if forwarded else passed, task)))


@pytest.mark.parametrize("device", SPECIFICATION)
def test_the_command_prints_every_cell(device: str) -> None:
    """Values of ``stream`` that come to the same stand together, and no line is too wide."""
    out = child.run(f"{NO_RICH}\n{COMMAND.format(arguments=['streams', device])}")
    lines = out.split(f"\n{device}\n", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    assert max(map(len, out.splitlines())) <= 100
    start = lines[0].index("None")
    printed: dict[str, str] = {}
    producer = ""
    for line in lines:
        producer = line[:start].strip() or producer
        printed[producer] = f"{printed.get(producer, '')} {line[start:]}"
    assert printed.keys() == SPECIFICATION[device].keys()
    for producer, cells in SPECIFICATION[device].items():
        results: dict[str, list[str]] = {}
        for value, cell in cells.items():
            results.setdefault(shown(value, cell), []).append(value)
        told = " ".join(f"{', '.join(them)}: {result}" for result, them in results.items())
        assert " ".join(printed[producer].split()) == told


def test_the_command_prints_one_device() -> None:
    out = child.run(COMMAND.format(arguments=["streams", "CUDA host"]))
    assert "CUDA host\n" in out
    assert not any(f"\n{name}\n" in out for name in SPECIFICATION if name != "CUDA host")
    assert "other devices: host, CUDA, " in out


def test_the_command_knows_no_other_device() -> None:
    child.run(COMMAND.format(arguments=["streams", "CUDA", "abacus"]), returncode=2)
