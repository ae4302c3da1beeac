"""Drive a fake driver from Python.

:func:`load` gives a :class:`Driver`.  Its methods are the tests' own: they are neither logged
nor counted, and need no initialised driver and no current context.  The functions of the driver
itself, with their prototypes, are at ``Driver.cu``, called with Python's lock released as any
library calls them; at ``Driver.held`` the same with the lock held.

Handles of contexts and streams are plain ints that do not fit a C int.
"""

from __future__ import annotations

import ctypes as C
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .prototypes import CUDA, HIP, TEXTS

KINDS = {"device": 0, "managed": 1, "pinned": 2, "pool": 3, "system": 5}
MODES = {"global": 0, "thread": 1, "relaxed": 2}
STATES = ("none", "active", "invalidated")

LEGACY = 1
PER_THREAD = 2

_HANDLE = C.c_size_t
_CONTROL: dict[str, tuple[Any, list[Any]]] = {
    "fake_start": (C.c_int, []),
    "fake_reset": (None, [C.c_int]),
    "fake_option": (C.c_int, [C.c_char_p, C.c_int]),
    "fake_asynchronous": (None, [C.c_int]),
    "fake_domain_of": (_HANDLE, [C.c_int]),
    "fake_domain_new": (_HANDLE, [C.c_int]),
    "fake_domain_end": (None, [_HANDLE]),
    "fake_stream_new": (_HANDLE, [_HANDLE, C.c_int, C.c_char_p]),
    "fake_stream_end": (None, [_HANDLE]),
    "fake_alloc": (_HANDLE, [_HANDLE, C.c_size_t, C.c_int]),
    "fake_free": (None, [_HANDLE]),
    "fake_touch": (C.c_int, [_HANDLE, _HANDLE, _HANDLE, C.c_size_t, C.c_int]),
    "fake_host_touch": (C.c_int, [_HANDLE, C.c_size_t, C.c_int]),
    "fake_capture_begin": (C.c_int, [_HANDLE, C.c_int]),
    "fake_capture_end": (C.c_int, [_HANDLE]),
    "fake_capture_state": (C.c_int, [_HANDLE]),
    "fake_fail_next": (None, [C.c_char_p, C.c_int, C.c_uint]),
    "fake_set_caller": (None, [C.c_char_p]),
    "fake_thread": (C.c_uint, []),
    "fake_turns_begin": (None, [C.c_uint, C.c_char_p, C.c_uint, C.c_char_p]),
    "fake_turn_join": (None, [C.c_uint]),
    "fake_turn_leave": (None, []),
    "fake_turn": (None, []),
    "fake_turns_end": (C.c_void_p, []),
    "fake_log": (C.c_void_p, []),
    "fake_clear_log": (None, []),
    "fake_races": (C.c_void_p, []),
    "fake_counts": (C.c_void_p, []),
    "fake_release": (None, [C.c_void_p]),
    "fake_live_events": (C.c_uint, []),
    "fake_log_leaks": (None, []),
    "fake_live_memory": (C.c_uint, []),
}
_CUDA_CONTROL: dict[str, tuple[Any, list[Any]]] = {
    "fake_stack": (C.c_uint, [C.POINTER(C.c_uint), C.c_uint]),
    "fake_set_current": (None, [_HANDLE]),
    "fake_primary_active": (C.c_int, [C.c_int]),
    "fake_primary_release": (None, [C.c_int]),
    "fake_context_number": (C.c_uint, [_HANDLE]),
}
_HIP_CONTROL: dict[str, tuple[Any, list[Any]]] = {
    "fake_current_device": (C.c_int, []),
    "fake_set_device": (None, [C.c_int]),
    "fake_last_error": (C.c_int, []),
}


class DriverError(RuntimeError):
    """A control function or a checked call was refused; `rc` is the driver's error."""

    def __init__(self, what: str, rc: int) -> None:
        super().__init__(f"{what}: error {rc}")
        self.rc = rc


@dataclass(frozen=True)
class Entry:
    """One line of the log.

    A call is ``cuEventRecord ev=3 stream=P ctx=1``, with `` -> 400`` behind it if it failed.
    ``ctx`` is the number of the context that was current when it came in, 0 for none; ``stream``
    is ``L``, ``PTDS``, ``0``, or the stream's name.  A mark is in capitals: ``GIL cuEventRecord``
    (called with Python's lock held), ``JOIN`` (a stream was pulled into a capture), ``DIED`` (a
    capture was invalidated), ``DOUBLE`` (an event destroyed twice), ``LEAK``, ``PEER`` (a copy
    between a device's stream and another device's memory).

    HIP has no contexts: there ``dev=0`` is the device that was current, and the null stream is
    ``0``.
    """

    thread: int  # numbered from 1 in order of first use
    by: str  # what `Driver.caller` said, else ""
    text: str

    @property
    def name(self) -> str:
        return self.text.split(" ", 1)[0]

    @property
    def is_mark(self) -> bool:
        return self.name.isupper()

    @property
    def args(self) -> dict[str, str]:
        return dict(re.findall(r"(\w+)=(\S+)", self.text))

    @property
    def rc(self) -> int:
        failed = re.search(r" -> (\d+)$", self.text)
        return int(failed[1]) if failed else 0


class NoFunction(AttributeError):
    """A function of another vendor, or of another version, was called."""


class Fake:
    """What the fakes of all vendors have.  A domain is what owns streams and memory."""

    PROTOTYPES: dict[str, list[Any]]
    CONTROL: dict[str, tuple[Any, list[Any]]]

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self._local = threading.local()
        self.cu: Any = C.CDLL(self.path)
        self.held: Any = C.PyDLL(self.path)
        for library in (self.cu, self.held):
            for name, arguments in self.PROTOTYPES.items():
                if hasattr(library, name):
                    function = getattr(library, name)
                    function.restype = C.c_char_p if name in TEXTS else C.c_int
                    function.argtypes = arguments
        self._fake = C.CDLL(self.path)  # its own function objects
        for name, (result, arguments) in (_CONTROL | self.CONTROL).items():
            function = getattr(self._fake, name)
            function.restype, function.argtypes = result, arguments

    def has(self, name: str) -> bool:
        """Whether this variant exports the function."""
        return hasattr(self.cu, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function and raise :class:`DriverError` unless it succeeds, or
        :class:`NoFunction` where this driver has none of that name."""
        if not self.has(name):
            variant = Path(self.path).parent.name
            raise NoFunction(f"the fake driver {variant} has no function {name}")
        rc = getattr(self.cu, name)(*arguments)
        if rc:
            raise DriverError(name, rc)

    def get(self, name: str, kind: Any, *arguments: Any) -> Any:
        """Call a function that answers through its first argument; give the value back."""
        value = kind()
        self.call(name, C.byref(value), *arguments)
        return value.value

    # --- a case ---------------------------------------------------------------------

    def start(self) -> int:
        """Initialised, and both primary contexts active, as the arrays' library leaves it.

        0, or what the driver's start answers in a variant without a device.
        """
        return self._fake.fake_start()

    def reset(self, *, hard: bool = False, start: bool = True) -> None:
        """A new case: log, races, counts, requested failures, options and clocks forgotten,
        captures gone, what `alloc`, `stream_new` and `context_new` made ended, and the calling
        thread's contexts popped.  Contexts, streams and events made by driver calls stay valid
        (events count as never recorded).

        `hard` ends everything: the driver is not initialised, every handle is dead.
        `start` calls :meth:`start` afterwards (after a soft reset it then always holds).
        """
        self._fake.fake_reset(hard)
        if start:
            self.start()

    def option(self, name: str, value: int) -> int:
        """Set an option until the next reset; gives the old value.

        ``driver_version``; ``pointer_needs_context`` (pointer queries want a current context; 2:
        one of the memory's device); ``concurrent_managed`` and ``memory_pools`` (device attributes
        89 and 115); ``pageable_access`` (88: kernels reach the system's memory); ``not_ready``
        (so many queries of events or streams answer 600 before the first answers truly).
        """
        return self._fake.fake_option(name.encode(), value)

    def asynchronous(self) -> None:
        """Until the next reset operations take effect in their turn, and gates
        (``cuStreamWaitValue32``) and graphs work: what was not ordered is seen by programs that
        know no clocks.  Else operations take effect at once, and these functions answer 801."""
        self._fake.fake_asynchronous(1)

    def fail_next(self, name: str, rc: int, skip: int = 0) -> None:
        """The next call of this function, after `skip` others, does nothing and answers `rc`."""
        self._fake.fake_fail_next(name.encode(), rc, skip)

    # --- streams and memory ---------------------------------------------------------

    def context(self, device: int = 0) -> int:
        """The domain of the device: in CUDA its primary context, made active."""
        return self._fake.fake_domain_of(device)

    def stream_new(
        self, device: int = 0, blocking: bool = True, *, name: str = "", context: int | None = None
    ) -> int:
        """A stream of the primary context, or of `context`; `name` is what the log calls it."""
        owner = context or self.context(device)
        return self._fake.fake_stream_new(owner, blocking, name.encode())

    def stream_end(self, stream: int) -> None:
        self._fake.fake_stream_end(stream)

    def alloc(
        self, size: int, device: int = 0, kind: str = "device", *, context: int | None = None
    ) -> int:
        """Memory filled with 0xA5 at an address divisible by 512.  Kinds: device, managed,
        pinned, pool (whose pointers tell no context)."""
        address = self._fake.fake_alloc(context or self.context(device), size, KINDS[kind])
        assert address, "no memory"
        return address

    def free(self, address: int) -> None:
        """Overwritten with 0xDD; the bytes stay readable until the next reset."""
        self._fake.fake_free(address)

    def _touch(self, stream: int, address: int, size: int, context: int | None, how: int) -> bool:
        racy = self._fake.fake_touch(stream, context or 0, address, size, how)
        if racy < 0:
            raise DriverError("write" if how else "read", -racy)
        return bool(racy)

    def write(
        self, stream: int, address: int, size: int = 1, *, context: int | None = None
    ) -> bool:
        """A kernel on `stream` writes there: whether it was racy.  The bytes stay as they are.

        The streams 0 and 1 are the legacy stream, and 2 the calling thread's, of the context
        that owns the memory, or of `context`.
        """
        return self._touch(stream, address, size, context, 1)

    def read(self, stream: int, address: int, size: int = 1, *, context: int | None = None) -> bool:
        """A kernel on `stream` reads there: whether it was racy."""
        return self._touch(stream, address, size, context, 0)

    def host_read(self, address: int, size: int = 1) -> bool:
        """The host reads there, now: whether it was racy.

        Also for plain host memory into which the driver copied: racy until it was waited for.
        """
        return bool(self._fake.fake_host_touch(address, size, 0))

    def host_write(self, address: int, size: int = 1) -> bool:
        return bool(self._fake.fake_host_touch(address, size, 1))

    @staticmethod
    def put(address: int, data: bytes) -> None:
        """Set bytes behind the driver's back: no operation, no race."""
        C.memmove(address, data, len(data))

    @staticmethod
    def bytes_at(address: int, size: int) -> bytes:
        return C.string_at(address, size)

    # --- captures -------------------------------------------------------------------

    def capture_begin(self, stream: int, mode: str = "global") -> None:
        rc = -self._fake.fake_capture_begin(stream, MODES[mode])
        if rc:
            raise DriverError("capture_begin", rc)

    def capture_end(self, stream: int) -> None:
        """Raises :class:`DriverError` with 901 if the capture was invalidated, 904 if unjoined."""
        rc = -self._fake.fake_capture_end(stream)
        if rc:
            raise DriverError("capture_end", rc)

    def capture_state(self, stream: int) -> str:
        """ "none", "active" or "invalidated"; does no harm."""
        state = self._fake.fake_capture_state(stream)
        if state < 0:
            raise DriverError("capture_state", -state)
        return STATES[state]

    # --- turns ----

    def take_turns(
        self, programs: Sequence[Callable[[], object]], plan: bytes, apart: str = ""
    ) -> list[tuple[int, int]]:
        """Run the programs, each in a thread of its own, one at a time.

        A thread gives its turn away before each call of the driver that `apart` does not name
        (names with spaces between), where the host begins to wait, and at :meth:`turn`.  `plan` has
        for each turn the place of the next among those that have not ended; behind its end that is
        the first.  Gives what was chosen, and out of how many.  What a program raises, this raises.
        """
        errors: list[BaseException] = []

        def run(number: int, program: Callable[[], object]) -> None:
            self._fake.fake_turn_join(number)
            try:
                program()
            except BaseException as error:
                errors.append(error)
            finally:
                self._fake.fake_turn_leave()

        self._fake.fake_turns_begin(len(programs), plan, len(plan), f" {apart} ".encode())
        threads = [threading.Thread(target=run, args=each) for each in enumerate(programs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        turns = [tuple(map(int, line.split())) for line in self._text(self._fake.fake_turns_end)]
        if errors:
            raise errors[0]
        return turns  # type: ignore[return-value]

    def turn(self) -> None:
        """The calling thread gives its turn away, where it takes part in :meth:`take_turns`."""
        self._fake.fake_turn()

    # --- what happened --------------------------------------------------------------

    def _text(self, function: Any) -> list[str]:
        address = function()
        try:
            return C.string_at(address).decode().splitlines()
        finally:
            self._fake.fake_release(address)

    def entries(self) -> list[Entry]:
        """The log since the last reset or clearing, in order."""
        lines = (line.split("\t", 2) for line in self._text(self._fake.fake_log))
        return [Entry(int(thread), by, text) for thread, by, text in lines]

    def log(self, by: str | None = None) -> list[str]:
        """The lines' texts; of one caller if `by` is given ("" for those nobody claimed)."""
        return [entry.text for entry in self.entries() if by is None or entry.by == by]

    def calls(self, by: str | None = None) -> list[str]:
        """The names of the functions called, in order, without the marks."""
        return [
            entry.name
            for entry in self.entries()
            if not entry.is_mark and (by is None or entry.by == by)
        ]

    def marks(self, kind: str | None = None) -> list[str]:
        """The lines in capitals (see :class:`Entry`), or those of one kind."""
        return [
            entry.text
            for entry in self.entries()
            if entry.is_mark and (kind is None or entry.name == kind)
        ]

    def clear_log(self) -> None:
        self._fake.fake_clear_log()

    def counts(self) -> dict[str, int]:
        """Calls by function since the last reset, also of those that are not logged."""
        lines = (line.split("\t") for line in self._text(self._fake.fake_counts))
        return {name: int(calls) for name, calls, _ in lines}

    def gil_held_calls(self, *, every: bool = False) -> dict[str, int]:
        """Calls by function that were made with Python's lock held, since the last reset.

        Only functions that may block or take the driver's locks (those with a ``GIL`` mark),
        unless `every`, which adds the short queries.
        """
        lines = (line.split("\t") for line in self._text(self._fake.fake_counts))
        held = {name: int(count) for name, _, count in lines if int(count)}
        marked = {mark.split()[1] for mark in self.marks("GIL")}
        return held if every else {name: n for name, n in held.items() if name in marked}

    def races(self) -> list[str]:
        """Hazards since the last reset, such as
        ``read of m1 on S does not come after the write on P``."""
        return self._text(self._fake.fake_races)

    def live_events(self) -> int:
        """Events created and not destroyed."""
        return self._fake.fake_live_events()

    def live_memory(self) -> int:
        """Allocations made by driver calls and not freed."""
        return self._fake.fake_live_memory()

    def leaks(self) -> list[str]:
        """A ``LEAK`` line into the log for every live event; those lines."""
        self._fake.fake_log_leaks()
        return self.marks("LEAK")

    def thread(self) -> int:
        """The calling thread's number in the log."""
        return self._fake.fake_thread()

    @contextmanager
    def caller(self, name: str) -> Iterator[None]:
        """Calls of this thread inside the block are logged as made by `name` (31 letters)."""
        before = getattr(self._local, "caller", "")
        self._set_caller(name)
        try:
            yield
        finally:
            self._set_caller(before)

    def _set_caller(self, name: str) -> None:
        self._local.caller = name
        self._fake.fake_set_caller(name.encode())


class Driver(Fake):
    """A loaded fake libcuda; one per process."""

    PROTOTYPES = CUDA
    CONTROL = _CUDA_CONTROL

    # --- contexts -------------------------------------------------------------------

    def context_new(self, device: int = 0) -> int:
        """Another context of the device; nothing becomes current."""
        return self._fake.fake_domain_new(device)

    def context_end(self, context: int) -> None:
        self._fake.fake_domain_end(context)

    def context_number(self, context: int) -> int:
        """The number under which the log speaks of it."""
        return self._fake.fake_context_number(context)

    def set_current(self, context: int | None) -> None:
        """Make the calling thread's stack hold this context alone, or nothing."""
        self._fake.fake_set_current(context or 0)

    def make_current(self, device: int | None) -> None:
        """The device's primary context, or none."""
        self.set_current(None if device is None else self.context(device))

    def now_current(self) -> object:
        """What an exchange must leave as it is."""
        return self.context_stack()

    def context_stack(self) -> tuple[int, ...]:
        """The numbers of the contexts on the calling thread's stack, the current one last."""
        room = 64
        numbers = (C.c_uint * room)()
        return tuple(numbers[: self._fake.fake_stack(numbers, room)])

    def context_stack_depth(self) -> int:
        return len(self.context_stack())

    def primary_active(self, device: int) -> bool:
        return bool(self._fake.fake_primary_active(device))

    def primary_release(self, device: int) -> None:
        """End the primary context, whoever retained it: as if no library used the device."""
        self._fake.fake_primary_release(device)


class HipDriver(Fake):
    """A loaded fake libamdhip64.  Several may be mapped: no handle of one means anything to
    another of another release.

    Options: ``runtime_version`` and ``not_ready``.
    """

    PROTOTYPES = HIP
    CONTROL = _HIP_CONTROL

    def set_device(self, device: int) -> None:
        """Make it the calling thread's current device."""
        self._fake.fake_set_device(device)

    def make_current(self, device: int | None) -> None:
        """As :meth:`Driver.make_current`; a device is always current."""
        self.set_device(device or 0)

    def now_current(self) -> object:
        """What an exchange must leave as it is."""
        return self.device()

    def device(self) -> int:
        """The calling thread's current device; 0 at first."""
        return self._fake.fake_current_device()

    def last_error(self) -> int:
        """What hipGetLastError would tell the calling thread; stays as it is."""
        return self._fake.fake_last_error()

    @property
    def hip(self) -> Any:
        return self.cu


def load(path: Path | str) -> Driver:
    """Map the library.  From now on it is what this process finds as libcuda.so.1."""
    return Driver(path)


def load_hip(path: Path | str) -> HipDriver:
    """Map the library, which is then found by its file's name."""
    return HipDriver(path)
