"""DLPack's C exchange API (the C table) on Producer and Tensor (DLPack 1.3; rule S21)."""

from __future__ import annotations

import array
import ctypes as C
import gc
import mmap
import re
import threading
import warnings
import weakref

import pytest
from core.test_readonly_and_copies import jax_like
from project.tree import ROOT, SRC

import dlshim
import sampling
from dlshim import _core
from doubles import capsules as caps
from doubles.asking import bare, live, tells, versioned
from doubles.capsules import IS_COPIED, READ_ONLY
from doubles.ctable import Refused, Table
from doubles.older import InterfaceOnly
from doubles.producers import (
    EDITIONS,
    P1,
    P2,
    P3,
    RAISES_FROM_BOOL,
    CopiesAlways,
    P1b,
    P1NullStrides,
    P3NoBorrow,
    P3TableOnly,
    Raises,
    TableMixin,
    c_table,
    fresh,
    table_capsule,
)

producer_table, tensor_table = Table(dlshim.Producer), Table(dlshim.Tensor)


def table_of(x):
    """The C table that consumers find: each home has one."""
    return Table(type(x))


def owned(x):
    return table_of(x).owned(x)


def borrow(x):
    return table_of(x).borrow(x)


# --- where it is found ----------------------------------------------------------------------


@pytest.mark.once
def test_both_spellings_name_one_static_table():
    """A capsule under the name of DLPack 1.3, an int under that of 1.2."""
    for owner in (dlshim.Producer, dlshim.Tensor):
        assert type(owner.__dlpack_c_exchange_api__).__name__ == "PyCapsule"
        assert owner.__c_dlpack_exchange_api__ == producer_table.address
        assert Table(owner).address == producer_table.address
    assert not producer_table.has_destructor, "consumers keep the pointer, not the capsule"


@pytest.mark.once
def test_header_and_functions():
    struct = producer_table.struct
    assert (struct.header.major, struct.header.minor) == (1, 3) and not struct.header.prev_api
    for name, _ in struct._fields_[1:]:
        assert getattr(struct, name), name


@pytest.mark.once
def test_it_is_never_taken_for_a_foreign_table():
    """N2: a Producer is unwrapped, a Tensor read."""
    x = P2()
    for wrapped in (dlshim.upgrade(x), dlshim.from_dlpack(x)):
        with versioned(dlshim.upgrade(wrapped)) as imported:
            assert imported.values() == x.values()


@pytest.mark.parametrize("base", [P2, P1])
def test_a_class_that_borrowed_it_is_asked_by_its_own_methods(base):
    """N2: whatever class the table stands on, it is never a way in."""

    class Borrows(base):
        __dlpack_c_exchange_api__ = dlshim.Producer.__dlpack_c_exchange_api__

    x = Borrows()
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()
    for table in (producer_table, tensor_table):
        for function in (table.owned, table.borrow):
            for foreign in (x, object(), None, P1):
                with pytest.raises(TypeError) as error:
                    function(foreign)
                tells(error.value, "not dlshim's", "upgrade")


# --- owned -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS)
def test_owned_tensors_of_every_edition(cls):
    x = fresh(cls)()
    for wrapped in (dlshim.upgrade(x), dlshim.from_dlpack(x)):
        imported = owned(wrapped)
        view = imported.view
        assert imported.values() == x.values() and view.element_zero == x.element_zero
        assert view.strides == x.strides and view.byte_offset == 0 and view.deleter
        assert view.version[0] == 1 and not view.copied
        imported.release()


def test_T4_null_strides_are_filled():
    x = P1NullStrides()
    for view in (owned(dlshim.upgrade(x)).view, borrow(dlshim.upgrade(x))):
        assert view.strides == (3, 1)


def test_T8_flags_of_owned_tensors():
    assert owned(dlshim.upgrade(P2(readonly=True))).flags == READ_ONLY
    assert owned(dlshim.upgrade(P2(readonly=True), readonly=False)).flags == 0
    assert owned(dlshim.upgrade(P1(), readonly=True)).flags == READ_ONLY
    assert owned(dlshim.upgrade(P2(), copy=True)).flags == IS_COPIED
    assert owned(dlshim.from_dlpack(P2(readonly=True))).flags == READ_ONLY
    assert owned(dlshim.upgrade(jax_like()())).flags == READ_ONLY


@pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])
def test_T8_the_words_decide_for_owned_tensors_of_read_only_memory(wrap):
    """The consumer is C code, which nobody can name: it is not warned of."""
    x = P2(readonly=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert owned(wrap(x)).flags == READ_ONLY
        shared = owned(wrap(x, readonly="share")).view
        assert shared.flags == READ_ONLY and shared.element_zero == x.element_zero
        private = owned(wrap(x, readonly="copy"))
        assert private.flags == IS_COPIED and private.values() == x.values()
        assert private.view.element_zero != x.element_zero
        with pytest.raises(BufferError, match=r'C table.*\n  .*readonly="share".*readonly="copy"'):
            owned(wrap(x, readonly="error"))
        assert owned(wrap(P2(), readonly="error")).flags == 0


def test_T8_a_tensor_lends_read_only_memory_where_it_was_told_to():
    x = P2(readonly=True)
    assert borrow(dlshim.from_dlpack(x, readonly="share")).element_zero == x.element_zero
    for word in ("copy", "error"):
        tensor = dlshim.from_dlpack(x, readonly=word)
        with pytest.raises(BufferError, match=r'readonly="share".*readonly="copy"'):
            borrow(tensor)
    private = dlshim.upgrade(dlshim.from_dlpack(x, readonly="copy"))
    assert borrow(private).values() == x.values() and borrow(private).element_zero != x.element_zero
    known = jax_like()()
    assert borrow(dlshim.from_dlpack(known)).element_zero == known.element_zero
    with pytest.raises(BufferError, match="read-only"):
        borrow(dlshim.from_dlpack(known, readonly="error"))


def test_an_owned_tensor_outlives_everything_else():
    x = P1()
    values = x.values()
    imported = owned(dlshim.upgrade(x))
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None and imported.values() == values
    imported.release("c-thread" if caps.has_c_threads() else "released")
    del imported
    gc.collect()
    assert alive() is None


def test_strides_of_any_sign():
    """Consumers that read strides in C support them (N9 is about ways of asking __dlpack__)."""
    x = P2(shape=(3,), strides=(-1,), start=2)
    for view in (owned(dlshim.upgrade(x)).view, borrow(dlshim.upgrade(x))):
        assert view.strides == (-1,) and view.values() == x.values()


def test_refusals_are_those_of_the_method():
    for x, error in (
        (P2(data=None), BufferError),
        (P2(flags=1 << 9), BufferError),
        (P2(version=(2, 0)), BufferError),
        (fresh(Raises)(RuntimeError("no")), RuntimeError),
    ):
        wrapped = dlshim.upgrade(x)
        for ask in (owned, borrow):
            with pytest.raises((error, BufferError)):
                ask(wrapped)
        assert all(made.deleted for made in x.exports)


@pytest.mark.parametrize(
    "fields",
    [{"data": None}, {"flags": 1 << 9}, {"shape": (-1,)}],
    ids=["no data", "flags", "shape"],
)
def test_a_foreign_table_that_gives_no_good_tensor_gives_none(fields, hand_on):
    """Nothing is left where the tensor should be (doubles.ctable looks), it goes back once,
    and a table that was learned is not asked twice for it."""
    owned(dlshim.upgrade(P3()))
    x = P3(**fields)
    for ask in (owned, borrow):
        x.table_calls = 0
        with pytest.raises(BufferError):
            ask(dlshim.upgrade(x))
        assert x.table_calls == 1 or not hand_on
    assert all(made.deleted for made in x.exports)


class P3Later(TableMixin, P2):
    """A table that gives tensors of another major version from some day on."""

    major = 1
    __dlpack_c_exchange_api__ = table_capsule(c_table())

    def table_export(self):
        return self._export((self.major, 0))


def test_T1_a_table_that_was_learned_gives_another_major(hand_on):
    """The method is asked next, the table not again."""
    x = P3Later()
    wrapped = dlshim.upgrade(x)
    owned(wrapped)
    x.major, x.table_calls = 2, 0
    assert owned(wrapped).values() == x.values()
    assert x.table_calls == 1 and all(made.deleted for made in x.exports[1:2])


class LendsOrRaises(TableMixin, P2):
    """A table whose function for borrowed views raises what `__bool__` does (RAISES_FROM_BOOL)."""

    failure: type[BaseException] = BufferError
    __dlpack_c_exchange_api__ = table_capsule(
        c_table(dltensor_from_py_object_no_sync=RAISES_FROM_BOOL)
    )

    def __bool__(self):
        raise self.failure


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_must_not_be_lost_is_not(error, hand_on):
    """Whose view cannot be borrowed is asked for an owned tensor, but not after a Ctrl-C."""
    x = LendsOrRaises()
    wrapped = dlshim.upgrade(x)
    for _ in range(3):
        assert borrow(wrapped).values() == x.values()
        assert wrapped.__dlpack_device__() == (1, 0)
    x.failure = error
    with pytest.raises(error):
        wrapped.__dlpack_device__()
    if hand_on:  # else the entry is not used
        with pytest.raises(error):
            borrow(wrapped)


def test_memory_that_runs_out():
    for ask in (owned, borrow):
        for n in range(1, 20):
            x = P1NullStrides()
            wrapped = dlshim.upgrade(x)
            _core._hook("fail_alloc", n)
            try:
                got = ask(wrapped)
            except MemoryError:
                assert n < 6
            else:
                assert got.values() == x.values()
                break
            finally:
                _core._hook("fail_alloc", -1)
        assert n > 1
        del got


# --- borrowed --------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", EDITIONS.values(), ids=EDITIONS)
def test_borrowed_tensors_of_every_edition(cls):
    x = fresh(cls)()
    for wrapped in (dlshim.upgrade(x), dlshim.from_dlpack(x)):
        view = borrow(wrapped)
        assert view.values() == x.values() and view.element_zero == x.element_zero
        assert view.strides == x.strides and view.byte_offset == 0


@pytest.mark.parametrize("cls", [P1, P1NullStrides, P2, P1b, P3, P3NoBorrow, P3TableOnly])
def test_a_borrowed_view_is_read_as_long_as_the_producer_lives(cls):
    """f(p, p): the same answer twice, in the same place; all is given back with the Producer."""
    x = fresh(cls)()
    wrapped = dlshim.upgrade(x)
    first, second, third = borrow(wrapped), borrow(wrapped), borrow(wrapped)
    assert first.fields() == second.fields() == third.fields()
    if cls not in BORROWABLE:
        assert third.shape_address == second.shape_address
    assert first.values() == x.values()
    del wrapped
    assert all(made.deleted == 1 for made in x.exports if made.handed_out)


BORROWABLE = (P3, P3TableOnly)  # from then on the source's own table gives the view


def test_another_answer_is_kept_beside_the_first():
    """The source moved: what was borrowed before stays where it was."""
    x = P2()
    wrapped = dlshim.upgrade(x)
    first = borrow(wrapped)
    values, old = x.values(), x.memory
    x.memory = caps.filled((3, 2), "float32")
    x.shape, x.strides = (3, 2), (2, 1)
    second = borrow(wrapped)
    assert first.shape_address != second.shape_address and second.shape == (3, 2)
    assert caps.read_int64s(first.shape_address, 2) == (2, 3) and first.values() == values
    assert second.element_zero == x.element_zero != caps.address_of(old)


def test_a_mutable_object_is_asked_each_time():
    x = P2()
    wrapped = dlshim.upgrade(x)
    for n in range(1, 5):
        borrow(wrapped)
        assert len(x.exports) == n
    assert [made.deleted for made in x.exports] == [0, 1, 1, 1], "the equal ones are dropped"


def test_copies_are_fresh_and_stay():
    x = CopiesAlways()
    wrapped = dlshim.upgrade(x)
    first, second = borrow(wrapped), borrow(wrapped)
    assert first.element_zero != second.element_zero
    assert first.values() == second.values() == x.values()


ROOM = int(re.search(r"DLS_BORROWED_ROOM (\d+)", (SRC / "exchange" / "objects.h").read_text())[1])


@pytest.mark.once
def test_T13_the_pages_name_the_number():
    for page, words in (("rules", f"last {ROOM} different views"), ("reference", f"{ROOM} other")):
        assert words in (ROOT / "docs" / f"{page}.rst").read_text()


class Moves(P2):
    """Its memory is other memory at each export, which it does not keep."""

    def _export(self, version, **fields):
        return super()._export(version, **(fields | {"memory": caps.filled((2, 3), "float32")}))


#: Producers whose views are of new memory each time.
ALWAYS_NEW = {
    "a source that copies": lambda: dlshim.upgrade(CopiesAlways()),
    "a source that moves": lambda: dlshim.upgrade(Moves()),
    "copy=True": lambda: dlshim.upgrade(P2(), copy=True),
    "order": lambda: dlshim.upgrade(P2((3, 2), strides=(1, 3)), order="C"),
    "align": lambda: dlshim.upgrade(P1(start=1), align=1 << 16),
    "copy=True of a Tensor": lambda: dlshim.upgrade(dlshim.from_dlpack(P2()), copy=True),
}


@pytest.mark.parametrize("make", ALWAYS_NEW.values(), ids=ALWAYS_NEW)
def test_T13_borrowing_in_a_loop_does_not_grow(make):
    """The last views of a thread stay what they are; those before them are given back."""
    before = live()
    wrapped = make()
    views = [borrow(wrapped) for _ in range(ROOM)]
    values = views[0].values()
    for _ in range(sampling.turns(10_000, 100)):
        views = [*views[1:], borrow(wrapped)]
    assert len({view.element_zero for view in views}) == ROOM, "each is of memory of its own"
    assert all(view.values() == values for view in views)
    made = getattr(wrapped.source, "exports", [])
    alive = [one for one in made if not one.deleted and one.handed_out]
    assert max(len(alive), live() - before) <= ROOM + 1
    del wrapped
    assert all(one.deleted == 1 for one in made if one.handed_out)


def test_T13_one_view_asked_for_again_is_the_newest():
    """A source that gives one memory now and then: it is not the oldest, though it came first."""
    x = P2()
    first, values = x.memory, x.values()
    wrapped = dlshim.upgrade(x)
    view = borrow(wrapped)
    for n in range(3 * ROOM):
        x.memory = caps.filled((2, 3), "float32")
        borrow(wrapped)
        if n % (ROOM - 1) == 0:
            x.memory = first
            assert borrow(wrapped).shape_address == view.shape_address
    assert view.values() == values and not x.exports[0].deleted


def test_T13_views_of_threads_that_have_ended_are_given_back():
    """Those of a thread of the same number, which the system gives again."""
    x, numbers = CopiesAlways(), set()
    wrapped = dlshim.upgrade(x)

    def work():
        numbers.add(threading.get_ident())
        borrow(wrapped)

    for _ in range(sampling.turns(2000, 200)):
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    alive = [made for made in x.exports if not made.deleted and made.handed_out]
    assert len(alive) <= ROOM * len(numbers)


def test_T13_a_deleter_may_borrow_again():
    """It runs when the list is whole, and the view that the caller gets is whole too."""
    seen = []

    class Deep(P2):
        def _export(self, version, **fields):
            made = super()._export(version, **(fields | {"memory": caps.filled((2, 3), "float32")}))
            made.on_delete = self.again
            return made

        def again(self):
            if len(seen) < 5:
                place = len(seen)
                seen.append(None)
                seen[place] = borrow(box[0]).values()

    box = [dlshim.upgrade(Deep())]
    values = [borrow(box[0]).values() for _ in range(3 * ROOM)]
    box.clear()  # a Producer that has given a view keeps its source, which knows the box
    assert len(seen) == 5 and all(each == values[0] for each in values + seen)


@pytest.mark.parametrize(
    "make",
    [lambda: jax_like()(), lambda: caps.make(), lambda: P2()],
    ids=["immutable", "capsule", "Tensor"],
)
def test_what_cannot_change_is_asked_once(make):
    x = make()
    if type(x) is P2:
        x = dlshim.from_dlpack(x)
    wrapped = dlshim.upgrade(x)
    first = borrow(wrapped)
    exports = len(getattr(x, "exports", ()))
    before = _core._counters()
    assert [borrow(wrapped).fields() for _ in range(3)] == [first.fields()] * 3
    assert len(getattr(x, "exports", ())) == exports and _core._counters() == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: bytearray(b"abcd"),
        lambda: array.array("f", [1, 2, 3]),
        lambda: memoryview(bytearray(b"abcd")),
        lambda: mmap.mmap(-1, 4096),
        lambda: (C.c_int * 3)(1, 2, 3),
    ],
    ids=["bytearray", "array", "memoryview", "mmap", "ctypes"],
)
def test_a_held_buffer_is_asked_once(make):
    x = make()
    wrapped = dlshim.upgrade(x)
    first = borrow(wrapped)
    before = _core._counters()
    assert borrow(wrapped).fields() == first.fields() and _core._counters() == before
    assert first.nbytes if hasattr(first, "nbytes") else first.element_zero
    if isinstance(x, bytearray):
        with pytest.raises(BufferError):
            x.append(1)
        del wrapped
        x.append(1)


def test_what_the_type_learned_since_does_not_decide_an_export():
    """Another object of the type fell back on its buffer, which is held; this one's may move."""

    class Both(array.array):
        shape = None

        def __dlpack__(self):
            if self.shape is None:
                raise TypeError("not this one")
            return caps.Made(self.shape).capsule()

    x, other = Both("f", [1, 2, 3]), Both("f", [1, 2, 3])
    x.shape = (2,)
    wrapped = dlshim.upgrade(x)
    assert borrow(wrapped).shape == (2,)
    borrow(dlshim.upgrade(other))
    x.shape = (5,)
    with bare(wrapped) as now:
        assert borrow(wrapped).shape == now.view.shape != (2,)


def test_T8_stated_read_only_is_not_borrowed():
    """Whoever borrows is told no flags."""
    x = P2(readonly=True)
    wrapped = dlshim.upgrade(x)
    for _ in range(2):
        with pytest.raises(BufferError, match="read-only"):
            borrow(wrapped)
    with pytest.raises(BufferError, match=r"read-only.*\n.*readonly=.share"):
        borrow(dlshim.from_dlpack(x))
    for options in ({"readonly": False}, {"readonly": "share"}):
        assert borrow(dlshim.upgrade(x, **options)).element_zero == x.element_zero
    copy = dlshim.upgrade(x, readonly="copy")
    view = borrow(copy)
    assert view.element_zero != x.element_zero and view.values() == x.values()


def test_T8_memory_that_is_not_marked_is_borrowed():
    """As legacy consumers get it: JAX arrays."""
    x = jax_like()()
    assert borrow(dlshim.upgrade(x)).element_zero == x.element_zero


def test_a_foreign_table_gives_the_view_itself(hand_on):
    """Once an export was seen to be writable, its own function for borrowed views answers."""
    x = P3()
    wrapped = dlshim.upgrade(x)
    borrow(wrapped)
    calls, borrows = x.table_calls, x.table_borrows
    assert borrow(wrapped).values() == x.values()
    expected = (calls, borrows + 1) if hand_on else (calls + 1, borrows)
    assert (x.table_calls, x.table_borrows) == expected


@pytest.mark.parametrize(
    "fields",
    [{"null_strides": True}, {"byte_offset": 8, "start": 2}, {"strides": (9, 1), "shape": (1, 3)}],
    ids=["NULL strides", "offset", "odd stride"],
)
def test_a_bad_view_of_a_foreign_table_is_mended(fields):
    x = P3(**fields)
    wrapped = dlshim.upgrade(x)
    for _ in range(3):
        view = borrow(wrapped)
        assert view.strides == caps.row_major(x.shape) and view.byte_offset == 0
        assert view.values() == x.values() and view.data == x.element_zero


def test_T8_a_read_only_object_with_a_table_is_not_borrowed():
    wrapped = dlshim.upgrade(P3(readonly=True))
    for _ in range(3):
        with pytest.raises(BufferError, match="read-only"):
            borrow(wrapped)


def test_what_is_kept_is_shown_to_the_collector():
    """The hold is dlshim's, and leads back to the object."""

    class Node(InterfaceOnly):
        pass

    x = Node()
    x.wrapped = dlshim.upgrade(x)
    borrow(x.wrapped)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("cls", [P1, P2])
def test_T9_a_borrowed_view_goes_while_an_error_is_pending(cls):
    """The interpreter drops what it was working on with the error set."""
    seen = []

    class Loud(cls):
        def _export(self, version, **fields):
            return super()._export(version, **(fields | {"on_delete": lambda: seen.append(1)}))

    def borrowed(wrapped):
        borrow(wrapped)
        return wrapped

    with pytest.raises(ZeroDivisionError):
        [borrowed(dlshim.upgrade(Loud())), 1 // 0]
    assert seen


@pytest.mark.parametrize("ask", [owned, borrow])
@pytest.mark.parametrize("cls", [P1, P2])
def test_T9_a_destructor_that_leaves_an_error_behind(cls, ask, monkeypatch):
    """It is reported and cleared: the tensor is the consumer's all the same."""
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda what: reported.append(what.exc_type))
    no_memory = C.cast(C.pythonapi.PyErr_NoMemory, C.c_void_p).value

    class Spiteful(cls):
        def __dlpack__(self, **kwargs):
            capsule = super().__dlpack__(**kwargs)
            caps._set_destructor(capsule, no_memory)
            return capsule

    x = Spiteful(byte_offset=4)  # no plain memory: the capsule is always taken
    wrapped = dlshim.upgrade(x)
    for _ in range(3):
        got = ask(wrapped)
        values = got.values()
        del got
        assert values == x.values()
    assert reported and set(reported) == {MemoryError}


# --- in -----------------------------------------------------------------------------------------


def test_a_managed_tensor_becomes_a_Tensor():
    made = caps.Made(shape=(2, 3), dtype="float32", version=(1, 0), flags=READ_ONLY)
    tensor = producer_table.to_object(made.address)
    assert type(tensor) is dlshim.Tensor and tensor.shape == (2, 3) and tensor.readonly
    assert tensor.version == (1, 0) and not made.deleted
    del tensor
    gc.collect()
    assert made.deleted == 1


def test_a_result_is_what_its_library_made():
    """There and back: the Tensor of an export that was handed on owns it."""
    x = P2()
    imported = owned(dlshim.upgrade(x))
    imported.forget()
    tensor = tensor_table.to_object(imported.view.address)
    assert tensor.data_ptr() == x.element_zero
    with versioned(tensor) as again:
        assert again.values() == x.values()


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"version": (2, 0)}, r"DLPack 2.*\n.*1\.x"),
        ({"version": (0, 8)}, r"DLPack 0"),
        ({"flags": 1 << 7}, "flag"),
        ({"ndim": -1}, "ndim"),
        ({"shape": (-1, 3), "strides": (3, 1)}, "negative"),
        ({"data": None}, "NULL"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_not_taken(fields, match):
    """The caller still owns it: neither the header nor anybody's code says otherwise."""
    fields = {"shape": (2, 3), "dtype": "float32", "version": (1, 0)} | fields
    lies = {name: fields.pop(name) for name in ("ndim",) if name in fields}
    made = caps.Made(**fields)
    for name, value in lies.items():
        setattr(made.struct.dl_tensor, name, value)
    with pytest.raises(BufferError, match=match):
        producer_table.to_object(made.address)
    gc.collect()
    assert made.deleted == 0
    caps.call_deleter(made.address, caps.VERSIONED, held=True)


def test_NULL_is_refused():
    with pytest.raises(BufferError):
        producer_table.to_object(None)


def test_a_tensor_without_a_deleter():
    made = caps.Made(shape=(4,), dtype="int8", version=(1, 0), deleter=False)
    tensor = producer_table.to_object(made.address)
    assert tensor.shape == (4,)
    del tensor
    caps.forget(made)


def test_running_out_of_memory_takes_nothing():
    for n in (1, 2, 3, 4):
        made = caps.Made(shape=(2,), dtype="int8", version=(1, 0))
        _core._hook("fail_alloc", n)
        try:
            tensor = producer_table.to_object(made.address)
        except MemoryError:
            assert made.deleted == 0
            _core._hook("fail_alloc", -1)
            caps.call_deleter(made.address, caps.VERSIONED, held=True)
        else:
            _core._hook("fail_alloc", -1)
            del tensor
            break
    assert made.deleted == 1  # (at n = 1: a Tensor is one object, without a block of ours)


# --- new memory ---------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 4), (1,) * 9], ids=str)
@pytest.mark.parametrize("dtype", [(2, 32, 1), (0, 8, 1), (5, 128, 1), (6, 8, 1), (2, 16, 4)])
def test_allocated_memory(shape, dtype):
    before = live()
    made = producer_table.allocate(shape, dtype)
    view = made.view
    assert view.shape == shape and view.dtype == dtype and view.device == (1, 0)
    assert (view.strides or ()) == caps.row_major(shape)
    assert view.data % 64 == 0 and view.data and view.flags == 0 and view.version == (1, 3)
    assert live() == before + 1
    size = dtype[1] // 8 * dtype[2]
    for extent in shape:
        size *= extent
    C.memset(view.data, 0xAB, size)
    tensor = producer_table.to_object(view.address)
    made.forget()
    assert tensor.nbytes == size and tensor.data_ptr() == view.data
    del tensor
    gc.collect()
    assert live() == before


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "lies", "kind", "match"),
    [
        (((2,), (2, 32, 1), (2, 0)), {}, "BufferError", "CUDA"),
        (((2,), (2, 32, 1), (10, 0)), {}, "BufferError", "HIP"),
        (((2,), (2, 32, 1), (3, 0)), {}, "BufferError", r"no allocator for device \(3, 0\)"),
        (((2,), (2, 32, 1), (14, 1)), {}, "BufferError", r"no allocator for device \(14, 1\)"),
        (((-2,),), {}, "ValueError", "negative"),
        (((2,),), {"ndim": -3}, "ValueError", "ndim"),
        (((2,),), {"shape_address": None}, "ValueError", "NULL"),
        (((2,), (2, 0, 1)), {}, "ValueError", "width"),
        (((1 << 40, 1 << 40),), {}, "ValueError", "overflow"),
        (((1 << 60,), (0, 8, 1)), {}, "MemoryError", "memory"),
    ],
    ids=str,
)
def test_what_cannot_be_allocated_is_told_to_the_caller(arguments, lies, kind, match):
    with pytest.raises(Refused, match=match) as raised:
        producer_table.allocate(*arguments, **lies)
    assert raised.value.args[0] == kind


@pytest.mark.once
def test_the_allocator_when_memory_runs_out():
    for n in (1, 2):
        _core._hook("fail_alloc", n)
        with pytest.raises(Refused) as raised:
            producer_table.allocate((2, 2))
        assert raised.value.args[0] == "MemoryError"
        _core._hook("fail_alloc", -1)


# --- the stream ---------------------------------------------------------------------------------


@pytest.mark.once
def test_the_host_has_no_stream():
    """And no device fails: consumers ignore the failure and lose the stream."""
    borrow(dlshim.upgrade(P2()))
    for device in ((1, 0), (2, 0), (2, 7), (14, 0), (99, -1)):
        assert producer_table.stream(device) is None


class Photo:
    """Has a new buffer made for each look at its array interface."""

    value = 1.0

    @property
    def __array_interface__(self):
        data = bytearray(array.array("d", [self.value] * 3).tobytes())
        return {"shape": (3,), "typestr": "<f8", "version": 3, "data": data}


def test_a_view_of_a_source_that_has_buffers_made_is_not_an_old_one():
    photo = Photo()
    source = dlshim.upgrade(photo)
    assert producer_table.borrow(source).values() == [1.0] * 3
    photo.value = 2.0
    assert producer_table.borrow(source).values() == [2.0] * 3
    own = dlshim.upgrade(bytearray(8))
    assert producer_table.borrow(own).data == producer_table.borrow(own).data
