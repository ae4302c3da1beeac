"""`dlshim.kernel`: compiled functions as arrays of any library call them (K1-K11)."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import copy
import functools
import gc
import inspect
import pickle
import pydoc
import sys
import threading
import types
import weakref

import pytest

import dlshim
from dlshim import _core
from doubles import columns
from doubles.producers import P2, P3, TableMixin, c_table, table_capsule

np = pytest.importorskip("numpy", reason="its arrays are the arguments")
try:
    import tvm_ffi
except ImportError:
    tvm_ffi = None


def echo(*args):
    """As a function of tvm-ffi that makes its output, and tells no parameters."""
    x = args[0]
    return dlshim.from_dlpack(x) if isinstance(x, dlshim.Producer) else x


def compiled(function):
    """A function of tvm-ffi, where that is installed."""
    return tvm_ffi.convert(function) if tvm_ffi else lambda *args: echo(function(*args))


ECHO = tvm_ffi.get_global_func("testing.echo") if tvm_ffi else echo
needs_tvm_ffi = pytest.mark.skipif(
    tvm_ffi is None,
    reason="only a function of tvm-ffi tells no parameters, and returns no argument as it came",
)
Pair = collections.namedtuple("Pair", "a b")


class Own:
    """An array of a user's library, in Python: it has a home by its own from_dlpack."""

    def __init__(self, values):
        self.values = np.asarray(values)

    @classmethod
    def from_dlpack(cls, x):
        return cls(np.from_dlpack(x))

    def __dlpack__(self, **asked):
        return self.values.__dlpack__(**asked)

    def __dlpack_device__(self):
        return (1, 0)


class Homeless:
    def __init__(self, values):
        self.values = np.asarray(values)

    __dlpack__, __dlpack_device__ = Own.__dlpack__, Own.__dlpack_device__


class Interface:
    """An object of an older protocol whose type tells."""

    def __init__(self):
        self.there = np.arange(3.0)

    __cuda_array_interface__ = property(lambda self: {})


class WithoutModule:
    __module__ = None


def array():
    return np.arange(6.0).reshape(2, 3)


def same(x):
    return x


# ---- in (K3) -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x",
    [
        *(None, True, 3, 2.5, "text", b"bytes", bytearray(3), memoryview(b"abc"), 1j, ...),
        *(np.float32(1), np.dtype("f4"), np.ndarray, range(3), {1, 2}, frozenset(), iter([1])),
        *(Interface, types, ECHO, slice(1), collections.OrderedDict(a=array()), object()),
        WithoutModule(),
        *(dlshim.dtype("float32"), dlshim.DLDeviceType.kDLCPU),
        _core.from_dlpack(array()).__dlpack__(),
    ],
    ids=lambda x: type(x).__name__,
)
def test_what_is_no_array_is_passed_as_it_is(x):
    seen = []
    k = dlshim.kernel(lambda *args, **kwargs: seen.append((*args, *kwargs.values())))
    k(x, a=x)
    k(array(), x, [x], a=x)
    assert seen[0][0] is x and seen[0][1] is x
    assert seen[1][1] is x and seen[1][2][0] is x and seen[1][3] is x
    assert isinstance(seen[1][0], dlshim.Producer)


@pytest.mark.parametrize("x", [array(), Own([1.0]), Homeless([1.0]), Interface()])
def test_arrays_are_upgraded_wherever_they_stand(x):
    seen = []
    k = dlshim.kernel(lambda *args, **kwargs: seen.extend((*args, *kwargs.values())))
    k(x, 1, x, a=x)
    assert [type(y) for y in (seen[0], seen[2], seen[3])] == [type(dlshim.upgrade(x))] * 3
    assert seen[0].source is x and seen[1] == 1


def test_more_arguments_than_have_room():
    k = dlshim.kernel(lambda *args, **kwargs: (len(args), len(kwargs), type(args[-1])))
    x = array()
    assert k(*[x] * 40) == (40, 0, type(dlshim.upgrade(x)))
    assert k(*[x] * 8, a=1)[:2] == (8, 1)


def of_a_library():
    """A class with a C table: its arrays go in as they are."""
    table = table_capsule(c_table(current_work_stream=None))
    return type("Array", (TableMixin, P2), {"__dlpack_c_exchange_api__": table})


def test_arrays_with_a_C_table_go_in_as_they_are():
    """Also after arrays of other types, and beside them."""
    seen = []
    k = dlshim.kernel(lambda *args, **kwargs: seen.extend([*args, *kwargs.values()]))
    t, x, other = P3(), array(), of_a_library()()
    for _ in range(3):
        for given in ((t,), (t, t), (x, t), (t, x), (t, 1), (t, other), (other, t), (t,) * 9):
            for call in (lambda: k(*given), lambda: k(*given[:-1], a=given[-1])):  # noqa: B023
                call()
                for passed, old in zip(seen, given, strict=True):
                    stays = old is given[0] is not x or type(old) is int
                    assert passed is old if stays else passed.source is old, (given, seen)
                seen.clear()


def test_a_class_whose_arrays_went_in_can_die():
    """What a kernel remembers of it is of no other class, as one at the same address."""
    seen = []
    k = dlshim.kernel(lambda x: seen.append(type(x)))
    for _ in range(50):
        cls = of_a_library()
        k(cls())
        k(cls())
        assert seen == [cls, cls]
        seen.clear()
        gone = weakref.ref(cls)
        del cls
        gc.collect()
        assert gone() is None
        k(type("Plain", (P2,), {})())
        assert issubclass(seen.pop(), dlshim.Producer)


def test_containers_are_rebuilt_only_if_something_in_them_changed():
    k = dlshim.kernel(lambda *args: args, returns=None)
    plain = [[1, (2,)], {"a": 3}, (4, 5), Pair(6, 7)]
    assert all(new is old for new, old in zip(k(array(), *plain)[1:], plain, strict=True))
    x = array()
    listed, tupled, named, keyed = k([x, 1], (x, 2), Pair(x, 3), {"k": [x]})
    producer = type(dlshim.upgrade(x))
    assert [type(y) for y in (listed, tupled, named, keyed)] == [list, tuple, Pair, dict]
    assert type(listed[0]) is type(tupled[0]) is type(named.a) is type(keyed["k"][0]) is producer


def test_a_container_that_contains_itself():
    loop = [1]
    loop.append({"k": loop})
    with pytest.raises(ValueError, match=r"argument 1.*contains itself"):
        dlshim.kernel(lambda *x: x)(loop)
    twice = [1]
    dlshim.kernel(same)([array(), twice, twice])


class Moving(Own):
    """An item of a cache: whoever asks for it makes it the last of the cache."""

    def __dlpack__(self, **keywords):
        moved = next(key for key, x in self.cache.items() if x is self)
        self.cache[moved] = self.cache.pop(moved)
        return super().__dlpack__(**keywords)


def cache_of(*values):
    cache = {value: Moving([value]) for value in values}
    for x in cache.values():
        x.cache = cache
    return cache


def first_values(d):
    return {key: float(np.from_dlpack(x)[0]) for key, x in d.items()}


def test_a_dict_that_changes_while_it_is_searched_keeps_its_keys():
    right = {1.0: 1.0, 2.0: 2.0, 3.0: 3.0}
    given, made = cache_of(1.0, 2.0), cache_of(1.0, 2.0)
    given[3.0] = made[3.0] = Own([3.0])
    assert dlshim.kernel(first_values, takes="tensor")(given) == right
    assert first_values(dlshim.kernel(lambda: made, like=np.ndarray)()) == right


@pytest.mark.parametrize("kind", [list, dict])
def test_a_container_that_grows_while_it_is_searched(kind):
    grown = kind()

    class Growing(Own):
        def __dlpack__(self, **keywords):
            if type(grown) is list:
                grown.append(self)
            else:
                grown[len(grown)] = self
            return super().__dlpack__(**keywords)

    grown.append(Growing([1.0])) if type(grown) is list else grown.update(a=Growing([1.0]))
    seen = dlshim.kernel(lambda x: x, takes="tensor", returns=None)(grown)
    assert type(seen) is type(grown) and len(seen) == 1 and len(grown) == 2


def test_a_dict_that_another_thread_changes():
    given = {key: np.full(2, float(key)) for key in range(8)}
    k, done = dlshim.kernel(first_values), threading.Event()

    def move():
        while not done.is_set():
            for key in range(8):
                given[key] = given.pop(key)

    thread = threading.Thread(target=move)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(2000):
            assert all(key == value for key, value in k(given).items())
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_a_container_at_two_places_is_one_and_is_searched_once():
    asked = []

    class Asked(Own):
        def __dlpack__(self, **keywords):
            asked.append(self)
            return super().__dlpack__(**keywords)

    nested = [Asked([1.0])]
    for _ in range(20):  # a search of each place would meet the array a million times
        nested = [nested, nested]
    k = dlshim.kernel(lambda x, y: (x, y), takes="tensor", returns=None)
    x, y = k(nested, nested)
    assert x is y and x[0] is x[1] and len(asked) == 1
    dlshim.kernel(lambda: nested, like=np.ndarray)()
    assert len(asked) == 2


def test_a_container_that_is_also_written_is_looked_at_again():
    given = [readonly()]
    k = dlshim.kernel(lambda a, out: None, writes="out")
    with pytest.raises(BufferError, match=r"argument 'out'\[0\].*read-only"):
        k(given, given)


def test_N9_an_option_that_copies_mends_the_byte_order_of_arguments():
    given = np.arange(3, dtype="i4")
    given = given.astype(given.dtype.newbyteorder("S"))
    for options in ({"order": "C"}, {"order": "auto"}, {"copy": True}):
        k = dlshim.kernel(lambda x: memoryview(x).tolist(), takes="tensor", **options)
        assert k(given) == [0, 1, 2]
    with pytest.raises(BufferError, match=r'argument.*\n  pass order="C"'):
        dlshim.kernel(lambda x: x, takes="tensor", order="K")(given)


def test_writes_is_read_once():
    names = ["out"]
    k = dlshim.kernel(write, writes=names, order="C")
    names[:] = ["no parameter"]
    with pytest.raises(BufferError, match="'out'"):
        pickle.loads(pickle.dumps(k))(array(), readonly())


def test_what_f_does_to_a_rebuilt_list_is_not_seen():
    given = [array()]
    dlshim.kernel(lambda x: x.clear())(given)
    assert len(given) == 1


def test_producers_and_tensors_count_as_arrays():
    x = array()
    for given, type_ in ((dlshim.upgrade(x), np.ndarray), (dlshim.from_dlpack(x), dlshim.Tensor)):
        k = dlshim.kernel(ECHO)
        assert type(k(given)) is type_ or k(given) is given
        assert np.shares_memory(np.asarray(k(given)), x)
        assert dlshim.kernel(same)(given) is given


# ---- the home (K2, K4) -------------------------------------------------------------------------


def test_results_come_home():
    k = dlshim.kernel(ECHO)
    x = array()
    result = k(x)
    assert type(result) is np.ndarray and np.shares_memory(result, x)
    own = k(Own([1.0, 2.0]))
    assert type(own) is Own and own.values.tolist() == [1.0, 2.0]
    assert type(k(Homeless([1.0]))) is dlshim.Tensor
    assert k(3) == 3


@needs_tvm_ffi
def test_the_first_array_decides_though_the_consumer_takes_the_last():
    second = dlshim.kernel(compiled(lambda a, b: b))
    x, own = array(), Own([1.0])
    assert type(second(x, own)) is np.ndarray
    assert type(second(own, x)) is Own
    first_by_name = dlshim.kernel(lambda a=None, b=None: ECHO(b))
    assert type(first_by_name(b=own, a=x)) is Own
    assert type(first_by_name([own], x)) is Own
    assert type(dlshim.kernel(ECHO, like=own)(x)) is Own


def test_libraries_without_a_from_dlpack_are_not_one():
    """What has a C table is passed as it is to a kernel of its own home alone."""
    t, other, seen = P3(), of_a_library()(), []
    k = dlshim.kernel(lambda *args: seen.extend(args))
    k([t], other)
    assert seen[0] == [t] and type(seen[1]) is type(dlshim.upgrade(t)) and seen[1].source is other
    assert type(dlshim.kernel(lambda x: other)(Homeless([1.0]))) is dlshim.Tensor
    tensor = dlshim.from_dlpack(array())
    assert dlshim.kernel(lambda x: tensor)(Homeless([1.0])) is tensor


def test_arguments_that_come_back_are_the_caller_s_own():
    k = dlshim.kernel(lambda *args: [*args, {"k": args}])
    x, own = array(), Own([1.0])
    a, b, nested = k(x, own)
    assert a is x and b is own and nested["k"][0] is x and nested["k"][1] is own
    given = [x, [own]]
    back = dlshim.kernel(same)(given)
    assert back[0] is x and back[1][0] is own


def test_arrays_of_other_libraries_come_home_from_everywhere():
    made = np.arange(3.0)
    k = dlshim.kernel(
        lambda x: [made, (dlshim.from_dlpack(made),), Pair(1, dlshim.upgrade(made)), {"k": made}, 5]
    )
    listed = k(Own([1.0]))
    found = [listed[0], listed[1][0], listed[2].b, listed[3]["k"]]
    assert all(type(y) is Own and np.shares_memory(y.values, made) for y in found)
    assert listed[4] == 5
    assert dlshim.kernel(lambda x: made)(np.ones(1)) is made


def test_returns():
    made, x = np.arange(3.0), Own([1.0])
    assert type(dlshim.kernel(lambda x: made, returns=Own)(array())) is Own
    assert type(dlshim.kernel(lambda x: made, returns=Own)(3)) is Own
    assert dlshim.kernel(lambda x: made, returns=None)(x) is made
    assert isinstance(dlshim.kernel(same, returns=None)(x), dlshim.Producer)
    assert dlshim.kernel(lambda x: made)(3) is made


def test_what_has_no_DLPack_form():
    objects = np.zeros(2, "O")
    assert dlshim.kernel(lambda x: objects)(array()) is objects
    with pytest.raises(BufferError):
        dlshim.kernel(lambda x: objects)(Own([1.0]))
    assert dlshim.kernel(lambda x: objects, returns=None)(Own([1.0])) is objects


def test_NumPy_s_arrays_come_back_with_the_dtypes_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not in this environment")
    x = np.arange(4).astype(ml_dtypes.bfloat16)
    y = dlshim.kernel(ECHO)(x)
    assert type(y) is np.ndarray and y.dtype == x.dtype and np.shares_memory(x, y)


def test_a_container_of_the_consumer_stays_and_a_loop_is_named():
    k = dlshim.kernel(compiled(lambda x: [x, x]))
    assert type(k(array())).__name__ in ("Array", "list")
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match=r"the result.*contains itself"):
        dlshim.kernel(lambda x: loop)(array())


# ---- writing (K5) ------------------------------------------------------------------------------


def readonly():
    x = array()
    x.flags.writeable = False
    return x


def write(a, out, *more, flag=None):
    np.from_dlpack(out)[...] = 9.0
    return None


@pytest.mark.parametrize("writes", ["out", 1, ("out",), [1], ("a", "out"), True])
def test_read_only_memory_is_refused_before_the_call(writes):
    k = dlshim.kernel(write, writes=writes)
    out = array()
    k(array(), out)
    assert (out == 9).all()
    with pytest.raises(BufferError, match=r"'out': 'numpy.ndarray' object is read-only"):
        k(array(), readonly())
    with pytest.raises(BufferError, match="'out'"):
        k(array(), out=readonly())
    with pytest.raises(BufferError, match=r"'out'\[0\]\['k'\]"):
        k(array(), [{"k": readonly()}])


def test_the_cure_that_is_named_works():
    k = dlshim.kernel(write, writes="out")
    with pytest.raises(BufferError, match=r"keep and pass dlshim.from_dlpack\(x, copy=True\)"):
        k(array(), x := readonly())
    kept = dlshim.from_dlpack(x, copy=True)
    k(array(), kept)
    assert (np.asarray(kept) == 9).all()


def test_arguments_that_an_option_would_copy():
    x = np.arange(12.0).reshape(3, 4)[:, ::2]
    k = dlshim.kernel(write, writes="out", order="C")
    k(x, np.zeros((2, 2)))
    with pytest.raises(BufferError, match=r"'out'.*copied by order='C'"):
        k(array(), x)
    with pytest.raises(BufferError, match="copied by copy=True"):
        dlshim.kernel(write, writes=1, copy=True)(x, array())


def test_without_writes_read_only_memory_goes_with_its_flag():
    k = dlshim.kernel(lambda x: np.from_dlpack(x).flags.writeable)
    assert k(array()) is True and k(readonly()) is False
    k = dlshim.kernel(lambda a, out: np.from_dlpack(a).flags.writeable, writes="out")
    assert k(readonly(), array()) is False


@needs_tvm_ffi
def test_writes_of_a_function_that_tells_no_parameters():
    k = dlshim.kernel(ECHO, writes=0)
    with pytest.raises(BufferError, match="argument 1: "):
        k(readonly())


def any_names(a, *more, flag=None, **others):
    return None


@pytest.mark.parametrize(
    "function, writes",
    [(same, "y"), (same, ("x", "outt")), (same, 1), (write, "more "), (any_names, "flag "[:4])],
)
def test_writes_names_parameters_that_the_function_has(function, writes):
    """A wrong name would guard nothing."""
    if function is any_names:
        for known in (writes, "other", 7, "flag"):
            dlshim.kernel(function, writes=known)
        return
    with pytest.raises(ValueError, match=r"writes='?[\w ]+'? is no parameter of .*\n  name one of"):
        dlshim.kernel(function, writes=writes)


@pytest.mark.parametrize(
    "writes, error",
    [(-1, ValueError), (2.0, TypeError), (None, TypeError), ((None,), TypeError)],
)
def test_what_writes_is_not(writes, error):
    with pytest.raises(error, match="writes="):
        dlshim.kernel(write, writes=writes)


# ---- options, takes (K6, K7) -------------------------------------------------------------------


def test_options_are_for_every_array():
    k = dlshim.kernel(lambda *x: [np.from_dlpack(y).flags.c_contiguous for y in x], order="C")
    x = array().T
    assert k(x, [x][0], x) == [True] * 3
    given = []
    dlshim.kernel(lambda x: given.append(x), copy=True)(dlshim.upgrade(x, order="C"))
    assert _core._options(given[0]) == {"copy": True, "order": "C"}


def test_unknown_options_are_refused_at_once():
    with pytest.raises(TypeError, match=r"kernel\(\).*colour"):
        dlshim.kernel(same, colour="red")
    with pytest.raises(TypeError, match="colour"):
        dlshim.kernel(colour="red")
    with pytest.raises(ValueError, match="order"):
        dlshim.kernel(order="X")


def test_takes():
    x = array()

    def kinds(*args):
        return [type(y).__name__ for y in args]

    assert dlshim.kernel(kinds, takes="tensor")(x, [x][0], 3) == ["Tensor", "Tensor", "int"]
    names = {}
    for takes in ("capsule", "capsule-1"):
        dlshim.kernel(lambda c, t=takes: names.update({t: _core._peek(c)["name"]}), takes=takes)(x)
    assert names == {"capsule": "dltensor", "capsule-1": "dltensor_versioned"}
    own = dlshim.kernel(lambda *y: list(y), takes="numpy", returns=None)(x, Own([1.0]), 3)
    assert own[0] is x and type(own[1]) is np.ndarray and own[2] == 3
    ordered = dlshim.kernel(same, takes="numpy", order="C", returns=None)(x.T)
    assert ordered is not x.T and ordered.flags.c_contiguous


def test_takes_and_results_come_home():
    k = dlshim.kernel(lambda x: x * 2, takes="numpy")
    assert type(k(Own([1.0, 2.0]))) is Own
    own = Own([1.0])
    assert dlshim.kernel(same, takes="numpy")(own) is own


def test_takes_of_what_cannot_be():
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        dlshim.kernel(same, takes="no_such_library")(array())
    with pytest.raises(ValueError, match="json has no from_dlpack"):
        dlshim.kernel(same, takes="json")(array())
    for takes in (3, ""):
        with pytest.raises(TypeError, match="takes= is"):
            dlshim.kernel(same, takes=takes)
    with pytest.raises(TypeError, match="returns= is"):
        dlshim.kernel(same, returns="torch")


# ---- what is refused, exceptions (K11) ---------------------------------------------------------


def generator():
    yield 1


async def agenerator():
    yield 1


@pytest.mark.parametrize(
    "function, why",
    [
        (3, "not callable"),
        (array(), "an array"),
        (Own, "a class"),
        (generator, "generator function"),
        (agenerator, "generator function"),
    ],
)
def test_what_is_no_function(function, why):
    with pytest.raises(TypeError, match=why):
        dlshim.kernel(function)
    with pytest.raises(TypeError, match=why):
        dlshim.kernel(returns=None)(function)


def test_exceptions_are_the_function_s_own():
    error = KeyError("mine")

    def fail(x):
        raise error

    for given in (array(), [array()], 3):
        with pytest.raises(KeyError) as caught:
            dlshim.kernel(fail)(given)
        assert caught.value is error
    with pytest.raises(TypeError, match="required positional"):
        dlshim.kernel(write)(array())


def test_an_argument_that_cannot_be_exported():
    """By a Producer the consumer asks, and gets the object's own error."""
    with pytest.raises(BufferError, match="Python objects"):
        dlshim.kernel(ECHO)(np.zeros(2, "O"))
    k = dlshim.kernel(lambda x, y: None, takes="tensor")
    with pytest.raises(BufferError, match=r"argument 'y': 'numpy.ndarray' object: "):
        k(array(), np.zeros(2, "O"))
    copies = dlshim.kernel(lambda x: None, takes="tensor", copy=False, order="C")
    with pytest.raises(dlshim.CopyRequiredError, match="argument 'x': ") as caught:
        copies(array().T)
    assert caught.value.reason == "order"


def test_an_importer_that_fails_is_heard():
    class Refusing(Own):
        @classmethod
        def from_dlpack(cls, x):
            raise BufferError("not today")

    with pytest.raises(BufferError, match="not today"):
        dlshim.kernel(lambda x: np.ones(2))(Refusing([1.0]))


# ---- what it looks like (K8) -------------------------------------------------------------------


@dlshim.kernel
def decorated(x, y=2, *, z: int = 3) -> int:
    """What it does."""
    return x


@dlshim.kernel(order="C")
def with_options(x):
    return x


@dlshim.kernel
async def awaited(x, error=None):
    await asyncio.sleep(0)
    if error is not None:
        raise error
    return [ECHO(x), x, isinstance(x, dlshim.Producer)]


class Methods:
    @dlshim.kernel
    def plain(self, *args, **kwargs):
        return self, args, kwargs

    @dlshim.kernel(order="C")
    def ordered(self, *args):
        return self, args, {}

    @classmethod
    @dlshim.kernel
    def of_class(cls, *args):
        return cls, args, {}

    @staticmethod
    @dlshim.kernel
    def static(*args):
        return None, args, {}

    @dlshim.kernel
    @classmethod
    def of_class_inside(cls, *args):
        return cls, args, {}

    @dlshim.kernel(order="C")
    @staticmethod
    def static_inside(*args):
        return None, args, {}

    @dlshim.kernel
    async def awaited(self, *args):
        assert not isinstance(self, dlshim.Producer)
        return self, args, {}

    @staticmethod
    @dlshim.kernel
    async def awaited_static(*args):
        return None, args, {}

    __dlpack__, __dlpack_device__ = Own.__dlpack__, Own.__dlpack_device__
    values = np.arange(2.0)


class Derived(Methods):
    async def awaited(self, *args):
        return await super().awaited(*args)


def test_a_kernel_looks_like_its_function():
    assert decorated.__name__ == "decorated" and decorated.__module__ == __name__
    assert decorated.__doc__ == "What it does." and decorated.__wrapped__(3) == 3
    assert str(inspect.signature(decorated)) == "(x, y=2, *, z: 'int' = 3) -> 'int'"
    assert repr(decorated).startswith("<dlshim.kernel of <function decorated at")
    text = pydoc.plain(pydoc.render_doc(decorated))
    assert "decorated(x, y=2" in text and "What it does." in text
    decorated.mine = 1
    assert decorated.mine == 1 and vars(decorated)["mine"] == 1
    assert not inspect.iscoroutinefunction(decorated)
    assert callable(decorated) and weakref.ref(decorated)() is decorated


def test_help_names_every_parameter():
    text = pydoc.plain(pydoc.render_doc(dlshim.kernel))
    for name in ("takes:", "returns:", "like:", "writes:", "options_of_upgrade"):
        assert name in text


#: What a method gets first, by its name; the others get the object.
FIRST = {"of_class": Methods, "of_class_inside": Methods}
FIRST |= dict.fromkeys(("static", "static_inside", "awaited_static"))


@pytest.mark.parametrize("name", [name for name in vars(Methods) if name[0] != "_"][:-1])
def test_the_object_of_a_method_is_no_argument(name):
    """Though its class is one of arrays."""
    for methods in (Methods(), Derived()):
        seen = []
        for given in (array(), Own([1.0]), methods):
            result = getattr(methods, name)(given, [given])
            owner, args, _ = asyncio.run(result) if inspect.iscoroutine(result) else result
            assert args[0] is given and args[1][0] is given
            seen.append(owner)
        first = FIRST.get(name, methods)
        first = type(methods) if first is Methods else first
        assert all(owner is first for owner in seen)


def test_bound_methods_are_python_s():
    methods = Methods()
    assert methods.plain == methods.plain and methods.plain != Methods().plain
    assert isinstance(methods.plain, types.MethodType) and methods.plain.__self__ is methods
    assert str(inspect.signature(methods.plain)) == "(*args, **kwargs)"
    assert methods.plain.__name__ == "plain"
    owner, _args, _kwargs = Methods.plain(methods, 1)
    assert owner is methods  # an argument like any, which came back
    partial = functools.partial(methods.plain, 1)
    assert partial(array())[1][0] == 1


def test_writes_in_methods():
    class Writer:
        @dlshim.kernel(writes="out")
        def write(self, out):
            np.from_dlpack(out)[...] = 1

    Writer().write(array())
    with pytest.raises(BufferError, match="'out'"):
        Writer().write(readonly())


def test_async_functions():
    assert inspect.iscoroutinefunction(awaited) and awaited.__name__ == "awaited"
    x = array()

    async def both():
        return await asyncio.gather(awaited(x), awaited(Own([1.0])))

    (echo, again, upgraded), (own, _, _) = asyncio.run(both())
    assert type(echo) is np.ndarray and again is x and upgraded and type(own) is Own
    error = KeyError("mine")
    with pytest.raises(KeyError) as caught:
        asyncio.run(awaited(x, error))
    assert caught.value is error


def test_calls_without_a_vectorcall():
    assert type(decorated).__call__(decorated, *(array(),), y=1) is not None
    x = array()
    assert type(decorated).__call__(decorated, x) is x


# ---- pickles (K10) -----------------------------------------------------------------------------


def test_pickles():
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for k in (decorated, with_options, awaited):
            assert pickle.loads(pickle.dumps(k, protocol)) is k
        made = pickle.loads(
            pickle.dumps(dlshim.kernel(write, writes=("out",), order="C"), protocol)
        )
        with pytest.raises(BufferError, match="'out'"):
            made(array(), readonly())
    assert copy.copy(decorated) is decorated and copy.deepcopy(decorated) is decorated
    methods = pickle.loads(pickle.dumps(Methods().plain))
    assert methods.__self__.plain(1)[1] == (1,)


def test_a_pickle_before_anything_of_kernels_is_imported():
    import subprocess

    data = pickle.dumps(dlshim.kernel(same))
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
import pickle, dlshim
assert type(pickle.loads({pickle.dumps(dlshim.kernel(max))!r})(1, 2)) is int
assert callable(dlshim.kernel) and dlshim.kernel(max)(1, 2) == 2
"""
    assert data
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_cannot_be_pickled_says_so():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(dlshim.kernel(lambda x: x))


# ---- calls in calls, threads, memory (K9, K11) -------------------------------------------------


def test_nested_and_recursive_calls():
    inner = dlshim.kernel(ECHO)

    @dlshim.kernel
    def outer(x, depth=0, other=None):
        if depth:
            assert outer(x, depth - 1, other)
        assert type(inner(other)) is Own
        return [ECHO(x), inner(x)]

    echo, again = outer(x := array(), 3, Own([1.0]))
    assert type(echo) is np.ndarray and type(again) is np.ndarray
    assert np.shares_memory(echo, x) and np.shares_memory(again, x)

    @dlshim.kernel
    def forever(x):
        return forever(x)

    with pytest.raises(RecursionError):
        forever(array())


def test_callbacks():
    k = dlshim.kernel(ECHO)
    called = dlshim.kernel(compiled(lambda f, x: f(x)))
    seen = []

    def callback(x):
        seen.append(type(k(array())))
        return x

    assert type(called(callback, Own([1.0]))) is Own and seen == [np.ndarray]


def test_threads():
    k = dlshim.kernel(ECHO)
    wrong = []
    inputs = [array(), Own([1.0]), [array()], Homeless([1.0])]
    expected = [np.ndarray, Own, None, dlshim.Tensor]

    def run(i):
        for _ in range(300):
            result = k(inputs[i % 4])
            if expected[i % 4] and type(result) is not expected[i % 4]:
                wrong.append((i, type(result)))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_context_variables_are_the_caller_s():
    variable = contextvars.ContextVar("variable", default=0)
    k = dlshim.kernel(lambda x: variable.set(variable.get() + 1))
    k(array())
    assert variable.get() == 1


def test_a_result_keeps_its_source():
    result = dlshim.kernel(ECHO)(Own(np.arange(1000.0)))
    gc.collect()
    assert result.values.sum() == 499500


@pytest.mark.parametrize(
    "make",
    [
        lambda: dlshim.kernel(ECHO),
        lambda: dlshim.kernel(same),
        lambda: dlshim.kernel(lambda x: [x, np.ones(2), Own([1.0])]),
        lambda: dlshim.kernel(same, takes="numpy"),
        lambda: dlshim.kernel(same, takes="tensor", copy=True),
        lambda: dlshim.kernel(write, writes="out"),
        lambda: dlshim.kernel(lambda x: 1 / 0),
    ],
)
def test_calls_leave_nothing(make):
    k, x, own = make(), array(), Own([1.0])
    given = [(x,), (own,), ([x],), (x, x), (readonly(), readonly())]

    def run():
        for args in given:
            with contextlib.suppress(TypeError, ZeroDivisionError, BufferError):
                k(*args)

    run()
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(own), sys.getrefcount(k), len(gc.get_objects())
    for _ in range(1000):
        run()
    gc.collect()
    after = sys.getrefcount(x), sys.getrefcount(own), sys.getrefcount(k), len(gc.get_objects())
    assert after[:3] == before[:3] and after[3] - before[3] < 50


@pytest.mark.once
def test_kernels_in_cycles_are_collected():
    def make():
        def function(x):
            return k(x)

        k = dlshim.kernel(function)
        k.more = k
        return weakref.ref(k), weakref.ref(function)

    made = make()
    gc.collect()
    assert made[0]() is None and made[1]() is None


def test_tracked_calls_leave_nothing():
    """Ten thousand calls, under `track`."""
    k, x = dlshim.kernel(ECHO), array()
    with dlshim.track():
        for _ in range(10_000):
            k(x)
        gc.collect()
        assert dlshim.live() == []


def test_the_module_of_the_functions_does_not_hide_the_function():
    import dlshim.kernels

    assert isinstance(dlshim.kernel, types.FunctionType)


class Column:
    """A column that may be exported again and again."""

    def __arrow_c_array__(self, requested_schema=None):
        return columns.column(1, 2)[0].__arrow_c_array__()


def test_K3_a_column_of_arrow_is_an_array_and_a_missing_value_is_refused():
    k = dlshim.kernel(lambda *arrays: [dlshim.from_dlpack(each).shape for each in arrays])
    for _ in range(2):  # of a type that was not met, and of one that was
        assert k(Column(), columns.chunked((1, 2, 3))[0]) == [(2,), (3,)]
    assert dlshim.kernel(lambda x: type(x[0]))([Column()]) is not Column
    x, count = columns.column(1, 2, valid=columns.bitmap([1, 0]), null_count=1)
    with pytest.raises(BufferError, match="values are missing in it"):
        k(x)
    assert count.pending == 0


@pytest.mark.parametrize("name", ["Series", "Index"])
def test_K3_a_column_of_pandas_is_an_array_whether_it_offers_arrow_or_not(name):
    """A Series of pandas 2 does not, and no Index does."""
    np = pytest.importorskip("numpy", reason="the values of the column are NumPy's")

    def to_numpy(self):
        return np.arange(3)

    members = {"__module__": "pandas", "dtype": np.dtype("int64"), "to_numpy": to_numpy}
    column = type(name, (), members)()
    table = type("DataFrame", (), members | {"columns": ["a"]})()
    k = dlshim.kernel(lambda column, table: (dlshim.from_dlpack(column).shape, table))
    for _ in range(2):  # of a type that was not met, and of one that was
        assert k(column, table) == ((3,), table)
        assert dlshim.kernel(lambda x: type(x))(column) is dlshim.Producer
        dlshim.from_dlpack(column)


class Table(Column):
    columns = ["a"]

    def __getitem__(self, name):
        return [name]


class WithSchema(Column):
    """As nanoarrow's arrays are."""

    schema = "int64"


@pytest.mark.parametrize("name", ["columns", "column_names", "read_all", "to_table"])
def test_K3_what_a_type_of_tables_has_is_told_apart_from_a_column(name):
    table = type("OfTables", (Column,), {name: property(lambda self: ["a"])})()
    k = dlshim.kernel(lambda column, table: (type(column), table))
    for _ in range(2):
        assert k(WithSchema(), table) == (dlshim.Producer, table)
        with contextlib.suppress(BufferError):
            dlshim.from_dlpack(table)  # its type is met


def test_K3_tables_and_returned_columns_stay_what_they_are():
    x, table, column = P2((3,)), Table(), Column()
    for _ in range(2):  # of types that were not met, and of ones that were
        k = dlshim.kernel(lambda array, table: (table["a"], table))
        assert k(x, table) == (["a"], table)
        assert dlshim.kernel(lambda array: column)(x) is column
        assert dlshim.kernel(lambda array: {"all": [table]})(x)["all"][0] is table
        with contextlib.suppress(BufferError):
            dlshim.from_dlpack(table)  # its type is met
        dlshim.from_dlpack(column)


# ---- one road in C, one in Python ----------------------------------------------------------------

#: What `kernel` is told, and what a call is given; the first call of a type runs in Python.
TOLD = {
    "nothing": {},
    "order": {"order": "C"},
    "readonly": {"readonly": "copy"},
    "two options": {"order": "auto", "align": 64},
    "tensor": {"takes": "tensor"},
    "tensor in order": {"takes": "tensor", "order": "C"},
    "capsule": {"takes": "capsule"},
    "capsule-1": {"takes": "capsule-1", "copy": True},
    "numpy": {"takes": "numpy"},
    "numpy, copied": {"takes": "numpy", "copy": True},
    "written": {"writes": 1},
    "written by name": {"writes": "flag"},
    "written behind 63": {"writes": 70},
    "all written": {"writes": True, "order": "C"},
    "left": {"returns": None},
    "of a type": {"returns": Own},
    "like": {"like": Own([0.0]), "takes": "tensor"},
}


def strided():
    return np.arange(12.0).reshape(3, 4)[:, ::2]


@functools.lru_cache(maxsize=1)
def given():
    """Arguments and keyword arguments: each array twice or more, so that one may be given back."""
    x, y, owned = array(), strided(), Own([1.0, 2.0])
    tensor, producer = dlshim.from_dlpack(x), dlshim.upgrade(x, copy=True)
    refused = Homeless(np.array(["2026-01-01"], dtype="datetime64[s]"))
    return {
        "arrays": ((x, y, owned, 3, "text", None), {"flag": x}),
        "many": ((*[x, owned, 2.5] * 9, x), {"flag": y}),
        "80": (tuple([x, readonly()] * 40), {}),
        "read-only": ((x, readonly()), {}),
        "read-only by name": ((x,), {"flag": readonly()}),
        "read-only in a list": ((x, [x, readonly()]), {}),
        "lists": (([x, y, 1], (owned, 2), [x, y, 1]), {"flag": [producer]}),
        "no arrays": (([1, 2], (3, (4.0, "a")), {"k": 1}, Pair(1, 2)), {}),
        "shapes": ((x, (2, 3), [[1, 2], [3, [4]]], {"a": (1, 2)}), {"flag": (1,)}),
        "deep": ((x, [[y]], {"a": (owned,)}, Pair(x, 1)), {}),
        "ours": ((tensor, producer, [tensor], tensor), {"flag": producer}),
        "a producer first": ((producer, tensor, x), {}),
        "nothing": ((), {}),
        "refused": ((x, refused), {}),
        "refused in a tuple": ((x, (x, refused)), {}),
    }


def what_happens(call, args, kwargs):
    """What f was given and what the caller gets, or the error; no addresses of new memory."""

    def seen(x):
        if isinstance(x, (list, tuple)):
            return [type(x).__name__, *map(seen, x)]
        if isinstance(x, dict):
            return {key: seen(value) for key, value in x.items()}
        own = [i for i, value in enumerate([*args, *kwargs.values()]) if value is x]
        if type(x).__name__ == "PyCapsule":
            return [repr(x).split('"')[1]]
        if isinstance(x, dlshim.Producer):
            return [type(x).__name__, own, type(x.source).__name__, repr(x).count("copy=")]
        if hasattr(x, "__dlpack__"):
            return [type(x).__name__, own, np.asarray(getattr(x, "values", x)).tolist()]
        return x

    got = []
    try:
        result = call(got)(*args, **kwargs)
    except (BufferError, TypeError, ValueError) as error:
        return type(error), str(error)
    return [seen(x) for x in got], seen(result)


@pytest.mark.parametrize("case", given())
@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD.keys())
def test_a_call_in_C_does_what_the_call_in_Python_does(told, case):
    args, kwargs = given()[case]
    for x in (array(), Own([1.0]), Homeless([1.0])):
        dlshim.upgrade(x)  # a type that was met is served in C

    def made(got):
        def f(*args, flag=None):
            got.extend([args, flag])
            return [args, flag, array()]

        return dlshim.kernel(f, **told)

    usual = what_happens(made, args, kwargs)
    # Who knows no vectorcall calls the slot, which calls in Python.
    in_python = what_happens(lambda got: made(got).__call__, args, kwargs)
    assert usual == in_python


def test_a_list_that_changes_while_its_items_are_asked():
    """The caller's list loses its items, and the function has what was there."""
    items = []

    class Clears(Own):
        def __dlpack__(self, **asked):
            items.clear()
            gc.collect()
            return super().__dlpack__(**asked)

    dlshim.upgrade(Clears([1.0]))
    items += [Clears([1.0]), Clears([2.0])]
    k = dlshim.kernel(lambda x: (x, [np.asarray(y)[0] for y in x]), takes="tensor")
    given_back, values = k(items)
    assert values == [1.0, 2.0] and items == []
    assert [type(y) for y in given_back] == [Clears, Clears]


def test_options_of_a_kernel_are_kept_as_long_as_it():
    class Stream:
        __cuda_stream__ = staticmethod(lambda: (0, 7))

    stream = Stream()
    died = weakref.ref(stream)
    k = dlshim.kernel(same, stream=stream)
    del stream
    gc.collect()
    assert died() is not None
    k.itself = k
    del k
    gc.collect()
    assert died() is None


def test_a_list_at_two_places_is_looked_at_where_it_is_written():
    fixed = readonly()
    for make in ([fixed].copy, lambda: (fixed,)):
        xs, k = make(), dlshim.kernel(lambda a, b: None, writes="b")
        for _ in range(2):
            with pytest.raises(BufferError, match=r"argument 'b'\[0\].* is read-only"):
                k(xs, xs)


def test_a_named_argument_behind_the_63rd_is_looked_at():
    names = [f"a{i}" for i in range(80)]
    f = eval(f"lambda {', '.join(names)}: None")
    given_arrays = [array()] * 70 + [readonly()] + [array()] * 9
    for writes in ("a70", 70):
        k = dlshim.kernel(f, writes=writes)
        for _ in range(2):
            with pytest.raises(BufferError, match=r"'a70'.* is read-only"):
                k(*given_arrays)
    k = dlshim.kernel(lambda *args: len(args), writes=tuple(range(64)))
    assert k(*given_arrays) == 80


@pytest.mark.parametrize("takes", ["tensor", "capsule", "numpy"])
def test_a_call_that_is_left_to_python_asks_no_array_twice(takes):
    class Once(Own):
        def __dlpack__(self, **asked):
            values, self.values = self.values, None
            return values.__dlpack__(**asked)

    dlshim.upgrade(Once([1.0]))
    k = dlshim.kernel(lambda *args: len(args), takes=takes)
    for last in ({"k": array()}, [[array()]], Pair(array(), 1)):
        assert k(Once([1.0]), [Once([2.0])], last) == 3
