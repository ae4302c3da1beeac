"""T10: forks inside an exchange, and the end of the process while exchanges go on."""

from __future__ import annotations

import os
import signal

import pytest

from doubles import child

pytestmark = pytest.mark.once
FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

# --- forks: tests/programs/forks.py -------------------------------------------------------


@FORK
@pytest.mark.parametrize(
    "case",
    [
        "in_the_producer",
        "in_the_producer_and_the_child_exits",
        "while_other_threads_are_inside_of_an_exchange",
        "while_other_threads_exchange_without_a_pause",
        "while_a_thread_is_inside_of_the_method_of_a_decorated_class",
        "while_other_threads_meet_new_types",
        "while_other_threads_switch_tracking_on_and_off",
        "with_live_exports_which_the_child_reads_and_drops",
    ],
)
def test_T10_a_fork(case):
    options = ("-W", "ignore:This process:DeprecationWarning")  # 3.12: fork beside threads
    assert child.program("forks", case, options=options, silent=True).split() == ["end"]


@FORK
def test_T10_a_fork_while_a_trial_makes_its_temporary_file():
    """Python's tempfile has a lock that a fork in another thread leaves taken."""
    child.program("forks", "while_a_trial_makes_its_temporary_file")


@FORK
def test_T10_a_fork_waits_for_the_lock_no_longer_than_a_while():
    """Its holder may wait for a lock that the forking thread has, and then both waited for ever."""
    child.program("forks", "waits_for_the_lock_no_longer_than_a_while")


@FORK
def test_T10_a_fork_by_the_thread_that_holds_the_lock():
    """An import hook may fork: both processes go on, and give the lock back."""
    child.program("forks", "by_the_thread_that_holds_the_lock")


@FORK
def test_T10_a_fork_while_a_metaclass_sets_what_the_decorator_made():
    """No code of the metaclass runs under the lock."""
    child.program("forks", "while_a_metaclass_sets_what_the_decorator_made")


@FORK
def test_T10_a_fork_holds_every_lock_of_the_python_code():
    """Else another thread could hold one, which nobody gives back in the child."""
    child.program("forks_holding_locks")


@FORK
@pytest.mark.parametrize(
    "module",
    ["kernels", "decorator", "tracking", "report", "enums", "trial.asked", "cures"],
)
def test_T10_a_fork_while_a_first_use_imports_a_module(module):
    """CPython's lock of the module would never be given back in the child."""
    child.program("fork_while_importing", module)


def test_a_first_use_inside_of_an_import_does_not_wait_without_end():
    """Its thread holds CPython's lock of imports, for which the one that holds ours waits."""
    child.program("use_inside_import")


def test_no_module_takes_the_lock_while_it_is_imported():
    """It could wait for a thread that imports the same module by a first use."""
    child.program("imports_without_lock")


# --- the end: tests/programs/ends.py ------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "printed"),
    [
        ("daemon_threads_that_exchange", ""),
        ("daemon_threads_that_are_blocked_inside_of_a_producer", ""),
        ("a_thread_that_goes_on_while_the_main_one_has_ended", "thread"),
        ("handlers_of_atexit_that_exchange", "last"),
        ("generators_and_contexts_that_hold_producers", "closed"),
        ("everything_frozen", ""),
        (
            "sys_exit_inside_of_a_producer",
            "legacy versioned copy detach to_capsule from_dlpack device",
        ),
    ],
)
def test_T10_the_end(case, printed):
    assert child.program("ends", case, silent=True).split() == printed.split()


def test_T10_the_end_with_finalisers_that_exchange():
    """CPython does not promise that all of them run."""
    case = "finalisers_that_exchange_as_modules_are_emptied"
    out = child.program("ends", case, silent=True).split()
    assert set(out) == {"late"} and len(out) >= 2


@pytest.mark.parametrize("call", ["legacy", "versioned", "copy", "detach", "from_dlpack", "device"])
def test_T10_the_process_is_ended_inside_of_a_producer(call):
    """os._exit, and a signal that ends it at once."""
    child.program("ends", "os_exit", call, returncode=5, silent=True)
    child.program("ends", "killed", call, returncode=-signal.SIGKILL, silent=True)
