"""N9: consumers that are known to take few layouts: what they get, and order="auto"."""

from __future__ import annotations

import sys
import types

import pytest

import dlshim
from doubles import consumers
from doubles.asking import asks, bare, tells
from doubles.ctable import Table
from doubles.delegating import Forwarding
from doubles.producers import P1, P2, P1b, P3TableOnly, VersionedAlways

SOURCES = pytest.mark.parametrize("cls", [P1, P1b, P2, P3TableOnly, VersionedAlways])
ROOMS = pytest.mark.parametrize("wrap", [dlshim.upgrade, dlshim.from_dlpack])

JAX = "jax._src.dlpack"
#: How a library asks after the device question, and the module in which it does so.
ASKERS = {
    "jax to 0.11": (JAX, "stream=None"),
    "jax 0.12": (JAX, "stream=None, max_version=(1, 3)"),
    "max": ("max.driver.buffer", ""),
    "torch to 2.8": ("torch.utils.dlpack", ""),
    "torch": ("torch.utils.dlpack", "max_version=(1, 0)"),
    "paddle": ("paddle.utils.dlpack", "max_version=(1, 2)"),
    "warp": ("warp._src.context", "stream=None"),
    "another with a stream": ("jaxlike.dlpack", "stream=None, max_version=(1, 3)"),
}
OF_JAX = ["jax to 0.11", "jax 0.12"]


def asker(name):
    return asks(*ASKERS[name])


#: shape, strides, index of element zero; then by whom it is not taken.
TAKEN = {
    "column-major": ((2, 3), (1, 2), 0),
    "axes in another order": ((4, 2, 3), (1, 12, 4), 0),
    "four axes": ((4, 2, 5, 3), (5, 60, 1, 20), 0),
    "an extent of 1, a large stride": ((3, 1, 2), (1, 99, 3), 0),
    "an extent of 1, a stride that others have": ((3, 1, 2), (1, 3, 3), 0),
    "an extent of 1, repeated": ((3, 1, 2), (1, 0, 3), 0),
    "an extent of 1, backwards": ((1, 3, 2), (-6, 1, 3), 0),
}
SAYS_NOTHING = {
    "row-major": ((2, 3), (3, 1), 0),
    "no dimension": ((), (), 0),
    "one element": ((1,), (5,), 0),
    "one element, backwards": ((1, 1), (-5, -9), 0),
    "one row": ((1, 3), (99, 1), 0),
    "one column": ((3, 1), (1, 99), 0),
    "no elements": ((0, 3), (17, 5), 0),
    "no elements, transposed": ((3, 0, 2), (1, 99, 3), 0),
}
WITH_GAPS = {
    "every second": ((4,), (2,), 0),
    "rows apart": ((2, 3), (5, 1), 0),
    "columns apart": ((2, 3), (6, 2), 0),
    "transposed, apart": ((2, 3), (1, 5), 0),
    "repeated rows": ((2, 3), (0, 1), 0),
    "one element, repeated": ((2, 3), (0, 0), 0),
    "repeated beside an extent of 1": ((1, 3), (7, 0), 0),
    "overlapping": ((3, 3), (1, 1), 0),
}
NEGATIVE = {
    "backwards": ((4,), (-1,), 3),
    "rows backwards": ((2, 3), (-3, 1), 3),
    "all backwards": ((2, 3), (-3, -1), 5),
    "transposed, backwards": ((2, 3), (1, -2), 4),
}
#: What each does not take.
REFUSED = {
    "jax to 0.11": {**WITH_GAPS, **NEGATIVE},
    "jax 0.12": {**WITH_GAPS, **NEGATIVE},
    "max": {**TAKEN, **WITH_GAPS, **NEGATIVE},
    "torch to 2.8": NEGATIVE,
    "torch": NEGATIVE,
    "paddle": NEGATIVE,
    "warp": {},
    "another with a stream": {},
}
ALL = {**TAKEN, **SAYS_NOTHING, **WITH_GAPS, **NEGATIVE}
CASES = pytest.mark.parametrize(
    ("name", "layout"), [(name, layout) for name in ASKERS for layout in ALL]
)


def make(layout, cls=P2, **more):
    shape, strides, start = ALL[layout]
    return cls(shape, "int32", strides=strides, start=start, **more)


def check(imported, x, copied):
    """It has the values of x, and other memory if `copied`; without elements either may be."""
    assert imported.values() == x.values()
    assert (imported.view.element_zero != x.element_zero) == copied or not x.values()


@pytest.fixture(autouse=True)
def newest_jax(monkeypatch):
    pretend_jax(monkeypatch, "0.12.0")


def pretend_jax(monkeypatch, version):
    made = types.ModuleType("jax")
    made.__version__ = version
    monkeypatch.setitem(sys.modules, "jax", made)


@ROOMS
@CASES
def test_N9_a_known_consumer_gets_the_layouts_that_it_takes(wrap, name, layout):
    x, ask = make(layout), asker(name)
    wrapped = wrap(x)
    for _ in range(3):  # asked for the first time, and by the learned way
        if layout in REFUSED[name]:
            with pytest.raises(BufferError, match="strides") as error:
                ask(wrapped)
            tells(error.value, 'order="auto" or order="C"')
        else:
            with ask(wrapped) as imported:
                check(imported, x, copied=False)


@SOURCES
@pytest.mark.parametrize("name", ASKERS)
def test_N9_order_auto_copies_what_the_consumer_does_not_take(cls, name):
    for layout in ALL:
        x, copied = make(layout, cls), layout in REFUSED[name]
        upgraded = dlshim.upgrade(x, order="auto")
        for _ in range(2):
            with asker(name)(upgraded) as imported:
                check(imported, x, copied)
                if copied:
                    assert imported.view.strides == consumers.caps.row_major(x.shape)
                    assert imported.view.flags in (None, consumers.caps.IS_COPIED)


@pytest.mark.parametrize("name", [name for name, layouts in REFUSED.items() if layouts])
def test_N9_order_auto_against_copy_false(name):
    for layout in ALL:
        x = make(layout)
        upgraded = dlshim.upgrade(x, order="auto", copy=False)
        if layout not in REFUSED[name]:
            asker(name)(upgraded).release()
            continue
        with pytest.raises(dlshim.CopyRequiredError, match='order="auto"') as error:
            asker(name)(upgraded)
        assert error.value.reason == "order"
        tells(error.value, "copy=False", "copy=None")


@pytest.mark.parametrize("name", [*OF_JAX, "torch", "torch to 2.8", "max"])
def test_T8_a_copy_of_order_auto_is_private_and_writable(name):
    x = make("backwards", readonly=True)
    upgraded = dlshim.upgrade(x, order="auto")
    with asker(name)(upgraded) as first, asker(name)(upgraded) as second:
        assert first.view.flags in (None, consumers.caps.IS_COPIED)
        assert first.view.element_zero != second.view.element_zero
    with asker(name)(dlshim.upgrade(x, order="auto", readonly=True)) as marked:
        flags = consumers.caps.IS_COPIED | consumers.caps.READ_ONLY
        assert marked.view.flags in (None, flags)


def test_T8_order_auto_says_nothing_of_read_only_memory_that_is_taken():
    x = make("column-major", readonly=True)
    with pytest.raises(BufferError, match="it is read-only"):
        bare(dlshim.upgrade(x, order="auto"))
    with asker("jax 0.12")(dlshim.upgrade(x, order="auto")) as imported:
        assert imported.view.flags == consumers.caps.READ_ONLY


@pytest.mark.parametrize("version", ["0.4.13", "0.5.3", "0.7.2"])
def test_N9_order_auto_copies_transposed_arrays_for_jax_before_08(monkeypatch, version):
    """It takes them, and does not compute right values from them."""
    pretend_jax(monkeypatch, version)
    for name in OF_JAX:
        for layout in ALL:
            x = make(layout)
            with asker(name)(dlshim.upgrade(x, order="auto")) as imported:
                check(imported, x, layout not in SAYS_NOTHING)
        for layout in TAKEN:
            x = make(layout)
            with asker(name)(dlshim.upgrade(x)) as imported:
                check(imported, x, copied=False)


def test_N9_order_auto_without_a_device_question():
    """jax.numpy.from_dlpack asked bare up to 0.4.25; it gets strides as everybody who asks so."""
    for keywords in ("", "stream=None"):
        ask = asks("jax._src.numpy.lax_numpy", keywords, question="")
        for layout in ALL:
            x = make(layout)
            with ask(dlshim.upgrade(x)) as imported:
                check(imported, x, copied=False)
            with ask(dlshim.upgrade(x, order="auto")) as imported:
                check(imported, x, layout in REFUSED["jax 0.12"])


def test_N9_order_auto_is_as_none_for_a_tensor_and_for_who_bears_all():
    for layout in ALL:
        x = make(layout)
        tensor = dlshim.from_dlpack(x, order="auto")
        assert tensor.data_ptr() == x.element_zero or not x.values()
        assert not tensor.is_copied
        for asked in (
            {"dl_device": None, "copy": None, "max_version": (1, 0)}, {}, {"max_version": (1, 0)},
        ):  # fmt: skip
            capsule = dlshim.upgrade(x, order="auto").__dlpack__(**asked)
            with consumers.caps.take(capsule) as imported:
                check(imported, x, copied=False)


def test_N9_order_auto_is_as_none_by_the_c_table():
    """Kernels and libraries in C look at strides; nobody can be named there."""
    table = Table(dlshim.Producer)
    for layout in ALL:
        x = make(layout)
        upgraded = dlshim.upgrade(x, order="auto")
        with table.owned(upgraded) as imported:
            check(imported, x, copied=False)
        assert table.borrow(upgraded).element_zero == x.element_zero or not x.values()


def test_N9_order_auto_decides_nothing_for_the_exports_of_a_tensor():
    tensor = dlshim.from_dlpack(make("backwards"), order="auto")
    with pytest.raises(BufferError, match="negative strides"):
        asker("torch")(tensor)
    with asker("torch")(dlshim.upgrade(tensor, order="auto")) as imported:
        assert imported.values() == [3, 2, 1, 0]


def test_N9_order_auto_is_as_none_in_to_capsule():
    for asked in ({}, {"max_version": (1, 0)}):
        for layout in ALL:
            x = make(layout)
            if layout in NEGATIVE:
                with pytest.raises(BufferError, match="negative strides") as error:
                    dlshim.to_capsule(x, order="auto", **asked)
                tells(error.value, 'order="C"', 'order="K"')
                assert "auto" not in str(error.value)
                continue
            with consumers.caps.take(dlshim.to_capsule(x, order="auto", **asked)) as imported:
                check(imported, x, copied=False)


def test_N9_order_auto_counts_for_the_consumer_behind_a_method():
    wrapper = Forwarding(dlshim.upgrade(make("backwards"), order="auto"))
    with consumers.ask_like_torch29(wrapper) as imported:
        assert imported.values() == [3, 2, 1, 0]


def test_N9_a_decorated_class_is_asked_so_too():
    cls = dlshim.producer(type("Own", (P2,), {}))
    said = {"max": "max ignores strides"} | dict.fromkeys(OF_JAX, "jax takes no such memory")
    for name, text in said.items():
        for layout in ALL:
            x, ask = make(layout, cls), asker(name)
            if layout in REFUSED[name]:
                with pytest.raises(BufferError, match=text):
                    ask(x)
                with ask(dlshim.upgrade(x, order="auto")) as imported:
                    assert imported.values() == x.values()
            else:
                ask(x).release()
