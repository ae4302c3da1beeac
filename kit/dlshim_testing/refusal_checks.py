"""What a consumer refuses, and how: dtypes, devices, errors, and what is no array."""

from __future__ import annotations

from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .imports import (
    EDITIONS,
    REFUSABLE,
    SAY_HOST,
    Exits,
    Interrupted,
    Legacy,
    Proxy,
    Versioned,
    bound_by_from_dlpack,
    edition_is_taken,
    its_own,
    objects_only,
    observe,
    trial,
)
from .partner import Consumer, said


@check("consumer", "unknown-dtype", ((15, 8, 1), (16, 8, 1), (17, 8, 1)), EDITIONS, risky=True)
def unknown_dtype(c: Consumer, dtype: tuple[int, int, int], edition: str) -> None:
    edition_is_taken(c, edition)
    if c.flat:
        raise NotApplicable("the consumer keeps no dtype")
    made = trial(c, EDITIONS[edition](dtype=dtype))
    insist(made.refused, f"dtype {dtype} is taken")


ODD = ((99, 8, 1), (2, 7, 1), (2, 32, 0), (2, 0, 1), (6, 1, 1), (0, 128, 1))


@check("consumer", "odd-dtype", ODD, EDITIONS, risky=True)
def odd_dtype(c: Consumer, dtype: tuple[int, int, int], edition: str) -> None:
    made = trial(c, EDITIONS[edition](dtype=dtype))
    insist(made.refused, f"dtype {dtype} is taken")


#: Host memory under the names that drivers of devices have for it.
HOST_BY_OTHER_NAMES = ((3, 0), (11, 0), (13, 0))
UNKNOWN_DEVICES = ((7, 0), (9, 0), (16, 0), (99, 0))
OTHER_DEVICES = (*UNKNOWN_DEVICES, *HOST_BY_OTHER_NAMES)


@check("consumer", "other-device", OTHER_DEVICES, EDITIONS, risky=True)
def other_device(c: Consumer, device: tuple[int, int], edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](device=device))
    if not made.refused:
        raise NotApplicable(f"device {device} is taken")
    kind, text, _ = made.refused
    insist(issubclass(kind, BufferError), f"device {device}: {text}")


@check("consumer", "device-not-read", UNKNOWN_DEVICES, EDITIONS, risky=True)
def other_device_is_not_read(c: Consumer, device: tuple[int, int], edition: str) -> None:
    edition_is_taken(c, edition)
    made = trial(c, EDITIONS[edition](device=device))
    if made.refused:
        return
    same = observe(made.result).address == made.array.element_zero  # it reads host memory
    insist(not same, f"memory of device {device} is taken for the host's")


@check("consumer", "device-of-the-capsule", ((7, 0), (99, 0)), EDITIONS, risky=True)
def device_of_the_capsule(c: Consumer, device: tuple[int, int], edition: str) -> None:
    objects_only(c)
    edition_is_taken(c, edition)
    made = trial(c, SAY_HOST[edition](device=device))
    if made.refused:
        return
    same = observe(made.result).address == made.array.element_zero
    insist(not same, f"memory of device {device} is taken for the host's, as the method tells it")


class Failed(Exception):
    """An exception that no library knows."""


class Below(RuntimeError):
    """One that no library knows, of a kind that all know."""


ERRORS = {
    error.__name__: error
    for error in (
        *(BufferError, ValueError, RuntimeError, MemoryError, NotImplementedError, Failed),
        *(RecursionError, Below, Interrupted, Exits),
    )
}


@check("consumer", "propagates", ERRORS, ("__dlpack__", "__dlpack_device__"))
def propagates(c: Consumer, name: str, method: str) -> None:
    bound_by_from_dlpack(c)
    error = ERRORS[name]
    asked = []

    class Failing(Versioned):
        pass

    def fail(self: Any, **_: Any) -> None:
        asked.append(method)
        self.calls.append(((), {}))
        raise error("made to fail")

    setattr(Failing, method, fail)
    made = trial(c, Failing())
    if not asked:
        raise NotApplicable(f"the consumer never calls {method}")
    insist(made.refused, f"{method} raises {name}, and the consumer goes on")
    assert made.refused
    kind, text, cause = made.refused
    reaches = issubclass(kind, error) or isinstance(cause, error)
    insist(reaches, f"{method} raises {name}, the consumer {text}")


#: Errors that no producer raises to say that it does not know a keyword.
UNHEARD = {name: ERRORS[name] for name in ("MemoryError", "Failed", "BufferError", "Interrupted")}


@check("consumer", "propagates", ("first call",), UNHEARD)
def first_error_propagates(c: Consumer, which: str, name: str) -> None:
    """Whoever asks again without keywords, whatever the error, hides a failure of the producer."""
    bound_by_from_dlpack(c)
    error = UNHEARD[name]

    class FailsOnce(Versioned):
        def __dlpack__(self, **keywords: Any) -> Any:
            if not self.calls:
                self.calls.append(((), keywords))
                raise error("made to fail")
            return super().__dlpack__(**keywords)

    made = trial(c, FailsOnce())
    insist(made.refused, f"the first call of __dlpack__ raises {name}, and the consumer goes on")


IN_C = "a capsule whose destructor is in C is made by dlshim"


class Dropped(Versioned):
    """Nobody but the consumer has its capsules. Their destructor is dlshim's, written in C, which
    saves the exception that is on its way, as every destructor must."""

    def __dlpack__(self, *, max_version: Any = None, **keywords: Any) -> Any:
        dlshim, give = its_own(IN_C), super().__dlpack__

        class Inner:
            def __dlpack__(self, **inner: Any) -> Any:
                return give(**keywords | inner)

            __dlpack_device__ = self.__dlpack_device__

        capsule = dlshim.to_capsule(Inner(), max_version=max_version)
        self.given.clear()
        return capsule


@check("consumer", "error-kept", ("unknown code", "vectors"), risky=True)
def error_is_kept(c: Consumer, which: str) -> None:
    objects_only(c)
    its_own(IN_C)
    array = Dropped(**REFUSABLE[which])
    kept = trial(c, Versioned(**REFUSABLE[which])).refused
    if not kept:
        raise NotApplicable("it is taken")
    made = trial(c, array)
    told = made.refused
    insist(told and told.kind is kept.kind, f"it raises {kept.text}, where a capsule of which "
           f"nobody else knows is refused {told and told.text}")  # fmt: skip
    if array.exports:
        deleted = made.finish().deleted
        insist(deleted == 1, f"it is refused, and the deleter was called {deleted} times")


@check("consumer", "proxies", EDITIONS)
def proxies_are_taken(c: Consumer, edition: str) -> None:
    objects_only(c)
    edition_is_taken(c, edition)
    array = EDITIONS[edition](dtype=c.usual())
    if c.one_dimension:
        array.shape, array.strides = (6,), (1,)
    try:
        c.consume(Proxy(array))
    except Exception as error:
        raise Broken(f"an object that forwards the methods: {said(error)}") from error
    finally:
        array.given.clear()


class NoValue(Versioned):
    """No more than the two methods: arrays have no truth, and some have no length."""

    def _fails(self, *_: Any) -> Any:
        raise TypeError("the kit's object has nothing but the two methods")

    __bool__ = __len__ = __eq__ = __iter__ = __contains__ = _fails  # type: ignore[assignment]
    __hash__ = object.__hash__


@check("consumer", "proxies", ("no truth",))
def what_has_no_truth_is_taken(c: Consumer, which: str) -> None:
    objects_only(c)
    edition_is_taken(c, "versioned")
    made = trial(c, NoValue())
    insist(not made.refused, f"an object without truth: {made.refused and made.refused.text}")


@check("consumer", "no-capsule", risky=True)
def no_capsule(c: Consumer) -> None:
    if c.wants == "object":
        raise NotApplicable("the consumer takes objects")
    try:
        made = c.consume(Legacy())
    except Exception:
        return
    raise NotApplicable(f"the consumer takes objects, too, and makes a {type(made).__name__}")


GIVEN = {"None": None, "a tuple": (), "a number": 5}


@check("consumer", "no-capsule", ("given",), GIVEN, risky=True)
def what_is_no_capsule_is_refused(c: Consumer, which: str, what: str) -> None:
    objects_only(c)

    class GivesNone(Versioned):
        def __dlpack__(self, **keywords: Any) -> Any:
            self.calls.append(((), keywords))
            return GIVEN[what]

    made = trial(c, GivesNone())
    insist(made.refused, f"__dlpack__ gives {what}, and the consumer goes on")


@check("consumer", "no-methods")
def no_methods(c: Consumer) -> None:
    bound_by_from_dlpack(c)
    try:
        c.consume(object())
    except AttributeError:
        return
    except Exception as error:
        raise Broken(f"an object without the methods: {said(error)}") from error
    raise Broken("an object without the methods is taken")
