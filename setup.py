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
import inspect
import io
import os
import re
import shlex
import string
import subprocess
import sys
import sysconfig
import tokenize
from collections import Counter
from glob import glob

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
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


def is_gcc():
    """Whether the compiler knows gcc's flags: clang has no word for most of them, and ends with an
    error.  tools/wheels.py, whose compiler is clang, leaves out what that does not know."""
    if os.environ.get("DLSHIM_ZIG_QUICK"):
        return True
    line = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    try:
        told = subprocess.run([*line, "-dM", "-E", "-"], input="", capture_output=True, text=True)
    except OSError:
        return False
    return "__GNUC__" in told.stdout and "__clang__" not in told.stdout


GCC = sys.platform == "linux" and is_gcc()
FAST = ["-O2", "-g0"]
# The C library's checks of copies and formats: 50 bytes of a wheel.  Some interpreters pass 3.
FAST += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
LINK = []
if GCC:
    FAST += ["-flto", "-flto-partition=one", "-fno-plt", "-fno-asynchronous-unwind-tables"]
    FAST += ["-fno-ident", "-fno-schedule-insns2", "-Wl,--build-id=none,-z,noseparate-code"]
    FAST += ["-fno-reorder-functions", "-fno-reorder-blocks-and-partition"]
    # On x86-64 these change nothing.
    FAST += ["-fno-unwind-tables", "-fno-schedule-insns", "-fno-section-anchors"]
    FAST += ["--param=max-inline-insns-auto=5"]
    FAST += [f"-fno-align-{what}" for what in ("functions", "jumps", "labels", "loops")]
    # All addresses are looked up when the module is loaded, and then cannot be written to; a wheel
    # has 70 bytes less by it.  There is no stack protector: gcc, which links all files as one, no
    # longer knows arrays of char by then.  What -fstack-protector should do costs 470 bytes, and
    # -fstack-protector-strong 2900.
    LINK = [*FAST, "-s", "-Wl,-z,relro,-z,now"]
elif sys.platform == "darwin":
    # Apple's compiler has a stack protector by itself.
    FAST += ["-fno-asynchronous-unwind-tables", "-fno-unroll-loops"]
    FAST += ["-fno-tree-vectorize", "-fno-tree-slp-vectorize"]
    LINK = ["-Wl,-dead_strip", "-Wl,-x"]


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
    "exchange/acquired",
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

# Those of them whose time is spent in loops.
LOOPS = ["core/copy_blocks", "core/copy_rows"]
# For the others: what makes code longer and spares a call no instruction.
LEAN = ["-fno-reorder-blocks", "-fno-caller-saves", "-fno-tree-pre"]
LEAN += ["--param=max-inline-insns-single=30"]
SMALL = ["-Os", "-fno-code-hoisting", "-fno-if-conversion", "-fno-if-conversion2"]
SMALL += ["-fno-thread-jumps", "-fno-tree-dominator-opts", "-fno-guess-branch-probability"]
SMALL += ["-fno-ira-hoist-pressure", "-fno-move-loop-invariants", "-fno-shrink-wrap"]
SMALL += ["-fno-ssa-phiopt", "-fno-tree-dse"]
if sys.platform == "darwin":  # whose clang has no word for most of these
    LEAN, SMALL = [], ["-Oz"]


class BuildExt(build_ext):
    """Two levels of optimisation, and no run path, which some interpreters (pyenv's) put in."""

    def build_extensions(self) -> None:
        linker = getattr(self.compiler, "linker_so", None)
        if linker:
            self.compiler.linker_so = [word for word in linker if not word.startswith("-Wl,-rpath")]
        if PLAIN and (GCC or sys.platform == "darwin"):
            compile_one = self.compiler._compile

            def compile_as_told(obj, src, ext, cc_args, extra, macros):
                name = src.removeprefix("src/").removesuffix(".c")
                more = LEAN if name not in LOOPS else []
                more = more if name in QUICK else [*more, *SMALL]
                compile_one(obj, src, ext, cc_args, [*extra, *more], macros)

            self.compiler._compile = compile_as_told
        super().build_extensions()


# Help and editors show the docstrings of what the package lists, and of what that gives.
with open("shim/__init__.py", encoding="utf-8") as package:
    SHOWN = [
        *ast.literal_eval(re.search(r"^__all__ = (\[.*?\])", package.read(), re.M | re.S)[1]),
        "Protocol",
        "Tracking",
    ]
#: They have a Report of their own.
COMMANDS = ("commands", "exchanges")


#: Releases are built with the floor.  From 3.12 on, ast.unparse writes f-strings that older
#: interpreters cannot read; what is built there has the files as they are.
REWRITES = sys.version_info < (3, 12)


class BuildPy(build_py):
    """Writes the installed copies anew from their syntax trees, without comments, docstrings that
    nobody is shown, and the types that no type checker asks for: that is a quarter of the Python
    files, and the wheel has a budget."""

    def build_module(self, module, module_file, package):
        target, copied = super().build_module(module, module_file, package)
        if REWRITES and not os.path.samefile(target, module_file):
            with open(module_file, encoding="utf-8") as file:
                text = without_remarks(file.read(), module)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
        return target, copied

    def build_package_data(self):
        """The stub without comments, spaces and the types of private functions, too."""
        super().build_package_data()
        for stub in REWRITES * glob(os.path.join(self.build_lib, "dlshim", "*.pyi")):
            with open(stub, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            tree.body = [of_any_type(node) for node in tree.body]
            text = printed(tree)
            with open(stub, "w", encoding="utf-8") as file:
                file.write(text)


class BdistWheel(bdist_wheel):
    """Without top_level.txt, which RECORD tells too."""

    def egg2dist(self, egginfo_path, distinfo_path):
        super().egg2dist(egginfo_path, distinfo_path)
        os.remove(os.path.join(distinfo_path, "top_level.txt"))


def of_any_type(node):
    """A private function as a name alone."""
    if not isinstance(node, ast.FunctionDef) or node.name[0] != "_":
        return node
    name, kind = ast.Name(node.name, ast.Store()), ast.Name("Any", ast.Load())
    return ast.copy_location(ast.AnnAssign(name, kind, None, 1), node)


def unseen(tree, names):
    """The classes and functions that nobody is shown."""
    for top in tree.body:
        public = getattr(top, "name", "") in names
        for node in ast.walk(top):
            kinds = (ast.ClassDef, ast.FunctionDef)
            if isinstance(node, kinds) and not (public and node.name[0] != "_"):
                yield node


def drop_docstring(node):
    if ast.get_docstring(node, clean=False) is not None:
        node.body[0:1] = [] if len(node.body) > 1 else [ast.Pass()]


def without_remarks(text, module):
    """The same code, as under ``python -OO``.  In shown classes, the types of special methods
    stay, which type checkers ask for.  Users know the package, and none of its modules."""
    tree = ast.parse(text)
    names = [] if module in COMMANDS else SHOWN
    shown = any(getattr(top, "name", "") in names for top in tree.body)
    if module != "__init__":
        drop_docstring(tree)
    for node in list(unseen(tree, names)):
        drop_docstring(node)
        if not (shown and node.name.startswith("__")):
            drop_types(node)
    tree = Untyped().visit(tree)
    drop_unused_imports(tree, shown)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            shorten_names(node)
    return printed(tree)


def shorten_names(function):
    """Calls each variable that the function sets by the first of its letters that is free, if the
    byte code stays the same.  Parameters, functions and modules keep their names."""
    nodes = list(ast.walk(function))
    if any(isinstance(node, (ast.ClassDef, ast.Global, ast.Nonlocal)) for node in nodes):
        return
    others = {node.arg for node in nodes if isinstance(node, ast.arg)}
    others |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    others |= {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    often = Counter(node.id for node in names)
    own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    own = sorted(own - others, key=lambda name: (-often[name], name))
    before = compile(ast.unparse(function), "", "exec")
    # Names that inner functions share are sorted, and their order is in the byte code.
    for kept in (set(), shared(before)):
        short, taken = {}, others | {*often, *own}
        for name in own:
            letters = [
                each
                for each in name + string.ascii_lowercase
                if each.isalpha() and each not in taken
            ]
            if len(name) > 1 and name not in kept and letters:
                short[name] = letters[0]
                taken.add(letters[0])
        rename(nodes, short)
        if deeds(compile(ast.unparse(function), "", "exec")) == deeds(before):
            return
        rename(nodes, {letter: name for name, letter in short.items()})


def rename(nodes, names):
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
        elif isinstance(node, ast.ExceptHandler):
            node.name = names.get(node.name, node.name)


def inner(code):
    return [each for each in code.co_consts if hasattr(each, "co_code")]


def shared(code):
    return set(code.co_freevars).union(*map(shared, inner(code)))


def deeds(code):
    """What code does, whatever it calls its own variables."""
    given = code.co_argcount + code.co_kwonlyargcount
    given += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    consts = [deeds(each) if hasattr(each, "co_code") else repr(each) for each in code.co_consts]
    told = code.co_varnames[:given], code.co_name, code.co_flags, code.co_names, consts
    return code.co_code, *told


def printed(tree):
    """The shortest text that is known to be this code, also to a Python newer than this file."""
    texts = map(ast.unparse, tree.body)
    for shortened in (tightened, without_needless_parentheses, tightened, joined):
        texts = [small if same(small := shortened(text), text) else text for text in texts]
    return "".join(text.rstrip("\n") + "\n" for text in texts)


def same(text, other):
    try:
        return ast.dump(ast.parse(text)) == ast.dump(ast.parse(other))
    except SyntaxError:
        return False


def without_needless_parentheses(text):
    """``ast.unparse`` writes many.  Where one was, a space may be needed."""
    begins, opened, pairs = [0], [], []
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    for kind, token, (row, column), _, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind == tokenize.OP and token == "(":
            opened.append(begins[row - 1] + column)
        elif kind == tokenize.OP and token == ")":
            pairs.append((opened.pop(), begins[row - 1] + column))
    left = list(text)
    for begin, end in pairs:
        for instead in ("", " "):
            tried = [*left]
            tried[begin] = tried[end] = instead
            if same("".join(tried), text):
                left = tried
                break
    return "".join(left)


def joined(text):
    """A simple statement that is all of a body stands behind the colon."""
    lines = [*text.splitlines(), ""]
    for node in ast.walk(ast.parse(text)):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and len(body) == 1 and not hasattr(body[0], "body"):
                row = body[0].lineno - 1
                if lines[row - 1].endswith(":"):
                    lines[row] = "\0" + lines[row].lstrip(" ")
    return "\n".join(lines).replace("\n\0", "")


def tightened(text):
    """One space for a level, none around operators, and no empty lines: that compresses better.
    Texts stay, and every line is one."""
    lines, pieces, level, at = text.splitlines(), [], 0, (1, 0)
    for kind, _, begin, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        level += (kind == tokenize.INDENT) - (kind == tokenize.DEDENT)
        if kind in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENDMARKER):
            continue
        if kind == tokenize.NEWLINE:
            pieces.append("\n")
            continue
        rows = lines[begin[0] - 1 : end[0]]
        rows[-1] = rows[-1][: end[1]]
        rows[0] = rows[0][begin[1] :]
        if not pieces or pieces[-1] == "\n":
            pieces.append(" " * level)
        elif gap := lines[begin[0] - 1][at[1] : begin[1]]:
            pieces.append(gap if gap.strip() else needed(pieces[-1][-1], rows[0][0]))
        pieces.append("\n".join(rows))
        at = end
    return "".join(pieces)


def needed(before, after):
    """What keeps two tokens apart: words, and the braces of a set in an f-string."""
    words = all(each.isalnum() or each in "_\"'" for each in (before, after))
    return " " if words or before + after in ("{{", "}}") else ""


def drop_types(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name("object")


class Untyped(ast.NodeTransformer):
    """Drops the types of variables, but for the fields of a class, which must have one."""

    def visit_ClassDef(self, node):
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                self.visit(each)
        return node

    def visit_AnnAssign(self, node):
        if node.value is None:
            return ast.Pass()
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def drop_unused_imports(tree, shown):
    """Drops what served types only."""
    if not shown:
        tree.body = [
            node
            for node in tree.body
            if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        ]
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in list(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module in ("typing", "collections.abc"):
            node.names = [name for name in node.names if name.name in used]
        elif isinstance(node, ast.ImportFrom) and node.module == "__future__" and not shown:
            node.names = []
        if not getattr(node, "names", True):
            tree.body.remove(node)


setup(
    cmdclass={"bdist_wheel": BdistWheel, "build_ext": BuildExt, "build_py": BuildPy},
    ext_modules=[
        Extension(
            "dlshim._core",
            sorted(glob("src/*/*.c")),
            include_dirs=["src", "shim/include"],
            depends=sorted(glob("src/*/*.h") + glob("src/*/*.def") + ["shim/include/dlshim.h"]),
            define_macros=MACROS,
            py_limited_api=LIMITED,
            extra_compile_args=compile_args(),
            extra_link_args=LINK if PLAIN else [],
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp%d%d" % FLOOR}} if LIMITED else {},
)
