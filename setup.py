"""Builds the one extension module; all metadata is in pyproject.toml.

FLOOR is the oldest CPython that the wheel serves. It drives the three things that must agree and
that nothing else ties together: the macro (which functions the headers offer), the file name
(`.abi3.so`) and the wheel's tag. A free-threaded interpreter has no such ABI, so there all three
are off and the wheel serves that one version.

Environment: DLSHIM_FULL_API=1 builds without the limited API (to measure what it costs),
DLSHIM_WERROR=1 makes warnings errors, DLSHIM_ASSERT=1 keeps the asserts (they are absent from the
wheel), CFLAGS takes over optimisation and debug flags (sanitizers, profilers).
"""

import ast
import os
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

FLOOR = (3, 10)

if sys.implementation.name != "cpython":
    sys.exit(
        f"dlshim needs CPython, and this is {sys.implementation.name}. The C API of PyPy lacks "
        "PyInterpreterState_Get and PyInterpreterState_GetDict."
    )

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED = not FREE_THREADED and not os.environ.get("DLSHIM_FULL_API")

MACROS = [("Py_LIMITED_API", "0x%02x%02x0000" % FLOOR)] if LIMITED else []
MACROS += [("DLS_FREE_THREADED", "1")] if FREE_THREADED else []  # src/core/threads.h


# What the release build is made with; a caller's CFLAGS (sanitizers, profilers) replace all of it.
# One exchange crosses a dozen small functions in as many files: inlining across them and direct
# calls into libpython are worth some 8 % of its instructions, and one partition does it best.
# Unwind tables, symbols, notes and padding, of no use to plain C, are a quarter of the file.
# Unscheduled code is as quick, and compresses better.  Rare code stays with its function: a jump
# into another section is longer.  Only what is tiny, or declared inline, is copied into callers:
# otherwise rare code is, over and over.
PLAIN = not os.environ.get("CFLAGS")
FAST = ["-O2", "-g0"]
if sys.platform == "linux":
    FAST += ["-flto", "-flto-partition=one", "-fno-plt", "-fno-asynchronous-unwind-tables"]
    FAST += ["-fno-ident", "-fno-schedule-insns2", "-Wl,--build-id=none,-z,noseparate-code"]
    FAST += ["-fno-reorder-functions", "-fno-reorder-blocks-and-partition"]
    FAST += ["--param=max-inline-insns-auto=5"]
    FAST += [f"-fno-align-{what}" for what in ("functions", "jumps", "labels", "loops")]


def compile_args() -> list[str]:
    if os.name == "nt":
        # Atomics need Visual Studio 2022 17.5 or newer.
        args = ["/std:c11", "/experimental:c11atomics"]
        return [*args, "/UNDEBUG" if os.environ.get("DLSHIM_ASSERT") else "/DNDEBUG"]
    args = ["-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wconversion"]
    if PLAIN:
        args += FAST
    # Last: the flags of the interpreter's own build mostly have one of the two already.
    args.append("-UNDEBUG" if os.environ.get("DLSHIM_ASSERT") else "-DNDEBUG")
    if os.environ.get("DLSHIM_WERROR"):
        args.append("-Werror")
    return args


# What a learned exchange crosses, and a part of the older protocols. All else is made small.
QUICK = [
    "acquire/call",
    "core/copy_blocks",
    "core/copy_rows",
    "core/hold",
    "core/layout",
    "core/tensor",
    "exchange/acquired",
    "exchange/tensor_object",
    "export/device_answer",
    "export/fast_copy",
    "export/fast_path",
    "module/ctable_out",
    "module/ctable_view",
    "module/functions",
    "module/producer",
    "module/producer_class",
    "module/tensor_type",
]


class BuildExt(build_ext):
    """Two levels of optimisation, and no run path, which some interpreters (pyenv's) put in."""

    def build_extensions(self) -> None:
        linker = getattr(self.compiler, "linker_so", None)
        if linker:
            self.compiler.linker_so = [word for word in linker if not word.startswith("-Wl,-rpath")]
        if PLAIN and sys.platform == "linux":
            compile_one = self.compiler._compile
            small = ["-Os", "-fno-caller-saves", "-fno-code-hoisting"]
            small += ["-fno-if-conversion", "-fno-if-conversion2", "-fno-thread-jumps"]
            small += ["-fno-tree-dominator-opts", "-fno-tree-pre", "-fno-guess-branch-probability"]

            def compile_small(obj, src, ext, cc_args, extra, macros):
                quick = src.removeprefix("src/").removesuffix(".c") in QUICK
                compile_one(obj, src, ext, cc_args, extra if quick else [*extra, *small], macros)

            self.compiler._compile = compile_small
        super().build_extensions()


# Help and editors show the docstrings of these: of what `__all__` lists, where there is one.
SHOWN = (
    "dlshim.__init__",
    "dlshim.arrays",
    "dlshim.authors",
    "dlshim.enums",
    "dlshim.report",
    "dlshim.tracking",
)


class BuildPy(build_py):
    """Writes the installed copies anew from their syntax trees, without comments, docstrings that
    nobody is shown, and the types of private functions: that is a quarter of the Python files, and
    the wheel has a budget."""

    def build_module(self, module, module_file, package):
        target, copied = super().build_module(module, module_file, package)
        if not os.path.samefile(target, module_file):
            with open(module_file, encoding="utf-8") as file:
                text = without_remarks(file.read(), f"{package}.{module}" in SHOWN)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
        return target, copied


def unseen(tree, shown):
    """The modules, classes and functions whose docstrings nobody is shown."""
    if not shown:
        yield tree
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    for top in tree.body:
        public = shown and (not listed or getattr(top, "name", "") in listed[0])
        for node in ast.walk(top):
            kinds = (ast.ClassDef, ast.FunctionDef)
            if isinstance(node, kinds) and not (public and node.name[0] != "_"):
                yield node


def without_remarks(text, shown):
    """The same code, as under ``python -OO``.  In shown modules, the types of special methods
    stay, which type checkers ask for."""
    tree = ast.parse(text)
    for node in list(unseen(tree, shown)):
        if ast.get_docstring(node, clean=False) is not None:
            node.body[0:1] = [] if len(node.body) > 1 else [ast.Pass()]
        if not (shown and getattr(node, "name", "").startswith("__")):
            drop_types(node)
    return indented_by_one(ast.unparse(tree)) + "\n"


def indented_by_one(text):
    """One space for a level, not four, which compresses better.  Texts of more lines stay."""
    texts = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Constant, ast.JoinedStr))
    ]
    within = {line for node in texts for line in range(node.lineno, node.end_lineno)}
    lines = text.split("\n")
    for number, line in enumerate(lines):
        spaces = len(line) - len(line.lstrip(" "))
        if number not in within:
            lines[number] = line[spaces - spaces // 4 :]
    return "\n".join(lines)


def drop_types(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None


setup(
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    ext_modules=[
        Extension(
            "dlshim._core",
            sorted(glob("src/*/*.c")),
            include_dirs=["src", "shim/include"],
            depends=sorted(glob("src/*/*.h") + glob("src/*/*.def") + ["shim/include/dlshim.h"]),
            define_macros=MACROS,
            py_limited_api=LIMITED,
            extra_compile_args=compile_args(),
            extra_link_args=[*FAST, "-s"] if PLAIN and sys.platform == "linux" else [],
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp%d%d" % FLOOR}} if LIMITED else {},
)
