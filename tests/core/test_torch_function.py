"""A subclass whose bits are asked past the hook that its library gives to every subclass (T12).

The double does as torch/_tensor.py and torch/csrc/utils/python_arg_parser.cpp of pytorch 2.8.0
(commit a1cb3cc) do: a method of a subclass goes through `__torch_function__`, except inside the
guard that the hook of torch itself makes."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles import producers


class Guard:
    inside = entered = 0

    def __enter__(self) -> None:
        Guard.inside += 1
        Guard.entered += 1

    def __exit__(self, *exception: object) -> None:
        Guard.inside -= 1


@pytest.fixture(name="torch", params=[False, True], ids=["__dlpack__", "C table"])
def torch_module(request, monkeypatch):
    """A torch whose `calls` says what went through its hook."""
    tensor = producers.torch_like(table=request.param)
    module: Any = types.ModuleType("torch")
    module.calls = []

    def asked(method: Any) -> Any:
        def ask(self: Any) -> Any:
            if type(self) is tensor or Guard.inside:
                return method(self)
            return type(self).__torch_function__(method, (type(self),), (self,))

        return ask

    def hook(cls: type, function: Any, types_: Any, args: Any = (), kwargs: Any = None) -> Any:
        module.calls.append(function)
        with Guard():
            return function(*args)

    for name in ("is_neg", "is_conj", "resolve_neg", "resolve_conj"):
        setattr(tensor, name, asked(getattr(tensor, name)))
    tensor.__torch_function__ = classmethod(hook)
    module.Tensor, module.asked = tensor, asked
    module._C = types.SimpleNamespace(DisableTorchFunctionSubclass=Guard)
    monkeypatch.setitem(sys.modules, "torch", module)
    yield module
    assert Guard.inside == 0, "every guard was left"


def take(x: Any) -> None:
    caps.take(dlshim.upgrade(x).__dlpack__(max_version=(1, 0))).release()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_the_bits_of_a_subclass_are_asked_past_the_library_s_own_hook(torch, dtype):
    class Meters(torch.Tensor):
        pass

    for _ in range(3):
        take(Meters(dtype=dtype))
        for bit, cure in (("neg", "resolve_neg"), ("conj", "resolve_conj")):
            if dtype == "complex64" or bit == "neg":
                with pytest.raises(BufferError, match=cure):
                    take(Meters(dtype=dtype, **{bit: True}))
    assert torch.calls == []


def test_the_bits_of_a_subclass_are_resolved_past_the_hook_where_a_copy_is_asked_for(torch):
    class Meters(torch.Tensor):
        pass

    for _ in range(2):
        with pytest.raises(BufferError, match="resolve_neg"):
            take(Meters(neg=True))
        assert dlshim.from_dlpack(Meters(neg=True), copy=True).is_copied
    assert torch.calls == []


#: torch's __dlpack__ looks for autograd itself, its C table does not.
BY_TABLE = pytest.mark.parametrize("torch", [True], indirect=True, ids=["C table"])


@BY_TABLE
def test_requires_grad_of_a_subclass_is_asked_past_the_hook(torch):
    torch.Tensor.requires_grad = property(
        torch.asked(lambda self: vars(self)["wants"]),
        lambda self, value: vars(self).update(wants=value),
    )

    class Meters(torch.Tensor):
        pass

    for _ in range(2):
        take(Meters())
        with pytest.raises(BufferError, match="requires grad"):
            dlshim.from_dlpack(Meters(requires_grad=True))
    assert torch.calls == []


@BY_TABLE
@pytest.mark.once  # the full record asks each question where it stands
@pytest.mark.parametrize("by", ["a capsule", "a Tensor"])
def test_a_learned_subclass_is_asked_both_questions_under_one_guard(torch, by):
    torch.Tensor.requires_grad = property(torch.asked(lambda self: False), lambda self, value: None)

    class Meters(torch.Tensor):
        pass

    x = Meters()
    ask = take if by == "a capsule" else dlshim.from_dlpack
    ask(x)
    before = Guard.entered
    ask(x)
    assert Guard.entered == before + 1
    assert torch.calls == []


@BY_TABLE
def test_requires_grad_of_the_user_s_own_is_asked_outside_the_guard(torch):
    class Frozen(torch.Tensor):
        @property
        def requires_grad(self):
            assert Guard.inside == 0
            return False

        @requires_grad.setter
        def requires_grad(self, value):
            pass

    take(Frozen())


def test_a_hook_of_the_user_s_own_sees_the_calls(torch):
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types_, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types_, args, kwargs)

    take(Watched())
    assert len(seen) == len(torch.calls) == 1


def test_a_method_of_the_user_s_own_is_called_outside_the_guard(torch):
    class Lazy(torch.Tensor):
        def is_neg(self):
            assert Guard.inside == 0
            return True

    for _ in range(2):
        with pytest.raises(BufferError, match="resolve_neg"):
            take(Lazy())


def test_the_guard_is_left_when_the_answer_is_an_error(torch):
    class Meters(torch.Tensor):
        pass

    take(Meters())
    torch.Tensor.is_neg = lambda self: 1 / 0
    with pytest.raises(BufferError) as raised:
        take(Meters())
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("place", ["__new__", "__enter__"])
def test_a_guard_that_cannot_be_made(torch, monkeypatch, place):
    class Meters(torch.Tensor):
        pass

    def stop(*args: object) -> None:
        raise KeyboardInterrupt

    take(Meters())
    monkeypatch.setattr(Guard, place, stop)
    with pytest.raises(KeyboardInterrupt):
        take(Meters())


def test_a_torch_without_the_guard_is_asked_through_its_hook(torch):
    """1.13 has it under another name."""
    del torch._C.DisableTorchFunctionSubclass

    class Meters(torch.Tensor):
        pass

    take(Meters())
    assert len(torch.calls) == 1


# ---- a wrapper whose hook refuses every question -----------------------------------------------


def test_a_wrapper_that_refuses_questions_is_asked_past_its_hook(torch):
    wrapper = producers.torch_wrapper_like(torch.Tensor)
    for _ in range(3):
        take(wrapper())
        for bit, cure in (("neg", "resolve_neg"), ("conj", "resolve_conj")):
            with pytest.raises(BufferError, match=rf"wrap tensor\.{cure}\(\) instead"):
                take(wrapper(dtype="complex64", **{bit: True}))
        with pytest.raises(BufferError, match=r"wrap tensor\.detach\(\) instead"):
            take(wrapper(requires_grad=True))
