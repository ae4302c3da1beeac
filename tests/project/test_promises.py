"""What docs/promises.rst calls public is recorded in promised.toml: nothing of it goes unnoticed.

python tests/project/test_promises.py     writes the record, for a change that is announced
"""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("promised.toml")

#: Commands whose output has every key.  In `streams` the keys are rows of a table, not names.
COMMANDS = {
    "doctor": ["doctor"],
    "explain": ["explain", "Unsupported dtype in DLTensor"],
    "inspect": ["inspect", "numpy.arange(3.0)", "--to", "numpy"],
    "matrix": ["matrix", "--only", "numpy,ml_dtypes", "--no-cost"],
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dlshim", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def keys(value: Any, under: str = "") -> set[str]:
    """The keys of JSON, with those above them: "libraries.name"."""
    if isinstance(value, list):
        return set().union(*(keys(each, under) for each in value))
    if not isinstance(value, dict):
        return set()
    found = set()
    for key, each in value.items():
        if not re.fullmatch(r"[a-z_]+", key):
            return set()  # names of data, such as releases of libraries
        found |= {under + key} | keys(each, f"{under}{key}.")
    return found


def json_keys(name: str) -> set[str]:
    if name != "matrix":
        said = run(*COMMANDS[name], "--json").stdout
        return keys(json.loads(said)) | (objects() if name == "doctor" else set())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "matrix.json")
        run(*COMMANDS[name], "--json", str(file))
        return keys(json.loads(file.read_text(encoding="utf-8")))


def objects() -> set[str]:
    """The keys of an object that doctor knows: none may be installed here."""
    from dlshim.known.holders import HOLDERS

    return {f"objects.{name}" for name in ("version", *vars(HOLDERS[0]))}


#: They raise AttributeError, and say what has the attribute.
NO_ATTRIBUTES = {"Producer.dtype", "Producer.ndim", "Producer.shape"}


def names() -> dict[str, str]:
    """Public names, and the attributes of public classes, with their signatures."""
    import dlshim

    found = {}
    for name in dlshim.__all__:
        thing = getattr(dlshim, name)
        found[name] = signature(thing) if not isinstance(thing, type) else kind(thing)
        if isinstance(thing, type) and thing.__module__.startswith("dlshim"):
            inside = dict.fromkeys(getattr(thing, "__dataclass_fields__", ())) | dict(vars(thing))
            for attribute, value in inside.items():
                if f"{name}.{attribute}" in NO_ATTRIBUTES:
                    continue
                if not attribute.startswith("_") or attribute.startswith("__dlpack"):
                    found[f"{name}.{attribute}"] = signature(value)
    return found


def signature(thing: Any) -> str:
    try:
        return re.sub(r" at 0x\w+", "", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return ""


def kind(thing: type) -> str:
    """A class; of an error, what an ``except`` catches it by, too."""
    bases = ", ".join(base.__name__ for base in thing.__bases__)
    return f"class({bases})" if issubclass(thing, Exception) else "class"


def options() -> dict[str, list[str]]:
    """The options of each command, and of the kit under pytest."""
    from dlshim_testing.plugin import pytest_addoption

    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    found = {"kit": sorted(name for each in groups(parser) for name in each.names())}
    for name in (*COMMANDS, "streams"):
        done = run(name, "--help")
        found[name] = sorted(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", done.stdout, re.M))
    return found


def groups(parser: pytest.Parser) -> list[Any]:
    return [option for group in parser._groups for option in group.options]


def rules() -> dict[str, list[str]]:
    """The names of the kit's rules."""
    from dlshim_testing.rules import RULES

    sides = ("producer", "consumer")
    return {side: sorted(rule.name for rule in RULES if rule.side == side) for side in sides}


def header() -> dict[str, list[str]]:
    """The members of the structs of dlshim.h, in their order."""
    text = (ROOT / "shim" / "include" / "dlshim.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+[a-z]);", text, re.S):
        found[name] = [" ".join(each.split()) for each in body.split(";") if each.strip()]
    return found


def facts() -> dict[str, Any]:
    return {
        "names": names(),
        "header": header(),
        "options": options(),
        "rules": rules(),
        "json": {name: sorted(json_keys(name)) for name in COMMANDS},
    }


def recorded() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(RECORD.read_text(encoding="utf-8"))


pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11) or sys.version_info >= (3, 12),
    reason="the record is compared on CPython 3.11: newer ones print signatures otherwise",
)
ANNOUNCE = "docs/promises.rst says what a change needs; then python tests/project/test_promises.py"


@pytest.mark.parametrize("part", ["names", "header", "options", "rules", "json"])
def test_what_is_public_is_what_is_recorded(part: str) -> None:
    now = facts()[part]
    was = recorded()[part]
    differ = sorted(key for key in {*now, *was} if now.get(key) != was.get(key))
    assert not differ, ANNOUNCE


def test_the_record_has_all_that_the_page_names() -> None:
    page = (ROOT / "docs" / "promises.rst").read_text(encoding="utf-8")
    assert "<../tests/project/promised.toml>" in page
    record = recorded()
    told = re.findall(
        r"^   \* - (?:functions|classes|errors|the value).*\n(?:       .+\n)*", page, re.M
    )
    named = re.findall(r"``(\w+)``", "".join(told))
    assert sorted(named) == sorted(name for name in record["names"] if "." not in name)
    assert {"dlshim_table", "dlshim_request"} <= record["header"].keys()
    assert all(record["json"][name] for name in COMMANDS)


def test_the_reference_has_every_option_of_a_command() -> None:
    """In the line that begins with the command, of "Command line"."""
    text = (ROOT / "docs" / "reference.rst").read_text(encoding="utf-8")
    usage = dict(re.findall(r"^``python -m dlshim (\w+) (.*)``$", text, re.M))
    recorded_options = {**recorded()["options"]}
    del recorded_options["kit"]
    assert usage.keys() == recorded_options.keys()
    for command, names in recorded_options.items():
        assert {*re.findall(r"--[a-z-]+", usage[command])} == {*names} - {"--help"}, command


def test_the_page_says_until_when_each_claimed_python_is_served() -> None:
    """Five years from the October of its first release: 3.10 came in 2021, and one each year."""
    page = (ROOT / "docs" / "promises.rst").read_text(encoding="utf-8")
    table = dict(re.findall(r"^   \* - (3\.\d+)\n     - (.+)$", page, re.M))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [*table] == re.findall(r":: Python :: (3\.\d+)\"", project)
    assert f'requires-python = ">={next(iter(table))}"' in project
    for version, served in table.items():
        until = 2016 + int(version.partition(".")[2])
        assert re.match(
            rf"until October {until}(, and beyond that by every release 0\.1|$)", served
        )


#: A use of each command that ends with each status, where that depends on nothing installed.
STATUSES = {
    "inspect": [["numpy.arange(3.0)", "--to", "numpy"], ["3.0"], []],
    "explain": [["Unsupported dtype in DLTensor"], ["a message of nobody"], []],
    "doctor": [None, None, ["--nothing"]],
    "matrix": [["--only", "numpy,ml_dtypes", "--no-cost"], None, ["--only", "nothing"]],
    "streams": [["host"], None, ["nothing"]],
}


def test_each_command_ends_with_the_statuses_of_the_page() -> None:
    page = (ROOT / "docs" / "promises.rst").read_text(encoding="utf-8")
    (table,) = re.findall(r"   \* - command\n(.*?)\n\n", page, re.S)
    assert re.findall(r"^   \* - ``(\w+)``", table, re.M) == [*STATUSES]
    ended = {
        name: [None if use is None else run(name, *use).returncode for use in uses]
        for name, uses in STATUSES.items()
    }
    assert ended == {
        name: [None if use is None else status for status, use in enumerate(uses)]
        for name, uses in STATUSES.items()
    }


@pytest.mark.parametrize("page", ["docs/promises.rst", "SECURITY.md"])
def test_the_readme_leads_to_what_is_promised(page: str) -> None:
    assert f"]({page})" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert page in (ROOT / "docs" / "pypi.md").read_text(encoding="utf-8")


def toml(record: dict[str, Any]) -> str:
    lines = ["# What docs/promises.rst calls public.  test_promises.py writes and compares it."]
    for part, rows in record.items():
        lines += ["", f"[{part}]"]
        for key, value in rows.items():
            if isinstance(value, list):
                inside = "".join(f"    {json.dumps(each)},\n" for each in value)
                lines.append(f"{json.dumps(key)} = [\n{inside}]")
            else:
                lines.append(f"{json.dumps(key)} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "kit"))
    RECORD.write_text(toml(facts()), encoding="utf-8")
