"""Rules N1 and N2 where libraries warn: no question of dlshim warns by itself or changes an outcome
where warnings are errors, and a refusal of the data is not taken for one of a keyword."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import dlshim
from doubles import capsules as caps
from doubles.asking import ASKINGS, tells, versioned
from doubles.delegating import Forwarding
from doubles.older import InterfaceOnly
from doubles.producers import P1, Array, InC, masquerade

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
FILTERS = pytest.mark.parametrize("action", ["always", "error"])


class ArrowTypeError(TypeError):
    """pyarrow's (`pyarrow/error.pxi`)."""


class ArgumentError(TypeError):
    """Boost.Python's, for arguments that fit no signature, an unknown keyword among them
    (`boost/libs/python/src/object/function.cpp`); its methods have no code object."""


class Deprecating(Array):
    """pyarrow 26 (`Array.__dlpack__` in `pyarrow/array.pxi`): no version is asked for: it warns,
    and then refuses the data all the same."""

    refuses: Exception | None = None

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        self.calls.append(((), {} if max_version is None else {"max_version": max_version}))
        if stream is not None:
            raise NotImplementedError("Only stream=None is supported.")
        if max_version is None or max_version < (1, 0):
            warnings.warn("an unversioned capsule is deprecated", DeprecationWarning, stacklevel=2)
        if self.refuses is not None:
            raise self.refuses
        return self._legacy() if max_version is None else self._versioned()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class WithInterface(Deprecating):
    """Has a second way to its memory."""

    @property
    def __array_interface__(self) -> Any:
        entries = {"shape": (2, 3), "typestr": "<f4", "data": (self.element_zero, False)}
        return entries | {"version": 3}


def in_c(cls: type) -> type:
    """The class with a __dlpack__ that shows no signature, as many a method in C."""
    return type(cls.__name__, (cls,), {"__dlpack__": InC(cls.__dlpack__)})


def refusing(cls: type, failure: Exception) -> Any:
    x = type(cls.__name__, (cls,), {})()
    x.refuses = failure
    return x


@contextmanager
def filtered(action: Any) -> Iterator[list[Any]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        yield seen


# --- the data are refused -------------------------------------------------------------


@BOTH
@FILTERS
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_refusal_of_the_data_is_asked_for_once(wrapped, learned, action, ask):
    x = refusing(Deprecating, ArrowTypeError("Can only use DLPack on arrays with no nulls."))
    source = Forwarding(x) if wrapped else x
    if learned:
        good = type(x)()
        ask(dlshim.upgrade(Forwarding(good) if wrapped else good)).release()
    with filtered(action) as seen, pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(source))
    tells(error.value, "no nulls")
    assert error.value.__cause__ is x.refuses
    asked = [keywords for _, keywords in x.calls]
    if wrapped:  # it takes any keyword, so it may be the array's that was refused
        assert asked[0] == {"max_version": (1, 0)} and len(asked) > 1
    else:
        assert asked == [{"max_version": (1, 0)}] and seen == []


class KeywordError(TypeError):
    """As Boost.Python's ArgumentError, of a method that does not know a keyword."""


class Knows:
    def __init__(self, *known: str) -> None:
        self.known, self.memory = known, P1()

    def __dlpack__(self, **asked: Any) -> Any:
        if {*asked} - {*self.known}:
            raise KeywordError(f"unexpected {sorted(asked)}")
        return self.memory.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return (1, 0)


@BOTH
@pytest.mark.parametrize("known", [(), ("stream",)])
def test_a_method_that_takes_any_keyword_may_refuse_one_by_a_class_of_its_own(known, ask):
    """NumPy asks again after any TypeError, so it works bare."""
    cls = type("Knows", (Knows,), {})
    for _ in range(3):
        with ask(dlshim.upgrade(cls(*known))) as imported:
            assert imported.values() == [0, 1, 2, 3, 4, 5]
        assert dlshim.from_dlpack(cls(*known)).shape == (2, 3)


@BOTH
@FILTERS
def test_the_next_protocol_is_taken_after_it(action, ask):
    failure = ArrowTypeError("DataType is not compatible with DLPack spec")
    x = refusing(WithInterface, failure)
    for _ in range(3):
        with filtered(action) as seen, ask(dlshim.upgrade(x)) as imported:
            assert imported.view.element_zero == x.element_zero
        assert seen == []
    assert len(x.calls) == 1  # from then on the other protocol is asked at once


@BOTH
def test_what_one_object_refuses_costs_its_type_no_flag(ask):
    x = refusing(Deprecating, ArrowTypeError("no"))
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(x))
    good = type(x)(readonly=True)
    assert dlshim.from_dlpack(good).readonly
    assert len(good.calls) == 1


@BOTH
def test_a_keyword_may_be_refused_by_an_error_of_its_own(ask):
    """Where no signature tells, and no object has taken the keyword, less is asked for."""

    asked_with = []

    class Bound(P1):
        def __dlpack__(self, **asked: Any) -> Any:
            asked_with.append(set(asked))
            if asked_with[-1] - {"stream"}:
                raise ArgumentError("Python argument types did not match C++ signature")
            return super().__dlpack__(**asked)

    x = in_c(Bound)()
    for calls in ([{"max_version"}, set()], [set()]):
        asked_with.clear()
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == x.values()
        assert asked_with == calls


@BOTH
@FILTERS
def test_where_the_keyword_was_taken_before_nothing_less_is_asked(action, ask):
    """A method without a signature: what an object of the type took tells as well."""
    x = refusing(in_c(Deprecating), ArrowTypeError("no nulls"))
    ask(dlshim.upgrade(type(x)())).release()
    with filtered(action) as seen, pytest.raises(BufferError, match="no nulls"):
        ask(dlshim.upgrade(x))
    assert len(x.calls) == 1
    assert seen == []


# --- a warning that is an error -------------------------------------------------------


@BOTH
@pytest.mark.parametrize("kind", [TypeError, ArrowTypeError, ValueError, NotImplementedError])
def test_the_first_error_is_told_and_not_the_warning_of_a_fallback(kind, ask):
    """No signature tells that less is asked for in vain."""
    x = refusing(in_c(Deprecating), kind("the data are sparse"))
    with filtered("error"), pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, "sparse")
    assert error.value.__cause__ is x.refuses


@BOTH
@pytest.mark.parametrize("kind", [TypeError, ArrowTypeError, ValueError, NotImplementedError])
def test_the_next_protocol_is_taken_after_the_warning_of_a_fallback(kind, ask):
    x = refusing(in_c(WithInterface), kind("the data are sparse"))
    with filtered("error"), ask(dlshim.upgrade(x)) as imported:
        assert imported.view.element_zero == x.element_zero


@BOTH
def test_a_warning_of_the_first_question_leads_to_the_next_protocol(ask):
    x = refusing(WithInterface, DeprecationWarning("use the interface"))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.element_zero == x.element_zero
    assert len(x.calls) == 1  # and nothing less is asked for, which would lose the flags
    with ask(dlshim.upgrade(type(x)())):
        pass


@BOTH
def test_a_warning_alone_is_told(ask):
    x = refusing(Deprecating, FutureWarning("will be removed"))
    with pytest.raises(BufferError, match="FutureWarning: will be removed") as error:
        ask(dlshim.upgrade(x))
    assert error.value.__cause__ is x.refuses


def test_where_the_legacy_question_warns_the_versioned_one_is_put():
    """NumPy's legacy answer is asked first (N3); a later release may deprecate it."""
    x = masquerade(in_c(Deprecating), "ndarray", "numpy")()
    with filtered("error"):
        dlshim.upgrade(x).__dlpack__()
    assert [keywords for _, keywords in x.calls] == [{}, {"max_version": (1, 0)}]
    caps.close_accounts()


@BOTH
def test_an_older_protocol_that_warns_leads_to_the_next(ask):
    class Both(bytearray):
        @property
        def __array_interface__(self) -> Any:
            raise DeprecationWarning("__array_interface__ is deprecated")

    with ask(dlshim.upgrade(Both(b"abc"))) as imported:
        assert imported.values() == [97, 98, 99]


@pytest.mark.parametrize(
    "name", ["to_dlpack", "toDlpack", "to_dlpack_for_read", "__array_struct__"]
)
def test_a_name_that_is_only_looked_for_may_warn(name):
    """An attribute that no consumer asks for, of an object that warns of some names."""

    class Warns:
        interface = InterfaceOnly((3,), "int32")

        def __getattr__(self, asked: str) -> Any:
            if asked == name:
                warnings.warn(f"{asked} is deprecated", DeprecationWarning, stacklevel=2)
            if asked == "__array_interface__":
                return self.interface.__array_interface__
            raise AttributeError(asked)

    if not name.startswith("__"):  # these are looked for on the type first
        setattr(Warns, name, property(lambda self: self.__getattr__(name)))
    with filtered("error"), versioned(dlshim.upgrade(Warns())) as imported:
        assert imported.view.shape == (3,)


# --- cures ----------------------------------------------------------------------------


@FILTERS
def test_looking_for_a_cure_warns_of_nothing(action):
    """pandas 2.2 (`pandas/core/groupby/generic.py`): a group has dtypes, which are deprecated."""

    def dtypes(self: object) -> Any:
        warnings.warn("DataFrameGroupBy.dtypes is deprecated", FutureWarning, stacklevel=2)
        return ()

    group = masquerade(
        object, "DataFrameGroupBy", "pandas.core.groupby.generic", ndim=2, dtypes=property(dtypes)
    )
    with filtered(action) as seen, pytest.raises(dlshim.UnsupportedObjectError) as error:
        dlshim.upgrade(group())
    tells(error.value, "pass an array instead")
    assert seen == []
