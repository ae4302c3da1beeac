"""Which arrays a kernel accepts: `dlshim.kernel(dtypes=, ndims=)`, and what an address needs."""

from __future__ import annotations

import asyncio
import contextlib
import pickle

import pytest

import dlshim
from doubles import capsules as caps
from doubles import columns
from doubles.asking import bare, versioned
from doubles.capsules import READ_ONLY
from doubles.consumers import ask_like_jax, ask_like_numpy1, ask_like_numpy2
from doubles.ctable import Table
from doubles.producers import P1, P2, P3, P1b, TableMixin, c_table, table_capsule

np = pytest.importorskip("numpy", reason="its arrays are the arguments")

TAKES = pytest.mark.parametrize("takes", [None, "tensor", "capsule", "capsule-1", "numpy"])


def function(a, b=None, *more, k=None, **others):
    called.append(a)


called: list = []


@pytest.fixture(autouse=True)
def _forget():
    yield
    called.clear()


@contextlib.contextmanager
def refused(error, text):
    """Before the function is called."""
    called.clear()
    with pytest.raises(error, match=text):
        yield
    assert called == []


def floats():
    return np.arange(6.0).reshape(2, 3)


def ints():
    return np.arange(3)


@TAKES
def test_one_dtype_for_all(takes):
    k = dlshim.kernel(function, takes=takes, dtypes="float64")
    x, i = floats(), ints()
    for given in ((x,), (x, x), (x, [x, 1]), (x, {"k": x}), (3, None), (x, "text", 2.5)):
        k(*given)
        k(a=given[0], k=given[-1])
    for _ in range(2):
        with refused(
            TypeError, "argument 'a': 'numpy.ndarray' object has dtype int64, not float64"
        ):
            k(i)
        with refused(TypeError, r"argument 'b'\[1\]: .* int64, not float64"):
            k(x, [x, i])
        with refused(TypeError, r"argument 'b'\['k'\]: .* int64, not float64"):
            k(x, {"k": i})
        with refused(TypeError, "argument 3: .* int64, not float64"):
            k(x, x, i)
        with refused(TypeError, "argument 'k': .* int64, not float64"):
            k(x, k=i)
        with refused(TypeError, "argument 'z': .* int64, not float64"):
            k(x, z=i)


@TAKES
def test_by_name_and_position(takes):
    k = dlshim.kernel(
        function,
        takes=takes,
        dtypes={"a": "float64", 1: ("int64", "int32"), "k": "float32", 3: "bool", "z": "int8"},
        ndims={0: 2, "b": 1},
    )
    x, i = floats(), ints()
    k(x, i)
    k(x, b=i.astype("i4"), k=x.astype("f4"))
    k(x, i, i, i > 1, i, z=i.astype("i1"), y=i)
    k(x[:1], [i, i])
    for given, keywords, error, text in (
        ((i,), {}, TypeError, "'a': .* dtype int64, not float64"),
        ((x[0],), {}, ValueError, "'a': .* 1 dimension, not 2"),
        ((x, x), {}, TypeError, "'b': .* float64, not int64 or int32"),
        ((x,), {"b": x}, TypeError, "'b': .* float64, not int64 or int32"),
        ((x, [i, i.reshape(3, 1)]), {}, ValueError, r"'b'\[1\]: .* 2 dimensions, not 1"),
        ((x,), {"k": x}, TypeError, "'k': .* float64, not float32"),
        ((x, i, i, i), {}, TypeError, "argument 4: .* int64, not bool"),
        ((x,), {"z": i}, TypeError, "'z': .* int64, not int8"),
    ):
        with refused(error, f"argument {text}" if text[0] == "'" else text):
            k(*given, **keywords)


@TAKES
@pytest.mark.parametrize("make", [P2, P3], ids=lambda c: c.__name__)
def test_first_calls_and_later_ones(takes, make):
    """A type that was not met is looked at in Python, one that was met in C."""
    cls = type("Array", (make,), {})
    k = dlshim.kernel(function, takes=takes, dtypes="float32", ndims=(1, 2))
    for _ in range(3):
        k(cls(shape=(2, 3)))
        with refused(TypeError, "has dtype int32, not float32"):
            k(cls(dtype="int32"))
        with refused(ValueError, "has 3 dimensions, not 1 or 2"):
            k(cls(shape=(1, 2, 3)))


def test_arrays_with_a_C_table_still_go_in_as_they_are():
    """They are looked at by the view that their table lends."""
    cls = type("Array", (TableMixin, P2), {"__dlpack_c_exchange_api__": table_capsule(c_table())})
    k = dlshim.kernel(function, dtypes="float32")
    k(cls())
    x = cls()
    k(x)
    assert called[-1] is x
    with refused(TypeError, "not float32"):
        k(cls(dtype="int32"))


class Column:
    """It gives a new struct whenever it is asked."""

    def __arrow_c_array__(self, requested_schema=None):
        return columns.column(1, 2, 3)[0].__arrow_c_array__()


@TAKES
def test_columns(takes):
    options = {"readonly": "share"} if takes == "capsule" else {}
    for _ in range(2):
        dlshim.kernel(function, takes=takes, dtypes="int64", ndims=1, **options)(Column())
        with refused(TypeError, "argument 'a': .* has dtype int64, not int32"):
            dlshim.kernel(function, takes=takes, dtypes="int32", **options)(Column())


def test_our_own_objects():
    for takes in (None, "tensor", "capsule-1"):
        k = dlshim.kernel(function, takes=takes, dtypes="float64")
        for x in (floats(), ints()):
            for given in (dlshim.from_dlpack(x), dlshim.upgrade(x)):
                with contextlib.nullcontext() if x.dtype == "f8" else refused(TypeError, "int64"):
                    k(given)


def test_a_list_at_two_places_is_looked_at_for_each():
    k = dlshim.kernel(function, dtypes={"a": "float64", "b": "int64"})
    given = [floats()]
    with refused(TypeError, r"argument 'b'\[0\]: .* float64, not int64"):
        k(given, given)
    dlshim.kernel(function, dtypes={"a": "float64", "b": ("float64", "int64")})(given, given)


def test_two_options_at_once():
    x = floats()
    fixed = floats()
    fixed.flags.writeable = False
    for takes in (None, "tensor", "capsule-1"):
        k = dlshim.kernel(
            function, takes=takes, writes="b", dtypes="float64", order="C", reinterpret="int64"
        )
        with refused(TypeError, "'a': .* has dtype int64, not float64"):
            k(x, x)
        k = dlshim.kernel(function, takes=takes, writes="b", dtypes="float64", align=8)
        k(fixed, x)
        with refused(BufferError, "argument 'b': .* read-only"):
            k(x, fixed)
        with refused(TypeError, "argument 'b': .* int64, not float64"):
            k(x, ints())


def test_bfloat16_and_masks():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not in this environment")
    k = dlshim.kernel(function, dtypes=("bfloat16", ml_dtypes.int4))
    x = np.ones(3)
    for cls in (ml_dtypes.bfloat16, ml_dtypes.int4):
        k(x.astype(cls))
    with refused(TypeError, "float64, not bfloat16 or int4"):
        k(x)
    with refused(BufferError, "mask hides"):
        dlshim.kernel(function, dtypes="float64")(np.ma.masked_array([1.0, 2.0], mask=[0, 1]))


# ---- what was looked at goes in -----------------------------------------------------------------

CHECKS = pytest.mark.parametrize("said", [{"dtypes": "float32"}, {"writes": 0}], ids=str)


def by_table(x):
    return Table(type(x)).owned(x)


def lent(x):
    return Table(type(x)).borrow(x)


@CHECKS
@pytest.mark.parametrize("make", [P1, P1b, P2])
@pytest.mark.parametrize("ask", [ask_like_numpy1, ask_like_numpy2, ask_like_jax, by_table, lent])
def test_the_array_is_asked_once(make, ask, said, hand_on):
    """By a consumer that takes what the look has got."""
    k = dlshim.kernel(ask, **said, returns=None)
    x = make()
    for _ in range(2):
        k(make())  # the type is met
    for count in range(1, 4):
        assert k(x).values() == x.values()
        anew = ask is lent
        assert len(x.calls) == (count if hand_on and not anew else 2 * count)


@CHECKS
@pytest.mark.parametrize("ask", [versioned, bare, by_table, lent, np.asarray])
def test_what_the_function_keeps_asks_anew(said, ask):
    """A Producer that stays, alone or in a list, shows what its source has become."""
    kept: list = []
    k = dlshim.kernel(lambda *given: kept.extend(given), **said)
    x = P2()
    for _ in range(2):
        k(x)
    k([x, x])
    x.shape, x.strides = (2,), (1,)
    for producer in (*kept[:2], *kept[2]):
        given = ask(producer)
        assert (given.tolist() if ask is np.asarray else given.values()) == x.values()


def test_what_nobody_takes_is_given_back():
    """Also where an argument is refused."""
    k = dlshim.kernel(function, dtypes="float32")
    for _ in range(3):
        k(P2(), [P2()], k=P1())
        with refused(TypeError, "has dtype int16, not float32"):
            k(P2(), P2(dtype="int16"))


def test_who_asks_otherwise_is_served():
    """A copy, one export after the other, and positional arguments."""
    calls = (
        lambda p: ask_like_numpy2(p, copy=True),
        lambda p: [ask_like_numpy2(p), bare(p), by_table(p), lent(p)][-1],
        lambda p: [lent(p), by_table(p), bare(p), versioned(p)][-1],
        lambda p: caps.take(p.__dlpack__(None, max_version=(1, 1))),
    )
    x = P2()
    for call in calls:
        k = dlshim.kernel(call, dtypes="float32", returns=None)
        for _ in range(3):
            assert k(x).values() == x.values()


def test_an_answer_that_needs_a_decision_is_looked_at():
    """Elsewhere, reversed, empty, read-only, and an error of its own."""
    k = dlshim.kernel(versioned, dtypes="float32", returns=None)
    for _ in range(2):
        k(P2())
    assert k(P2(shape=(3,), strides=(-1,), start=2)).values() == [2, 1, 0]
    assert k(P2(shape=(0,))).values() == []
    assert k(P3(readonly=True)).flags == READ_ONLY
    with refused(TypeError, "has dtype int16"):
        dlshim.kernel(function, dtypes="float32")(P2(device=(12, 0), dtype="int16"))
    for _ in range(2):
        k(P2())


# ---- an address (takes="tensor") ---------------------------------------------------------------


def test_an_address_is_of_rows():
    seen = []
    k = dlshim.kernel(lambda x: seen.append((x.strides, x.is_copied)), takes="tensor")
    x = floats()
    for _ in range(2):
        k(x)
        k(x.T)
        k(x[::-1])
    assert seen == [((3, 1), False), ((2, 1), True), ((3, 1), True)] * 2
    seen.clear()
    for order in (None, "K"):
        k = dlshim.kernel(lambda x: seen.append(x.strides), takes="tensor", order=order)
        k(x.T)
    assert seen == [(1, 3)] * 2
    with refused(dlshim.CopyRequiredError, "argument 'a': .* row-major"):
        dlshim.kernel(function, takes="tensor", copy=False)(x.T)


def test_what_is_written_into_a_copy_would_be_lost():
    """The cure that is named works."""
    k = dlshim.kernel(lambda out: None, takes="tensor", writes="out")
    k(floats())
    with pytest.raises(
        BufferError, match=r"copied by order='C'.*\n  call a kernel with order=None"
    ):
        k(floats().T)
    dlshim.kernel(lambda out: None, takes="tensor", writes="out", order=None)(floats().T)


def test_an_address_is_of_the_host():
    """Other devices are refused, unless device= or like= says what is wanted."""
    away = P2(device=(12, 0))
    k = dlshim.kernel(function, takes="tensor")
    for _ in range(2):
        k(P2())
        with refused(
            BufferError, r"argument 'a': .*P2' object lies on device \(12, 0\), not on the"
        ):
            k(away)
        with refused(BufferError, r"argument 'a'\[0\]: .*P2' object lies on device \(12, 0\)"):
            k([away])
    dlshim.kernel(function, takes="tensor", device=None)(away)
    for takes in (None, "capsule", "capsule-1"):
        dlshim.kernel(function, takes=takes, dtypes="float32")(away)


# ---- what is said wrongly ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "said, error, text",
    [
        ({"dtypes": "float31"}, ValueError, "dtypes='float31' names no dtype"),
        ({"dtypes": ("int8", None)}, TypeError, "dtypes=None names no dtype"),
        ({"dtypes": ()}, ValueError, "dtypes= is empty"),
        ({"dtypes": {"x": "int8"}}, ValueError, "dtypes='x' is no .*\n  name one of these: a, k"),
        ({"dtypes": {2: "int8"}}, ValueError, "dtypes=2 is no parameter of"),
        ({"dtypes": {-1: "int8"}}, ValueError, "dtypes=-1: positions count from 0"),
        ({"dtypes": {None: "int8"}}, TypeError, "dtypes= takes names and positions"),
        ({"dtypes": {True: "int8"}}, TypeError, "dtypes= takes names and positions"),
        ({"dtypes": {("a", "k"): "int8"}}, TypeError, "dtypes= takes names and positions"),
        ({"dtypes": {"a": "int8", 0: "int8"}}, ValueError, "by its name and by its position"),
        ({"dtypes": {"a": {"k": "int8"}}}, TypeError, "names no dtype"),
        ({"ndims": 64}, ValueError, "ndims=64"),
        ({"ndims": {"a": "2"}}, TypeError, "ndims='2'"),
        ({"ndims": {"z": 2}}, ValueError, "ndims='z' is no parameter"),
        ({"dtype": "int8"}, TypeError, r"kernel\(\).*'dtype'"),
        ({"writable": True}, TypeError, r"kernel\(\).*'writable'"),
    ],
    ids=repr,
)
def test_what_guards_nothing_is_refused_when_the_kernel_is_made(said, error, text):
    with pytest.raises(error, match=text):
        dlshim.kernel(lambda a, *, k=None: None, **said)
    with pytest.raises(error, match=text):

        @dlshim.kernel(**said)
        async def waits(a, *, k=None):
            pass


def test_None_accepts_any():
    x, i = floats(), ints()
    k = dlshim.kernel(function, dtypes={"a": None, "b": "int64"}, ndims=None)
    k(x, i)
    k(i, i)
    dlshim.kernel(function, dtypes={})(x)
    far = dlshim.kernel(lambda *args: None, dtypes={255: "int64"})
    far(*[x] * 255, i)
    with pytest.raises(TypeError, match="argument 256: "):
        far(*[x] * 256)
    with pytest.raises(ValueError, match="positions are below 256"):
        dlshim.kernel(lambda *args: None, dtypes={256: "int64"})


def test_what_was_said_is_read_once():
    dtypes = {"a": ["int64"]}
    k = dlshim.kernel(function, dtypes=dtypes)
    dtypes["a"][0] = "float64"
    k(ints())
    again = pickle.loads(pickle.dumps(k))
    with refused(TypeError, "float64, not int64"):
        again(floats())


# ---- methods, async ----------------------------------------------------------------------------


class Methods:
    @dlshim.kernel(dtypes={"x": "int64"})
    def plain(self, x):
        return 1

    @dlshim.kernel(dtypes={1: "int64"})
    def by_position(self, x):
        return 1

    @staticmethod
    @dlshim.kernel(dtypes={0: "int64"})
    def static(x):
        return 1

    @dlshim.kernel(dtypes="int64")
    @classmethod
    def of_class(cls, x):
        return 1


@pytest.mark.parametrize("name", [name for name in vars(Methods) if name[0] != "_"])
def test_methods(name):
    for _ in range(2):
        assert getattr(Methods(), name)(ints()) == 1
        with pytest.raises(TypeError, match=r"argument 'x': .* float64, not int64"):
            getattr(Methods(), name)(floats())


@dlshim.kernel(takes="tensor", dtypes={"x": "int64"})
async def awaited(x, y=None):
    return x.shape


def test_async_functions():
    assert asyncio.run(awaited(ints())) == (3,)
    with pytest.raises(TypeError, match=r"argument 'x': .* float64, not int64"):
        asyncio.run(awaited(floats()))
    with pytest.raises(BufferError, match=r"argument 'y': .*lies on device \(12, 0\)"):
        asyncio.run(awaited(ints(), P2(device=(12, 0))))
