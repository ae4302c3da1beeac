"""Homes: the classes of Producers and their C tables (rules H1 to H7).

A consumer finds the C table by the class of its argument, and keeps its address for ever.
"""

from __future__ import annotations

import gc
import signal
import sys

import pytest

import dlshim
from dlshim import _core
from doubles import capsules as caps
from doubles import child
from doubles.asking import live
from doubles.ctable import Table
from doubles.producers import P1, P2, P3, TableMixin, c_table, table_capsule

np = pytest.importorskip("numpy", reason="results are arrays of NumPy")
FUNCTIONS = ("managed_tensor_allocator", "managed_tensor_to_py_object_no_sync")
GENERIC = Table(dlshim.Producer)


def table_of(source):
    return Table(type(dlshim.upgrade(source)))


def result(table, shape=(2, 3), dtype="float32", **fields):
    """What a consumer gets for a tensor that its function has returned."""
    made = caps.Made(shape=shape, dtype=dtype, version=(1, 3), **fields)
    made.handed_out = True
    return table.to_object(made.address), made


# --- classes ----------------------------------------------------------------------------------


@pytest.mark.once
def test_H1_each_home_has_a_class_and_a_table():
    array, other = dlshim.upgrade(np.zeros(3)), dlshim.upgrade(P3())
    for each in (array, other):
        assert isinstance(each, dlshim.Producer) and type(each) is not dlshim.Producer
        assert type(each).__name__ == "Producer" and type(each).__module__ == "dlshim"
        assert type(each).__c_dlpack_exchange_api__ == Table(type(each)).address
        assert Table(type(each)).address != GENERIC.address
        assert not Table(type(each)).has_destructor
    assert type(array) is not type(other)
    assert type(dlshim.upgrade(np.ones(1, "i4"))) is type(array)
    assert type(dlshim.upgrade(dlshim.upgrade(np.ones(1)), align=64)) is type(array)


@pytest.mark.once
def test_H1_classes_that_are_changed_break_nothing():
    """From CPython 3.14 on that is a TypeError; before, methods go and come, and homes change."""
    frozen = sys.version_info >= (3, 14)
    array, other = dlshim.upgrade(np.arange(3.0)), dlshim.upgrade(P3())
    before = live()

    def change(function, *arguments):
        if not frozen:
            return function(*arguments)
        with pytest.raises(TypeError):
            function(*arguments)

    change(setattr, other, "__class__", type(array))
    assert frozen or type(other) is type(array)
    assert dlshim.from_dlpack(other).tobytes() == dlshim.from_dlpack(P3()).tobytes()
    for cls, make in ((type(array), dlshim.upgrade), (dlshim.Tensor, dlshim.from_dlpack)):
        change(setattr, cls, "mark", 1)
        change(delattr, cls, "mark")
        method = vars(cls)["__dlpack__"]
        change(delattr, cls, "__dlpack__")
        try:
            assert dlshim.from_dlpack(make(np.arange(3.0))).tobytes() == np.arange(3.0).tobytes()
            dlshim.to_capsule(make(np.arange(3.0)))
        finally:
            change(setattr, cls, "__dlpack__", method)
        assert np.from_dlpack(make(np.arange(3.0))).tolist() == [0, 1, 2]
    assert live() == before


@pytest.mark.once
def test_H1_subclasses_share_the_home_of_their_library():
    class Mine(np.ndarray):
        pass

    class MyTable(P3):
        pass

    for cls, base in ((Mine((3,)), np.zeros(3)), (MyTable(), P3())):
        assert type(dlshim.upgrade(cls)) is type(dlshim.upgrade(base))


@pytest.mark.once
def test_H1_what_has_no_home_stays_with_dlshim():
    for x in (bytearray(3), P1(), P2(), dlshim.from_dlpack(np.zeros(3)), caps.make()):
        assert type(dlshim.upgrade(x)) is dlshim.Producer
    made, _ = result(table_of(P2()))
    assert type(made) is dlshim.Tensor


@pytest.mark.once
@pytest.mark.parametrize("failure", [ImportError, KeyError, AttributeError, RuntimeError])
@pytest.mark.parametrize("is_first", [True, False], ids=["new type", "known type"])
def test_H1_an_error_that_says_nothing_of_the_type_is_not_learned(monkeypatch, failure, is_first):
    """The home could not be asked for: dlshim is the home of this exchange, and of no other."""

    class Mine(np.ndarray):
        pass

    x, home = np.arange(6.0).view(Mine), type(dlshim.upgrade(np.zeros(3)))
    if not is_first:
        assert type(dlshim.upgrade(x)) is home
    asked = []

    def fails(cls):
        asked.append(cls)
        raise failure("half made")

    with monkeypatch.context() as patch:
        patch.setattr("dlshim.importers.importer_of", fails)
        kept = dlshim.upgrade(x)
        assert type(kept) is (dlshim.Producer if is_first else home)
        assert np.from_dlpack(kept).tolist() == x.tolist()  # the exchange goes on
        assert np.asarray(dlshim.from_dlpack(x)).tolist() == x.tolist()
        assert (Mine in asked) == is_first
    assert type(dlshim.upgrade(x)) is home
    assert np.from_dlpack(kept).tolist() == x.tolist()


@pytest.mark.once
def test_H1_a_home_is_looked_for_once_when_an_object_is_upgraded(monkeypatch):
    class Mine(np.ndarray):
        pass

    x, asked = np.arange(6.0).view(Mine), []

    def importer_of(cls):
        asked.append(cls)
        return np.from_dlpack

    monkeypatch.setattr("dlshim.importers.importer_of", importer_of)
    for take in (dlshim.from_dlpack, dlshim.to_capsule):
        take(x), take(x, copy=True)
    assert asked == []
    assert type(dlshim.upgrade(x)) is type(dlshim.upgrade(x)) is type(dlshim.upgrade(np.zeros(3)))
    assert asked.count(Mine) == 1


@pytest.mark.once
@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError, RecursionError])
def test_H1_an_error_that_nothing_may_hide_ends_the_exchange(monkeypatch, failure):
    class Mine(np.ndarray):
        pass

    def fails(cls):
        raise failure

    x = np.arange(6.0).view(Mine)
    with monkeypatch.context() as patch:
        patch.setattr("dlshim.importers.importer_of", fails)
        with pytest.raises(failure):
            dlshim.upgrade(x)
    assert type(dlshim.upgrade(x)) is type(dlshim.upgrade(np.zeros(3)))


@pytest.mark.once
def test_H1_no_class_of_Producers_can_be_called_or_inherited_from():
    for cls in (dlshim.Producer, type(dlshim.upgrade(np.zeros(3)))):
        with pytest.raises(TypeError, match="cannot create"):
            cls()
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Mine", (cls,), {})


@pytest.mark.once
def test_H1_the_table_of_a_home_is_never_a_way_in():
    class Borrows(P2):
        __dlpack_c_exchange_api__ = type(dlshim.upgrade(np.zeros(3))).__dlpack_c_exchange_api__

    x = Borrows()
    assert type(dlshim.upgrade(x)) is dlshim.Producer
    assert np.from_dlpack(dlshim.upgrade(x)).tolist() == np.from_dlpack(x).tolist()


@pytest.mark.once
def test_a_Producer_of_another_home():
    home = _core._home_of(np.zeros(3))
    x = P3()
    moved = _core._upgrade_into(home, x, order="C")
    assert type(moved) is home is type(dlshim.upgrade(np.zeros(2)))
    assert moved.source is x and _core._options(moved) == {"order": "C"}
    assert _core._home_of(moved) is home and _core._home_of(x) is type(dlshim.upgrade(x))
    assert type(_core._upgrade_into(dlshim.Producer, moved)) is dlshim.Producer
    for tensor in (dlshim.from_dlpack(x), caps.make()):
        assert _core._home_of(tensor) is dlshim.Producer
    for wrong in ((int, x), (x, x), (home,)):
        with pytest.raises(TypeError, match="class of a Producer"):
            _core._upgrade_into(*wrong)
    with pytest.raises(dlshim.UnsupportedObjectError):
        _core._home_of(object())
    with Table(home).owned(moved) as imported:
        assert imported.view.element_zero == x.element_zero


# --- libraries with C tables --------------------------------------------------------------------


#: Whose function the C table of a library's home has: the library's own, dlshim's, or one that
#: asks the library's (H2, H3).
WHOSE = {
    "managed_tensor_allocator": "library",
    "managed_tensor_from_py_object_no_sync": "dlshim",
    "managed_tensor_to_py_object_no_sync": "library",
    "dltensor_from_py_object_no_sync": "dlshim",
    "current_work_stream": "asks",
}


def whose(home, library, name):
    """Tell whose function stands in the table of a home."""
    function = getattr(home, name)
    ours, theirs = getattr(GENERIC.struct, name), getattr(library, name)
    if function is None or theirs is None:
        return "nobody"
    return {ours: "dlshim", theirs: "library"}.get(function, "asks")


@pytest.mark.once
def test_H2_the_functions_are_the_librarys_own():
    """Each function of the C table is in this test, so that none is forgotten."""
    struct, own = table_of(P3()).struct, Table(P3).struct
    functions = [name for name, _ in type(struct)._fields_ if name != "header"]
    assert {name: whose(struct, own, name) for name in functions} == WHOSE


@pytest.mark.once
def test_H2_ours_stand_in_for_what_a_table_lacks():
    class Lacking(TableMixin, P2):
        __dlpack_c_exchange_api__ = table_capsule(
            c_table(current_work_stream=None, **dict.fromkeys(FUNCTIONS))
        )

    table = table_of(Lacking())
    for name in (*FUNCTIONS, "current_work_stream"):
        assert getattr(table.struct, name) == getattr(GENERIC.struct, name)
    made, _ = result(table)
    assert type(made) is dlshim.Tensor


@pytest.mark.once
def test_H1_two_types_with_one_table_share_a_home():
    shared = table_capsule(c_table())

    class A(TableMixin, P2):
        __dlpack_c_exchange_api__ = shared

    class B(TableMixin, P2):
        __dlpack_c_exchange_api__ = shared

    assert type(dlshim.upgrade(A())) is type(dlshim.upgrade(B()))
    assert type(dlshim.upgrade(A())) is not type(dlshim.upgrade(P3()))


# --- importers ----------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (4,), (2, 3)], ids=str)
def test_H4_results_are_arrays_of_the_home(shape, dtype):
    before = live()
    table = table_of(np.zeros(3))
    produced = table.allocate(shape, np_dtype(dtype))
    array = table.to_object(produced.view.address)
    produced.forget()
    assert type(array) is np.ndarray and array.shape == shape and array.dtype == dtype
    assert array.flags.writeable
    array[...] = 1
    kept = array.T
    del array
    gc.collect()
    assert kept.sum() == kept.size
    del kept
    gc.collect()
    assert live() == before


def np_dtype(name):
    dtype = np.dtype(name)
    code = {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}[dtype.kind]
    return code, dtype.itemsize * 8, 1


@pytest.mark.once
def test_H4_strides_are_kept():
    array, made = result(table_of(np.zeros(3)), shape=(2, 3), strides=(1, 2))
    assert type(array) is np.ndarray and array.strides == (4, 8) and array.shape == (2, 3)
    del array
    assert made.deleted == 1


class Own(P2):
    """A user's class, whose results come home by its classmethod."""

    failure: BaseException | None = None
    takes = True

    @classmethod
    def from_dlpack(cls, tensor):
        own = super().__new__(cls)
        own.tensor = np.from_dlpack(tensor) if cls.takes else tensor
        if cls.failure is not None:
            raise cls.failure
        return own


@pytest.fixture
def own():
    """A class of its own, with a slot of its own."""
    return type("Own", (Own,), {"from_dlpack": Own.__dict__["from_dlpack"]})


@pytest.mark.once
def test_H4_a_class_with_a_classmethod(own):
    made, struct = result(table_of(own()))
    assert type(made) is own and made.tensor.shape == (2, 3) and not struct.deleted
    del made
    gc.collect()
    assert struct.deleted == 1


@pytest.mark.once
@pytest.mark.parametrize("takes", [True, False], ids=["took the memory", "took nothing"])
@pytest.mark.parametrize(
    "failure", [ValueError("no"), MemoryError(), SystemExit(), GeneratorExit()]
)
def test_H5_an_importer_that_raises_leaves_the_Tensor(own, takes, failure):
    own.failure, own.takes = failure, takes
    made, struct = result(table_of(own()))
    assert type(made) is dlshim.Tensor and made.shape == (2, 3) and not struct.deleted
    failure.__traceback__ = None  # it has the frame that has the Tensor
    del made
    gc.collect()
    assert struct.deleted == 1


@pytest.mark.once
def test_H5_an_interrupt_comes_again(own):
    """Python's handler is called when the consumer has the result."""
    own.failure = KeyboardInterrupt()
    table, seen = table_of(own()), []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    try:
        made, struct = result(table)
    finally:
        signal.signal(signal.SIGINT, before)
        own.failure = None  # from 3.12 on its traceback keeps the Tensor
    assert type(made) is dlshim.Tensor and seen == [1] and not struct.deleted


@pytest.mark.once
@pytest.mark.parametrize("fields", [{"version": (2, 0)}, {"version": (0, 8)}, {"flags": 1 << 7}])
def test_H5_what_cannot_be_read_is_not_taken(own, fields):
    """Then the importer is not asked either."""
    own.failure = AssertionError("asked")
    made = caps.Made(**({"shape": (2, 3), "dtype": "float32", "version": (1, 0)} | fields))
    with pytest.raises(BufferError):
        table_of(own()).to_object(made.address)
    gc.collect()
    assert made.deleted == 0
    caps.call_deleter(made.address, caps.VERSIONED, held=True)


@pytest.mark.once
def test_H4_an_importer_keeps_no_class_alive():
    """Results then stay Tensors, also on another thread, and the slot is not given again."""
    assert child.program("importer_keeps_no_class").strip() == "end"


@pytest.mark.once
def test_H4_when_all_slots_are_used_further_homes_are_dlshims():
    """A class without an importer needs none."""
    assert child.program("more_homes_than_slots").strip() == "end"


@pytest.mark.once
def test_many_libraries_with_tables_of_their_own():
    """Each has a home, also where more streams are told than functions stand in the code."""
    assert child.program("many_tables").strip() == "end"


# --- interpreters ---------------------------------------------------------------------------------


@pytest.mark.once
def test_H4_interpreters_have_slots_of_their_own():
    """The table of a home that another interpreter has met gives a Tensor, or its own home."""
    testcapi = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")
    if not hasattr(testcapi, "run_in_subinterp"):
        pytest.skip("this _testcapi has no run_in_subinterp")
    assert child.program("homes_of_interpreters").split() == ["inner"] * 3 + ["end"]


@pytest.mark.once
def test_an_import_anew_uses_the_same_slots():
    """Also of the libraries whose importers are dlshim's own functions."""
    assert child.program("homes_imported_anew").strip() == "end"


# --- memory --------------------------------------------------------------------------------


@pytest.mark.once
def test_many_results_leave_nothing():
    """tests/interop/test_homes.py makes ten thousand, by tvm-ffi."""
    table = table_of(np.zeros(3))
    source = dlshim.upgrade(np.zeros(3))

    def once():
        made = table.allocate((4,))
        array = table.to_object(made.view.address)
        made.forget()
        table.owned(source).release()
        return array

    once()
    gc.collect()
    before, references = live(), sys.getrefcount(np.from_dlpack)
    for _ in range(200):
        once()
    gc.collect()
    now = sys.getrefcount(np.from_dlpack)
    assert live() == before and now == references


# --- classes that dlshim.producer changed --------------------------------------------------


def decorated(**options):
    class Array:
        """With an array inside, and without a C table but ours."""

        def __init__(self, array=None):
            self.array = np.zeros(3) if array is None else array

    return dlshim.producer(inner="array", **options)(Array)


def both_tables(cls):
    return Table(cls), table_of(cls())


@pytest.mark.once
def test_H9_a_decorated_class_is_its_own_home_by_from_dlpack():
    class Array:
        def __init__(self, array=None):
            self.array = np.zeros(3) if array is None else array

        @classmethod
        def from_dlpack(cls, tensor):
            return cls(np.from_dlpack(tensor))

    for change in (
        lambda: dlshim.producer(inner="array")(Array),
        lambda: type("Mixed", (Array, dlshim.ProducerMixin), {}, inner="array"),
        lambda: decorated(from_dlpack=lambda tensor: Array(np.from_dlpack(tensor))),
    ):
        cls = change()
        for table in both_tables(cls):
            made, struct = result(table)
            assert isinstance(made, Array) and made.array.shape == (2, 3), change
            del made
            gc.collect()
            assert struct.deleted == 1
        assert not Table(cls).struct.dltensor_from_py_object_no_sync
        with Table(cls).owned(cls(np.arange(3.0))) as imported:
            assert imported.values() == [0, 1, 2]


@pytest.mark.once
def test_H9_without_one_its_results_are_Tensors():
    for table in both_tables(decorated()):
        assert type(result(table)[0]) is dlshim.Tensor
    assert Table(decorated()).address == Table(decorated()).address


@pytest.mark.once
def test_H9_the_stream_and_memory_of_a_decorated_class_are_dlshims():
    """Its inner array's library is not asked."""

    class Held(P3):
        pass

    cls = decorated()
    table = Table(cls)
    made = table.allocate((2, 3))
    assert made.view.device == (1, 0)
    made.release()
    with table.owned(cls(Held())) as imported:
        assert imported.view.shape == (2, 3)


@pytest.mark.once
def test_H9_a_copy_of_a_class_is_a_home_of_its_own():
    """dataclass(slots=True) makes one of the members of another."""
    import dataclasses

    @dataclasses.dataclass(slots=True)
    @dlshim.producer(inner="array")
    class Array:
        array: object = dataclasses.field(default_factory=lambda: np.zeros(3))

        @classmethod
        def from_dlpack(cls, tensor):
            return cls(np.from_dlpack(tensor))

    gc.collect()
    for table in both_tables(Array):
        made, _ = result(table)
        assert type(made) is Array


@pytest.mark.once
def test_H9_a_table_of_the_author_stays():
    own = table_capsule(c_table())

    @dlshim.producer
    class Array(TableMixin, P2):
        __dlpack_c_exchange_api__ = own

        @classmethod
        def from_dlpack(cls, tensor):
            raise AssertionError

    assert Array.__dlpack_c_exchange_api__ is own


@pytest.mark.once
@pytest.mark.parametrize("wrong", [1, "numpy", ()], ids=str)
def test_H9_what_cannot_be_called_is_refused(wrong):
    with pytest.raises(TypeError, match="cannot be called"):
        decorated(from_dlpack=wrong)
    with pytest.raises(TypeError, match="cannot be called"):
        type("Mixed", (dlshim.ProducerMixin,), {}, inner="array", from_dlpack=wrong)
