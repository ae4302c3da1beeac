"""Real torch tensors whose memory is not what they show, whichever way they go (T12)."""

from __future__ import annotations

import inspect
import pickle

import pytest

import dlshim

np = pytest.importorskip("numpy", reason="NumPy is not in this environment")
torch = pytest.importorskip("torch", reason="torch is not in this environment")

WAYS = {
    "legacy": lambda x: dlshim.upgrade(x).__dlpack__(),
    "versioned": lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0)),
    "Tensor": dlshim.from_dlpack,
    "torch": lambda x: torch.from_dlpack(dlshim.upgrade(x)),
}
BY_EVERY_WAY = pytest.mark.parametrize("take", WAYS.values(), ids=WAYS)


class Meters(torch.Tensor):
    """A subclass: its type is another, its C methods are the same."""


def negative(x):
    """A view with the negative bit, as torch makes them."""
    return torch.complex(torch.zeros_like(x), x).conj().imag


@BY_EVERY_WAY
@pytest.mark.parametrize("cls", [torch.Tensor, Meters], ids=lambda cls: cls.__name__)
def test_what_stands_in_memory_goes_out_and_what_does_not_is_refused(take, cls):
    plain = torch.ones(3).as_subclass(cls)
    lazy = {
        "detach": torch.ones(3, requires_grad=True).as_subclass(cls),
        "resolve_neg": negative(torch.ones(3)).as_subclass(cls),
        "resolve_conj": torch.ones(3, dtype=torch.complex64).conj().as_subclass(cls),
    }
    for _ in range(3):  # learned by then
        take(plain)
        for cure, x in lazy.items():
            with pytest.raises(BufferError, match=cure):
                take(x)


@BY_EVERY_WAY
def test_a_contiguous_tensor_with_the_negative_bit_is_refused_too(take):
    take(torch.ones(3))
    with pytest.raises(BufferError, match="resolve_neg"):
        take(torch._neg_view(torch.ones(3)))


REPLACE = {
    "data": lambda x: setattr(x, "data", torch.empty(0)),
    "set_": lambda x: x.set_(torch.empty(0)),
}


def keeps_memory(take, replace):
    """Whether an export, which is kept, keeps memory that the tensor loses."""
    x = torch.ones(64)
    kept = take(x)
    storage = x.untyped_storage()._weak_ref()
    try:
        replace(x)
        assert kept is not None
        return not torch.UntypedStorage._expired(storage)
    finally:
        torch.UntypedStorage._free_weak_ref(storage)


@pytest.mark.skipif(not hasattr(torch.Tensor, "untyped_storage"), reason="torch 2.0 and newer")
@pytest.mark.parametrize("replace", REPLACE.values(), ids=REPLACE)
def test_what_an_export_keeps_of_a_tensor_that_gets_other_memory(replace):
    """docs/recipes.rst and docs/c-interface.rst say it, of torch alone and of the cure."""
    detached = {
        "legacy": lambda x: dlshim.upgrade(x, detach=True).__dlpack__(),
        "versioned": lambda x: dlshim.upgrade(x, detach=True).__dlpack__(max_version=(1, 0)),
        "Tensor": lambda x: dlshim.from_dlpack(x, detach=True),
        "NumPy": lambda x: np.from_dlpack(dlshim.upgrade(x, detach=True)),
    }
    assert all(keeps_memory(take, replace) for take in detached.values())
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 13):
        assert not keeps_memory(lambda x: x.__dlpack__(), replace)
        assert not any(keeps_memory(take, replace) for take in WAYS.values())


WORDS = [{}, {"copy": False}, {"device": "cpu"}, {"device": "cpu", "copy": False}]


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_N9_however_torch_asks_it_gets_no_negative_strides(words):
    """It aborts the process on them up to 2.13."""
    if not words.keys() <= inspect.signature(torch.from_dlpack).parameters.keys():
        pytest.skip("this torch.from_dlpack takes neither copy nor device")
    backwards = np.arange(6.0).reshape(2, 3)[::-1]
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(dlshim.upgrade(backwards), **words)
    for order in ("C", "auto"):
        y = torch.from_dlpack(dlshim.upgrade(backwards, order=order))
        assert y.tolist() == backwards.tolist()
    if words.get("copy") is False:
        with pytest.raises(dlshim.CopyRequiredError, match='order="auto"'):
            torch.from_dlpack(dlshim.upgrade(backwards, order="auto"), **words)
    else:
        y = torch.from_dlpack(dlshim.upgrade(backwards, order="auto"), **words)
        assert y.tolist() == backwards.tolist()


def test_N9_order_auto_shares_with_torch_what_it_takes():
    x = np.arange(12.0).reshape(3, 4)
    for view in (x, x.T, x[::2, ::2], np.lib.stride_tricks.as_strided(x, (3, 4), (0, 8))):
        for take in (torch.from_dlpack, torch.asarray):
            y = take(dlshim.upgrade(view, order="auto"))
            assert y.data_ptr() == view.ctypes.data and y.tolist() == view.tolist()
    table = torch.from_dlpack(dlshim.upgrade(torch.arange(6.0)[::2], order="auto"))
    assert table.tolist() == [0, 2, 4]


def test_who_requires_grad_now_may_not_have_done_so_before():
    x = torch.ones(3)
    upgraded = dlshim.upgrade(x)
    for requires in (False, True, False, True):
        x.requires_grad_(requires)
        if requires:
            with pytest.raises(BufferError, match="detach"):
                np.from_dlpack(upgraded)
        else:
            assert np.from_dlpack(upgraded).tolist() == [1, 1, 1]


def test_a_subclass_that_answers_for_itself_is_believed():
    """Also one that begins to when its objects have gone out already."""

    class Lazy(torch.Tensor):
        pass

    class Graph(torch.Tensor):
        pass

    answers = {"is_neg": lambda self: True, "requires_grad": property(lambda self: True)}
    for cls, name, cure in ((Lazy, "is_neg", "resolve_neg"), (Graph, "requires_grad", "detach")):
        x = torch.ones(3).as_subclass(cls)
        upgraded = dlshim.upgrade(x)
        upgraded.__dlpack__(max_version=(1, 0))
        setattr(cls, name, answers[name])
        for again in (upgraded, dlshim.upgrade(x)):
            with pytest.raises(BufferError, match=cure):
                again.__dlpack__(max_version=(1, 0))


@BY_EVERY_WAY
def test_a_subclass_that_has_no_such_attributes_passes(take):
    """As it does bare: torch's own __dlpack__ asks in C."""

    class Bare(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") == "__get__":
                raise AttributeError("none")
            return super().__torch_function__(function, types, args, kwargs or {})

    x = torch.ones(3).as_subclass(Bare)
    for _ in range(3):
        take(x)


def test_the_negative_bit_of_a_subclass_costs_no_call_of_torch_s_hook(monkeypatch):
    """It is written in Python, and costs more than the rest of an exchange."""
    if not hasattr(torch._C, "DisableTorchFunctionSubclass"):
        pytest.skip("this torch has the guard under another name")
    hook = torch.Tensor.__dict__["__torch_function__"].__func__
    asked = []

    def watched(cls, function, types, args=(), kwargs=None):
        asked.append(getattr(function, "__name__", ""))
        return hook(cls, function, types, args, kwargs)

    monkeypatch.setattr(torch.Tensor, "__torch_function__", classmethod(watched))

    class Watched(torch.Tensor):
        pass

    for dtype in (torch.float32, torch.complex64):
        x = torch.ones(3, dtype=dtype).as_subclass(Watched)
        for _ in range(3):
            np.from_dlpack(dlshim.upgrade(x))
    assert not {"is_neg", "is_conj"} & set(asked)


wrapper = getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)
needs_wrapper = pytest.mark.skipif(wrapper is None, reason="torch has it from 2.14 on")


@needs_wrapper
@BY_EVERY_WAY
def test_a_read_only_wrapper_goes_out_only_as_what_its_memory_holds(take):
    """Its hook refuses the questions for the bits, and its C table does not ask them."""
    lazy = {
        "detach": torch.ones(3, requires_grad=True),
        "resolve_neg": negative(torch.ones(3)),
        "resolve_conj": torch.ones(3, dtype=torch.complex64).conj(),
    }
    for _ in range(3):
        for cure, x in lazy.items():
            with pytest.raises(BufferError, match=cure):
                take(wrapper(x))


@needs_wrapper
def test_a_read_only_wrapper_stays_read_only():
    x = torch.arange(3.0)
    for _ in range(3):
        y = np.from_dlpack(dlshim.upgrade(wrapper(x)))
        assert y.tolist() == [0, 1, 2] and not y.flags.writeable
        assert y.ctypes.data == x.data_ptr()
        assert dlshim.from_dlpack(wrapper(x)).readonly
        with pytest.raises(BufferError, match="read-only"):
            dlshim.upgrade(wrapper(x)).__dlpack__()
        with pytest.warns(dlshim.ReadOnlyWarning):
            torch.from_dlpack(dlshim.upgrade(wrapper(x)))
    copied = torch.from_dlpack(dlshim.upgrade(wrapper(x), readonly="copy"))
    copied.add_(1)
    assert x.tolist() == [0, 1, 2]


@needs_wrapper
def test_inspect_says_of_a_read_only_wrapper_only_what_happens():
    """It says READ_ONLY, as no other object of torch does, and answers a bare call with 1.x."""
    x = wrapper(torch.arange(3.0))
    assert not np.from_dlpack(x).flags.writeable
    assert not np.from_dlpack(dlshim.upgrade(x)).flags.writeable
    (verdict,) = dlshim.inspect(x, export=True, consumer="numpy.from_dlpack").verdicts
    assert not verdict.bare.writable
    assert not verdict.upgraded.writable
    assert verdict.what == ""


def test_inspect_says_that_torch_writes_to_a_tensor_that_never_changes():
    """Tensors of TensorFlow never change, and DLPack 0.x, which they give, has no flag."""
    tensorflow = pytest.importorskip("tensorflow", reason="it is not installed here")
    (verdict,) = dlshim.inspect(tensorflow.ones(3), consumer="torch.from_dlpack").verdicts
    assert "READ-ONLY" in verdict.what


@needs_wrapper
def test_the_cures_of_a_read_only_wrapper_work():
    lazy = {
        "detach": torch.ones(3, requires_grad=True),
        "resolve_neg": negative(torch.ones(3)),
        "resolve_conj": torch.full((3,), 1 + 2j).conj(),
    }
    for cure, tensor in lazy.items():
        with pytest.raises(BufferError) as raised:
            np.from_dlpack(dlshim.upgrade(wrapper(tensor)))
        assert f"wrap tensor.{cure}() instead" in str(raised.value)
        cured = np.from_dlpack(dlshim.upgrade(wrapper(getattr(tensor, cure)())))
        assert cured.tolist() == tensor.tolist() and not cured.flags.writeable


@needs_wrapper
@pytest.mark.parametrize("cls", [torch.Tensor, Meters], ids=lambda cls: cls.__name__)
def test_readonly_true_does_not_copy_a_lazy_copy(cls):
    """A writable export of a copy-on-write tensor makes the copy; a read-only one need not."""

    def export(**options):
        source = torch.ones(4)
        lazy = torch._lazy_clone(source).as_subclass(cls)
        before = torch._C._data_address(lazy)
        tensor = dlshim.from_dlpack(lazy, **options)
        assert tensor.readonly is bool(options)
        return tensor.data_ptr() != before

    for _ in range(3):
        assert not export(readonly=True)
        assert export()


@needs_wrapper
@pytest.mark.parametrize("known", [False, True], ids=["first", "met"])
@pytest.mark.parametrize(
    "road",
    [
        lambda x: dlshim.upgrade(x, readonly=True).__dlpack_device__(),
        lambda x: dlshim.upgrade(x).__dlpack_device__(),
        lambda x: np.asarray(dlshim.upgrade(x, readonly=True)),
        lambda x: np.from_dlpack(dlshim.upgrade(x, readonly=True)),
        lambda x: dlshim.from_dlpack(x, readonly=True, stream=-1),
        lambda x: dlshim.from_dlpack(x, readonly=True, device="cpu"),
    ],
)
def test_no_road_of_readonly_true_copies_a_lazy_copy(road, known):
    """The device question asked the writable C table, which makes the copy."""
    new = type("New", (torch.Tensor,), {})
    if known:
        dlshim.from_dlpack(torch.ones(1).as_subclass(new))
    source = torch.ones(4)
    lazy = torch._lazy_clone(source).as_subclass(new)
    before = torch._C._data_address(lazy)
    made = road(lazy)
    assert torch._C._data_address(lazy) == before, made


def test_the_repr_of_a_producer_needs_nothing_that_the_class_refuses():
    class Refuses(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            raise RuntimeError("not now")

    x = torch.ones(3)
    assert "shape=(3,) dtype=torch.float32" in repr(dlshim.upgrade(x))
    assert "Refuses" in repr(dlshim.upgrade(x.as_subclass(Refuses)))


def test_an_exception_of_the_class_is_not_lost():
    """Whatever looking an attribute up raises when a type is first met."""

    class Stop(BaseException):
        pass

    class Meta(type(torch.Tensor)):
        asked = 0

        def __getattribute__(cls, name):
            if name == "__dict__":
                Meta.asked += 1
                if Meta.asked == Meta.fails_at:
                    raise Stop
            return super().__getattribute__(name)

    for fails_at in range(1, 60):
        Meta.asked, Meta.fails_at = 0, fails_at
        cls = Meta("Strange", (torch.Tensor,), {})
        x = torch.ones(3).as_subclass(cls)
        Meta.asked = 0
        try:
            dlshim.upgrade(x)
        except Stop:
            continue
        assert Meta.asked < fails_at
        break
    else:
        raise AssertionError("the class is looked at without end")


# ---- where it lies (N5) ---------------------------------------------------------------------


def test_host_memory_is_told_without_a_question(monkeypatch):
    """By is_cpu: neither torch's slow method nor an export is needed, first met or not."""

    def asked(self):
        raise AssertionError("asked")

    x = torch.ones(3)
    monkeypatch.setattr(torch.Tensor, "__dlpack_device__", asked)
    for upgraded in (dlshim.upgrade(x), dlshim.upgrade(torch.eye(3).to_sparse())):
        assert [upgraded.__dlpack_device__() for _ in range(3)] == [(1, 0)] * 3


def test_a_subclass_that_says_where_it_lies_is_asked():
    class Far(torch.Tensor):
        is_cpu = True

        def __dlpack__(self, **keywords):
            return dlshim.upgrade(torch.ones(3)).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return (2, 7)

    assert dlshim.upgrade(torch.ones(3).as_subclass(Far)).__dlpack_device__() == (2, 7)


def test_a_tensor_without_memory_is_no_host_memory():
    upgraded = dlshim.upgrade(torch.ones(3, device="meta"))
    for _ in range(3):
        with pytest.raises(BufferError, match="meta"):
            upgraded.__dlpack_device__()


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, MemoryError])
def test_a_mode_that_raises_is_no_answer(error):
    """Where a function mode is on, is_cpu runs Python.  What no probe may hide comes out; else
    torch is asked in its other ways."""
    overrides = pytest.importorskip("torch.overrides")
    if not hasattr(overrides, "TorchFunctionMode"):
        pytest.skip("no function modes in this torch")

    class Refuses(overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            asked.append(function)
            raise error

    asked = []
    upgraded = dlshim.upgrade(torch.ones(3))
    with Refuses():
        try:
            told = upgraded.__dlpack_device__()
        except (error, BufferError) as raised:  # torch's method, where there is no table
            told = None
            assert isinstance(raised, error) or isinstance(raised.__cause__, error)
    assert told is None or (told == (1, 0) and error is KeyError)
    assert len(asked) == 1 or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    assert upgraded.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32", "int64"])
def test_asarray_is_given_no_bare_bytes_of_a_tensor(dtype):
    """torch.asarray takes buffers first, asks them for no format, and reads float32."""
    x = np.arange(8).astype(dtype)
    t = dlshim.from_dlpack(x)
    (verdict,) = dlshim.inspect(t, consumer="torch.asarray").verdicts
    with pytest.raises(RuntimeError) as refused:
        torch.asarray(t)
    assert verdict.bare.result == "refused" and type(refused.value).__name__ in verdict.bare.raises
    cured = eval(verdict.cure, {"torch": torch, "dlshim": dlshim, "x": t})
    for taken in (cured, torch.as_tensor(t), torch.from_dlpack(t)):
        assert str(taken.dtype) == f"torch.{dtype}" and taken.tolist() == list(range(8))
    with pytest.raises(RuntimeError):
        torch.frombuffer(t, dtype=cured.dtype)
    raw = torch.frombuffer(memoryview(t).cast("B"), dtype=cured.dtype)
    assert raw.tolist() == list(range(8))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
def test_who_asks_a_tensor_for_shape_and_format_is_answered(dtype):
    x = np.arange(8).astype(dtype)
    t = dlshim.from_dlpack(x)
    assert np.asarray(t).tolist() == np.asarray(memoryview(t)).tolist() == list(range(8))
    assert np.frombuffer(t, dtype).tolist() == list(range(8))
    assert bytes(t) == bytes(memoryview(t)) == t.tobytes() == x.tobytes()
    assert pickle.loads(pickle.dumps(t)).tobytes() == x.tobytes()


def test_bools_of_a_release_that_does_not_export_them_come_by_their_cure():
    """torch before 2.0; later ones need none."""
    x = torch.tensor([True, False])
    try:
        made = dlshim.from_dlpack(x)
    except BufferError as error:
        assert 'pass x.view(torch.uint8) with reinterpret="bool" instead' in str(error)
        made = dlshim.from_dlpack(x.view(torch.uint8), reinterpret="bool")
    assert made.dtype == "bool" and np.asarray(made).tolist() == [True, False]
