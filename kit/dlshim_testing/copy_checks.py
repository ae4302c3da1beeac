"""Copies that a producer makes, and the flags of copies and of read-only memory."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

from .catalogue import Broken, NotApplicable, check, insist
from .doubles import capsules as caps
from .exports import (
    ASKS,
    BOTH,
    COPIES,
    COPY,
    FLAGGED,
    LAYOUTS,
    LOCKED,
    NOT_GIVEN,
    PARTS,
    SIZES,
    VERSIONED,
    WAYS,
    all_asked,
    answers,
    asked,
    held,
    laid_out_and_filled,
    on_host,
    prepared,
    read_only_array,
    same_elements,
    view_of,
)
from .field_checks import NUMBERED, REFUSED, one_of, pair_of
from .lifetime_checks import BLOCK, blocks_left_by, consume, leaks
from .partner import ODD, Producer, given, namespace_of, said, shape_of


@check("producer", "copy-supported", BOTH)
def copy_is_supported(p: Producer, ask: str) -> None:
    error = answers(p.make((2, 3)), copy=True, **ASKS[ask])
    insist(error is None, f"copy=True: {error and said(error)}")


@check("producer", "copy-supported", LOCKED, BOTH)
def copy_of_read_only_is_supported(p: Producer, which: str, ask: str) -> None:
    array = read_only_array(p, which)
    asked(array, VERSIONED)
    error = answers(array, copy=True, **ASKS[ask])
    insist(error is None, f"{which}, copy=True: {error and said(error)}")


@check("producer", "copy-true", LAYOUTS, WAYS, SIZES, pairs=True)
@check("producer", "copy-true", LAYOUTS, BOTH)
def copy_is_made(p: Producer, layout: str, ask: str, dtype: str = "float32") -> None:
    array, wanted, _, export = laid_out_and_filled(p, layout, dtype)
    own, own_capsule = held(array, ASKS[ask])
    view, capsule = held(array, {**ASKS[ask], **COPY})
    if 0 in view.shape:
        return
    insist(view.element_zero != own.element_zero, "copy=True gives the array's own memory")
    insist(view.shape == own.shape, f"copy=True: shape {own.shape} became {view.shape}")
    same_elements(view, own.elements() if wanted is None else wanted, "the copy")
    del own_capsule, capsule, export


@check("producer", "copy-true", LOCKED, WAYS)
def copy_of_read_only_is_made(p: Producer, which: str, ask: str) -> None:
    array = read_only_array(p, which)
    own, own_capsule = held(array, VERSIONED)
    view, capsule = held(array, {**ASKS[ask], **COPY})
    if 0 in view.shape:
        return
    insist(view.element_zero != own.element_zero, f"{which}, copy=True: its own memory is given")
    insist(view.shape == own.shape, f"{which}, copy=True: shape {own.shape} became {view.shape}")
    same_elements(view, own.elements(), "the copy")
    del own_capsule, capsule


@check("producer", "copy-true", ("odd",), ODD, WAYS)
def copy_of_odd_numbers_is_made(p: Producer, which: str, dtype: str, ask: str) -> None:
    """Numbers that a copy by way of arithmetic changes."""
    array = p.make((len(ODD[dtype]),), dtype)
    own, own_capsule = held(array, ASKS["bare"])
    if own.readonly or own.dtype != caps.DTYPES[dtype] or not own.data:
        raise NotApplicable("such numbers cannot be written into the array")
    for at, bits in enumerate(ODD[dtype]):
        own.put(at, bits)
    view, capsule = held(array, {**ASKS[ask], **COPY})
    again, again_capsule = held(array, ASKS["bare"])
    if again.elements() != own.elements():
        raise NotApplicable(COPIES)
    found, meant = ([raw.hex() for raw in each.elements()] for each in (view, own))
    insist(found == meant, f"copy=True: of {dtype} the bytes {meant} became {found}")
    del own_capsule, capsule, again_capsule


@check("producer", "copied-flag", LAYOUTS, FLAGGED)
@check("producer", "copied-flag", LAYOUTS)
def copy_has_its_flag(p: Producer, layout: str, ask: str = "versioned") -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, {**ASKS[ask], **COPY}))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    insist(view.copied, f"copy=True gives flags {view.flags}, without IS_COPIED")


@check("producer", "copied-falsely", ("whole", "rows", "every second", "transposed"), FLAGGED)
@check("producer", "copied-falsely", ("whole", "rows", "every second", "transposed"))
def shared_is_not_copied(p: Producer, layout: str, ask: str = "versioned") -> None:
    array = prepared(p, layout, "float32")
    first, second = all_asked(array, [ASKS[ask]] * 2)
    view, again = view_of(first), view_of(second)
    if view.element_zero != again.element_zero:
        raise NotApplicable("each export is a copy")
    insist(not view.copied, "memory that two exports share has the flag IS_COPIED")


@check("producer", "copy-false", LAYOUTS, WAYS, SIZES, pairs=True)
@check("producer", "copy-false", LAYOUTS, BOTH)
def copy_false_shares(p: Producer, layout: str, ask: str, dtype: str = "float32") -> None:
    insist_no_copy(prepared(p, layout, dtype), ask)


@check("producer", "copy-false", LOCKED, WAYS)
def copy_false_shares_read_only_memory(p: Producer, which: str, ask: str) -> None:
    insist_no_copy(read_only_array(p, which), ask)


def insist_no_copy(array: Any, ask: str) -> None:
    plain = all_asked(array, [ASKS[ask]] * 2)
    error = answers(array, copy=False, **ASKS[ask])
    if isinstance(error, TypeError) and isinstance(answers(array, copy=None), TypeError):
        raise NotApplicable(f"copy is not known: {said(error)}")
    if error is not None:
        allowed = isinstance(error, BufferError | ValueError)
        insist(allowed, f"copy=False: {said(error)}")
        return
    uncopied = all_asked(array, [{**ASKS[ask], "copy": False}] * 2)
    view = view_of(uncopied[0])
    places = {view_of(each).element_zero for each in plain}
    if len(places) > 1:  # plain exports are copies, which do not tell where the array lies
        places = {view_of(uncopied[1]).element_zero}
    insist(
        0 in view.shape or view.element_zero in places,
        "copy=False gives a copy: its memory is not that of a plain export",
    )
    insist(not view.copied, "copy=False gives a struct with the flag IS_COPIED")


@check("producer", "copy-false-error", LAYOUTS, BOTH)
def copy_false_is_a_buffer_error(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    asked(array, ASKS[ask])
    error = answers(array, copy=False, **ASKS[ask])
    if error is None or isinstance(error, TypeError):
        raise NotApplicable(f"copy=False {f'is {said(error)}' if error else 'gives a capsule'}")
    insist(isinstance(error, BufferError), f"copy=False: {said(error)}")


@check("producer", "copy-alone", ("whole", "rows", "transposed"), WAYS, risky=True)
def copies_share_nothing(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    capsules = all_asked(array, [{**ASKS[ask], **copy} for copy in (COPY, COPY, {})])
    copied, other, own = (on_host(view_of(each)) for each in capsules)
    if copied.readonly or copied.element_zero == own.element_zero:
        raise NotApplicable("copy=True gives no copy that may be written")
    before = own.elements(), other.elements()
    copied.write(0, 0 if any(before[0][0]) else 1)
    insist(own.elements() == before[0], "what is written into the copy shows in the array")
    insist(other.elements() == before[1], "what is written into a copy shows in another one")


def insist_apart(array: Any, ask: str) -> None:
    """No two elements of a copy lie in the same memory."""
    view = view_of(asked(array, {**ASKS[ask], **COPY}))
    if view.readonly:
        raise NotApplicable("the copy may not be written, so that nobody notices")
    strides = caps.row_major(view.shape) if view.strides is None else view.strides
    places = caps.offsets(view.shape, strides)
    insist(
        len({*places}) == len(places),
        f"the copy has shape {view.shape} and strides {view.strides}: its {len(places)} elements "
        f"lie in {len({*places})} places, so that a write to one changes others",
    )


@check("producer", "copy-elements", ("broadcast",), BOTH)
def copies_of_broadcast_arrays_lie_apart(p: Producer, which: str, ask: str) -> None:
    array = p.make((3,))
    spread = getattr(namespace_of(p, array), "broadcast_to", None)
    if spread is None:
        raise NotApplicable("the library has no broadcast_to: give such an array as special=")
    try:
        wide = spread(array, (2, 3))
    except Exception as error:
        raise NotApplicable(f"broadcast_to: {said(error)}") from error
    insist_apart(wide, ask)


@check("producer", "copy-elements", NUMBERED, BOTH)
def copies_of_special_arrays_lie_apart(p: Producer, which: str, ask: str) -> None:
    name, make = one_of(p, "special", which)
    insist_apart(pair_of(f"special=[{name!r}]", make)[0], ask)


@check("producer", "read-only-flag", ("versioned", *FLAGGED), PARTS)
@check("producer", "read-only-flag", ("versioned", *FLAGGED))
def read_only_has_its_flag(p: Producer, ask: str, which: str = "read-only") -> None:
    insist_read_only(read_only_array(p, which), ASKS[ask])


@check("producer", "read-only-flag", ("uncopied",), LOCKED)
def read_only_has_its_flag_uncopied(p: Producer, ask: str, which: str) -> None:
    insist_read_only(read_only_array(p, which), {"copy": False, **VERSIONED})


def insist_read_only(array: Any, keywords: dict[str, Any]) -> None:
    view = view_of(asked(array, keywords))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    if view.copied and exports_differ(array, keywords):
        raise NotApplicable("each export is a copy, which may be written")
    insist(
        view.readonly, f"an array that may not be written has flags {view.flags}, without READ_ONLY"
    )


def exports_differ(array: Any, keywords: dict[str, Any]) -> bool:
    """Whether two exports that live at the same time lie at different addresses."""
    first, second = all_asked(array, [keywords] * 2)
    return view_of(first).element_zero != view_of(second).element_zero


def says_that_it_may_be_written(array: Any) -> bool:
    """By its buffer, NumPy's flag, or because `array[i, j] = 0` works."""
    with contextlib.suppress(Exception), memoryview(array) as memory:
        return not memory.readonly
    if (flag := getattr(getattr(array, "flags", None), "writeable", None)) is not None:
        return bool(flag)
    try:
        array[(0,) * len(shape_of(array) or ())] = 0
    except Exception:
        return False
    return True


@check("producer", "read-only-falsely", ("whole", "rows", "transposed"), ("versioned", *FLAGGED))
def writable_is_not_flagged(p: Producer, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    view = view_of(asked(array, ASKS[ask]))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    if view.readonly and not says_that_it_may_be_written(array):
        raise NotApplicable("nothing says that the array may be written")
    insist(
        not view.readonly, f"an array that may be written has flags {view.flags}, with READ_ONLY"
    )


@check("producer", "copy-writable", ("versioned", *FLAGGED))
def copy_of_read_only_is_writable(p: Producer, ask: str) -> None:
    view = view_of(asked(read_only_array(p), {**ASKS[ask], **COPY}))
    if view.flags is None:
        raise NotApplicable("the answer is DLPack 0.x, which has no flags")
    if view.readonly and view_of(asked(p.make((2, 3)), {**ASKS[ask], **COPY})).readonly:
        raise NotApplicable("what the library makes may never be written")
    insist(
        not view.readonly,
        f"copy=True of an array that may not be written has flags {view.flags}, with READ_ONLY",
    )


@check("producer", "read-only-legacy", ("bare", "own device"), LOCKED)
@check("producer", "read-only-legacy")
def read_only_as_legacy(p: Producer, ask: str = "bare", which: str = "read-only") -> None:
    array = read_only_array(p, which)
    if answers(array, **ASKS[ask]) is not None:
        return
    name = caps.name_of(asked(array, ASKS[ask]))
    if exports_differ(array, ASKS[ask]):
        raise NotApplicable("each export is a copy, which may be written")
    insist(name != caps.LEGACY, "memory that may not be written is given out as DLPack 0.x")


@check("producer", "leaves-array", ("writable",), ASKS)
def export_leaves_the_array_writable(p: Producer, which: str, ask: str) -> None:
    array = p.make((2, 3))
    if not says_that_it_may_be_written(array):
        raise NotApplicable("nothing says that the array may be written")
    consume(asked(array, ASKS[ask]))
    insist(says_that_it_may_be_written(array), "an array that was exported may not be written")


def knows(p: Producer, ask: str) -> None:
    """NotApplicable where max_version is not known: a TypeError says nothing of the array then."""
    if ASKS[ask] and isinstance(answers(p.make((2, 3)), max_version=None), TypeError):
        raise NotApplicable("the keyword max_version is not known")


@check("producer", "refusals", ("layout",), LAYOUTS, BOTH)
def layouts_are_refused_by_a_buffer_error(p: Producer, which: str, layout: str, ask: str) -> None:
    array = prepared(p, layout, "float32")
    if not hasattr(array, "__dlpack__"):
        raise NotApplicable(f"a {type(array).__name__} has no __dlpack__")
    knows(p, ask)
    error = answers(array, **ASKS[ask])
    insist(error is None or isinstance(error, BufferError), f"{layout}: {error and said(error)}")


@check("producer", "refusals", ("copy",), LAYOUTS, BOTH)
def copies_of_layouts_are_refused_by_a_buffer_error(
    p: Producer, which: str, layout: str, ask: str
) -> None:
    array, asks = prepared(p, layout, "float32"), {**ASKS[ask], **COPY}
    if not hasattr(array, "__dlpack__"):
        raise NotApplicable(f"a {type(array).__name__} has no __dlpack__")
    if error := answers(p.make((2, 3)), **asks):
        raise NotApplicable(f"no array is copied: {said(error)}")
    error = answers(array, **asks)
    refused = isinstance(error, BufferError)
    insist(error is None or refused, f"{layout}, copy=True: {error and said(error)}")


@check("producer", "refusals", REFUSED, BOTH)
def refusals(p: Producer, which: str, ask: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    knows(p, ask)
    error = answers(array, **ASKS[ask])
    insist(error is not None, f"{name}: it is exported")
    insist(isinstance(error, BufferError), f"{name}: {error and said(error)}")


@check("producer", "refusals", ("read-only",), ("bare",))
def read_only_is_refused_by_a_buffer_error(p: Producer, which: str, ask: str) -> None:
    array = read_only_array(p)
    asked(array, ASKS["versioned"])
    error = answers(array, **ASKS[ask])
    if error is None:
        raise NotApplicable("it is given out as DLPack 0.x, which another rule judges")
    insist(isinstance(error, BufferError), f"memory that may not be written: {said(error)}")


@check("producer", "refused-freed", REFUSED)
def refused_goes(p: Producer, which: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    try:
        gone = weakref.ref(array)
    except TypeError as error:
        raise NotApplicable(f"{name}: {said(error)}") from error
    for ask in ("versioned", "bare"):
        if answers(array, **ASKS[ask]) is None:
            raise NotApplicable(f"{name}: it is exported")
    del array
    gc.collect()
    insist(gone() is None, f"{name}: it stays although nothing but its refused exports had it")


#: How many exports are refused where small blocks of memory are counted.
REFUSALS = 64


def insist_refusals_leave_nothing(make: Any, what: str, *asks: dict[str, Any]) -> None:
    def refuse() -> None:
        for _ in range(REFUSALS):
            array = make()
            for keywords in asks:
                if answers(array, **keywords) is None:
                    raise NotApplicable(f"{what}: it is exported")
            del array

    grown = blocks_left_by(refuse)
    for _ in range(9):  # caches of Python and of the library grow as well, and not for long
        if grown < REFUSALS * BLOCK:
            return
        grown = blocks_left_by(refuse)
    raise Broken(
        f"{what}: after {REFUSALS} exports that were refused, {grown} bytes more are in use, each "
        "time",
    )


@check("producer", "refused-freed", ("blocks",), REFUSED, risky=True)
def refusals_leave_nothing(p: Producer, which: str, number: str) -> None:
    """What the refused array held inside stays, though the array itself goes."""
    name, make = one_of(p, "refused", number)
    insist_refusals_leave_nothing(make, name, ASKS["versioned"], ASKS["bare"])


@check("producer", "refused-freed", ("read-only",), risky=True)
def refusals_of_read_only_leave_nothing(p: Producer, which: str) -> None:
    what = "an array that may not be written, asked for DLPack 0.x"
    insist_refusals_leave_nothing(lambda: read_only_array(p), what, ASKS["bare"])


@check("producer", "refused-freed", NOT_GIVEN, risky=True)
def array_goes_after_a_refused_call(p: Producer, which: str) -> None:
    """A large array that was exported, and asked for something that it refused."""
    keywords = NOT_GIVEN[which]
    if answers(p.make((2, 3)), **keywords) is None:
        raise NotApplicable(f"{keywords} is taken")
    insist(
        not leaks(p, "float32", ASKS["bare"], consume, lambda array: answers(array, **keywords)),
        f"arrays that refused {keywords} come and go, and the process still occupies their memory",
    )


@check("producer", "not-exported", REFUSED, BOTH)
def refused_is_not_exported(p: Producer, which: str, ask: str) -> None:
    name, make = one_of(p, "refused", which)
    array = given(f"refused=[{name!r}]", make)
    insist(answers(array, **ASKS[ask]) is not None, f"{name}: it is exported")
