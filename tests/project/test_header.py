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
from doubles import child

PROGRAMS = ROOT / "tests" / "programs"
INCLUDE = Path(dlshim.get_include())
CMAKE = INCLUDE.parent / "cmake"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]
#: Casts of C are none in C++: projects have them among their warnings.
STRICT_CPP = [*STRICT, "-Wold-style-cast", "-Wuseless-cast"]
LIMITED = ["-DPy_LIMITED_API=0x030a0000"]


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
def test_it_compiles_without_a_warning(vendor: str, standard: str, macros: list[str]) -> None:
    plus = "+" in standard
    language = "c++" if plus else "c"
    if vendor == "clang" and shutil.which("clang") is None:
        pytest.skip("clang is not here")
    compiler = tool({"gcc": "g++", "clang": "clang++"}[vendor] if plus else vendor)
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    source = ["-x", language, str(PROGRAMS / "use_header.c")]
    run(compiler, f"-std={standard}", *STRICT, *macros, *places, *source)


@pytest.mark.parametrize("standard", ["c++11", "c++17", "c++20"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_types_for_cpp_compile_without_a_warning(compiler: str, standard: str) -> None:
    if compiler == "clang++" and shutil.which(compiler) is None:
        pytest.skip("clang is not here")
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    # clang has no -Wuseless-cast
    strict = STRICT_CPP if compiler == "g++" else STRICT_CPP[:-1]
    run(tool(compiler), f"-std={standard}", *strict, *places, str(PROGRAMS / "use_header.cpp"))


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
    shutil.copy(PROGRAMS / "use_header.c", tmp_path / "use.c")
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


def beside_cpp(folder: Path, module: str, program: str, *arguments: str) -> str:
    """What the program prints that imports this module of C++, both of tests/programs."""
    path = PROGRAMS / f"{module}.cpp"
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    run(tool("g++"), *flags, *places, str(path), "-o", str(folder / f"{module}.so"))
    paths = (str(folder), child.TESTS)
    return child.program(program, *arguments, paths=paths, silent=True)


def test_visit_reads_no_element_at_an_address_that_its_type_cannot_have(tmp_path: Path) -> None:
    """It did, which is undefined in C++."""
    told = beside_cpp(tmp_path, "visits", "visited_addresses")
    assert told.split() == ["4", "8", "-1", "4"]


@pytest.mark.parametrize("optimised", ["-O2", "-O3"])
def test_each_is_compiled_without_a_warning_of_bounds(optimised: str) -> None:
    """gcc unrolled a loop over more axes than there are, and warned of what it made."""
    flags = ["-std=c++17", optimised, "-Wall", "-Wextra", "-Werror", "-c", "-o", os.devnull]
    places = [f"-isystem{sysconfig.get_path('include')}", f"-I{INCLUDE}"]
    run(tool("g++"), *flags, *places, str(PROGRAMS / "sums.cpp"))


def test_an_array_that_was_moved_away_has_no_elements(tmp_path: Path) -> None:
    """It said one, at no address; and beside an extent of 0 each() counted the others up."""
    told = beside_cpp(tmp_path, "elements", "elements_moved_away")
    none = "0 0 0"  # elements that x says, that each() finds, and whether at() gives one
    has = ["1 1 1", "6 6 0", *[none] * 3]
    assert told.splitlines() == [f"{x} {none}" for x in has]


def test_each_follows_the_indices_whatever_the_strides(tmp_path: Path) -> None:
    """It walks axes as one where they lie in memory so: all, the last two, or none of them."""
    pytest.importorskip("numpy", reason="NumPy is not installed")
    beside_cpp(tmp_path, "walks", "walked_elements")


@pytest.mark.parametrize("way", ["take", "assign"])
def test_a_deleter_may_come_back_to_the_array_that_lets_go(way: str, tmp_path: Path) -> None:
    """take() gave the old memory back before it had the new one, and a second time then."""
    told = beside_cpp(tmp_path, "again", "taken_again", way)
    got = {"take": "None", "assign": "0"}[way]  # the array that is moved away has no elements
    assert told.splitlines() == ["3", f"{got} [3, 5] 4", "[3, 5, 4, 6] 0"]


def test_floats_of_16_bits_are_read_and_written_as_numpy_does(tmp_path: Path) -> None:
    """visit() left them out, and C++ before C++23 has none."""
    assert beside_cpp(tmp_path, "numbers_", "floats_of_16_bits") == "read and written\n"


def test_values_of_cpp_become_an_array_that_owns_them(tmp_path: Path) -> None:
    """Each example had ten lines for it, and one that forgot them leaked or freed twice."""
    first = struct.pack("<6h", 1, 2, 3, 4, 5, 6).hex()
    assert beside_cpp(tmp_path, "numbers_", "values_of_cpp").splitlines() == [
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


def test_numbers_of_other_dtypes_are_converted_and_none_is_lost(tmp_path: Path) -> None:
    """NumPy says which number another dtype has; what has none is refused, and never wraps."""
    assert beside_cpp(tmp_path, "converts", "converted_numbers") == "True\n"


def test_options_are_types_too(tmp_path: Path) -> None:
    """A parameter has no place for a dlshim::options."""
    told = beside_cpp(tmp_path, "converts", "converted_options")
    assert told.replace("\n  ", " | ").splitlines() == [
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
