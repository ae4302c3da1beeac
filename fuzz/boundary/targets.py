"""What crosses the boundary between Python and dlshim, made of arbitrary bytes.

Each target takes an :class:`Input`, describes memory in one of the ways in, and asks for
it in several ways.  All addresses are inside one block of ours (a raw pointer is trusted, its
description is checked), and nothing is asked for that reads memory before the description that
came out was seen to stay inside the block.

What is insisted on: no exception but those that the target allows, shape, dtype, address and flags
as they came in, the values of copies, and every deleter and buffer given back exactly once.
"""

from __future__ import annotations

import ctypes as C
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import columns as made
from doubles.ctable import Refused, Table
from doubles.exporter import Exporter
from doubles.older import PyArrayInterface
from fuzz.boundary.reading import Input

SIZE = 1 << 16
_BLOCK = (C.c_char * SIZE)(*((i * 167 + (i >> 8)) % 256 for i in range(SIZE)))
LOW = C.addressof(_BLOCK)
ZERO = LOW + SIZE // 2
_DTYPES = [*caps.DTYPES.values(), (1, 4, 1), (0, 1, 1), (2, 32, 4), (77, 16, 1)]
V1 = (1, 0)


def insist(truth: Any, what: Any) -> None:
    if not truth:
        raise AssertionError(what)


def outcome(call: Callable[[], Any], *allowed: type[BaseException]) -> Any:
    """What comes of the call; None where it is refused as it may be."""
    try:
        return call()
    except (BufferError, *allowed):
        return None


# --- what came out ----------------------------------------------------------------------


class Seen:
    """A capsule's struct, and whether a copy of it may be asked for."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule
        self.view = view = caps.look(capsule)
        insist(view.deleter and (view.strides is not None or not view.ndim), view.fields())
        insist(0 <= view.ndim <= 1024 and all(n >= 0 for n in view.shape), view.shape)
        self.itemsize = (view.dtype[1] * view.dtype[2] + 7) // 8
        self.count = math.prod(view.shape)
        steps = [(n - 1) * s for n, s in zip(view.shape, view.strides or (), strict=True)]
        low = sum(min(0, step) for step in steps) * self.itemsize
        high = (sum(max(0, step) for step in steps) + 1) * self.itemsize
        start = view.element_zero
        within = start + low >= LOW and start + high <= LOW + SIZE
        within = within and self.count <= SIZE  # a broadcast may have very many elements
        self.readable = self.count == 0 or (within and view.device == caps.CPU)
        self.small = self.readable and self.count <= 512

    def elements(self) -> list[bytes]:
        return self.view.elements() if self.count else []


CALM: tuple[dict[str, Any], ...] = (
    *({}, {"order": "K"}, {"readonly": True}, {"readonly": False}, {"copy": False}),
    *({"readonly": "share"}, {"align": 1}, {"device": "cpu"}, {"stream": -1}),
    *({"assume_device": caps.CPU}, {"assume_device": (4, 0)}, {"unknown_stream": "same"}),
)
COPYING: tuple[dict[str, Any], ...] = (
    *({"copy": True}, {"order": "C"}, {"align": 64}, {"readonly": "copy"}),
    *({"order": "C", "align": 4096}, {"copy": True, "readonly": True}),
)


def compare(first: Seen, again: Seen, options: dict[str, Any]) -> None:
    """A later export of the same memory."""
    a, b = first.view, again.view
    insist(a.shape == b.shape and a.dtype == b.dtype, (a.fields(), b.fields()))
    moved = first.count and a.element_zero != b.element_zero
    insist(not moved or a.copied or options in COPYING, ("a copy that nobody asked for", options))
    fresh = b.copied and (moved or not first.count)  # so its holder may write
    if b.versioned and a.readonly and not fresh and "readonly" not in options:
        insist(b.readonly, ("the read-only flag is lost", options))
    if first.small and again.count:
        insist(first.elements() == again.elements(), ("other values", options))


def use(source: Any, first: Seen, inp: Input) -> None:
    """More exports of what has been seen once, in ways that the bytes choose."""
    for _ in range(min(inp.byte() % 4, inp.left)):
        choice = (*CALM, *COPYING) if first.readable else CALM
        options = inp.pick(choice)
        version = inp.pick((V1, None, (1, 3)))
        upgraded = dlshim.upgrade(source, **options)
        capsule = outcome(lambda u=upgraded, v=version: u.__dlpack__(max_version=v))
        if capsule is not None:
            compare(first, Seen(capsule), options)


def use_tensor(source: Any, first: Seen | None, inp: Input) -> None:
    """The same as a Tensor, with all that it says of itself."""
    tensor = outcome(lambda: dlshim.from_dlpack(source))
    if tensor is None:
        return
    repr(tensor)
    said = [getattr(tensor, name) for name in ("ndim", "itemsize", "strides", "readonly")]
    insist(len(tensor.shape) == tensor.ndim, said)
    for name in ("__array_interface__", "__cuda_array_interface__"):
        getattr(tensor, name, None)
    if first is not None and first.readable:
        view = outcome(lambda: memoryview(tensor))
        if view is not None and first.small and view.ndim:
            insist(view.tobytes() == b"".join(first.elements()), "the buffer has other values")


def exports(source: Any, inp: Input, *allowed: type[BaseException], **options: Any) -> Seen | None:
    """The first export tells what may be asked for next."""
    upgraded = outcome(lambda: dlshim.upgrade(source, **({"order": "K"} | options)), *allowed)
    if upgraded is None:
        return None
    repr(upgraded)
    capsule = outcome(lambda: upgraded.__dlpack__(max_version=V1))
    first = None if capsule is None else Seen(capsule)
    if first is not None:
        use(upgraded, first, inp)
    use_tensor(upgraded, first, inp)
    outcome(upgraded.__dlpack_device__)
    return first


# --- capsules ---------------------------------------------------------------------------

_given_back: list[int] = []


@C.CFUNCTYPE(None, C.c_void_p)
def _delete(address: int) -> None:
    _given_back.append(address)


caps.keep_for_ever(_delete)
_DELETER = C.cast(_delete, C.c_void_p).value


def dims(inp: Input, ndim: int) -> Any:
    """A block of exactly so many ints; what an absurd ndim claims is never read."""
    room = ndim if 0 <= ndim <= 1024 else 1
    return (C.c_int64 * max(1, room))(*(inp.int64() for _ in range(min(room, 80))))


class Struct:
    """A managed tensor of either generation with any fields."""

    def __init__(self, inp: Input) -> None:
        self.versioned = bool(inp.byte() & 1)
        kind = inp.byte()
        self.struct = caps.ManagedTensorVersioned() if self.versioned else caps.ManagedTensor()
        tensor = self.struct.dl_tensor
        tensor.ndim = inp.int64() & 0xFFFFFFFF if kind & 1 and kind & 64 else kind >> 1 & 7
        self.shape, self.strides = dims(inp, tensor.ndim), dims(inp, tensor.ndim)
        tensor.shape = None if kind & 192 == 192 else C.addressof(self.shape)
        tensor.strides = None if kind & 16 else C.addressof(self.strides)
        tensor.data = None if inp.byte() & 15 == 15 else ZERO
        tensor.byte_offset = inp.int64() % 2**64 if inp.byte() & 1 else 0
        tensor.device_type, tensor.device_id = 1, 0
        if inp.byte() & 3 == 3:
            tensor.device_type, tensor.device_id = inp.byte() - 4, inp.int64() & 0xFF
        tensor.code, tensor.bits, tensor.lanes = inp.pick(_DTYPES)
        if inp.byte() & 3 == 3:
            tensor.code, tensor.bits = inp.byte(), inp.byte()
            tensor.lanes = inp.int64() & 0xFFFF
        self.has_deleter = inp.byte() & 7 != 7
        self.struct.deleter = _DELETER if self.has_deleter else None
        if self.versioned:
            self.struct.major = inp.pick((1, 1, 1, 1, 0, 2, 2**32 - 1))
            self.struct.minor = inp.byte()
            self.struct.flags = inp.byte() % 8 if inp.byte() & 7 else inp.int64() % 2**64
        self.address = C.addressof(self.struct)
        self.before = bytes(self.struct) + bytes(self.shape) + bytes(self.strides)
        self.taken = False

    def name(self, inp: Input) -> bytes | None:
        own = caps.VERSIONED if self.versioned else caps.LEGACY
        other = (f"used_{own}", "", "dltensor ", "dlpack_exchange_api", None, inp.raw(12))
        name = own if inp.byte() & 7 else inp.pick(other)
        return name.encode() if isinstance(name, str) else name

    def check_end(self) -> None:
        """Who took it gave it back, once; nobody wrote into it."""
        wanted = [self.address] if self.taken and self.has_deleter else []
        insist(_given_back == wanted, (_given_back, wanted, "deleters"))
        now = bytes(self.struct) + bytes(self.shape) + bytes(self.strides)
        insist(now == self.before, "the producer's struct was changed")


def is_taken(capsule: Any) -> bool:
    return (caps._get_name(capsule) or b"").startswith(b"used_")


def capsule(inp: Input) -> None:
    """A raw capsule, taken by `upgrade` at once."""
    struct = Struct(inp)
    name = struct.name(inp)
    if name is not None:
        name = caps._NAMES.setdefault(name, name.split(b"\0")[0])
    raw = caps._new(struct.address, name, None)
    was = is_taken(raw)
    exports(raw, inp)
    struct.taken = is_taken(raw) and not was
    del raw
    struct.check_end()


class Answers:
    """A producer that answers with one struct, and with any device."""

    def __init__(self, struct: Struct, device: Any, again: bool) -> None:
        self.struct, self.device, self.again, self.capsules = struct, device, again, []

    def __dlpack__(self, **asked: Any) -> Any:
        name = caps.VERSIONED if self.struct.versioned else caps.LEGACY
        if not self.capsules or not self.again:
            self.capsules.append(caps._new(self.struct.address, caps._NAMES[name], None))
        return self.capsules[-1]

    def __dlpack_device__(self) -> Any:
        return self.device


def producer(inp: Input) -> None:
    """An object whose `__dlpack__` gives a struct; each answer is a tensor of its own."""
    struct = Struct(inp)
    device = caps.CPU if inp.byte() & 3 else inp.value()
    x = Answers(struct, device, inp.byte() & 7 == 7)
    exports(x, inp)
    taken = sum(map(is_taken, x.capsules))
    wanted = [struct.address] * (taken if struct.has_deleter else 0)
    insist(_given_back == wanted, (_given_back, wanted, "deleters"))


# --- dicts, structs, buffers ------------------------------------------------------------


class Interface:
    def __init__(self, name: str, given: Any) -> None:
        self.given = given


def with_attribute(name: str) -> type:
    return type(f"Has{name}", (Interface,), {name: property(lambda self: self.given)})


INTERFACES = {
    name: with_attribute(name)
    for name in (
        "__array_interface__",
        "__cuda_array_interface__",
        "__sycl_usm_array_interface__",
        "__array_struct__",
    )
}
KEYS = (
    *("shape", "typestr", "data", "strides", "version", "descr", "mask", "offset", "stream"),
    *("syclobj", "nothing"),
)
TYPESTRS = ("<f4", "|b1", "|u1", "<i8", "<c16", "<f2", ">i4", "=u2", "|V2", "<V2", "|O", "<U4")


def lawful_dict(inp: Input) -> dict[str, Any]:
    shape = tuple(inp.byte() % 6 for _ in range(inp.byte() % 5))
    said: dict[str, Any] = {"shape": shape, "typestr": inp.pick(TYPESTRS)}
    said |= {"data": (ZERO, bool(inp.byte() & 1)), "version": inp.pick((3, 1, 0, 2))}
    if inp.byte() & 1:
        said["strides"] = tuple(inp.int64() for _ in shape)
    return said


def interface(inp: Input) -> None:
    """One of the three dicts: a lawful one with some entries replaced."""
    name = inp.pick(list(INTERFACES)[:3])
    given: Any = lawful_dict(inp)
    if name.startswith("__sycl"):
        given |= {"syclobj": "0", "version": 1}
    for _ in range(inp.byte() % 4):
        given[inp.pick(KEYS)] = inp.value()
    if isinstance(given.get("data"), tuple) and given["data"] and given["data"][0] != ZERO:
        given["data"] = (ZERO + inp.byte(), *given["data"][1:])  # the pointer is ours
    if inp.byte() == 255:
        given = inp.value()
    options = {} if inp.byte() & 1 else {"assume_device": caps.CPU, "stream": -1}
    first = exports(INTERFACES[name](name, given), inp, TypeError, **options)
    if first is not None:
        data = given.get("data")
        insist(first.view.shape == tuple(given["shape"]), "another shape")
        if isinstance(data, tuple) and not first.view.copied:
            insist(first.view.readonly == bool(data[1]), "the read-only flag")


def array_struct(inp: Input) -> None:
    raw = PyArrayInterface()
    raw.two = 2 if inp.byte() & 15 else inp.int64() & 0xFF
    raw.nd = inp.byte() % 6 if inp.byte() & 15 else inp.int64() & 0xFFFFFFFF
    raw.typekind = bytes([inp.pick(b"iufcbVSOtmMU\0")])
    raw.itemsize = inp.pick((1, 2, 4, 8, 16, 3)) if inp.byte() & 7 else inp.int64() & 0xFFFFFFFF
    raw.flags = inp.byte() | inp.byte() << 8
    shape, strides = dims(inp, min(raw.nd, 64)), dims(inp, min(raw.nd, 64))
    raw.shape = C.addressof(shape) if inp.byte() & 15 else None
    raw.strides = C.addressof(strides) if inp.byte() & 1 else None
    raw.data = ZERO if inp.byte() & 15 else None
    raw.descr = inp.value()
    if inp.byte() & 1:
        raw.flags &= ~0x800
        C.c_void_p.from_buffer(raw, PyArrayInterface.descr.offset).value = None
    name = None if inp.byte() & 15 else b"name"
    given = caps._new(C.addressof(raw), name, None) if inp.byte() != 255 else inp.value()
    first = exports(INTERFACES["__array_struct__"]("__array_struct__", given), inp, TypeError)
    if first is not None:
        insist(first.view.readonly == (not raw.flags & 0x400), "the read-only flag")
        insist(first.view.shape == tuple(shape[: raw.nd]), "another shape")


FORMATS = (b"f", b"i", b"B", b"?", b"Zd", b"<q", b">h", b"3x", b"e", b"g", b"P", b"T{i:a:}", b"c")


def buffer(inp: Input) -> None:
    """A buffer of C, with a description that memoryview would never let pass."""
    ndim = inp.byte() % 5 if inp.byte() & 15 else inp.int64()
    ndim = min(max(ndim, -5), 70)
    room = max(0, ndim)
    said: dict[str, Any] = {"buf": ZERO if inp.byte() & 15 else None, "ndim": ndim}
    said["itemsize"] = inp.pick((1, 2, 4, 8, 16)) if inp.byte() & 3 else inp.int64()
    said["len"] = inp.int64()
    said["format"] = inp.pick(FORMATS) if inp.byte() & 3 else inp.raw(9).split(b"\0")[0]
    if inp.byte() & 31 == 31:
        said["format"] = None
    said["readonly"] = inp.byte() & 1
    for name, likely in (("shape", 31), ("strides", 1), ("suboffsets", 0)):
        if inp.byte() & 31 <= likely:
            said[name] = [inp.int64() for _ in range(room)]
    x = Exporter(**said)
    first = exports(x, inp)
    if first is not None:
        insist(first.view.readonly == bool(said["readonly"]), "the read-only flag")
        insist(first.itemsize == said["itemsize"] and first.view.ndim == ndim, first.view.fields())
        insist("shape" not in said or first.view.shape == tuple(said["shape"]), "another shape")
    first = None
    insist(x.views == 0, (x.views, "buffers still held"))


# --- columns ------------------------------------------------------------------------------

LEAVES = (
    "l",
    "c",
    "g",
    "e",
    "w:3",
    "w:8",
    "w:0",
    "tsu:",
    "tdD",
    "d:5,1,64",
    "b",
    "u",
    "+s",
    "+l",
    "n",
)
ROADS = (
    *("__arrow_c_array__", "__arrow_c_stream__"),
    *("__arrow_c_device_array__", "__arrow_c_device_stream__"),
)
PARAMETERS = (
    *('{"shape":[2]}', '{"shape":[1,2],"permutation":[1,0]}', '{"shape":[-1,-2]}', '{"shape":2}'),
    *('{"shape":[2],"permutation":[1]}', "[]", "", "\x00", '{"shape":[9223372036854775807,2]}'),
)
#: No driver is asked for these, whatever event they name.
PLACES = ((1, -1), (1, 0), (1, 2**40), (4, 0), (7, 1), (12, -(2**31)), (12, 2**31), (99, 3))


class Column:
    """One type of Arrow and one array for it, of any numbers; made anew for each export.

    Arrow tells no sizes of buffers, so a bitmap, which is read, stands beside small numbers alone.
    """

    def __init__(self, inp: Input) -> None:
        self.small = bool(inp.byte() & 3)
        self.depth = inp.pick((0, 0, 1, 1, 2, 3))
        self.leaf = inp.pick(LEAVES) if inp.byte() & 7 else inp.raw(6).decode("latin-1")
        self.leaf = self.leaf.partition("\0")[0]
        self.items = [self.number(inp) for _ in range(self.depth)]
        self.extension = None
        if inp.byte() & 7 == 7:
            name = inp.pick(("arrow.fixed_shape_tensor", "arrow.bool8", "another"))
            self.extension = made.metadata(
                {"ARROW:extension:name": name, "ARROW:extension:metadata": inp.pick(PARAMETERS)}
            )
        self.levels = [self.level(inp) for _ in range(self.depth + 1)]

    def number(self, inp: Input) -> int:
        return inp.byte() % 5 if self.small else inp.int64()

    def level(self, inp: Input) -> dict[str, Any]:
        said: dict[str, Any] = {"length": self.number(inp), "offset": self.number(inp)}
        said["null_count"] = inp.pick((0, 0, -1, 1)) if inp.byte() & 7 else inp.int64()
        said["bitmap"] = ZERO + inp.byte() if self.small and inp.byte() & 1 else None
        said["lies"] = {}
        if inp.byte() & 15 == 15:
            name = inp.pick(("n_buffers", "n_children", "buffers", "children", "dictionary"))
            value = inp.int64() if name.startswith("n_") else inp.pick((None, ZERO))
            # A pointer to children is followed, so it is ours or NULL.
            said["lies"] = {name: None if name in ("children", "buffers") else value}
        return said

    def structs(self, count: made.Count) -> tuple[Any, Any]:
        type_ = memory = None
        for i in range(self.depth, -1, -1):
            said, owner = self.levels[i], count if i == 0 else made.Count()
            data = None if type_ else ZERO
            buffers = [said["bitmap"]] + ([data] if type_ is None else [])
            members = {"n_buffers": len(buffers), "buffers": made.pointers(buffers)} | said["lies"]
            inner = () if memory is None else (memory,)
            memory = made.array(
                owner,
                said["length"],
                None,
                *inner,
                null_count=said["null_count"],
                offset=said["offset"],
                **members,
            )
            below = () if type_ is None else (type_,)
            format_ = self.leaf if type_ is None else f"+w:{self.items[i]}"
            extension = self.extension if i == 0 else None
            type_ = made.schema(owner, format_, *below, said=extension)
        return type_, memory

    def missing(self) -> bool:
        """Whether a value is missing: counted bit by bit, in each window."""
        start, n = 0, 1
        for i, said in enumerate(self.levels):
            if i == 0:
                start, n = said["offset"], said["length"]
            else:
                start, n = start * self.items[i - 1] + said["offset"], n * self.items[i - 1]
            if said["null_count"] and said["bitmap"] is not None:
                bits = C.string_at(said["bitmap"], (start + n) // 8 + 1)
                if not all(bits[j // 8] >> j % 8 & 1 for j in range(start, start + n)):
                    return True
        return False


def column(inp: Input) -> None:
    """Columns of Arrow by each of its four methods, of one array or of several."""
    said, road, place = Column(inp), inp.pick(ROADS), inp.pick(PLACES)
    chunks, code, event = inp.byte() % 4, inp.byte(), inp.byte() & 7 == 7
    counts: list[made.Count] = []

    def answer() -> Any:
        count = made.Count()
        counts.append(count)
        type_, memory = said.structs(count)
        if road == "__arrow_c_array__":
            capsules = made.of_array(count, type_, memory).__arrow_c_array__()
        elif road == "__arrow_c_device_array__":
            x = made.of_device_array(count, type_, memory, place, ZERO if event else None)
            capsules = x.__arrow_c_device_array__()
        else:
            arrays = [memory, *(said.structs(count)[1] for _ in range(chunks - 1))][:chunks]
            given = code if code & 15 == 15 else type_
            if code & 31 == 14:
                arrays.append(code)
            device = road == "__arrow_c_device_stream__"
            stream = made.stream(count, given, arrays, on_device=device, device=place)
            return getattr(made.of_stream(count, stream), road)()
        return capsules

    with made.freed():
        x = made.method(road, answer)
        options = {"order": "C"} if said.small and inp.byte() & 1 else {}
        first = exports(x, inp, **options)
        if first is not None:
            length = said.levels[0]["length"] * (chunks if "stream" in road else 1)
            insist(first.view.shape[0] == length, ("another length", first.view.shape, length))
            insist(first.view.readonly or first.view.copied, "a column may be written to")
            insist(not length or not said.missing(), "a missing value went out")
        first = None
        for count in counts:
            insist(count.owed == 0, (count.given, count.released))


# --- what callers pass --------------------------------------------------------------------

OPTIONS = (
    *("stream", "producer_stream", "unknown_stream", "device", "copy", "readonly", "order"),
    *("like", "align", "reinterpret", "assume_device", "detach", "on_release", "none"),
)
KEYWORDS = ("stream", "max_version", "dl_device", "copy", "none")


def passed(inp: Input, names: tuple[str, ...]) -> dict[str, Any]:
    return {inp.pick(names): inp.value() for _ in range(inp.byte() % 4)}


def keywords(inp: Input) -> None:
    """Any values as options and as keywords of `__dlpack__`."""
    said = {"buf": ZERO, "ndim": 1, "itemsize": 4, "len": 24, "format": b"f", "readonly": 0}
    x = Exporter(**said, shape=(6,))
    options, asked = passed(inp, OPTIONS), passed(inp, KEYWORDS)
    # A huge alignment is lawful, and out of memory.
    upgraded = outcome(lambda: dlshim.upgrade(x, **options), TypeError, ValueError)
    for make in (lambda: upgraded, lambda: dlshim.from_dlpack(upgraded)):
        made = outcome(make, TypeError, ValueError, MemoryError)
        if upgraded is not None and made is not None:
            outcome(lambda m=made: m.__dlpack__(**asked), TypeError, ValueError, MemoryError)
            outcome(lambda m=made: m.__dlpack__(inp.value()), TypeError, ValueError, MemoryError)
            outcome(made.__dlpack_device__, TypeError, ValueError)
            repr(made)
    upgraded = made = None
    version = {} if inp.byte() & 1 else {"max_version": inp.value()}
    outcome(lambda: dlshim.to_capsule(x, **(options | version)), TypeError, ValueError, MemoryError)
    outcome(lambda: dlshim.upgrade(inp.value()), TypeError)
    insist(x.views == 0, (x.views, "buffers still held"))


_TABLE = Table(dlshim.Tensor)


def table(inp: Input) -> None:
    """The C table: structs that are handed in, and prototypes for the allocator."""
    struct = Struct(inp)
    if struct.versioned:
        tensor = outcome(lambda: _TABLE.to_object(struct.address))
        struct.taken = tensor is not None
        if tensor is not None:
            outcome(lambda: caps.look(tensor.__dlpack__(max_version=V1)))
        tensor = None
        struct.check_end()
        return
    shape = tuple(inp.int64() for _ in range(inp.byte() % 5))
    if math.prod(shape) < 2**20 or math.prod(shape) > 2**62:  # else the system might grant it
        dtype = inp.pick(_DTYPES) if inp.byte() & 3 else (inp.byte(), inp.byte(), inp.byte())
        device = caps.CPU if inp.byte() & 3 else (inp.byte(), inp.byte())
        with suppress(Refused):
            _TABLE.allocate(shape, dtype, device).release()


TARGETS = (
    *(capsule, capsule, producer, interface, interface, array_struct, buffer, buffer),
    *(keywords, keywords, table, column, column),
)


def run(data: bytes) -> None:
    """One input: the first byte says which target, the rest is what it is made of."""
    inp = Input(data)
    target = inp.pick(TARGETS)
    if inp.byte() & 15 == 0:
        _core._hook("forget_plans")
    _core._hook("hand_on", inp.byte() & 3 != 3)
    _given_back.clear()
    live = _core._counters()["live"]
    target(inp)
    insist(_core._counters()["live"] == live, "exports are still alive")
