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
    command = [sys.executable, "-m", "dlshim", *COMMANDS[name], "--json"]
    if name != "matrix":
        said = subprocess.run(command, capture_output=True, text=True).stdout
        return keys(json.loads(said)) | (objects() if name == "doctor" else set())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "matrix.json")
        subprocess.run([*command, str(file)], capture_output=True)
        return keys(json.loads(file.read_text(encoding="utf-8")))


def objects() -> set[str]:
    """The keys of an object that doctor knows: none may be installed here."""
    from dlshim.known.holders import HOLDERS

    return {f"objects.{name}" for name in ("version", *vars(HOLDERS[0]))}


def names() -> dict[str, str]:
    """Public names, and the attributes of public classes, with their signatures."""
    import dlshim

    found = {}
    for name in dlshim.__all__:
        thing = getattr(dlshim, name)
        found[name] = signature(thing) if not isinstance(thing, type) else "class"
        if isinstance(thing, type) and thing.__module__.startswith("dlshim"):
            inside = dict.fromkeys(getattr(thing, "__dataclass_fields__", ())) | dict(vars(thing))
            for attribute, value in inside.items():
                if not attribute.startswith("_") or attribute.startswith("__dlpack"):
                    found[f"{name}.{attribute}"] = signature(value)
    return found


def signature(thing: Any) -> str:
    try:
        return re.sub(r" at 0x\w+", "", str(inspect.signature(thing)))
    except (TypeError, ValueError):
        return ""


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


@pytest.mark.parametrize("part", ["names", "header", "json"])
def test_what_is_public_is_what_is_recorded(part: str) -> None:
    now = {"names": names, "header": header}.get(part, lambda: facts()["json"])()
    was = recorded()[part]
    differ = sorted(key for key in {*now, *was} if now.get(key) != was.get(key))
    assert not differ, ANNOUNCE


def test_the_record_has_all_that_the_page_names() -> None:
    page = (ROOT / "docs" / "promises.rst").read_text(encoding="utf-8")
    assert "tests/project/promised.toml" in page
    record = recorded()
    assert {"upgrade", "from_dlpack", "to_capsule", "Tensor"} <= record["names"].keys()
    assert {"dlshim_table", "dlshim_request"} <= record["header"].keys()
    assert all(record["json"][name] for name in COMMANDS)


def test_the_page_says_until_when_each_claimed_python_is_served() -> None:
    """Five years from the October of its first release: 3.10 came in 2021, and one each year."""
    page = (ROOT / "docs" / "promises.rst").read_text(encoding="utf-8")
    table = dict(re.findall(r"^   \* - (3\.\d+)\n     - (.+)$", page, re.M))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert [*table] == re.findall(r":: Python :: (3\.\d+)\"", project)
    assert f'requires-python = ">={next(iter(table))}"' in project
    for version, served in table.items():
        until = 2016 + int(version.partition(".")[2])
        assert served == f"until October {until}" or (until < 2027 and "its five years" in served)


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
    RECORD.write_text(toml(facts()), encoding="utf-8")
