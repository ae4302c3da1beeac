"""Reads environments.toml, and checks that an installed environment is what it says.

    python tests/interop/environments.py NAME

exits with 1 when the running interpreter is not environment NAME: another Python, a package that is
missing or has another version than the pinned one, a required library that does not import. A
session that ran without what it was made for must fail, not skip.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("environments.toml")


@dataclass(frozen=True)
class Environment:
    name: str
    why: str
    python: str
    pip: tuple[str, ...]
    required: tuple[str, ...]
    no_deps: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    tests: str = "tests/interop"
    also: tuple[str, ...] = ()
    ci: bool = False
    manual: tuple[str, ...] = ()
    manual_pip: tuple[str, ...] = ()

    @property
    def in_ci(self) -> bool:
        return self.ci or self.name.startswith("ci-")

    @property
    def session(self) -> str:
        plain = self.name.startswith("ci-") or self.tests != "tests/interop"
        return self.name if plain else f"interop-{self.name}"

    @property
    def targets(self) -> tuple[str, ...]:
        """What pytest is given there: replays run wherever the matrix does."""
        replays = ("tests/replays",) if self.tests == "tests/interop" else ()
        return (self.tests, *replays, *self.also)

    @property
    def replays(self) -> bool:
        return "tests/replays" in self.targets

    @property
    def pins(self) -> dict[str, str]:
        """Distribution name -> version, for each requirement that says `==`."""
        split = (re.split(r"(?:\[[^]]*\])?==", r) for r in self.no_deps + self.pip)
        return {parts[0]: parts[1] for parts in split if len(parts) == 2}


def load() -> dict[str, Environment]:
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {
        name: Environment(
            name, **{k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}
        )
        for name, table in tables.items()
    }


def faults(env: Environment) -> list[str]:
    """What is wrong with the running interpreter as environment `env`; prints what is right."""
    found = []
    here = "{}.{}".format(*sys.version_info)
    if here != env.python:
        found.append(f"Python {here} runs, {env.python} is wanted")
    for name, pin in env.pins.items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            found.append(f"{name}=={pin} is not installed")
            continue
        print(f"{name} {version}")
        if version.split("+")[0] != pin:
            found.append(f"{name} is {version}, {pin} is wanted")
    for module in env.required:
        # Each in a process of its own: some of them cannot live in one process in any order.
        child = subprocess.run(
            [sys.executable, "-c", f"import {module}"], capture_output=True, text=True
        )
        if child.returncode:
            last = (child.stderr.strip().splitlines() or ["no output"])[-1]
            found.append(f"import {module} ended with {child.returncode}: {last}")
    return found


def main(name: str) -> int:
    env = load()[name]
    found = faults(env)
    for fault in found:
        print(f"environment {name}: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
