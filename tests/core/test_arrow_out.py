"""A Tensor as a column of Arrow: the structs, who owns them, and what is refused."""

from __future__ import annotations

import ctypes as C
import gc
import re
import sys
import threading

import pytest

import dlshim
from doubles import arrow, child
from doubles import capsules as caps
from doubles.arrow import Column, children, held, levels, move, release, request
from doubles.asking import live, tells
from doubles.producers import P1, P2, P3TableOnly
from doubles.threads import together

pytestmark = pytest.mark.once

C_THREADS = pytest.mark.skipif(
    not caps.has_c_threads(), reason="no pthread_create in the C library"
)
FORMATS = {
    "int8": "c", "int16": "s", "int32": "i", "int64": "l",
    "uint8": "C", "uint16": "S", "uint32": "I", "uint64": "L",
    "float16": "e", "float32": "f", "float64": "g",
}  # fmt: skip


ANOTHER = C.c_char_p(b"another")


@pytest.fixture
def np():
    return pytest.importorskip("numpy", reason="the cure is NumPy's, or it makes the array")


def tensor(shape=(3,), dtype="int32", **fields):
    return dlshim.from_dlpack(P2(shape, dtype, **fields))


# --- what a consumer sees -------------------------------------------------------------


@pytest.mark.parametrize("dtype", FORMATS)
def test_every_type(dtype):
    x = P2((4,), dtype)
    column = Column(dlshim.from_dlpack(x))
    assert column.formats == [FORMATS[dtype]] and column.lengths == [4]
    assert column.address == x.element_zero and column.values() == x.values()
    column.release()


@pytest.mark.parametrize("shape", [(1,), (2, 3), (2, 3, 4), (1, 1, 1, 1, 2), (1,) * 80])
def test_axes_are_nested_lists_of_fixed_size(shape):
    x = P2(shape, "int16")
    column = Column(dlshim.from_dlpack(x))
    assert column.formats == [*(f"+w:{extent}" for extent in shape[1:]), "s"]
    assert column.lengths == arrow.row_major(shape)
    assert column.address == x.element_zero and column.values() == x.values()
    column.release()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 4), (0, 2**31 - 1)])
def test_empty_tensors(shape):
    column = Column(tensor(shape))
    assert column.formats == [*(f"+w:{extent}" for extent in shape[1:]), "i"]
    assert column.lengths == arrow.row_major(shape) and column.values() == []
    column.release()


def test_the_members_that_say_little():
    column = Column(tensor((2, 3)))
    for level, name in zip(levels(column.schema), (b"", b"item"), strict=True):
        assert (level.name, level.metadata, level.dictionary) == (name, None, None)
        assert level.flags == arrow.NULLABLE and level.release
    for level, buffers in zip(levels(column.array), (1, 2), strict=True):
        assert (level.null_count, level.offset, level.dictionary) == (0, 0, None)
        assert level.n_buffers == buffers and level.release
        assert C.c_void_p.from_address(level.buffers).value is None, "no bitmap"
    column.release()


def test_it_is_a_pair_of_capsules_that_are_new_each_time():
    t = tensor()
    first, second = t.__arrow_c_array__(), t.__arrow_c_array__(requested_schema=None)
    assert type(first) is tuple and len(first) == 2
    assert [caps.name_of(each) for each in first] == ["arrow_schema", "arrow_array"]
    assert not {*map(id, first)} & {*map(id, second)}
    for wrong in ((None, None), ()):
        with pytest.raises(TypeError):
            t.__arrow_c_array__(*wrong, **({} if wrong else {"schema": None}))


@pytest.mark.parametrize("cls", [P1, P2, P3TableOnly])
def test_memory_of_every_edition_and_of_ours(cls):
    x = cls((3,), "int32")
    for made in (dlshim.from_dlpack(x), dlshim.from_dlpack(x, copy=True)):
        column = Column(made)
        assert column.address == made.data_ptr() and column.values() == [0, 1, 2]
        column.release()


def test_read_only_memory_goes_out_whatever_the_word():
    """Arrow's data are immutable: who takes a column does not write."""
    for word in (None, True, "error", "share", "copy"):
        options = {} if word is None else {"readonly": word}
        column = Column(dlshim.from_dlpack(P2((3,), "int32", readonly=True), **options))
        assert column.values() == [0, 1, 2]
        column.release()


def test_strides_of_extents_that_do_not_count():
    column = Column(tensor((1, 3), strides=(77, 1)))
    assert column.values() == [0, 1, 2]
    column.release()


def test_pinned_memory_is_host_memory():
    column = Column(dlshim.from_dlpack(P2((3,), "int32", device=(3, 0)), stream=-1))
    assert column.values() == [0, 1, 2]
    column.release()


# --- who owns what --------------------------------------------------------------------


def alive(x):
    return x.last.deleted == 0


def test_a_column_keeps_the_memory_and_gives_it_back_once():
    before = live()
    x = P2((3,), "int32")
    column = Column(dlshim.from_dlpack(x))
    gc.collect()
    assert alive(x) and live() == before + 2 and column.values() == [0, 1, 2]
    release(column.schema)
    assert alive(x) and live() == before + 1
    release(column.array)
    assert x.last.deleted == 1 and live() == before


def test_the_tensor_may_live_longer():
    x = P2((3,), "int32")
    t = dlshim.from_dlpack(x)
    for _ in range(3):
        Column(t).release()
    assert alive(x) and memoryview(t).tolist() == [0, 1, 2]
    del t
    assert x.last.deleted == 1


@pytest.mark.parametrize("shape", [(3,), (2, 3, 2)])
def test_capsules_that_nobody_took_release_their_structs(shape):
    before = live()
    x = P2(shape, "int32")
    capsules = [*dlshim.from_dlpack(x).__arrow_c_array__()]
    assert live() == before + 2 and alive(x)
    del capsules[1]
    assert live() == before + 1 and x.last.deleted == 1
    capsules.clear()
    assert live() == before


def test_capsules_that_were_used_own_nothing():
    before = live()
    x = P2((2, 3), "int32")
    schema, array = dlshim.from_dlpack(x).__arrow_c_array__()
    moved = move(held(schema, arrow.SCHEMA)), move(held(array, arrow.ARRAY))
    for each in moved:
        release(each)
    assert x.last.deleted == 1 and live() == before, "though the capsules are still there"
    del schema, array
    assert live() == before


def test_a_capsule_that_is_renamed_is_not_touched():
    schema, array = tensor().__arrow_c_array__()
    there = held(schema, arrow.SCHEMA), held(array, arrow.ARRAY)
    addresses, moved = [*map(C.addressof, there)], [*map(move, there)]
    for capsule in (schema, array):
        caps._set_name(capsule, ANOTHER)
    del schema, array, capsule, there
    for address, each in zip(addresses, moved, strict=True):
        release(each)
        arrow.free(address)


@pytest.mark.parametrize("part", ["schema", "array"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_level_that_was_moved_away_is_released_by_its_owner(part, depth):
    """Its parent is released at once, as the interface demands, and it lives on."""
    before = live()
    x = P2((2, 3, 2), "int32")
    column = Column(dlshim.from_dlpack(x))
    top = getattr(column, part)
    (child,) = children(levels(top)[depth - 1])
    moved = move(child)
    release(top)
    assert not top.release and moved.release
    assert alive(x) and live() == before + 2
    if part == "array":
        assert moved.length == (6, 12)[depth - 1]
        assert len(levels(moved)) == 3 - depth
    else:
        assert moved.format == (b"+w:2", b"i")[depth - 1] and moved.name == b"item"
    release(moved)
    assert live() == before + 1
    release(column.array if part == "schema" else column.schema)
    assert x.last.deleted == 1 and live() == before


def test_a_struct_is_relocatable():
    column = Column(tensor((2, 3)))
    for _ in range(4):
        column.array, column.schema = move(column.array), move(column.schema)
        caps.poison(caps.room(80))
    assert column.values() == [0, 1, 2, 3, 4, 5]
    column.release()


def test_a_column_over_memory_of_ours(np):
    """Arrow, NumPy, Tensors and capsules share it, and the last one gives it back."""
    before = live()
    t = dlshim.from_dlpack(np.arange(3), copy=True)
    column, array, again = Column(t), t.numpy(), dlshim.from_dlpack(t)
    capsule = t.__dlpack__()
    del t, again, capsule
    array[0] = 5
    assert column.values() == [5, 1, 2], "written elsewhere, seen here"
    del array
    assert column.values() == [5, 1, 2]
    column.release()
    assert live() == before


@pytest.mark.parametrize("end", [release, arrow.release_on_c_thread], ids=["no GIL", "C thread"])
@pytest.mark.parametrize("cls", [P1, P2, P3TableOnly, None], ids=["P1", "P2", "P3", "buffer"])
@C_THREADS
def test_T10_a_release_runs_on_any_thread(cls, end):
    before = live()
    x = cls((3,), "int32") if cls else memoryview(bytearray(12)).cast("i")
    Column(dlshim.from_dlpack(x)).release(end)
    assert live() == before
    if cls:
        assert x.last.deleted == 1


def test_T10_a_release_on_another_python_thread():
    x = P2((2, 3), "int32")
    column = Column(dlshim.from_dlpack(x))
    pair = [dlshim.from_dlpack(x).__arrow_c_array__()]
    for work in (column.release, pair.clear):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [made.deleted for made in x.exports] == [1, 1]


def test_threads_that_make_and_release_columns_of_one_tensor():
    x = P2((2, 3), "int32")
    t, before = dlshim.from_dlpack(x), live()

    def use():
        column = Column(t)
        assert column.values() == [0, 1, 2, 3, 4, 5]
        column.release()
        t.__arrow_c_array__()

    together(use)
    assert live() == before and alive(x)


def test_T9_a_pending_exception_survives_a_capsule():
    x = P2((3,), "int32")

    def fail():
        pair = dlshim.from_dlpack(x).__arrow_c_array__()  # dies while the error is pending
        raise KeyError(len(pair))

    with pytest.raises(KeyError):
        fail()
    gc.collect()
    assert x.last.deleted == 1


def test_a_cycle_through_a_column_is_freed_by_its_release():
    before = live()
    for _ in range(50):
        x = P2((3,), "int32")
        x.pair = dlshim.from_dlpack(x).__arrow_c_array__()
        x.pair = None
    assert live() == before


HEAD = """
import ctypes, gc, os, sys
import dlshim
from doubles import arrow
from doubles.arrow import Column, release
from doubles.asking import live
from doubles.producers import P1, P2
"""
ENDS = {
    "capsules": "kept = dlshim.from_dlpack(P2()).__arrow_c_array__()",
    "a column": "kept = Column(dlshim.from_dlpack(P1()))",
    "capsules in a cycle": (
        "kept = [dlshim.from_dlpack(P2()).__arrow_c_array__()]; kept.append(kept)"
    ),
    "a column that is released late": """
import atexit
kept = Column(dlshim.from_dlpack(P1()))
atexit.register(kept.release)
""",
    "capsules of a module that is emptied": """
sys.kept = dlshim.from_dlpack(bytearray(9)).__arrow_c_array__()
sys.modules['kept'] = type(sys)('kept'); sys.modules['kept'].x = P2()
sys.modules['kept'].y = dlshim.from_dlpack(P2()).__arrow_c_array__()
""",
}


@pytest.mark.parametrize("code", ENDS.values(), ids=ENDS)
def test_T10_a_process_that_ends_with_exports_held_is_silent(code):
    assert child.run(HEAD + code, silent=True) == ""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs glibc's __cxa_atexit")
@pytest.mark.parametrize("made", ["P1()", "P2()", "bytearray(9)", "P1(), copy=True"])
def test_T10_a_release_after_the_interpreter_has_gone(made):
    """exit() calls these in reverse order: _exit(42) tells that the release came back."""
    child.run(
        HEAD
        + f"""
libc = ctypes.CDLL(None)
libc.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
libc.malloc.restype = ctypes.c_void_p
assert libc.__cxa_atexit(ctypes.cast(libc._exit, ctypes.c_void_p).value, 42, None) == 0
column = Column(dlshim.from_dlpack({made}))
for part in (column.schema, column.array):
    there = libc.malloc(ctypes.sizeof(part))
    ctypes.memmove(there, ctypes.addressof(part), ctypes.sizeof(part))
    assert libc.__cxa_atexit(part.release, there, None) == 0
""",
        returncode=42,
    )


@pytest.mark.skipif(not hasattr(child.os, "fork"), reason="no fork on this system")
def test_T10_a_fork_with_columns_that_the_child_drops():
    assert child.program("fork_with_columns").strip() == "end"


# --- refusals -------------------------------------------------------------------------

#: By a name: what is refused, and words of the message.
REFUSED = {
    "strides": (lambda: tensor((2, 3), strides=(1, 2)), "C-contiguous", 'order="C"'),
    "negative": (lambda: tensor((3,), strides=(-1,), start=2), "C-contiguous", 'order="C"'),
    "broadcast": (lambda: tensor((3, 2), strides=(0, 1)), "C-contiguous", 'order="C"'),
    "no axes": (lambda: tensor(()), "no axes", "reshape(1)"),
    "bool": (lambda: tensor(dtype="bool"), "bits", 'reinterpret="uint8"'),
    "complex64": (lambda: tensor(dtype="complex64"), "complex64", ".real"),
    "complex128": (lambda: tensor(dtype="complex128"), "complex128", ".imag"),
    "complex32": (lambda: tensor(dtype=(5, 32, 1)), "complex32", 'reinterpret="uint32"'),
    "bfloat16": (lambda: tensor(dtype="bfloat16"), "bfloat16", 'reinterpret="uint16"'),
    "float8": (lambda: tensor(dtype="float8_e5m2"), "float8_e5m2", 'reinterpret="uint8"'),
    "lanes": (lambda: tensor(dtype=(2, 32, 2)), "float32x2", 'reinterpret="uint64"'),
    "wide lanes": (lambda: tensor(dtype=(2, 32, 4)), "float32x4", "its own library"),
    "packed": (lambda: tensor((4,), (0, 4, 1)), "int4", "its own library"),
    "padded": (lambda: tensor((4,), (0, 4, 1), flags=4), "int4", 'reinterpret="uint8"'),
    "unknown": (lambda: tensor(dtype=(77, 16, 1)), "code 77", 'reinterpret="uint16"'),
    "device": (
        lambda: dlshim.from_dlpack(P2((3,), device=(2, 1)), stream=-1), "host", 'device="cpu"',
    ),
    "long lists": (lambda: tensor((0, 2**31)), "2147483647", "reshape(-1)"),
    "overflow": (lambda: tensor((2**62, 4, 0)), "overflows", "64 bits"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_column_is_refused_with_a_cure(name):
    make, *words = REFUSED[name]
    t = make()
    before = live()
    with pytest.raises(BufferError) as error:
        t.__arrow_c_array__()
    tells(error.value, "dlshim.Tensor", *map(re.escape, words))
    assert live() == before
    assert hasattr(t, "__arrow_c_array__")


#: By a case above: what its message names, typed in, and the values of the column.
CURES = {
    "strides": [('dlshim.from_dlpack(x, order="C")', [0, 2, 4, 1, 3, 5])],
    "negative": [('dlshim.from_dlpack(x, order="C")', [2, 1, 0])],
    "broadcast": [('dlshim.from_dlpack(x, order="C")', [0, 1, 0, 1, 0, 1])],
    "no axes": [("dlshim.from_dlpack(x.numpy().reshape(1))", [0])],
    "bool": [('dlshim.from_dlpack(x, reinterpret="uint8")', [0, 1, 1])],
    "complex64": [
        ('dlshim.from_dlpack(x.numpy().real, order="C")', [0, 1, 2]),
        ('dlshim.from_dlpack(x.numpy().imag, order="C")', [0, 0, 0]),
    ],
    "bfloat16": [('dlshim.from_dlpack(x, reinterpret="uint16")', [0, 1, 2])],
    "lanes": [('dlshim.from_dlpack(x, reinterpret="uint64")', None)],
    "long lists": [("dlshim.from_dlpack(x.numpy().reshape(-1))", [])],
}


@pytest.mark.parametrize("name", CURES)
def test_the_cures_give_the_values(np, name):
    x = REFUSED[name][0]()
    with pytest.raises(BufferError) as error:
        x.__arrow_c_array__()
    for typed, values in CURES[name]:
        named = typed.replace(".imag, order", ".real, order")
        assert named in str(error.value) and (".imag" in str(error.value) or named == typed)
        column = Column(eval(typed))
        assert column.lengths[-1] == x.size
        assert values is None or column.values() == values
        column.release()


def test_booleans_of_several_axes_are_not_sent_by_numpy():
    """pyarrow.array takes NumPy's arrays of one axis alone."""
    for shape, named in (((3,), True), ((2, 2), False)):
        with pytest.raises(BufferError, match='reinterpret="uint8"') as raised:
            tensor(shape, dtype="bool").__arrow_c_array__()
        assert ("x.numpy()" in str(raised.value)) is named


@pytest.mark.parametrize("shape", [(3, 0), (2, 0, 3), (2, 3, 0)])
def test_N9_polars_gets_no_rows_without_elements(np, shape):
    """It ends in a PanicException, which is no Exception; others take them."""
    x = tensor(shape)
    space = {"__name__": "polars._utils.construction.series"}
    exec("def ask(x):\n    return x.__arrow_c_array__()\n", space)
    with pytest.raises(BufferError, match="its rows have no elements, and polars ends") as error:
        space["ask"](x)
    typed = "dlshim.from_dlpack(x.numpy().reshape(-1))"
    assert typed in str(error.value)
    for each in (eval(typed), tensor((0, 3))):
        assert len(space["ask"](each)) == 2
    column = Column(x)
    assert column.lengths[-1] == 0
    column.release()


def test_what_numpy_makes_of_booleans_and_of_ml_dtypes(np):
    ml = pytest.importorskip("ml_dtypes", reason="NumPy has bfloat16 by it")
    assert tensor(dtype="bool").numpy().tolist() == [False, True, True]
    t = dlshim.from_dlpack(np.array([0.5, 2], ml.bfloat16))
    column = Column(dlshim.from_dlpack(t.numpy().astype("float32")))
    assert column.values() == [0.5, 2]
    column.release()


COMPATIBLE = {
    "the same": ((3,), ["i"]),
    "another number": ((3,), ["g"]),
    "text": ((3,), ["u"]),
    "runs": ((3,), ["+r", "i"]),
    "lists of the same size": ((2, 3), ["+w:3", "i"]),
    "lists of any size": ((2, 3), ["+l", "i"]),
    "large lists, views": ((2, 3, 4), ["+L", "+vl", "d:9,2"]),
    "large views": ((2, 3), ["+vL", "f"]),
}
INCOMPATIBLE = {
    "lists of another size": ((2, 3), ["+w:4", "i"]),
    "lists for numbers": ((3,), ["+w:1", "i"]),
    "numbers for lists": ((2, 3), ["i"]),
    "too few levels": ((2, 3, 4), ["+w:3", "i"]),
    "a struct": ((3,), ["+s", "i"]),
    "a struct in lists": ((2, 3), ["+w:3", "+s", "i"]),
    "structs for lists": ((2, 3), ["+s", "i"]),
    "a map": ((3,), ["+m", "+s"]),
    "no format": ((3,), [""]),
    "no format below": ((2, 3), ["+w:3", ""]),
    "no format of lists": ((2, 3), ["", "i"]),
}


@pytest.mark.parametrize("name", COMPATIBLE)
def test_a_request_is_not_followed(name):
    """Arrow allows that: who asks looks at the schema that comes."""
    shape, formats = COMPATIBLE[name]
    x = tensor(shape)
    column, bare = Column(x, request(*formats)), Column(x)
    assert column.formats == bare.formats and column.values() == bare.values()
    column.release()
    bare.release()


@pytest.mark.parametrize("name", INCOMPATIBLE)
def test_a_request_of_another_structure_is_refused(name):
    shape, formats = INCOMPATIBLE[name]
    t, before = tensor(shape), live()
    with pytest.raises(ValueError, match="requested_schema") as error:
        t.__arrow_c_array__(request(*formats))
    tells(error.value, "dlshim.Tensor", "pass None")
    assert live() == before


def test_a_request_with_two_children_is_refused():
    with pytest.raises(ValueError, match="requested_schema"):
        tensor((2, 3)).__arrow_c_array__(request("+w:3", "i", fields=2))


def test_what_is_no_request_at_all():
    t = tensor()
    array = t.__arrow_c_array__()[1]
    for wrong in (5, "l", object(), array, caps.make()):
        with pytest.raises(TypeError, match="requested_schema") as error:
            t.__arrow_c_array__(wrong)
        tells(error.value, "arrow_schema", type(wrong).__name__)
    with pytest.raises(ValueError, match="released"):
        t.__arrow_c_array__(request("i", released=True))


def test_a_request_still_belongs_to_who_asked():
    t, before = tensor(), live()
    schema, array = t.__arrow_c_array__()
    t.__arrow_c_array__(schema)
    assert live() == before + 2 and held(schema, arrow.SCHEMA).release
    del schema, array
    assert live() == before
