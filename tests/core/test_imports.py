"""dlshim imports nothing but itself, and never an array library: `sys.modules` before and after."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dlshim
from dlshim.libraries import BY_KEY
from doubles import child

pytestmark = [pytest.mark.once, child.not_sanitized]

FORBIDDEN = sorted(
    {library.module.partition(".")[0] for library in BY_KEY.values()}
    | {"jaxlib", "mxnet", "dpctl", "open3d", "rich", "numba"}
)

ENTRY_POINTS = {
    "import": "pass",
    "upgrade": "dlshim.upgrade(bytearray(3))",
    "legacy": "dlshim.upgrade(bytearray(3)).__dlpack__()",
    "versioned": "dlshim.upgrade(bytearray(3)).__dlpack__(max_version=(1, 0))",
    "copy": "dlshim.upgrade(bytearray(3)).__dlpack__(copy=True)",
    "device": "dlshim.upgrade(bytearray(3)).__dlpack_device__()",
    "from_dlpack": "dlshim.from_dlpack(bytearray(3))",
    "to_capsule": "dlshim.to_capsule(bytearray(3))",
    "tensor": "t = dlshim.from_dlpack(bytearray(3)); t.dtype, t.__array_interface__, repr(t),"
    " memoryview(t)",
    "array": "dlshim.upgrade(bytearray(3)).__array__()",
    "by value": "import pickle; t = dlshim.from_dlpack(bytearray(3)); t.tobytes(),"
    " pickle.loads(pickle.dumps(t)), t.dtype == 3",
    "options": "dlshim.upgrade(bytearray(4), readonly=True, order='C', align=64, device='cpu',"
    " reinterpret='int8', stream=3).__dlpack__(max_version=(1, 0))",
    "raw": "dlshim.upgrade(dlshim.to_capsule(bytearray(3))).__dlpack__()",
    "unsupported": "[dlshim.upgrade(x) for x in (3.0,)]",
    "refused": "dlshim.upgrade(b'x').__dlpack__()",
    "inspect": "str(dlshim.inspect(bytearray(3)))",
    "inspect export": "str(dlshim.inspect(bytearray(3), export=True))",
    "enums": "dlshim.DLDeviceType.kDLCPU, dlshim.DLDataTypeCode.kDLFloat",
    "errors": "dlshim.CopyRequiredError, dlshim.UnsupportedObjectError, dlshim.Report",
    "dir": "dir(dlshim), dlshim.__version__",
    "tensorflow's": "dlshim.upgrade(type('EagerTensor', (), {'__module__':"
    " 'tensorflow.python.framework.ops'})())",
    "paddle's": "dlshim.upgrade(type('Tensor', (), {'__module__': 'paddle'})())",
    "torch's": "dlshim.upgrade(type('Tensor', (), {'__module__': 'torch'})())",
    "jax's": "dlshim.upgrade(type('ArrayImpl', (), {'__module__': 'jaxlib._jax'})())",
}


@pytest.mark.parametrize("code", ENTRY_POINTS.values(), ids=ENTRY_POINTS.keys())
def test_no_entry_point_imports_a_library(code):
    out = child.program("imports_of_libraries", ",".join(FORBIDDEN), code, options=("-I",))
    assert out.strip() == "[] []"


#: What an exchange that succeeds may need: `import dlshim` imports it.
EAGER = {f"dlshim.{name}" for name in ("arrays", "columns", "dtypes", "habits", "importers")}
EAGER |= {"dlshim", "dlshim._core", "dlshim.library_calls", "dlshim.locks", "dlshim.oneapi"}
EAGER.add("dlshim.text")
FROM_PYTHON = {"__future__", "_functools", "_operator"}


def test_importing_dlshim_alone_loads_next_to_nothing():
    """2 ms are the budget: enum, dataclasses or inspect alone would cost more."""
    out = child.run(
        """
import sys
before = set(sys.modules)
import dlshim
dlshim.from_dlpack(dlshim.upgrade(bytearray(3)))
print(*sorted(set(sys.modules) - before))
""",
        options=("-I",),
    )
    assert {*out.split()} - FROM_PYTHON == EAGER


def test_an_exchange_that_succeeds_imports_nothing_of_dlshim():
    """No signal handler, finalizer or forked child may meet such an import that has not ended."""
    out = child.program("imports_of_exchanges")
    assert out.split() == []


#: Programs and the arrays that they make: they have one thread, or are children of others.
PROGRAMS = ("cli", "matrix", "known/arrays", "known/nanobind")


def functions_that_import(tree: ast.Module) -> list[str]:
    found = []
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inside = [each for each in ast.walk(function) if each is not function]
            imports = [each for each in inside if isinstance(each, (ast.Import, ast.ImportFrom))]
            found += [f"{getattr(function, 'name', 'lambda')}:{each.lineno}" for each in imports]
    return found


def test_functions_import_by_the_road_that_a_fork_waits_for():
    """dlshim.locks.import_module: a child forked during another import could wait without end."""
    folder = Path(dlshim.__file__).parent
    seen, found = 0, []
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if not name.startswith(PROGRAMS):
            seen += 1
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{name}: {each}" for each in functions_that_import(tree)]
    assert seen > 50 and found == []


def test_an_import_inside_of_a_function_is_seen():
    source = "import a\ndef f():\n    def g():\n        from b import c\n    return g\n"
    assert functions_that_import(ast.parse(source)) == ["f:4", "g:4"]


@pytest.mark.parametrize(
    "module", ["cures", "kernels", "decorator", "tracking", "report", "enums", "trial.asked"]
)
def test_an_import_that_is_interrupted_leaves_no_half_made_module(module):
    """A use during the import, then Ctrl-C: later uses work, as if nothing had been."""
    child.program("interrupted_import", module)


def test_a_module_that_is_still_being_imported_is_not_used():
    """A signal handler or a finalizer is told so, and the next use finds the module."""
    child.program("use_of_a_half_imported_module")


def test_the_package_needs_no_site_packages_of_others():
    """With an import system that has forgotten everything but the standard library."""
    child.run("""
        import sys
        import dlshim
        sys.path[:] = [p for p in sys.path if "site-packages" not in p]
        sys.path_importer_cache.clear()
        dlshim.inspect
        dlshim.from_dlpack(bytearray(3))
    """)


def test_public_names():
    assert sorted(dlshim.__all__) == sorted(
        ["upgrade", "from_dlpack", "to_capsule", "inspect", "Producer", "Tensor", "Report",
         "DLDeviceType", "DLDataTypeCode", "CopyRequiredError", "UnsupportedObjectError", "UNSET",
         "dtype", "Outcome", "Verdict", "get_include", "kernel", "producer", "ProducerMixin",
         "track", "live",
         "Live", "ReadOnlyWarning", "NarrowedWarning", "stats", "to"]
    )  # fmt: skip
    for name in dlshim.__all__:
        assert getattr(dlshim, name) is not None
    assert dlshim.__version__ == "0.1.0"
    assert dlshim.Tensor.__module__ == dlshim.Producer.__module__ == "dlshim"
    with pytest.raises(AttributeError):
        dlshim.nonsense  # noqa: B018


def test_star_import():
    child.run("""
        from dlshim import *
        from_dlpack(upgrade(bytearray(3)))
        UNSET, Report, DLDeviceType
    """)
