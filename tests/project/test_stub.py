"""_core.pyi, the text signatures of the C functions and the exported names agree."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from project.tree import ROOT, SRC

import dlshim
from dlshim import _core

STUB = ast.parse((ROOT / "shim" / "_core.pyi").read_text())
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_property(node: Function) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def stub_functions() -> Iterator[tuple[str, Function]]:
    """Every function and method of the stub, by its dotted name."""
    for node in STUB.body:
        if isinstance(node, Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, Function):
                    yield f"{node.name}.{member.name}", member


def stub_parameters(node: Function) -> list[tuple[str, Any, str | None]]:
    """(name, kind, source of the default) of each parameter."""
    kinds = inspect.Parameter
    given = node.args
    positional = [
        *((arg, kinds.POSITIONAL_ONLY) for arg in given.posonlyargs),
        *((arg, kinds.POSITIONAL_OR_KEYWORD) for arg in given.args),
    ]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    rows = [
        (arg.arg, kind, default and ast.unparse(default))
        for (arg, kind), default in zip(positional, [*defaults, *given.defaults], strict=True)
    ]
    rows += [(given.vararg.arg, kinds.VAR_POSITIONAL, None)] if given.vararg else []
    rows += [
        (arg.arg, kinds.KEYWORD_ONLY, default and ast.unparse(default))
        for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    return rows


def real(name: str) -> Any:
    found: Any = _core
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    return found


FUNCTIONS = {name: node for name, node in stub_functions() if not is_property(node)}
#: Slots of types: CPython gives them one signature whatever the type.
SLOTS = {"Tensor.__buffer__"}
#: For this package and its tests alone.
PRIVATE = {name for name in FUNCTIONS if name.startswith("_")}


def test_the_stub_has_the_public_names() -> None:
    stated = {node.name for node in STUB.body if isinstance(node, Function | ast.ClassDef)}
    # Named modules that come with the interpreter (__doc__ and the like) are not ours.
    offered = {name for name in vars(_core) if not name.startswith("__")}
    assert {name for name in stated if not name.startswith("_")} == {
        name for name in offered if not name.startswith("_")
    }
    assert {name for name in stated if name.startswith("_")} <= offered


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - SLOTS - PRIVATE))
def test_a_function_has_the_text_signature_of_the_stub(name: str) -> None:
    function = real(name)
    assert function.__text_signature__, f"{name} has no text signature"
    told = list(inspect.signature(function).parameters.values())
    stated = stub_parameters(FUNCTIONS[name])
    if "." in name:  # "$self" is positional-only in a text signature
        assert told.pop(0).name == stated.pop(0)[0] == "self"
    rows = [
        (p.name, p.kind, None if p.default is p.empty else repr_of_default(p.default)) for p in told
    ]
    assert rows == stated


#: How the stub writes the type of each kind of option; None is allowed where it is the default.
KINDS = {
    "stream": "Any",
    "device": "_Device",
    "like": "Any",
    "flag": "bool",
    "align": "int",
    "dtype": "_DType",
}
OPTIONS = re.findall(
    r"^OPTION\((\w+), (\w+), ([^,]+), (.*)\)$", (SRC / "request" / "options.def").read_text(), re.M
)


def option_type(kind: str, default: str, words: str) -> str:
    if kind == "detach":
        values = re.findall(r'"(\w+)"', words)
        return f"bool | Literal[{', '.join(map(repr, values))}]"
    if kind == "word":
        values = re.findall(r'"(\w+)"', words)
        assert default == "None" or default.strip('"') in values
        text = f"Literal[{', '.join(map(repr, values))}]"
    elif kind == "readonly":
        values = re.findall(r'"(\w+)"', words)
        text = f"bool | Literal[{', '.join(map(repr, values))}]"
    else:
        text = KINDS[kind]
    return f"{text} | None" if default == "None" and text != "Any" else text


@pytest.mark.parametrize("name", ["upgrade", "from_dlpack", "to_capsule"])
def test_the_stub_has_the_options_of_the_table(name: str) -> None:
    given = FUNCTIONS[name].args
    stated = [
        (arg.arg, default and ast.unparse(default), arg.annotation and ast.unparse(arg.annotation))
        for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if arg.arg not in ("max_version", "dtypes", "ndims", "writable")
    ]
    assert len(OPTIONS) > 10
    assert stated == [
        (option, default.replace('"', "'"), option_type(kind, default, words))
        for option, kind, default, words in OPTIONS
    ]


def described() -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Every public class, function, method and property of the stub, by its dotted name."""
    yield from ((node.name, node) for node in STUB.body if isinstance(node, ast.ClassDef))
    yield from ((name, node) for name, node in stub_functions() if name not in SLOTS | PRIVATE)


@pytest.mark.parametrize(("name", "node"), [*described()], ids=[name for name, _ in described()])
def test_an_editor_shows_what_help_says(name: str, node: Function | ast.ClassDef) -> None:
    """The stub has the docstrings of the extension, but for the ends of lines."""
    said = inspect.cleandoc(real(name).__doc__ or "")
    shown = ast.get_docstring(node) or ""
    assert shown and shown.split() == said.split()
    assert shown.count("\n\n") == said.count("\n\n")


def test_help_tells_of_each_option() -> None:
    said = inspect.getdoc(dlshim.upgrade)
    assert said
    for option, *_ in OPTIONS:
        assert f"\n{option}: " in said


def repr_of_default(value: object) -> str:
    return "..." if value is ... else repr(value)


@pytest.mark.parametrize("name", ["Producer", "Tensor"])
def test_a_type_has_the_members_of_the_stub(name: str) -> None:
    cls = next(n for n in STUB.body if isinstance(n, ast.ClassDef) and n.name == name)
    stated = {member.name for member in cls.body if isinstance(member, Function)}
    stated |= {member.target.id for member in cls.body if isinstance(member, ast.AnnAssign)}
    inherited = set(vars(object)) | {"__new__", "__weakref__", "__module__"}
    # Slots that the language gives every type of the kind, and that no caller names.
    inherited |= {"__release_buffer__", "__buffer__", "__del__"}
    if name == "Producer":  # they say where the attribute is, and are none
        inherited |= {"shape", "dtype", "ndim"}
    offered = set(vars(getattr(_core, name)))
    assert offered - inherited == stated - inherited


@pytest.mark.parametrize("name", sorted(dlshim.__all__))
def test_every_public_name_is_there_and_described(name: str) -> None:
    found = getattr(dlshim, name)
    assert name in dir(dlshim)
    if name != "UNSET":
        assert (found.__doc__ or "").strip(), f"{name} has no docstring"
        assert "Ellipsis" not in pydoc.render_doc(found), f"help({name}) is for people"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dlshim.nothing  # noqa: B018


def test_editors_are_offered_the_public_names_and_no_other() -> None:
    assert [name for name in dir(dlshim) if not name.startswith("__")] == sorted(dlshim.__all__)
    offered = {name for name in dir(dlshim.upgrade(b"a")) if not name.startswith("_")}
    assert offered == {"source"}


@pytest.mark.parametrize(
    ("typed", "meant"), [("dlshim.upgarde", "upgrade"), ("dlshim.from_dlpack(b'a').shap", "shape")]
)
def test_a_misspelt_name_is_met_with_the_right_one(typed: str, meant: str) -> None:
    """The interpreter suggests it in the traceback, by what dir() says."""
    code = [sys.executable, "-c", f"import dlshim; {typed}"]
    done = subprocess.run(code, capture_output=True, text=True, check=False, cwd=ROOT)
    assert f"Did you mean: '{meant}'?" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["shape", "dtype", "ndim"])
def test_an_attribute_of_arrays_names_what_has_it(name: str) -> None:
    producer = dlshim.upgrade(b"abc")
    assert not hasattr(producer, name)
    with pytest.raises(AttributeError, match=r"dlshim\.from_dlpack\(x\)\." + name) as caught:
        getattr(producer, name)
    assert "no attribute" in str(caught.value)
    assert hasattr(dlshim.from_dlpack(producer), name)


def test_help_has_examples_of_each_kind_of_array() -> None:
    said = inspect.getdoc(dlshim.upgrade) or ""
    lines = [line for line in said.splitlines() if line.startswith("    ") and "upgrade(" in line]
    assert len(lines) >= 3
    for line in lines:
        ast.parse(line.strip())


def mypy(*arguments: str) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed (nox -s stubtest has it)")
    done = subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_finds_a_misspelt_name(tmp_path: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed (nox -s stubtest has it)")
    file = tmp_path / "misspelt.py"
    file.write_text("import dlshim\ndlshim.upgarde(1)\nprint(dlshim.Tensro)\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'maybe "upgrade"?' in done.stdout and 'maybe "Tensor"?' in done.stdout, done.stdout


#: Each line is an error where NumPy's types refuse the object, and where they take what they should
#: not: mypy --strict refuses an ignore without an error.
PRODUCERS = """
from typing import Any
import dlshim
import numpy as np

class Mixed(dlshim.ProducerMixin, inner="array"):
    array: Any = None

@dlshim.producer(inner="array")
class Decorated:
    array: Any = None

np.from_dlpack(Mixed())
np.from_dlpack(dlshim.upgrade(b"a"))
np.from_dlpack(dlshim.from_dlpack(b"a"))
np.from_dlpack(dlshim.upgrade(Decorated()))
np.from_dlpack(Decorated())  # type: ignore[arg-type]
"""


def test_mypy_lets_numpy_take_producers(tmp_path: Path) -> None:
    """No type says that a decorator adds methods (docs/authors.rst): the base class is for that."""
    for name in ("mypy", "numpy"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    file = tmp_path / "producers.py"
    file.write_text(PRODUCERS)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_agrees() -> None:
    allowed = "tests/project/stubtest_allowed.txt"
    config = ("--mypy-config-file", "pyproject.toml")
    mypy("mypy.stubtest", *config, "--allowlist", allowed, "--ignore-unused-allowlist", "dlshim")


@pytest.mark.parametrize("minor", range(10, 15))
def test_mypy_accepts_every_documented_use(minor: int) -> None:
    uses = "tests/project/documented_uses.py"
    mypy("mypy", "--strict", "--cache-dir", os.devnull, "--python-version", f"3.{minor}", uses)
