"""dlshim.h and its files: it compiles everywhere, and build tools find it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from project.tree import ROOT, absent, read_toml, tool

import dlshim

INCLUDE = Path(dlshim.get_include())
CMAKE = INCLUDE.parent / "cmake"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]
#: Casts of C are none in C++: projects have them among their warnings.
STRICT_CPP = [*STRICT, "-Wold-style-cast", "-Wuseless-cast"]
LIMITED = ["-DPy_LIMITED_API=0x030a0000"]
USE = """
#include <dlshim.h>
PyObject *use(PyObject *);
PyObject *use(PyObject *obj) {
    dlshim_request want = DLSHIM_REQUEST_INIT;
    dlshim_dtype dtypes[2] = {{2, 32, 1}, {0, 64, 1}};
    dlshim_stream stream = {DLSHIM_STREAM, 1};
    dlshim_view view;
    struct DLManagedTensorVersioned *tensor;
    want.dtypes = dtypes;
    want.dtype_count = 2;
    want.ranks = DLSHIM_RANKS(1, 3) | DLSHIM_RANK(0) | DLSHIM_RANK(63);
    want.stream = stream;
    if (dlshim_borrow(obj, &want, &view) < 0) {
        return NULL;
    }
    dlshim_borrow_end(&view);
    if (dlshim_import(obj, NULL, &tensor) < 0) {
        return NULL;
    }
    dlshim_release(tensor);
    return dlshim_export_array(&view.array, DLSHIM_READ_ONLY, NULL, NULL, &stream);
}
"""


USE_OF_CPP = """
#include <dlshim.hpp>
struct Count {
    int64_t elements = 0;
    template <class T> void operator()(const dlshim::view<const T> &x) { elements += x.size(); }
};
double use(PyObject *obj) {
    dlshim::array<const double, 2> x(obj, dlshim::options("use(): x").detach().device(1));
    dlshim::array<const double, 2> y(std::move(x));
    dlshim::array<const void> any;
    if (!any.take(obj, dlshim::options().copy(DLSHIM_COPY_NEVER))) {
        throw dlshim::python_error();
    }
    Count count;
    if (!dlshim::visit(any, count) || any.flags() & DLSHIM_READ_ONLY) {
        return 0;
    }
    dlshim::borrowed<std::complex<float>> z(obj, dlshim::options("z").row_major());
    z.at(0) = *z.data();
    x = std::move(y);
    return x(1, 2) + x.at(0, 0) + static_cast<double>(x.stride(0) + x.shape(1) + count.elements);
}
template <class T> constexpr bool copies() {
    return std::is_copy_constructible<T>::value || std::is_copy_assignable<T>::value;
}
using in = dlshim::array<double>;
using lent = dlshim::borrowed<double>;
static_assert(!copies<in>() && std::is_nothrow_move_constructible<in>::value, "one owner");
static_assert(!copies<lent>() && !std::is_move_constructible<lent>::value, "of one block");
"""


def run(*command: str, **more: str) -> str:
    env = {**os.environ, **more}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if "Python.h: No such file" in done.stderr or "'Python.h' file not found" in done.stderr:
        absent("Python.h is not here")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("macros", [[], LIMITED], ids=["full", "limited"])
@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++17"])
@pytest.mark.parametrize("vendor", ["gcc", "clang"])
def test_it_compiles_without_a_warning(
    vendor: str, standard: str, macros: list[str], tmp_path: Path
) -> None:
    plus = "+" in standard
    if vendor == "clang" and shutil.which("clang") is None:
        pytest.skip("clang is not here")
    compiler = tool({"gcc": "g++", "clang": "clang++"}[vendor] if plus else vendor)
    source = tmp_path / ("use.cpp" if plus else "use.c")
    source.write_text(USE)
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    run(compiler, f"-std={standard}", *STRICT, *macros, *places, str(source))


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_types_for_cpp_compile_without_a_warning(
    compiler: str, standard: str, tmp_path: Path
) -> None:
    if compiler == "clang++" and shutil.which(compiler) is None:
        pytest.skip("clang is not here")
    source = tmp_path / "use.cpp"
    source.write_text(USE_OF_CPP.replace("double use(", "double use(PyObject *);\ndouble use("))
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    # clang has no -Wuseless-cast
    strict = STRICT_CPP if compiler == "g++" else STRICT_CPP[:-1]
    run(tool(compiler), f"-std={standard}", *strict, *places, str(source))


@pytest.mark.parametrize(
    "wrong",
    [
        "double use(PyObject *o) { lent x(o); lent y(x); }",
        "lent use(PyObject *o) { lent x(o); return x; }",
        "in use(in &x) { return x; }",
    ],
)
def test_what_is_borrowed_cannot_be_kept(wrong: str, tmp_path: Path) -> None:
    source = tmp_path / "use.cpp"
    source.write_text(
        "#include <dlshim.hpp>\nusing in = dlshim::array<double>;\n"
        f"using lent = dlshim::borrowed<double>;\n{wrong}\n"
    )
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    done = subprocess.run(
        [tool("g++"), "-std=c++11", "-fsyntax-only", *places, str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode != 0 and "use of deleted function" in done.stderr, done.stderr


@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_no_name_is_a_word_of_cpp(standard: str, tmp_path: Path) -> None:
    """A line that began with import<...> was a line of C++20's modules."""
    text = (
        "using dlshim::array;\nusing dlshim::borrowed;\nvoid use(PyObject *obj) {\n"
        "array<const double, 1> x(obj);\nborrowed<const double, 1> y(obj);\n}\n"
    )
    modules = ["-fmodules-ts"] if standard == "c++20" else []
    assert cpp_errors(tmp_path, text, f"-std={standard}", *modules) == ""


DTYPES = """
template <class T> constexpr bool is(int code, int bits) {
    return dlshim::dtype_of<T>::code == code && dlshim::dtype_of<T>::bits == bits;
}
#define IS(code, bits, type) static_assert(is<type>(code, bits), #type)
IS(0, 8, int8_t); IS(0, 16, int16_t); IS(0, 32, int32_t); IS(0, 64, int64_t);
IS(1, 8, uint8_t); IS(1, 16, uint16_t); IS(1, 32, uint32_t); IS(1, 64, uint64_t);
IS(0, 8 * sizeof(long), long); IS(1, 8 * sizeof(long), unsigned long);
IS(0, 64, long long); IS(1, 64, unsigned long long); IS(1, 8 * sizeof(size_t), size_t);
IS(2, 32, float); IS(2, 64, double); IS(6, 8, bool);
IS(5, 64, std::complex<float>); IS(5, 128, std::complex<double>);
"""
FIXED = """
IS(2, 16, std::float16_t); IS(2, 32, std::float32_t); IS(2, 64, std::float64_t);
IS(2, 128, std::float128_t); IS(4, 16, std::bfloat16_t);
"""
#: <stdfloat> of C++23 where the compiler has none (before GCC 13): types of their own, which is
#: what tells the header's rows apart.
STDFLOAT = """
namespace std {
enum class float16_t : uint16_t {}; enum class bfloat16_t : uint16_t {};
enum class float32_t : uint32_t {}; enum class float64_t : uint64_t {};
struct float128_t { uint64_t words[2]; };
}
"""
STDFLOAT_MACROS = [
    f"-D__STDCPP_{name}_T__=1" for name in ("FLOAT16", "FLOAT32", "FLOAT64", "FLOAT128", "BFLOAT16")
]


def cpp_errors(folder: Path, text: str, *options: str) -> str:
    """What g++ says of a source with the header; "" where it compiles."""
    source = folder / "use.cpp"
    source.write_text("#include <dlshim.hpp>\n" + text)
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    done = subprocess.run(
        [tool("g++"), *(options or ["-std=c++11"]), "-fsyntax-only", *places, str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    if "Python.h: No such file" in done.stderr:
        absent("Python.h is not here")
    assert (done.returncode != 0) == bool(done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++23", "gnu++17"])
def test_a_type_has_the_dtype_that_it_is(standard: str, tmp_path: Path) -> None:
    assert cpp_errors(tmp_path, DTYPES, f"-std={standard}") == ""


def test_the_types_of_stdfloat_are_told_apart(tmp_path: Path) -> None:
    """bfloat16_t was taken for float16, because it is a floating-point type of 16 bits."""
    said = subprocess.run(
        [tool("g++"), "-std=c++23", "-dM", "-E", "-x", "c++", os.devnull],
        capture_output=True, text=True,
    ).stdout  # fmt: skip
    options = ["-std=c++23"]
    if "__STDCPP_BFLOAT16_T__" not in said:
        (tmp_path / "stdfloat").write_text(STDFLOAT)
        options += [*STDFLOAT_MACROS, f"-I{tmp_path}"]
    assert cpp_errors(tmp_path, DTYPES + FIXED, *options) == ""


@pytest.mark.parametrize(
    "type_name",
    [
        "std::complex<int>", "std::complex<int64_t>", "long double", "std::complex<long double>",
        "char", "wchar_t", "char16_t", "__int128", "Enum", "Struct", "double *",
    ],
)  # fmt: skip
def test_a_type_that_is_no_dtype_does_not_compile(type_name: str, tmp_path: Path) -> None:
    """Memory of complex64 was read as complex<int>, and long double asked for float128."""
    text = (
        "enum Enum { one }; struct Struct { double x; };\n"
        f"void use(PyObject *obj) {{ dlshim::array<{type_name} const> x(obj); }}\n"
    )
    said = cpp_errors(tmp_path, text, "-std=gnu++17")
    errors = [line for line in said.splitlines() if "error: " in line]
    assert len(errors) == 1, said
    assert "dlshim knows no dtype of this C++ type" in errors[0], said
    # What it says to type is what compiles then.
    cure = re.search(r"template <> struct dlshim::dtype_of<YourType> : .*? \{\};", errors[0])
    assert cure, said
    if " " not in type_name:
        own = cure[0].replace("YourType", type_name)
        lines = text.split("\n")
        lines.insert(1, own)
        assert cpp_errors(tmp_path, "\n".join(lines), "-std=gnu++17") == ""


@pytest.mark.parametrize("first", ["own", "dlpack.h"])
def test_dlpack_h_stays_the_user_s(first: str, tmp_path: Path) -> None:
    """Any copy of it, before or after, also the old one of Debian, whose DLTensor has no name."""
    theirs = Path("/usr/include/dlpack/dlpack.h")
    if not theirs.is_file():
        absent("libdlpack-dev is not installed")
    lines = ["#include <dlshim.h>", "#include <dlpack/dlpack.h>"]
    source = tmp_path / "both.c"
    source.write_text(
        "\n".join(lines if first == "own" else lines[::-1])
        + "\nPyObject *give(DLManagedTensor *t);\n"
        + "PyObject *give(DLManagedTensor *t) { return dlshim_export_legacy(t, NULL); }\n"
        + '_Static_assert(sizeof(dlshim_array) == sizeof(DLTensor), "the same");\n'
    )
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    run(tool("gcc"), "-std=c11", *STRICT, *places, str(source))


def test_it_says_version_and_licence() -> None:
    assert (INCLUDE / "dlshim.hpp").read_text().startswith(f"/* dlshim.hpp {dlshim.__version__}: ")
    text = (INCLUDE / "dlshim.h").read_text()
    assert text.startswith(f"/* dlshim.h {dlshim.__version__}: ")
    assert "SPDX-License-Identifier: Apache-2.0" in text.splitlines()[1]
    assert re.search(rf'^#define DLSHIM_VERSION "{dlshim.__version__}"$', text, re.M)
    about = (INCLUDE / "dlshim.pc").read_text()
    assert f"Version: {dlshim.__version__}\n" in about
    cmake = (CMAKE / "dlshim-config-version.cmake").read_text()
    assert cmake.startswith(f"set(PACKAGE_VERSION {dlshim.__version__})\n")
    minor = dlshim.__version__.rpartition(".")[0]
    assert f"PACKAGE_FIND_VERSION VERSION_GREATER_EQUAL {minor} " in cmake


def test_signatures_name_no_type_of_dlpack_but_two() -> None:
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "dlshim.h").read_text(), flags=re.S)
    assert set(re.findall(r"\bDL[A-Z]\w*[a-z]\w*", text)) == {
        "DLManagedTensor",
        "DLManagedTensorVersioned",
    }


@pytest.mark.parametrize("folder", [INCLUDE, CMAKE], ids=lambda folder: folder.name)
def test_the_command_names_the_folder(folder: Path) -> None:
    assert run(sys.executable, "-m", "dlshim", f"--{folder.name}") == f"{folder}\n"
    source = ROOT / "shim" / folder.name
    assert {path.name for path in source.iterdir()} == {path.name for path in folder.iterdir()}
    for path in source.iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """The folders elsewhere: nothing in them may know where they were."""
    for folder in (INCLUDE, CMAKE):
        shutil.copytree(folder, tmp_path / "elsewhere" / "dlshim" / folder.name)
    return tmp_path / "elsewhere" / "dlshim"


def test_pkg_config_finds_it(moved: Path) -> None:
    config = tool("pkg-config")
    version = run(config, "--modversion", "dlshim", PKG_CONFIG_PATH=str(moved / "include"))
    flags = run(config, "--cflags", "dlshim", PKG_CONFIG_PATH=str(moved / "include"))
    assert (version.strip(), flags.strip()) == (dlshim.__version__, f"-I{moved / 'include'}")
    run(
        config,
        "--exists",
        f"dlshim >= {dlshim.__version__}",
        PKG_CONFIG_PATH=str(moved / "include"),
    )


#: What names which folder: scikit-build-core passes the one of all packages.
PLACES = {"dlshim_ROOT": ".", "dlshim_DIR": "cmake", "CMAKE_PREFIX_PATH": ".."}


@pytest.mark.parametrize("variable", PLACES)
def test_cmake_finds_it(moved: Path, tmp_path: Path, variable: str) -> None:
    cmake = tool("cmake")
    (tmp_path / "use.c").write_text(USE)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.15)\n"
        "project(use LANGUAGES C)\n"
        "find_package(dlshim 0.1 CONFIG REQUIRED)\n"
        "find_package(dlshim CONFIG REQUIRED)\n"
        "add_library(use OBJECT use.c)\n"
        f'target_include_directories(use PRIVATE "{sysconfig.get_path("include")}")\n'
        "target_link_libraries(use PRIVATE dlshim::dlshim)\n"
    )
    build = str(tmp_path / "build")
    run(cmake, "-S", str(tmp_path), "-B", build, f"-D{variable}={moved / PLACES[variable]}")
    run(cmake, "--build", build)


def test_the_manual_has_a_row_for_each_project_that_is_built() -> None:
    """And asks for the bounds of which it speaks in each of them."""
    page = (ROOT / "docs" / "c-interface.rst").read_text()
    bounds = "dlshim>=0.1,<0.2"
    assert f"``{bounds}`` stands among" in page
    projects = [*(ROOT / "examples" / "builds").iterdir()]
    assert len(projects) >= 5
    for project in projects:
        about = read_toml(project / "pyproject.toml")
        needs = about["build-system"]["requires"]
        cell = ", ".join(f"``{each}``" for each in needs if each != bounds)
        assert f"   * - {project.name}\n     - {cell}\n" in page.replace("- Cython", "- cython")
        assert bounds in needs and about["project"]["dependencies"] == [bounds]


@pytest.mark.parametrize(
    "asked, found",
    [
        ("", True),
        ("0.1", True),
        ("0.1.0", True),
        ("0.1.0 EXACT", True),
        ("0.1 EXACT", True),
        ("0.1.1", False),
        ("0.2", False),
        ("1", False),
        ("0.0.9", False),
    ],
)
def test_cmake_is_told_which_versions_fit(tmp_path: Path, asked: str, found: bool) -> None:
    """Below 1.0 a minor release may change names, so another one is not taken."""
    script = tmp_path / "find.cmake"
    script.write_text(f"find_package(dlshim {asked} CONFIG)\nmessage(STATUS ${{dlshim_FOUND}})\n")
    no_targets = ("add_library", "set_target_properties")  # a script has none
    targets = "".join(f"function({name})\nendfunction()\n" for name in no_targets)
    script.write_text(targets + script.read_text())
    said = run(tool("cmake"), f"-Ddlshim_DIR={CMAKE}", "-P", str(script))
    assert said.splitlines()[-1] == f"-- {int(found)}"


def members() -> list[str]:
    """STRUCT.MEMBER and the constants of an enum, but not what dlshim alone uses."""
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "dlshim.h").read_text(), flags=re.S)
    found = re.findall(r"\bDLSHIM_\w+(?= = )", text)
    for body, name in re.findall(r"^typedef struct \{(.*?)^\} (\w+);", text, re.M | re.S):
        if name != "dlshim_table" and not name.endswith("_"):
            found += [f"{name}.{each}" for each in re.findall(r"(\w+)(?=[,;])", body)]
    return found


def test_the_declarations_for_cython_are_those_of_the_header() -> None:
    """Each function, constant and member of dlshim.h stands in __init__.pxd."""
    declared = (INCLUDE.parent / "__init__.pxd").read_text()
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "dlshim.h").read_text(), flags=re.S)
    functions = re.findall(r"^(dlshim_\w*[a-z])\(", text, re.M)
    assert len(functions) >= 9
    names = {*functions, *(each.rpartition(".")[2] for each in members())}
    assert not {name for name in names if not re.search(rf"\b{name}\b", declared)}


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_what_each_module_of_cython_gets_compiles_without_a_warning(
    compiler: str, tmp_path: Path
) -> None:
    """Also one without a request of its own: what is not used shows only in a whole compilation."""
    whole = [*(flag for flag in STRICT if flag != "-fsyntax-only"), "-c", "-o", os.devnull]
    declared = (INCLUDE.parent / "__init__.pxd").read_text()
    (included,) = re.findall(r'cdef extern from \*:\n    """\n(.*?)"""', declared, re.S)
    source = tmp_path / f"module.{'c' if compiler == 'gcc' else 'cpp'}"
    source.write_text(included)
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    run(tool(compiler), *whole, *places, str(source))


def test_the_manual_names_all_members_and_values() -> None:
    """In the first column of a table; members of the request, which has its own, by bare name."""
    page = (ROOT / "docs" / "c-interface.rst").read_text()
    cells = set(re.findall(r"``([\w.]+)``", " ".join(re.findall(r"^   \* - .*$", page, re.M))))
    names = {each.removeprefix("dlshim_request.") for each in members()} - {"size"}
    assert len(names) > 30
    assert names - cells == set()


VISITS = """
#include <dlshim.hpp>
static PyObject *visited(PyObject *, PyObject *args) {
    PyObject *obj;
    int alignment;
    int64_t elements = -1;
    if (!PyArg_ParseTuple(args, "Oi", &obj, &alignment)) {
        return nullptr;
    }
    try {
        dlshim::options asked("visited(): x");
        asked.request.alignment = alignment;
        dlshim::array<const void> x(obj, asked);
        dlshim::visit(x, [&](const auto &view) { elements = view.size(); });
    }
    catch (const dlshim::python_error &) {
        return nullptr;
    }
    return PyLong_FromLongLong(elements);
}
static PyMethodDef functions[] = {{"visited", visited, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "visits", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_visits() { return PyModule_Create(&definition); }
"""


def cpp_module(name: str, source: str, folder: Path) -> str:
    """The start of a program that has the module of this source, which is compiled here."""
    path = folder / f"{name}.cpp"
    path.write_text(source)
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run(tool("g++"), *flags, *places, str(path), "-o", str(folder / f"{name}.so"))
    return f"import sys; sys.path[:0] = [{str(folder)!r}, {str(ROOT / 'tests')!r}]; import {name}\n"


def test_visit_reads_no_element_at_an_address_that_its_type_cannot_have(tmp_path: Path) -> None:
    """It did, which is undefined in C++."""
    program = cpp_module("visits", VISITS, tmp_path) + (
        "odd = memoryview(bytearray(9))[1:]\n"
        "even = memoryview(bytearray(8))\n"
        "print(visits.visited(even.cast('h'), 0), visits.visited(odd, 0),\n"
        "      visits.visited(odd.cast('h'), 0), visits.visited(odd.cast('h'), 8))"
    )
    assert run(sys.executable, "-c", program).split() == ["4", "8", "-1", "4"]


SUMS = """
#include <dlshim.hpp>
template <int Rank> double sum(PyObject *obj) {
    dlshim::array<const float, Rank> x(obj);
    double all = 0;
    dlshim::each(x, [&](float value) { all += value; });
    return all;
}
template double sum<0>(PyObject *);
template double sum<1>(PyObject *);
template double sum<2>(PyObject *);
template double sum<3>(PyObject *);
template double sum<dlshim::any_rank>(PyObject *);
"""


@pytest.mark.parametrize("optimised", ["-O2", "-O3"])
def test_each_is_compiled_without_a_warning_of_bounds(optimised: str, tmp_path: Path) -> None:
    """gcc unrolled a loop over more axes than there are, and warned of what it made."""
    path = tmp_path / "sums.cpp"
    path.write_text(SUMS)
    flags = ["-std=c++17", optimised, "-Wall", "-Wextra", "-Werror", "-c", "-o", os.devnull]
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    run(tool("g++"), *flags, *places, str(path))


ELEMENTS = """
#include <dlshim.hpp>
static int64_t count(const dlshim::view<const double> &x) {
    int64_t n = 0;
    dlshim::each(x, [&n](double) { n++; });
    return n;
}
static bool has(const dlshim::view<const double> &x) {
    try {
        x.at();
        return true;
    }
    catch (const std::out_of_range &) {
        return false;
    }
}
static PyObject *elements(PyObject *, PyObject *obj) {
    dlshim::array<const double> x;
    if (!x.take(obj)) {
        return nullptr;
    }
    const dlshim::view<const double> before = x;
    const int64_t counted = count(before);
    const dlshim::array<const double> other(std::move(x));
    return Py_BuildValue("LLiLLi", static_cast<long long>(other.size()),
                         static_cast<long long>(counted), static_cast<int>(has(other)),
                         static_cast<long long>(x.size()), static_cast<long long>(count(x)),
                         static_cast<int>(has(x)));
}
static PyMethodDef functions[] = {{"elements", elements, METH_O, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "elements", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_elements() { return PyModule_Create(&definition); }
"""


def test_an_array_that_was_moved_away_has_no_elements(tmp_path: Path) -> None:
    """It said one, at no address; and beside an extent of 0 each() counted the others up."""
    program = cpp_module("elements", ELEMENTS, tmp_path) + (
        "from doubles.producers import P2\n"
        "for shape in ((), (3, 2), (0,), (1 << 40, 0), (1 << 40, 1 << 40, 0)):\n"
        "    print(*elements.elements(P2(shape, 'float64')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    none = "0 0 0"  # elements that x says, that each() finds, and whether at() gives one
    has = ["1 1 1", "6 6 0", *[none] * 3]
    assert done.stdout.splitlines() == [f"{x} {none}" for x in has]


WALKS = """
#include <dlshim.hpp>
static bool add(PyObject *list, double value) {
    PyObject *number = PyFloat_FromDouble(value);
    const int code = number != nullptr ? PyList_Append(list, number) : -1;
    Py_XDECREF(number);
    return code == 0;
}
/* The elements as each() finds them, as x(i, j, k) does, and those of a view of another rank. */
static PyObject *walk(PyObject *, PyObject *obj) {
    dlshim::array<const double, 3> x;
    PyObject *lists = Py_BuildValue("([][][])");
    if (lists == nullptr || !x.take(obj)) {
        Py_XDECREF(lists);
        return nullptr;
    }
    const dlshim::view<const double> any(x.as_c());
    dlshim::each(any, [lists](double value) { add(PyTuple_GetItem(lists, 0), value); });
    const dlshim::view<const double, 3> copy = x;
    for (int64_t i = 0; i < copy.shape(0); i++) {
        for (int64_t j = 0; j < copy.shape(1); j++) {
            for (int64_t k = 0; k < copy.shape(2); k++) {
                add(PyTuple_GetItem(lists, 1), copy(i, j, k));
            }
        }
    }
    const dlshim::view<const double, 4> other(x.as_c());
    dlshim::each(other, [lists](double value) { add(PyTuple_GetItem(lists, 2), value); });
    return lists;
}
static PyMethodDef functions[] = {{"walk", walk, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "walks", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_walks() { return PyModule_Create(&definition); }
"""


def test_each_follows_the_indices_whatever_the_strides(tmp_path: Path) -> None:
    """It walks axes as one where they lie in memory so: all, the last two, or none of them."""
    pytest.importorskip("numpy", reason="NumPy is not installed")
    program = cpp_module("walks", WALKS, tmp_path) + (
        "import itertools\n"
        "import numpy as np\n"
        "base = np.arange(4 * 6 * 8.0).reshape(4, 6, 8)\n"
        "cuts = slice(None), slice(None, None, 2), slice(None, None, -1), slice(1, 2), slice(0)\n"
        "for axes in itertools.permutations(range(3)):\n"
        "    for where in itertools.product(cuts, repeat=3):\n"
        "        x = base[where].transpose(axes)\n"
        "        assert walks.walk(x) == (x.ravel().tolist(), x.ravel().tolist(), []), x.strides\n"
        "for shape in ((4, 6, 8), (4, 1, 8), (3, 6, 8)):\n"
        "    x = np.broadcast_to(base[:1, :1, :1], shape)\n"
        "    assert walks.walk(x) == (x.ravel().tolist(), x.ravel().tolist(), []), shape\n"
    )
    run(sys.executable, "-c", program)


#: The object that an array keeps is taken into the same array again while its memory goes.
AGAIN = """
#include <dlshim.hpp>
static dlshim::array<const double> *kept;
static PyObject *take(PyObject *, PyObject *obj) {
    if (!kept->take(obj)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}
static PyObject *assign(PyObject *, PyObject *obj) {
    dlshim::array<const double> x;
    if (!x.take(obj)) {
        return nullptr;
    }
    *kept = std::move(x);
    return PyLong_FromLongLong(x.size());
}
static PyObject *drop(PyObject *, PyObject *) {
    delete kept;
    kept = new dlshim::array<const double>;
    Py_RETURN_NONE;
}
static PyObject *size(PyObject *, PyObject *) { return PyLong_FromLongLong(kept->size()); }
static PyMethodDef functions[] = {{"take", take, METH_O, nullptr},
                                  {"assign", assign, METH_O, nullptr},
                                  {"drop", drop, METH_NOARGS, nullptr},
                                  {"size", size, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "again", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_again() {
    kept = new dlshim::array<const double>;
    return PyModule_Create(&definition);
}
"""
USES_IT_AGAIN = """
from doubles.producers import P2

ended = []

def source(n, then=None):
    x = P2((n,), "float64")
    export = x._export

    def exported(*args, **fields):
        made = export(*args, **fields)
        made.on_delete = lambda: (ended.append(n), then and then())
        return made

    x._export = exported
    return x

again.take(source(3, lambda: again.take(source(4))))
print(again.size())
print(again.{way}(source(5)), ended, again.size())  # 3 goes, and its deleter takes 4 instead of 5
again.take(source(6, lambda: again.take(source(7))))
again.drop()  # 6 goes; what its deleter takes goes nowhere else than with the process
print(ended, again.size())
"""


@pytest.mark.parametrize("way", ["take", "assign"])
def test_a_deleter_may_come_back_to_the_array_that_lets_go(way: str, tmp_path: Path) -> None:
    """take() gave the old memory back before it had the new one, and a second time then."""
    program = cpp_module("again", AGAIN, tmp_path) + USES_IT_AGAIN.format(way=way)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    got = {"take": "None", "assign": "0"}[way]  # the array that is moved away has no elements
    assert done.stdout.splitlines() == ["3", f"{got} [3, 5] 4", "[3, 5, 4, 6] 0"]


NUMBERS = """
#include <dlshim.hpp>
#include <array>
#include <vector>
/* halves(x, by): the elements of x as doubles, in an array of the same shape, and x times `by`. */
struct Halves {
    std::vector<double> values;
    float by;
    template <class T> void operator()(const dlshim::view<T> &x) {
        dlshim::each(x, [this](T &value) {
            values.push_back(static_cast<double>(static_cast<float>(value)));
            value = static_cast<float>(value) * by;
        });
    }
    template <class U> void operator()(const dlshim::view<std::complex<U>> &) {}
    void operator()(const dlshim::view<bool> &) {}
};
static PyObject *halves(PyObject *, PyObject *args) {
    PyObject *obj;
    Halves all;
    if (!PyArg_ParseTuple(args, "Of", &obj, &all.by)) {
        return nullptr;
    }
    try {
        dlshim::array<void> x(obj);
        if (!dlshim::visit<dlshim::float16, dlshim::bfloat16>(x, all)) {
            Py_RETURN_NONE;
        }
        return dlshim::export_values(std::move(all.values), x.as_c().shape, x.ndim());
    }
    catch (const dlshim::python_error &) {
        return nullptr;
    }
}
static int ended;
struct Own : std::vector<int16_t> {
    using std::vector<int16_t>::vector;
    Own(Own &&) = default;
    ~Own() { ended += !empty(); }
};
struct Fixed : Own {
    using Own::Own;
    const int16_t *data() const { return Own::data(); }
};
/* owns(how): a Tensor, or what was raised; ended() counts the values that are gone. */
static PyObject *owns(PyObject *, PyObject *how) {
    try {
        switch (PyLong_AsLong(how)) {
        case 0: return dlshim::export_values(Own{1, 2, 3, 4, 5, 6});
        case 1: return dlshim::export_values(Own{1, 2, 3, 4, 5, 6}, {2, 3});
        case 2: return dlshim::export_values(Fixed{1, 2, 3});
        case 3: return dlshim::export_values(Own{}, {4, 0});
        case 4: return dlshim::export_values(std::array<std::complex<float>, 1>{{{1, 2}}}, {});
        case 5: return dlshim::export_values(Own{1, 2, 3}, {2, 3});
        case 6: return dlshim::export_values(Own{1, 2, 3}, {-1, -3});
        case 7: return dlshim::export_values(Own{1, 2}, {INT64_MAX, 2, 2, 2, 2});
        default: return dlshim::export_values(Own{1, 2}, {});
        }
    }
    catch (const dlshim::python_error &) {
        return nullptr;
    }
}
static PyObject *gone(PyObject *, PyObject *) { return PyLong_FromLong(ended); }
static PyMethodDef functions[] = {{"halves", halves, METH_VARARGS, nullptr},
                                  {"owns", owns, METH_O, nullptr},
                                  {"gone", gone, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "numbers_", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_numbers_() { return PyModule_Create(&definition); }
"""
HALVES = """
import numpy as np
import dlshim
import ml_dtypes

word = np.arange(1 << 16, dtype="uint16")
step = np.linspace(0.9999, 1.0001, 1 << 16, dtype="float32")
for name, code in ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16):
    for by in (1.0, 0.5, 3.0, 2.0**-14, 1.0 + 2.0**-12, -1 / 3):
        x = word.copy()
        dtype = dlshim.upgrade(x, reinterpret=name)
        with np.errstate(all="ignore"):
            same = x.view(code).astype("float64")
            times = (same.astype("float32") * np.float32(by)).astype(code)
        read = np.asarray(numbers_.halves(dtype, by))
        assert np.array_equal(read, same, equal_nan=True), (name, by)
        now = x.view(code)
        nan = np.isnan(times.astype("float32"))
        assert np.array_equal(np.isnan(now.astype("float32")), nan), (name, by)
        wrong = np.flatnonzero((now.view("uint16") != times.view("uint16")) & ~nan)
        assert not len(wrong), (name, by, word[wrong[:5]])
assert numbers_.halves(np.arange(3), 2.0).__class__ is dlshim.Tensor
other = dlshim.upgrade(np.arange(3, dtype="uint8"), reinterpret="float8_e5m2")
assert numbers_.halves(other, 1.0) is None
print("read and written")
"""


def test_floats_of_16_bits_are_read_and_written_as_numpy_does(tmp_path: Path) -> None:
    """visit() left them out, and C++ before C++23 has none."""
    program = cpp_module("numbers_", NUMBERS, tmp_path) + HALVES
    assert run(sys.executable, "-c", program) == "read and written\n"


def test_values_of_cpp_become_an_array_that_owns_them(tmp_path: Path) -> None:
    """Each example had ten lines for it, and one that forgot them leaked or freed twice."""
    program = cpp_module("numbers_", NUMBERS, tmp_path) + (
        "for how in range(9):\n"
        "    before = numbers_.gone()\n"
        "    try:\n"
        "        x = numbers_.owns(how)\n"
        "    except ValueError as error:\n"
        "        print(error, numbers_.gone() - before)\n"
        "        continue\n"
        "    said = x.shape, str(x.dtype), x.readonly, x.tobytes().hex()\n"
        "    kept = numbers_.gone() - before\n"
        "    del x\n"
        "    print(*said, kept, numbers_.gone() - before)\n"
    )
    first = struct.pack("<6h", 1, 2, 3, 4, 5, 6).hex()
    assert run(sys.executable, "-c", program).splitlines() == [
        f"(6,) int16 False {first} 0 1",
        f"(2, 3) int16 False {first} 0 1",
        f"(3,) int16 True {first[:12]} 0 1",
        "(4, 0) int16 False  0 0",
        "() complex64 False 0000803f00000040 0 0",
        "3 values are no array of this shape 1",
        "3 values are no array of this shape 1",
        "2 values are no array of this shape 1",
        "2 values are no array of this shape 1",
    ]


NUMBERS_OF = """
#include <dlshim.hpp>
#include <string>
#include <vector>
template <class T> struct made {
    template <class... More> static PyObject *of(PyObject *obj, const dlshim::options &asked) {
        const dlshim::array<const T, dlshim::any_rank, More...> x(obj, asked);
        std::vector<T> *values = new std::vector<T>;
        dlshim::each(x, [values](T value) { values->push_back(value); });
        const dlshim_array array = {values->data(), 1, 0, x.ndim(), dlshim::dtype_of<T>::value(),
                                    x.as_c().shape, nullptr, 0};
        return dlshim_export_array(&array, x.flags(), values, [](void *all) {
            delete static_cast<std::vector<T> *>(all);
        }, nullptr);
    }
};
template <> struct made<bool> { /* a std::vector of bool has no data() */
    template <class... More> static PyObject *of(PyObject *obj, const dlshim::options &asked) {
        const dlshim::array<const bool, dlshim::any_rank, More...> x(obj, asked);
        uint8_t *values = new uint8_t[static_cast<size_t>(x.size())], *to = values;
        dlshim::each(x, [&to](bool value) { *to++ = value; });
        const dlshim_array array = {values, 1, 0, x.ndim(), {6, 8, 1}, x.as_c().shape, nullptr, 0};
        return dlshim_export_array(&array, x.flags(), values, [](void *all) {
            delete[] static_cast<uint8_t *>(all);
        }, nullptr);
    }
};
struct own { /* an option of a user */
    static void ask(dlshim::options &more) { more.convert().detach(); }
};
template <class T> static PyObject *extents(PyObject *obj) {
    const T x(obj, "extents(): x");
    return Py_BuildValue("LK", static_cast<long long>(x.size()),
                         reinterpret_cast<uintptr_t>(x.data()));
}
/* numbers_of(name, obj): an array of that dtype, or the size and address of what was taken. */
static PyObject *numbers_of(PyObject *, PyObject *args) {
    const char *text;
    PyObject *obj;
    if (!PyArg_ParseTuple(args, "sO", &text, &obj)) {
        return nullptr;
    }
    const std::string name = text;
    const dlshim::options asked("numbers_of(): x");
    try {
        #define OF(said, T) if (name == said) return made<T>::of<dlshim::convert>(obj, asked)
        OF("bool", bool); OF("int8", int8_t); OF("uint8", uint8_t); OF("int16", int16_t);
        OF("uint16", uint16_t); OF("int32", int32_t); OF("uint32", uint32_t);
        OF("int64", int64_t); OF("uint64", uint64_t); OF("float32", float);
        OF("float64", double); OF("float16", dlshim::float16);
        OF("bfloat16", dlshim::bfloat16); OF("complex64", std::complex<float>);
        OF("complex128", std::complex<double>);
        if (name == "own") return made<float>::of<own>(obj, asked);
        if (name == "options") {
            return made<float>::of<>(obj, dlshim::options(asked).convert().detach());
        }
        if (name == "never") {
            return made<float>::of<dlshim::convert, dlshim::copy<DLSHIM_COPY_NEVER>>(obj, asked);
        }
        using namespace dlshim;
        if (name == "lent") return extents<borrowed<const double, 2, convert>>(obj);
        using two = dlshim::shape<-1, 2>;
        if (name == "pairs") return extents<array<const double, 2, two>>(obj);
        if (name == "lent pairs") return extents<borrowed<const double, 2, two>>(obj);
        if (name == "aligned") {
            return extents<array<const float, 1, convert, dlshim::alignment<256>>>(obj);
        }
        if (name == "rows") return extents<array<const double, 2, dlshim::row_major>>(obj);
        if (name == "written") return extents<array<double, any_rank, convert>>(obj);
    }
    catch (const dlshim::python_error &) {
    }
    return nullptr;
}
static PyMethodDef functions[] = {{"numbers_of", numbers_of, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "converts", nullptr, -1, functions,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_converts() { return PyModule_Create(&definition); }
"""
CONVERTED = """
import numpy as np
import dlshim
import ml_dtypes
from converts import numbers_of

np.seterr(all="ignore")
NAMES = (
    "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 "
    "complex64 complex128"
).split()
TYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in NAMES}
WHOLE = [0, 1, 2] + [s * (1 << n) + d for n in (7, 8, 15, 16, 31, 32, 53, 63, 64)
                     for s in (1, -1) for d in (-1, 0, 1)]
VALUES = WHOLE + [0.5, -0.0, 1.1, 65504.0, 1e5, 1e30, 1e300, float("inf"), float("nan")]

def of(values, name):
    x = np.array(values, dtype="float64" if name == "bfloat16" else name).astype(TYPES[name])
    plain = x if name != "bfloat16" else dlshim.upgrade(x.view("uint16"), reinterpret=name)
    return x, plain

def fits(value, x, to):
    # Does each number of this dtype exist in the other, rounded as floats are?
    if to == "bool":
        return value in (0, 1)
    if "int" in to:
        info = np.iinfo(to)
        return value == value and abs(value) != float("inf") and value == int(value) and (
            info.min <= int(value) <= info.max)
    now = x.astype(TYPES[to]).astype("complex128")[0]
    return not np.isinf(now) or abs(value) == float("inf")

count = 0
for given in NAMES:
    for number in VALUES:
        try:
            x, plain = of([number], given)
        except (OverflowError, ValueError):
            continue  # no value of this dtype
        for name in NAMES:
            value = complex(x[0]) if "complex" in given else x.tolist()[0]
            try:
                got = numbers_of(name, plain)
            except TypeError:
                assert "complex" in given and "complex" not in name, (given, name)
                continue
            except ValueError as error:
                assert not fits(value, x, name), (given, number, name)
                assert str(error).startswith("numbers_of(): x has the value "), error
                continue
            assert fits(value, x, name), (given, number, name, got)
            # through float32: NumPy rounds an integer twice on its way to 16 bits, too
            small = "float16" in name and given != name
            right = (x.astype("float32") if small else x).astype(TYPES[name])
            if name == "bfloat16":
                got = np.asarray(dlshim.from_dlpack(got, reinterpret="uint16")).view(TYPES[name])
            assert np.asarray(got).dtype == TYPES[name]
            same = np.array_equal(np.asarray(got).astype("complex128"), right.astype("complex128"),
                                  equal_nan=True)
            assert same, (given, number, name, got, right)
            count += 1
print(count > 1500)
"""


def test_numbers_of_other_dtypes_are_converted_and_none_is_lost(tmp_path: Path) -> None:
    """NumPy says which number another dtype has; what has none is refused, and never wraps."""
    program = cpp_module("converts", NUMBERS_OF, tmp_path) + CONVERTED
    assert run(sys.executable, "-c", program) == "True\n"


OPTIONS = """
import numpy as np
from converts import numbers_of

x = np.arange(24).reshape(2, 3, 4)
for y in (x, x.T, x[::-1, :, ::2], x[:0], x[1, 2, 3], np.broadcast_to(x[0, 0], (3, 4)),
          x.astype("f4")[:, ::-1], np.frombuffer(bytearray(17), "<i4", 4, 1)):
    for name in ("own", "options"):
        made = numbers_of(name, y)
        assert np.array_equal(made, y), (name, y)
        assert made.dtype == "float32" and not made.readonly
odd = np.frombuffer(bytearray(range(17)), "<i4", 4, 1)
assert np.array_equal(numbers_of("float64", odd), odd)
assert numbers_of("lent", x[0])[0] == 12
assert numbers_of("aligned", np.arange(3))[1] % 256 == 0
pairs = np.ones((3, 2))
for name in ("pairs", "lent pairs"):
    assert numbers_of(name, pairs) == (6, pairs.ctypes.data)
    assert numbers_of(name, pairs[:0])[0] == 0
assert numbers_of("rows", pairs.T)[1] != pairs.ctypes.data
huge = np.broadcast_to(np.int8(1), (1 << 46,))
for name, y in (
    ("pairs", pairs.T), ("lent pairs", pairs.T), ("pairs", pairs[0]), ("never", x), ("written", x),
    ("uint32", np.array([1.5])), ("uint32", np.array([7, -1])), ("bool", np.array([2])),
    ("float32", np.array([1e300])), ("float64", np.array([1j])), ("float64", huge),
):
    try:
        print(numbers_of(name, y))
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_options_are_types_too(tmp_path: Path) -> None:
    """A parameter has no place for a dlshim::options."""
    program = cpp_module("converts", NUMBERS_OF, tmp_path) + OPTIONS
    assert run(sys.executable, "-c", program).replace("\n  ", " | ").splitlines() == [
        "ValueError extents(): x has an extent of 3 in dimension 1, not 2",
        "ValueError extents(): x has an extent of 3 in dimension 1, not 2",
        "ValueError extents(): x has 1 dimension, not 2 | pass x.reshape((1, 2))",
        "TypeError numbers_of(): x has dtype int64, not float32, in which not every value fits | "
        "pass x.astype('float32')",
        "TypeError extents(): x has dtype int64, not float64, in which not every value fits | "
        "keep and pass x.astype('float64')",
        "ValueError numbers_of(): x has the value 1.5, which does not fit in uint32",
        "ValueError numbers_of(): x has the value -1, which does not fit in uint32",
        "ValueError numbers_of(): x has the value 2, which is no bool",
        "ValueError numbers_of(): x has the value 1e+300, which does not fit in float32",
        "TypeError numbers_of(): x has dtype complex128, not float64 or one of 12 others, in which "
        "the imaginary part is lost | pass x.real.astype('float64')",
        "MemoryError ",
    ]


def test_a_shape_has_the_rank_of_its_array(tmp_path: Path) -> None:
    parameter = "dlshim::array<const int, 1, dlshim::shape<-1, 3>>"
    said = cpp_errors(tmp_path, f"void use(PyObject *o) {{ {parameter} x(o); }}\n")
    assert "dlshim::shape has as many extents as the array has dimensions" in said
