"""What `python -m dlshim explain` says of messages, on the libraries that raise them.

Each example of messages.toml whose libraries are installed is raised again and must be found in
the table, and every cure of its row that is meant for it is run as it is printed, and must give the
right values.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlshim.cli.explain import find
from dlshim.cli.messages import MESSAGES
from replays.running import missing

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
EXAMPLES: list[dict[str, Any]] = tomllib.loads((HERE / "messages.toml").read_text())["message"]
LIVE = [example for example in EXAMPLES if "make" in example]
ROWS = {row.key: row for row in MESSAGES}


def name(example: dict[str, Any]) -> str:
    return f"{example['row']}-{EXAMPLES.index(example)}"


def absent(example: dict[str, Any]) -> str | None:
    return next(filter(None, map(missing, example["needs"])), None)


def cures(example: dict[str, Any]) -> list[str]:
    """Those lines of the row's cure that are for this example."""
    lines = ROWS[example["row"]].cures
    return [lines[each] for each in positions(example, len(lines))]


def positions(example: dict[str, Any], count: int) -> list[int]:
    """Where the cures for this example are among `count`; a negative number counts back."""
    told = example.get("cures", count)
    if isinstance(told, list):
        return told
    every = list(range(count))
    return every[told:] if told < 0 else every[:told]


def child(examples: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    given = [example | {"cures": cures(example)} for example in examples]
    return subprocess.run(
        [sys.executable, str(HERE / "messages_child.py")],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """All that can be run here without killing the process, in as few children as can be."""
    here = [each for each in LIVE if not each.get("kills") and not absent(each)]
    alone = [each for each in here if {"first", "only"} & {*each}]
    groups = [[each for each in here if each not in alone], *([each] for each in alone)]
    answers = {}
    for group in groups:
        done = child(group)
        assert done.returncode == 0, done.stderr[-300:]
        told = [json.loads(line) for line in done.stdout.splitlines()]
        answers |= {name(each): answer for each, answer in zip(group, told, strict=True)}
    return answers


@pytest.mark.parametrize("example", LIVE, ids=name)
def test_the_message_appears_is_known_and_its_cures_work(example, results) -> None:
    if reason := absent(example):
        pytest.skip(reason)
    if example.get("kills"):
        done = child([example | {"cures": 0, "values": "x"}])
        assert done.returncode < 0, "the process was to be killed"
        told = {"raised": done.stderr, "cures": {}}
        cured = child([example | {"make": "1 / 0"}])
        assert cured.returncode == 0, cured.stderr[-2000:]
        told["cures"] = json.loads(cured.stdout)["cures"]
    else:
        told = results[name(example)]
    assert told["raised"], "nothing was raised"
    found = find(told["raised"])
    assert found and found[0].key == example["row"], told["raised"][:500]
    assert {cure: error for cure, error in told["cures"].items() if error} == {}
