"""dlshim.h where sys.modules holds what is not dlshim's."""

from __future__ import annotations

import pytest

from doubles import child, extension, gil

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("c_interface")


@pytest.fixture(scope="module")
def ext(folder):
    return extension.build("c_interface", folder)


# --- sys.modules holds something else -------------------------------------------------------

#: Kinds of objects that stand where dlshim's module was.
OTHERS = {
    "a module": "types.ModuleType('dlshim._core')",
    "a module with a state": "__import__('_struct')",
    "an object": "object()",
    "a mock": "unittest.mock.MagicMock()",
    "a mock of it": "unittest.mock.MagicMock(wraps=dlshim._core)",
    "a copy of its names": "copied",
    "none that can be asked": "Hostile()",
}
OTHER = """
    import gc, sys, types, unittest.mock
    from doubles import extension
    import dlshim
    copied = types.ModuleType("dlshim._core")
    vars(copied).update(vars(dlshim._core))
    class Hostile:
        Tensor = property(lambda self: 1 / 0)
    ext = extension.load("c_interface", {path!r})
    {before}
    sys.modules["dlshim._core"] = {other}
    try:
        for _ in range(2):
            assert ext.lend(b"abc")["shape"] == (3,)
            ext.release(ext.take(b"abc"), 1)
            assert ext.array((2, 3), None, 0, 32, (1, 0), 0, 0).shape == (2, 3)
        print("works")
    except Exception as error:
        print(type(error).__name__, error)
"""


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_module_is_found_where_a_test_has_replaced_it(ext, other):
    """It was taken for what it is not, and the process died."""
    out = child.run(OTHER.format(path=ext.__file__, other=other, before=""))
    assert out == "works\n"


GONE = """
    import gc, sys, types
    from doubles import extension
    ext = extension.load("c_interface", {path!r})
    ext.load()
    del extension
    for name in [name for name in sys.modules if name.split(".")[0] in ("dlshim", "doubles")]:
        del sys.modules[name]
    gc.collect()
    for name in ("dlshim", "dlshim._core"):
        sys.modules[name] = types.ModuleType(name)
    for call in (ext.take, ext.lend):
        try:
            call(b"abc")
        except ImportError as error:
            print(error)
"""


@gil.with_gil("CPython 3.13 keeps the classes of a module for ever")
def test_a_module_that_has_gone_is_not_found(ext):
    said = (
        "sys.modules['dlshim._core'] is not dlshim's module; import dlshim before it is replaced\n"
    )
    assert child.run(GONE.format(path=ext.__file__)) == said * 2


AGAIN = """
    import gc, sys
    from doubles import extension
    import dlshim as first
    ext = extension.load("c_interface", {path!r})
    old = {{n: m for n, m in sys.modules.items() if n.split(".")[0] == "dlshim"}}
    for name in old:
        del sys.modules[name]
    import dlshim as second
    del second
    for name in [n for n in sys.modules if n.split(".")[0] == "dlshim"]:
        del sys.modules[name]
    sys.modules.update(old)
    gc.collect()
    print(type(ext.array((2, 3), None, 0, 32, (1, 0), 0, 0)) is first.Tensor)
"""


def test_the_module_that_is_imported_counts_and_not_a_later_one(ext):
    """A test that imports dlshim anew puts the old modules back."""
    assert child.run(AGAIN.format(path=ext.__file__)) == "True\n"
