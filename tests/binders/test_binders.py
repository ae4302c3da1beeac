"""Parameters of dlshim.hpp with nanobind and pybind11: what they take, and what a user then reads.

`nox -s binders` runs it, for the binders are headers of other projects.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest
from project.tree import ROOT, absent, tool

import dlshim

np = pytest.importorskip("numpy", reason="numpy is not installed")

HERE = Path(__file__).resolve().parent
BINDERS = ("nanobind", "pybind11")
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-DNDEBUG"]
STRICT = ["-Wall", "-Wextra", "-Werror"]


def compiled(*words: str) -> None:
    done = subprocess.run([tool("g++"), *FLAGS, *words], capture_output=True, text=True)
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stderr


@functools.cache
def headers(binder: str) -> tuple[str, ...]:
    """The options that name them; a binder that is not here ends the test."""
    spec = importlib.util.find_spec(binder)
    if spec is None or not spec.submodule_search_locations:
        absent(f"{binder} is not installed: `nox -s binders` installs it")
    (home,) = spec.submodule_search_locations
    return (f"-isystem{sysconfig.get_path('include')}", f"-isystem{home}/include",
            f"-isystem{home}/ext/robin_map/include", f"-I{dlshim.get_include()}")  # fmt: skip


@pytest.fixture(scope="session")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runtimes")


def build(binder: str, source: Path, folder: Path, runtimes: Path) -> Path:
    """The module that has the name of its source."""
    words = [*headers(binder)]
    if binder == "nanobind":
        runtime = runtimes / "nanobind.o"
        if not runtime.exists():
            home = words[1].removeprefix("-isystem").removesuffix("/include")
            compiled(*words, "-c", f"{home}/src/nb_combined.cpp", "-o", str(runtime))
        words.append(str(runtime))
    else:
        words.append("-DPYBIND11")
    made = folder / f"{source.stem}.so"
    compiled(*STRICT, "-shared", str(source), *words, "-o", str(made))
    return made


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session", params=BINDERS)
def place(request, tmp_path_factory, runtimes) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    return build(request.param, HERE / "functions.cpp", folder, runtimes)


@pytest.fixture(scope="session")
def module(place: Path) -> ModuleType:
    return load(place)


@pytest.fixture
def f(module: ModuleType) -> ModuleType:
    """The module, after a call that succeeds: calls of other tests may hide a reason before."""
    assert module.takes(ONE) == 3.0
    return module


def is_nanobind(f: ModuleType) -> bool:
    return type(f.takes).__module__.startswith("nanobind")


ONE = np.arange(3)
TWO = np.ones((2, 2), dtype="int32")
CUBE = np.ones((1, 1, 1))


# ---- what is taken --------------------------------------------------------------------------


def test_numbers_are_converted_as_the_binders_own_arrays_do(f) -> None:
    assert f.takes(ONE) == f.by_value(ONE.astype("f4")[::-1]) == 3.0
    assert f.takes(memoryview(b"abc")) == 294.0
    assert f.anything(ONE * 1j) == 3


def test_what_is_written_is_not_converted(f) -> None:
    assert f.writes(ONE.astype("f8")) == 3.0
    with pytest.raises(TypeError, match=r"has dtype int64, not float64.*\n  keep and pass"):
        f.writes(ONE)


def test_noconvert_takes_the_dtype_alone(f) -> None:
    assert f.exactly(ONE.astype("f8")) == 3.0
    with pytest.raises(TypeError, match="incompatible function arguments"):
        f.exactly(ONE)


def test_the_overload_that_needs_no_conversion_is_chosen(f) -> None:
    assert f.dtypes(ONE.astype("f4")) == 203.0
    assert f.dtypes(ONE.astype("f8")) == f.dtypes(ONE) == 103.0


def test_overloads_go_on_where_one_refuses(f) -> None:
    """More than once: what a parameter leaves for the next may not mislead it."""
    for _ in range(3):
        assert (f.ranks(ONE), f.ranks(TWO)) == (103.0, 204.0)
        assert (f.ends(ONE), f.ends(TWO)) == (103.0, 204.0)
        # The int is converted: both passes end at it, and the arrays are first seen in the second.
        assert (f.after(1, ONE), f.after(1, TWO)) == (104.0, 205.0)
        assert (f.after(1.0, ONE * 1.0), f.after(1.0, TWO * 1.0)) == (104.0, 205.0)
        # The first two have the same type of array, and the third one is asked all the same.
        assert (f.shared(ONE), f.shared(ONE, 5), f.shared(TWO)) == (103.0, 8.0, 204.0)
        assert (f.scalar(ONE), f.scalar(1), f.scalar(np.float32(1))) == (103.0, 201.0, 201.0)
        with pytest.raises(TypeError):
            f.after(1, CUBE)
        with pytest.raises(TypeError):
            f.takes(CUBE)


def test_arrays_in_types_of_the_standard_library(f) -> None:
    assert (f.optional(None), f.optional(), f.optional(ONE)) == (-1.0, -1.0, 3.0)
    assert f.all([ONE, ONE.astype("f4")]) == 6.0
    assert (f.variant(ONE.astype("f4")), f.variant(ONE.astype("f8"))) == (0, 1)
    assert f.map({"a": ONE, "b": ONE}) == f.unordered({1: ONE, 2: ONE}) == 6.0
    assert (f.pair((ONE, 2.0)), f.defaults(ONE, y=2.0)) == (5.0, 5.0)
    for _ in range(3):
        assert (f.several(ONE), f.several([ONE, ONE]), f.several([])) == (103.0, 202.0, 200.0)
        if is_nanobind(f):  # pybind11 does not tell that a list was passed over
            assert (f.after_all(1, [ONE]), f.after_all(1, [TWO])) == (2.0, 5.0)
        # Its rows are other objects each time that they are asked for.
        assert (f.rows(CUBE), f.rows(TWO), f.rows(CUBE.astype("i1"))) == (301.0, 2.0, 301.0)
    for wrong in (CUBE, [TWO], [ONE, TWO]):  # the rows of TWO are a vector's
        with pytest.raises(TypeError):
            f.several(wrong)
    with pytest.raises(TypeError):
        f.variant(TWO)


# ---- the shape of mapbox-earcut -------------------------------------------------------------

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])


@pytest.mark.parametrize("given", ["float32", "float64", "int32", "int64", "uint8", "float16"])
@pytest.mark.parametrize("ends", ["uint32", "int64", "int8", "float64"])
def test_ring_ends_and_points_of_any_dtype(f, given: str, ends: str) -> None:
    for function in (f.earcut_float32, f.earcut_float64):
        assert function(POINTS.astype(given), np.array([3], dtype=ends)) == 3.0


def test_an_end_that_is_no_uint32_is_a_value_error(f) -> None:
    """nb::ndarray takes -1 for 4294967295; both are a ValueError of the function's users."""
    with pytest.raises(ValueError, match=r"has the value -1, which does not fit in uint32"):
        f.earcut_float32(POINTS, np.array([-1]))
    with pytest.raises(ValueError, match=r"has the value 2\.5, which"):
        f.earcut_float32(POINTS, np.array([2.5]))
    with pytest.raises(ValueError, match="the last end is not the number of points"):
        f.earcut_float32(POINTS, np.array([]))


def test_points_of_another_shape_are_a_type_error(f) -> None:
    with pytest.raises(TypeError, match=r"has an extent of 3 in dimension 1, not 2"):
        f.earcut_float64(np.ones((4, 3)), np.array([4]))
    with pytest.raises(TypeError, match=r"has 1 dimension, not 2\n  pass x\.reshape"):
        f.earcut_float64(np.ones(4), np.array([4]))


def test_tensors_that_require_grad(f) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for dtype in (torch.float32, torch.float64):
        points = torch.tensor(POINTS, dtype=dtype, requires_grad=True)
        assert f.earcut_float32(points, torch.tensor([3])) == 3.0
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert f.detaches(x) == 2.0
    with pytest.raises(TypeError, match=r"requires grad.*call x\.detach\(\) first"):
        f.takes(x)


# ---- what the user reads --------------------------------------------------------------------

#: Of a function without overloads: (argument, what its TypeError says, class of the cause).
REFUSED = [
    (TWO, "has 2 dimensions, not 1\n  pass x.reshape((-1,))", ValueError),
    (ONE * 1j, "has dtype complex128, not float64 or one of 12 others", None),
    (np.array(["2020"], "M8[D]"), "convert them with x.astype('int64')", BufferError),
    (np.ma.array([1.0, 2.0], mask=[0, 1]), "its mask hides elements", BufferError),
]


@pytest.mark.parametrize("wrong, said, cause", REFUSED)
def test_a_refusal_says_why_and_what_to_pass(f, wrong, said, cause) -> None:
    for function in (f.takes, f.by_value, lambda x: f.before(x, 1.0)):
        with pytest.raises(TypeError) as caught:
            function(wrong)
        assert said in str(caught.value)
        assert type(caught.value.__cause__) is (cause or type(None))


def in_containers(f: ModuleType) -> list:
    """Functions whose array stands in a container, as functions of the array."""
    return [f.optional, f.defaults, lambda x: f.defaults(y=1.0, x=x), lambda x: f.all([ONE, x]),
            lambda x: f.map({"a": ONE, "b": x}), lambda x: f.unordered({1: x}),
            lambda x: f.pair((x, 1.0))]  # fmt: skip


@pytest.mark.parametrize("wrong, said, cause", REFUSED)
def test_an_array_in_a_container_says_why(f, wrong, said, cause) -> None:
    for function in in_containers(f):
        with pytest.raises(TypeError) as caught:
            function(wrong)
        assert said in str(caught.value)
        assert type(caught.value.__cause__) is (cause or type(None))


def test_what_a_container_cannot_hold_is_the_binders_own_error(f) -> None:
    for function in in_containers(f):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            function("text")
    with pytest.raises(ValueError, match="which does not fit in uint32"):
        f.all_ends([np.array([-1])])


def test_an_option_of_one_s_own_names_the_parameter(f) -> None:
    with pytest.raises(TypeError, match=r"^blur\(\): image has 2 dimensions, not 1\n  pass"):
        f.named(TWO)


def test_the_last_overload_says_why(f) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=r"has 3 dimensions, not 2\n  pass x\.reshape"):
            f.ends(CUBE)
        with pytest.raises(TypeError, match="incompatible function arguments"):
            f.ranks(CUBE)


def test_a_reason_is_told_again_after_a_call_that_succeeds(f) -> None:
    """Calls that another overload took, or that ended before the array, may hide it until then."""
    for _ in range(100):
        f.scalar(1.0)
        with pytest.raises(TypeError):
            f.after("text", ONE)
    with pytest.raises(TypeError):
        f.takes(TWO)
    assert f.takes(ONE) == 3.0
    for _ in range(3):
        with pytest.raises(TypeError, match="has 2 dimensions, not 1"):
            f.takes(TWO)


def test_what_is_no_array_is_the_binders_own_error(f) -> None:
    for wrong in ("text", None, 1, object()):
        for function in (f.takes, f.ends):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                function(wrong)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        f.before(ONE, "text")
    counted = f.Counted(3)
    assert counted == ONE and counted != TWO.ravel() and counted != "text"


class Raises:
    """An array whose library raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: object) -> object:
        raise self.error


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError, GeneratorExit])
def test_interruptions_and_the_end_of_memory_pass(f, kind: type[BaseException]) -> None:
    error = kind("of the library")
    functions = [f.takes, f.exactly, f.ranks, f.ends, lambda x: f.after(1.0, x), f.several,
                 lambda x: f.several([x]), *in_containers(f)]  # fmt: skip
    if not is_nanobind(f):
        functions += [f.variant, lambda x: f.before(x, "text")]
    for function in functions:
        with pytest.raises(kind) as caught:
            function(Raises(error))
        assert caught.value is error


def test_an_interruption_that_nanobind_lets_nobody_raise_comes_again(f) -> None:
    """Its caster of std::variant may not throw, and what it casts has no place for an error."""
    if not is_nanobind(f):
        pytest.skip("pybind11 lets it pass")
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("again"))
    try:
        for function in (f.variant, lambda x: f.before(x, "text")):
            with pytest.raises(TypeError):
                function(Raises(KeyboardInterrupt()))
            assert {*seen} == {"again"}
            seen.clear()
    finally:
        signal.signal(signal.SIGINT, before)


def test_nothing_is_kept(f) -> None:
    """Neither of an array, nor of an exception that waited."""
    for function, arguments in (
        (f.takes, (ONE,)), (f.takes, (TWO,)), (f.ranks, (CUBE,)), (f.ends, (CUBE,)),
        (f.before, (ONE, "text")), (f.before, (np.array([1j]), "text")), (f.optional, (TWO,)),
        (f.several, (CUBE,)), (f.all, ([ONE, TWO],)), (f.map, ({"a": TWO},)), (f.variant, (TWO,)),
        (f.earcut_float32, (POINTS, np.array([-1]))),
    ):  # fmt: skip
        counts = []
        for _ in range(3):
            try:
                function(*arguments)
            except (TypeError, ValueError) as error:
                del error
            counts.append([sys.getrefcount(each) for each in arguments[:1]])
        assert counts[0] == counts[2], (function, arguments)


# ---- what does not compile ------------------------------------------------------------------

#: Lines of a module, and what the compiler says.  {binder} stands for the binder's name.
OF = 'm.def("f", []({} x) {{{{ return x.size(); }}}});'
WRONG = {
    "the binder comes late": (
        "#include <dlshim.hpp>\n{include}\n"
        f"void f({{binder}}::module_ &m) {{{{ {OF.format('dlshim::array<double, 1>')} }}}}",
        "include nanobind/nanobind.h or pybind11/pybind11.h before dlshim.hpp"),
    "the binder comes late, and there are no parameters": (
        "#include <dlshim.hpp>\n{include}\n"
        "int64_t f({binder}::handle x) {{ return dlshim::borrowed<double, 1>(x.ptr()).size(); }}",
        "include nanobind/nanobind.h or pybind11/pybind11.h before dlshim.hpp"),
    "a borrowed parameter": (
        "{include}\n#include <dlshim.hpp>\n"
        f"void f({{binder}}::module_ &m) {{{{ {OF.format('const dlshim::borrowed<double> &')} }}}}",
        "a parameter is a dlshim::array, and no dlshim::borrowed"),
    "a view as a parameter": (
        "{include}\n#include <dlshim.hpp>\n"
        f"void f({{binder}}::module_ &m) {{{{ {OF.format('dlshim::view<double, 1>')} }}}}",
        "a parameter is a dlshim::array, which keeps its memory, and no view"),
    "no header of the container": (
        "#include <nanobind/nanobind.h>\n#include <dlshim.hpp>\n"
        f"void f(nanobind::module_ &m) {{{{ {OF.format('std::vector<dlshim::array<double>>')} }}}}",
        "include the file of nanobind/stl/ that has this container of arrays"),
}  # fmt: skip


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_would_fail_when_it_runs_does_not_compile(binder, wrong, tmp_path: Path) -> None:
    code, said = WRONG[wrong]
    if binder == "pybind11" and "nanobind::" in code:
        pytest.skip("pybind11 has all containers in one file, and names it when the module runs")
    source = tmp_path / "wrong.cpp"
    source.write_text(code.format(binder=binder, include=f"#include <{binder}/{binder}.h>") + "\n")
    done = subprocess.run([tool("g++"), *FLAGS, "-fsyntax-only", *headers(binder), str(source)],
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode != 0 and f"error: static assertion failed: {said}" in done.stderr


# ---- stubs ----------------------------------------------------------------------------------

#: What mypy says of stubs whatever their arrays are: of overloads that differ in what no type
#: checker sees, and of how the binders write __eq__.
OF_STUBS = ("overload-cannot-match", "override", "assignment")
USES = """
import array
import functions
import dlshim
import numpy as np

functions.takes(np.arange(3))
functions.takes(np.float32(1))
functions.takes(memoryview(b""))
functions.takes(array.array("d"))
functions.takes(dlshim.upgrade(1))
functions.takes(dlshim.from_dlpack(1))
functions.optional(None)
functions.all([np.arange(3), b""])
functions.takes([1.0])  # wrong
functions.takes(1.0)  # wrong
functions.takes("text")  # wrong
functions.writes(None)  # wrong
"""


def mypy(folder: Path, *words: str) -> list[str]:
    if importlib.util.find_spec("mypy") is None:
        absent("mypy is not installed: `nox -s binders` installs it")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir"]
    done = subprocess.run(
        [*command, str(folder), *words], cwd=folder, capture_output=True, text=True
    )
    assert not done.stderr, done.stderr
    return [line for line in done.stdout.splitlines() if ": note: " not in line]


def stub(place: Path, binder: str) -> Path:
    """Written as an author has it written."""
    words = {
        "nanobind": ["nanobind.stubgen", "-m", "functions", "-O", "."],
        "pybind11": ["pybind11_stubgen", "functions", "-o", "."],
    }[binder]
    if importlib.util.find_spec(words[0]) is None:
        absent(f"{words[0]} is not installed: `nox -s binders` installs it")
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=place.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place.parent / "functions.pyi"


def test_a_stub_is_python_whose_types_mypy_knows(f, place: Path) -> None:
    """It had array[uint32, 1], two names that nobody knows."""
    made = stub(place, "nanobind" if is_nanobind(f) else "pybind11")
    text = made.read_text()
    for said in ('"float64[:]"', '"float64[:, :]"', '"float64[:], written"', '"any dtype[:]"',
                 '"float32[:, 2]"', '"uint32[:]"'):  # fmt: skip
        assert f"Annotated[dlshim.typing.Array, {said}]" in text, text
    errors = mypy(place.parent, "functions.pyi")
    assert [line for line in errors if not line.endswith(tuple(f"[{x}]" for x in OF_STUBS))] == []
    (place.parent / "uses.py").write_text(USES)
    wrong = {n for n, line in enumerate(USES.splitlines(), 1) if line.endswith("# wrong")}
    errors = [line for line in mypy(place.parent, "uses.py") if line.startswith("uses.py:")]
    assert {int(line.split(":")[1]) for line in errors} == wrong, errors
    assert all(line.endswith("[arg-type]") for line in errors), errors


# ---- the manual's table ---------------------------------------------------------------------

PORTED = """
#include <{binder}/{binder}.h>
#include <{theirs}>
#include <dlshim.hpp>
#include <vector>
namespace nb = {binder};
namespace py = {binder};
template <class T> struct parameter {{ using type = T; }};
{lines}
"""
#: How a cell is compiled that is no type of a parameter.  `made` is what `x` and `values` are.
STATEMENTS = {
    "nb::arg(": "static auto said() {{ return {cell}; }}",
    "nb::ndarray<nb::numpy": "nb::object made(double *values, size_t n, nb::handle owner) "
    "{{ return nb::cast({cell}); }}",
    "nb::steal(": "nb::object given(std::vector<double> values) {{ return {cell}; }}",
    "nb::module_": "nb::object kept(nb::object tensor) {{ return {cell}; }}",
    "py::reinterpret_steal": "py::object given(std::vector<double> values, int64_t rows, "
    "int64_t columns) {{ return {cell}; }}",
    "py::array_t<double>(": "py::object made(std::vector<py::ssize_t> shape, const double *values) "
    "{{ return {cell}; }}",
}
#: What the cells of a row call an x, in theirs and in dlshim's.
MEMBERS = {
    "nanobind": ("nb::ndarray<const double, nb::ndim<2>, nb::device::cpu> &x",
                 "dlshim::array<const double, 2> &x"),
    "pybind11": ("py::array_t<double> &x", "dlshim::array<const double> &x"),
}  # fmt: skip


def table() -> list[tuple[str, str]]:
    page = (ROOT / "docs" / "c-interface.rst").read_text()
    text = page.split("From nb::ndarray and py::array_t to dlshim\n")[1].split("\n\n", 2)[1]
    rows = re.findall(r"   \* - (.*?)\n     - (.*?)(?=\n   \* - |\Z)", text, re.S)
    assert rows[0] == ("Theirs", "dlshim's") and len(rows) > 15
    return rows[1:]


def compiled_cell(code: str, own: bool, binder: str, number: int) -> str | None:
    """The line of C++ that has the code; None: it is no code of this binder."""
    if code.startswith(("x.", "x(")):
        x = MEMBERS[binder][own]
        return f"void use{number}({x}, int i, int j) {{ (void)i; (void)j; (void){code}; }}"
    for start, line in STATEMENTS.items():
        if code.startswith(start):
            inner = code.replace("(...)", "(tensor)")
            return f"namespace n{number} {{ {line.format(cell=inner)} }}"
    if re.match(r"(nb|py|dlshim)::array(_t)?<|nb::ndarray<", code):
        return (f"namespace n{number} {{ void f(const {code} &) {{}} "
                f"void def(nb::module_ &m) {{ m.def(\"f\", &f); }} }}")  # fmt: skip
    return None


def of_binder(row: tuple[str, str]) -> str:
    return "pybind11" if re.search(r"py::|unchecked|request", row[0]) else "nanobind"


@pytest.mark.parametrize("binder", BINDERS)
def test_each_row_of_the_manual_s_table_compiles(binder: str, tmp_path: Path) -> None:
    lines, others = [], set()
    for number, row in enumerate(table()):
        if of_binder(row) != binder:
            continue
        for own, cell in enumerate(row):
            for code in re.findall(r"``(.*?)``", cell):
                line = compiled_cell(code, bool(own), binder, len(lines))
                lines.append(f"#line {number + 1}\n{line or ''}")
                others |= {code} if line is None else set()
    theirs = {"nanobind": "nanobind/ndarray.h", "pybind11": "pybind11/numpy.h"}[binder]
    source = tmp_path / "ported.cpp"
    source.write_text(PORTED.format(binder=binder, theirs=theirs, lines="\n".join(lines)))
    compiled("-fsyntax-only", *headers(binder), str(source))
    assert others == {"nanobind": {"x", "int64_t", "dlshim::visit"}, "pybind11": set()}[binder]
