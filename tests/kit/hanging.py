"""Commands whose target hangs: each waits for its limit of time, and takes no processor's time."""

from __future__ import annotations

from pathlib import Path

HANGS = """
import ctypes, time
from dlshim_testing.doubles import capsules
from kit.wrong_producers import Right

class Hangs(Right):
    def __dlpack__(self, **asked):
        if asked.get("copy"):
            time.sleep(3600)
        return super().__dlpack__(**asked)

class AlwaysHangs(Right):
    def __dlpack__(self, **asked):
        ctypes.PyDLL(None).sleep(3600)  # it keeps the GIL
"""
KILLED = """
import os
from dlshim_testing.running import Elsewhere
chosen = Elsewhere('producer', 'mine:AlwaysHangs', '2025.12', timeout={limit})
chosen._send('methods')
print(chosen._child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
#: The start of Python and of the kit does not count: a busy machine must do no more in this time
#: than import mine.py, or one check that takes a thousandth of it.
LIMIT = "10"
ALWAYS = ("dlshim_testing", "--producer=mine:AlwaysHangs", f"--timeout={LIMIT}")
ALWAYS += ("--only=^(dtype|shape)",)
#: A test of test_targets.py -> the command whose end it looks at.
COMMANDS = {
    "test_a_check_that_hangs_fails_and_the_rest_is_run": (
        *("pytest", "-p", "dlshim_testing.plugin", "--dlpack-producer=mine:Hangs"),
        *(f"--dlpack-timeout={LIMIT}", "-k"),
        "copied-flag[whole] or copied-flag[cube] or copy-false[whole-bare]",
    ),
    "test_a_target_that_always_hangs_does_not_hold_the_run_up": (*ALWAYS, "--claims=2025.12"),
    "test_a_target_that_hangs_when_it_is_asked_what_it_claims_ends_the_run": ALWAYS,
    "test_a_child_ends_by_itself_where_nobody_waits_for_it": ("killed",),
}


def write_targets(folder: Path) -> None:
    (folder / "mine.py").write_text(HANGS)
    (folder / "killed.py").write_text(KILLED.format(limit=LIMIT))
