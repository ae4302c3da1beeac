"""The items of a Tensor: NumPy answers for host memory, and a Tensor is no sequence."""

from __future__ import annotations

import ctypes
import operator
import sys
from collections import abc

import pytest

import dlshim
from doubles.asking import live, tells
from doubles.producers import P2

pytestmark = pytest.mark.once


@pytest.fixture
def np():
    return pytest.importorskip("numpy", reason="NumPy answers for the items of a Tensor")


def tensor(shape=(2, 3), dtype="float32", **fields):
    return dlshim.from_dlpack(P2(shape, dtype, **fields))


# --- values ---------------------------------------------------------------------------

KEYS = {
    "a row": (1,),
    "from the end": (-1,),
    "an element": ((1, 2),),
    "a slice": (slice(0, 1),),
    "a step": (slice(None, None, -1),),
    "two slices": ((slice(None), slice(1, 3)),),
    "an ellipsis": ((..., 0),),
    "all": (...,),
    "a new axis": (None,),
    "a list": ([1, 0, 1],),
    "a mask": ([True, False],),
    "nothing": ((),),
}


@pytest.mark.parametrize("key", [key for (key,) in KEYS.values()], ids=KEYS)
def test_an_index_gives_what_numpy_gives(np, key):
    x = P2((2, 3), "int16")
    found, wanted = dlshim.from_dlpack(x)[key], np.arange(6, dtype="i2").reshape(2, 3)[key]
    assert type(found) is type(wanted) and found.dtype == wanted.dtype
    assert found.shape == wanted.shape and found.tolist() == wanted.tolist()


def test_a_mask_of_numpy_and_a_tensor_as_an_index(np):
    t = tensor((4,), "int64")
    assert t[np.array([True, False, False, True])].tolist() == [0, 3]
    assert t[dlshim.from_dlpack(np.array([3, 1]))].tolist() == [3, 1]
    assert np.arange(5, 9)[t].tolist() == [5, 6, 7, 8]


def test_bad_indices_raise_what_numpy_raises(np):
    t = tensor()
    for key, kind in (
        (2, IndexError),
        ((0, 0, 0), IndexError),
        ("a", IndexError),
        (1.5, IndexError),
    ):
        with pytest.raises(kind):
            t[key]


@pytest.mark.parametrize(
    ("strides", "start", "values"),
    [((1, 2), 0, [[0, 2, 4], [1, 3, 5]]), ((-3, -1), 5, [[5, 4, 3], [2, 1, 0]]), ((0, 1), 0, None)],
    ids=["transposed", "negative", "broadcast"],
)
def test_strides_are_kept(np, strides, start, values):
    t = tensor((2, 3), strides=strides, start=start)
    wanted = values or [[0, 1, 2]] * 2
    assert t[:].tolist() == wanted and [row.tolist() for row in t] == wanted


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)])
def test_an_empty_tensor(np, shape):
    t = tensor(shape)
    assert len(t) == shape[0] and t[:].shape == shape and len(list(t)) == shape[0]
    assert t.numpy().shape == shape


def test_a_tensor_without_axes(np):
    t = tensor((), "int32", start=0)
    assert t[()] == 0 and t[...].shape == () and t.numpy().tolist() == 0 and not t
    with pytest.raises(TypeError, match="no length") as error:
        len(t)
    tells(error.value, "dlshim.Tensor", "t.size")
    assert t.size == 1, "what the message names"
    with pytest.raises(TypeError, match="0-d"):
        iter(t)
    with pytest.raises(IndexError):
        t[0]


def test_iteration_gives_rows_and_elements(np):
    assert [row.tolist() for row in tensor()] == [[0, 1, 2], [3, 4, 5]]
    elements = list(tensor((3,), "int8"))
    assert elements == [0, 1, 2] and all(type(each) is np.int8 for each in elements)
    first, *rest = tensor((3,))
    assert (first, rest) == (0, [1, 2])
    running = iter(tensor())
    assert next(running).tolist() == [0, 1, 2], "the Tensor has gone, its memory has not"


def test_in(np):
    t = tensor((3,), "int64")
    assert 2 in t and 3 not in t and np.float64(1) in t
    with pytest.raises(ValueError, match="ambiguous"):
        assert 2 in tensor()
    assert (tensor().numpy() == 2).any()


@pytest.mark.parametrize("dtype", ["bool", "float64", "int8"])
def test_truth_is_numpys(np, dtype):
    one = np.ones(1, dtype)
    assert bool(dlshim.from_dlpack(one)) is True and bool(dlshim.from_dlpack(one * 0)) is False
    assert bool(dlshim.from_dlpack(one[0:1].reshape(()))) is True
    for many in (np.ones(2, dtype), np.zeros((2, 1), dtype)):
        with pytest.raises(ValueError, match="ambiguous"):
            bool(dlshim.from_dlpack(many))
    with pytest.warns(DeprecationWarning) if np.__version__ < "2.2" else pytest.raises(ValueError):
        assert not bool(dlshim.from_dlpack(one[:0]))


def test_numpy(np):
    x = P2((2, 3), "float32", strides=(1, 2))
    made = dlshim.from_dlpack(x).numpy()
    assert type(made) is np.ndarray and made.ctypes.data == x.element_zero
    assert made.strides == (4, 8) and made.dtype == "float32"
    with pytest.raises(TypeError):
        dlshim.from_dlpack(x).numpy(True)


@pytest.mark.parametrize("old", [False, True])
def test_numpy_is_the_same_in_every_release(np, monkeypatch, old):
    """Before 2.1, which brought unstack, from_dlpack made each array read-only."""
    asked = []
    by_dlpack = np.from_dlpack
    monkeypatch.setattr(np, "from_dlpack", lambda x: asked.append(x) or by_dlpack(x))
    if old:
        monkeypatch.delattr(np, "unstack", raising=False)
    elif not hasattr(np, "unstack"):
        pytest.skip("NumPy is older than 2.1")
    for dtype in ("bool", "int8", "uint16", "float16", "float32", "complex128"):
        for shape, strides in (((2, 3), (1, 2)), ((), None), ((3,), None), ((0, 2), None)):
            x = P2(shape, dtype, strides=strides)
            t, before = dlshim.from_dlpack(x), len(asked)
            made, same = t.numpy(), np.asarray(memoryview(t))
            assert (made.dtype, made.shape, made.strides) == (same.dtype, same.shape, same.strides)
            assert made.flags.writeable and made.ctypes.data == same.ctypes.data
            assert len(asked) - before == (0 not in shape and not old)


def test_dtypes_of_ml_dtypes(np):
    ml = pytest.importorskip("ml_dtypes", reason="its dtypes are seen here")
    t = dlshim.from_dlpack(np.arange(3).astype(ml.bfloat16))
    assert t[1] == 1 and t[:].dtype == ml.bfloat16 == t.numpy().dtype
    assert [float(each) for each in t] == [0, 1, 2]


# --- memory ---------------------------------------------------------------------------


def test_what_comes_shares_the_memory_and_keeps_it_alive(np):
    x = P2((2, 3), "float32")
    before = live()
    t = dlshim.from_dlpack(x)
    parts = [t[1], t[:, ::2], t.numpy(), next(iter(t))]
    for part in parts:
        assert np.shares_memory(part, t.numpy()) and part.flags.writeable
    parts[0][:] = 7
    assert t[1, 0] == 7 and np.asarray(dlshim.upgrade(x))[1, 0] == 7
    del t, part
    assert x.exports[0].deleted == 0 and parts[0].tolist() == [7, 7, 7]
    parts.clear()
    assert x.exports[0].deleted == 1 and live() == before


def test_a_copy_of_an_index_is_numpys(np):
    t = tensor((4,), "int32")
    copied = t[[0, 1]]
    copied[:] = 9
    assert t[:].tolist() == [0, 1, 2, 3]


def test_read_only_memory_stays_so(np):
    t = tensor(readonly=True)
    for part in (t[0], t[...], t.numpy(), next(iter(t))):
        assert not part.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 1


def test_nothing_is_written_by_a_tensor(np):
    t = tensor()
    with pytest.raises(TypeError):
        t[0] = 1
    with pytest.raises(TypeError):
        del t[0]
    with pytest.raises(TypeError):
        t += 1
    for operation in (operator.add, operator.mul, operator.matmul):
        with pytest.raises(TypeError):
            operation(t, 2)
    for name in ("ravel", "flags", "ctypes", "reshape", "__setitem__", "__add__", "__contains__"):
        assert not hasattr(t, name)


def test_a_count_of_references_comes_back(np):
    t = tensor()
    before = sys.getrefcount(t)
    for _ in range(50):
        t[0], t[:, 1], len(t), list(t), t.numpy()
        for attempt in (lambda: t[5], lambda: bool(t), lambda: t["a"], lambda: reversed(t)):
            with pytest.raises((IndexError, ValueError, TypeError)):
                attempt()
    assert sys.getrefcount(t) == before


# --- no sequence ----------------------------------------------------------------------


def test_a_tensor_is_no_sequence(np):
    """torch, pyarrow and others walk what PySequence_Check accepts, element by element."""
    t = tensor((3,))
    check = ctypes.pythonapi.PySequence_Check
    check.argtypes = [ctypes.py_object]
    assert check([]) == 1 and check(t) == 0
    assert not isinstance(t, abc.Sequence | abc.Collection | abc.Reversible | abc.Mapping)
    assert isinstance(t, abc.Sized) and isinstance(t, abc.Iterable)
    with pytest.raises(TypeError, match="not reversible"):
        reversed(t)
    with pytest.raises(TypeError):
        operator.concat(t, t)


def test_a_producer_has_no_items(np):
    x = dlshim.upgrade(P2())
    for attempt in (len, iter, lambda x: x[0], lambda x: x.numpy(), lambda x: 1 in x):
        with pytest.raises((TypeError, AttributeError)):
            attempt(x)
    assert x and not hasattr(x, "__arrow_c_array__")


def test_equality_and_hash_are_those_of_the_object(np):
    t, other = tensor(), tensor()
    assert t == t and t != other and len({t, other}) == 2


# --- refusals -------------------------------------------------------------------------

READS = {
    "index": lambda t: t[0],
    "iter": iter,
    "bool": bool,
    "numpy": lambda t: t.numpy(),
}
READING = pytest.mark.parametrize("read", READS.values(), ids=READS)


@READING
def test_memory_of_a_device_is_refused_with_the_cure(np, read):
    t = dlshim.from_dlpack(P2((3,), device=(2, 1)), stream=-1)
    with pytest.raises(TypeError, match="not on the host") as error:
        read(t)
    tells(error.value, "dlshim.Tensor", "device=cuda:1", r'from_dlpack\(x, device="cpu"\)')
    assert len(t) == 3, "a fact of the shape, as .size is"


@READING
def test_without_numpy_nothing_is_imported(monkeypatch, read):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(TypeError, match="not imported\n  import numpy first"):
        read(tensor((1,)))
    assert len(tensor((1,))) == 1


@READING
def test_a_dtype_that_numpy_does_not_have(np, monkeypatch, read):
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    with pytest.raises(TypeError, match="import ml_dtypes"):
        read(tensor((1,), "bfloat16"))


def test_pinned_memory_can_be_read(np):
    t = dlshim.from_dlpack(P2((3,), "int32", device=(3, 0)), stream=-1)
    assert t[1:].tolist() == [1, 2] and list(t) == [0, 1, 2]


def test_the_size_of_a_tensor_stays():
    assert sys.getsizeof(tensor((2, 3))) <= 300
