"""`dlshim.to` into each library that is here: what is recorded is what comes of each object.

Values, dtype, sharing, who may write, and the number of copies are looked at by one_verb.py, which
calls a cell WRONG where one of them is not as promised.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import dlshim
from dlshim import to
from interop import one_verb

ENVIRONMENT = os.environ.get("DLSHIM_INTEROP_ENV", "")
pytestmark = pytest.mark.skipif(
    not ENVIRONMENT.startswith("one-verb") and ENVIRONMENT != "",
    reason="the table is compared beside the releases that it was made with",
)
RECORDED = one_verb.recorded()


def here(name):
    return pytest.importorskip(name, reason=f"{name} is not in this environment")


def test_the_record_has_every_object_and_nothing_wrong():
    assert len(RECORDED) == len(one_verb.OBJECTS) >= 90
    cells = [row[target] for row in RECORDED for target in one_verb.TARGETS]
    assert [cell for cell in cells if cell.startswith("WRONG")] == []
    asked = [target for target in one_verb.TARGETS if RECORDED[0][target] != "not here"]
    assert len(asked) >= 12
    for row in RECORDED:
        for target in asked:
            refusal = row[target].partition("refused: ")[2]
            assert not refusal or len(refusal.partition(": ")[2].split()) > 4, (row, target)


@pytest.mark.parametrize("target", one_verb.here())
def test_a_column_is_as_it_is_recorded(target):
    """By the words before a text; objects whose library is not here are left out, and so is
    whether memory happens to be aligned."""
    differ, cells = [], one_verb.column(target)
    assert [cell for cell in cells if cell.startswith("WRONG")] == []
    if ENVIRONMENT == "one-verb-old":
        return  # older libraries refuse more
    for cell, row in zip(cells, RECORDED, strict=True):
        words, wanted = cell.partition(":")[0], row[target].partition(":")[0]
        luck = target in one_verb.ALIGNED and {words, wanted} <= {"shared", "copied"}
        if "not here" not in (words, wanted) and words != wanted and not luck:
            differ.append((row["row"], row["object"], cell, row[target]))
    assert differ == []


# ---- cures that the texts name -------------------------------------------------------------------


@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas", "warp"])
def test_an_array_without_axes_is_given_one(library):
    here(library)
    x = np.array(2, "f4")
    with pytest.raises(BufferError, match=r"it has no axes, .*\n  pass x\.reshape\(1\)$"):
        to(x, library)
    assert to(to(x.reshape(1), library), "numpy").tolist() == [2]


def test_a_table_of_pandas_has_two_axes():
    here("pandas")
    x = np.arange(24.0).reshape(2, 3, 4)
    with pytest.raises(BufferError, match=r"it has 3 axes, .*\n  pass x\.reshape\(len\(x\), -1\)$"):
        to(x, "pandas")
    assert to(x.reshape(len(x), -1), "pandas").to_numpy().tolist() == x.reshape(2, 12).tolist()


def test_polars_takes_no_rows_without_elements():
    here("polars")
    x = np.ones((3, 0))
    with pytest.raises(
        BufferError, match=r"its rows have no elements, .*\n  pass x\.reshape\(-1\)$"
    ):
        to(x, "polars")
    assert len(to(x.reshape(-1), "polars")) == 0


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_the_bits_of_a_dtype_that_a_library_lacks(library):
    here(library)
    ml_dtypes = here("ml_dtypes")
    x = np.ones(2, ml_dtypes.bfloat16)
    with pytest.raises(
        BufferError, match=r"has no bfloat16\n  convert it first, or pass dlshim\."
    ) as e:
        to(x, library)
    cure = str(e.value).partition("or pass ")[2].removesuffix(" for its bits")
    made = to(eval(cure, {"dlshim": dlshim, "x": x}), library)
    assert to(made, "numpy").tolist() == x.view("u2").tolist()


def test_what_jax_narrows_is_kept_by_the_cure():
    jax = here("jax")
    x = np.array([2**40])
    with pytest.raises(
        BufferError, match=r"int32 cannot hold\n  convert it first, or jax\.config"
    ) as e:
        to(x, "jax")
    cure = str(e.value).partition("first, or ")[2]
    try:
        exec(cure, {"jax": jax})
        assert to(x, "jax").tolist() == x.tolist()
    finally:
        jax.config.update("jax_enable_x64", False)


# ---- memory and time -----------------------------------------------------------------------------


def test_jax_computes_later_and_reads_what_was_there():
    """A shared buffer that is written after the call gives wrong values, in nearly every try."""
    jax = here("jax")
    f = jax.jit(lambda a: (a @ a).sum())
    buffer = np.ones((400, 400), "f4")
    wanted = float(f(jax.numpy.ones((400, 400))))
    for _ in range(20):
        buffer[:] = 1
        later = f(to(buffer, "jax"))
        buffer[:] = 2
        assert float(later) == wanted


def test_a_later_result_of_mlx_does_not_see_what_torch_writes():
    mx, torch = here("mlx.core"), here("torch")
    for _ in range(3):
        a = mx.array(np.ones(3, "f4"))
        b = a + 1
        made = to(a, "torch")
        assert isinstance(made, torch.Tensor)
        made.zero_()
        assert b.tolist() == [2, 2, 2]


def test_torch_keeps_its_autograd():
    torch = here("torch")
    x = torch.ones(3, requires_grad=True)
    assert to(x, "torch") is x
    assert to(x, "torch", copy=True).grad_fn is not None
    assert np.shares_memory(to(x, "numpy"), x.detach().numpy())


def test_a_class_of_a_library_decides():
    pa = here("pyarrow")
    x = np.arange(6.0).reshape(2, 3)
    assert type(to(x, pa.Tensor)) is pa.Tensor
    assert to(to(x, pa.Tensor), pa.Tensor).to_numpy().tolist() == x.tolist()
    assert isinstance(to(x, pa.Array), pa.Array)


def test_a_wrapper_of_a_library_is_the_library():
    compat, torch = here("array_api_compat.torch"), here("torch")
    assert type(to(np.ones(3)[::-1], compat)) is torch.Tensor


def test_columns_keep_what_no_array_has():
    pl, pa, pd = here("polars"), here("pyarrow"), here("pandas")
    for x in (pl.Series([1, None, 3]), pa.array(["a", None]), pd.Series([1, None], dtype="Int64")):
        for library in ("polars", "pyarrow", "pandas"):
            made = to(x, library)
            seen = made.to_pylist() if library == "pyarrow" else made.to_list()
            assert [None if each is pd.NA or each != each else each for each in seen] == [
                None if each is None or each is pd.NA else each
                for each in (x.to_pylist() if isinstance(x, pa.Array) else x.to_list())
            ]
    nan = to(pd.Series([1.0, float("nan")]), "polars")
    assert nan.null_count() == 0 and nan.is_nan().sum() == 1


# ---- lists, dates, tables, subclasses ------------------------------------------------------------


@pytest.mark.parametrize("library", ["numpy", "polars", "pandas", "array_api_strict"])
def test_integers_of_64_bits_without_a_sign(library):
    if library == "polars" and not hasattr(here("polars").Series, "__arrow_c_stream__"):
        pytest.skip("Polars before 1.3 refuses them itself")
    here(library)
    made = to(to([2**63, 1], library), "numpy")
    assert made.dtype == "uint64" and made.tolist() == [2**63, 1]


@pytest.mark.parametrize("library", ["torch", "jax", "mlx", "pyarrow", "array_api_strict"])
def test_integers_are_exact_or_an_error(library):
    here(library)
    with pytest.raises(ValueError, match=r"^to\(\): .*(refuses the list|has no dtype for)"):
        to([2**63 + 1, -1], library)


@pytest.mark.parametrize("x", [1j, [1j, 2], [object()]], ids=["number", "list", "objects"])
def test_polars_keeps_no_objects(x):
    here("polars")
    with pytest.raises(
        ValueError, match=r"polars has no dtype for what is in the list|refuses the"
    ):
        to(x, "polars")


@pytest.mark.parametrize("library", ["polars", "pyarrow", "pandas"])
@pytest.mark.parametrize("dtype", ["M8[D]", "M8[us]", "M8[h]", "m8[D]", "m8[s]", "m8[ns]"])
def test_dates_become_a_column_or_the_cure_makes_them_one(library, dtype):
    here(library)
    x = np.array([1, 2], dtype)
    try:
        made = to(x, library)
    except BufferError as error:
        cure = str(error).partition("\n  pass ")[2]
        made = to(eval(cure, {"x": x}), library)
    seen = made.to_numpy(zero_copy_only=False) if library == "pyarrow" else np.asarray(made)
    assert (seen == x).all() and seen.dtype.kind == x.dtype.kind
    with pytest.raises(dlshim.CopyRequiredError, match="copies dates and texts"):
        to(x, library, copy=False)


def test_names_of_columns_may_be_there_twice():
    pd, pa = here("pandas"), here("pyarrow")
    if ENVIRONMENT == "one-verb-old":
        pytest.skip("Int64 of pandas 2 offers no array where PyArrow has no stream")
    twice = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, dtype="Int64").set_axis(["a", "a"], axis=1)
    assert to(twice, "numpy").tolist() == [[1, 3], [2, 4]]
    arrow = pa.table([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    assert to(arrow, "numpy").tolist() == [[1, 3], [2, 4]]
    mixed = pd.DataFrame({"a": [1], "b": [1.5]})
    with pytest.raises(BufferError, match=r"different dtypes .*\n  pass x\['a'\], or"):
        to(mixed, "numpy")
    x = mixed.set_axis(["a", "a"], axis=1)
    with pytest.raises(BufferError, match=r"different dtypes .*\n  pass x\.iloc\[:, 0\], or"):
        to(x, "numpy")
    assert to(x.iloc[:, 0], "numpy").tolist() == [1]
    x = pa.table([pa.array([1, None]), pa.array([3, 4])], names=["a", "a"])
    with pytest.raises(BufferError, match=r"column x\.column\(0\): .*\n  pass ") as e:
        to(x, "numpy")
    cure = str(e.value).partition("\n  pass ")[2].removesuffix(" instead").rpartition("pass ")[2]
    assert to(eval(cure, {"x": x}), "numpy").tolist() == [1, 0]


def test_a_subclass_of_a_frame_is_a_frame():
    pd = here("pandas")

    class Frame(pd.DataFrame):
        pass

    x = Frame({"a": [1.0, 2.0]})
    assert to(x, "numpy").tolist() == [[1], [2]]
    assert to(x, "pandas") is x
    here("polars")
    with pytest.raises(BufferError, match=r"a table is no column\n  pass polars.DataFrame\(x\)"):
        to(x, "polars")


def test_jax_is_given_what_it_takes_of_strides():
    """A transposed array is shared where it may be; one with gaps is none that JAX takes."""
    jax = here("jax")
    room = np.zeros(24 * 4 + 64, "u1")
    start = -room.ctypes.data % 64
    x = room[start : start + 96].view("f4").reshape(4, 6)
    if jax.__version_info__ < (0, 8):  # it computes wrong values of it, or refuses it
        with pytest.raises(dlshim.CopyRequiredError, match="jax does not take its strides"):
            to(x.T, "jax", copy=False)
        return
    made = to(x.T, "jax", copy=False)
    assert dlshim.from_dlpack(made).data_ptr() == x.ctypes.data
    with pytest.raises(dlshim.CopyRequiredError, match="jax does not take its strides"):
        to(x[:, ::2], "jax", copy=False)


def test_complex_numbers_are_looked_at_part_by_part():
    here("jax")
    with pytest.raises(BufferError, match="there are values that complex64 cannot hold"):
        to(np.array([complex(np.nan, 1e300)]), "jax")
    with pytest.warns(dlshim.NarrowedWarning):
        made = to(np.array([complex(np.nan, 1.0)]), "jax")
    assert np.isnan(made.real).all() and made.imag == 1


def test_the_cure_of_mlx_is_told_once():
    here("mlx.core")
    with pytest.raises(BufferError, match=r"complex64 cannot hold\n  convert it first$"):
        to(np.array([1e300 + 1j]), "mlx")


def test_a_later_result_of_mlx_does_not_see_what_is_written_through_a_wrapper():
    mx = here("mlx.core")
    here("torch")
    a = mx.array(np.ones(3, "f4"))
    b = a + 1
    to(dlshim.upgrade(a), "torch").zero_()
    assert b.tolist() == [2, 2, 2]


# ---- things of a day -----------------------------------------------------------------------------

#: What it is, how it is made, and its values as Python has them.
THINGS = {
    "array": ("np.arange(3.0)", [0, 1, 2]),
    "array reversed": ("np.arange(3.0)[::-1]", [2, 1, 0]),
    "array with a step": ("np.arange(5.0)[::2]", [0, 2, 4]),
    "array read-only": ("fixed(np.arange(3.0))", [0, 1, 2]),
    "array big-endian": ("np.arange(3, dtype='>f4')", [0, 1, 2]),
    "array bfloat16": ("np.arange(3).astype(ml_dtypes.bfloat16)", [0, 1, 2]),
    "array broadcast": ("np.broadcast_to(np.float32(1), (3,))", [1, 1, 1]),
    "array uint16": ("np.arange(3, dtype='u2')", [0, 1, 2]),
    "field of a record": ("packed()['b']", [1, 2, 3]),
    "number of NumPy": ("np.float64(3)", 3),
    "list": ("[1, 2, 3]", [1, 2, 3]),
    "float": ("3.5", 3.5),
    "range": ("range(3)", [0, 1, 2]),
    "list of arrays": ("[np.ones(2), np.ones(2)]", [[1, 1], [1, 1]]),
    "bytes": ("b'abc'", [97, 98, 99]),
    "bytearray": ("bytearray(b'abc')", [97, 98, 99]),
    "array.array": ("array.array('d', [1, 2])", [1, 2]),
    "memoryview": ("memoryview(bytearray(4)).cast('i')", [0]),
    "jax": ("jnp.arange(3.0)", [0, 1, 2]),
    "jax bfloat16": ("jnp.arange(3, dtype=jnp.bfloat16)", [0, 1, 2]),
    "jax bool": ("jnp.array([True, False])", [True, False]),
    "polars": ("pl.Series([1.0, 2.0])", [1, 2]),
    "polars bool": ("pl.Series([True, False])", [True, False]),
    "polars in chunks": (
        "pl.concat([pl.Series([1.0]), pl.Series([2.0])], rechunk=False)",
        [1, 2],
    ),
    "polars frame": ("pl.DataFrame({'a': [1.0, 2.0], 'b': [3.0, 4.0]})", [[1, 3], [2, 4]]),
    "pandas": ("pd.Series([1.0, 2.0])", [1, 2]),
    "pandas frame": ("pd.DataFrame({'a': [1.0, 2.0], 'b': [3.0, 4.0]})", [[1, 3], [2, 4]]),
    "pyarrow": ("pa.array([1.0, 2.0])", [1, 2]),
    "pyarrow vectors": ("pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))", [[1, 2]]),
    "image of Pillow": ("Image.new('L', (2, 1), 7)", [[7, 7]]),
    "Parameter": ("torch.nn.Parameter(torch.ones(2))", [1, 1]),
}


ARRAYS = {"torch": "Tensor", "jax": "Array", "numpy": "ndarray"}


@pytest.fixture(scope="module")
def around():
    return one_verb.names()


@pytest.mark.parametrize("library", ["torch", "jax", "numpy"])
@pytest.mark.parametrize("thing", THINGS)
def test_things_of_a_day_become_arrays_without_options(thing, library, around):
    """All of them, twice, and a warning alone where JAX has half of the bits."""
    module = here(library)
    make, values = THINGS[thing]
    try:
        x = eval(make, around)
    except NameError as error:
        pytest.skip(f"{error.name} is not in this environment")
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = to(x, library)
        assert isinstance(made, getattr(module, ARRAYS[library]))
        assert made.tolist() == values
        expected = {dlshim.NarrowedWarning} if library == "jax" else set()
        assert {each.category for each in told} <= expected
    if library == "torch":
        made.detach().zero_()
        assert thing != "array read-only" or x.tolist() == values
        assert thing != "bytes" or x == b"abc"
