"""Locks: they need no object, and are free in a forked child."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.tree import SRC, absent, compiler, without_comments


def code(path: Path) -> str:
    return without_comments(path.read_text())


def test_no_lock_is_python_s() -> None:
    """They hand over to threads that a forked child has not, and some want an object."""
    words = r"\bPy_?(?:CriticalSection|BEGIN_CRITICAL|Mutex|Thread_\w*lock)"
    found = {path.name for path in SRC.rglob("*.[ch]") if re.search(words, code(path))}
    assert found == set()


PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/threads.h"

/* No object: only an address. */
static struct {
    long long first;
    int count;
} things[40];

static void *
work(void *ignored)
{
    for (int i = 0; i < 400000; i++) {
        DLS_LOCK(&things[i % 40]);
        things[i % 40].count++;
        DLS_UNLOCK();
    }
    return ignored;
}

int
main(void)
{
    pthread_t threads[4];
    int status, wrong = 0;
    pthread_atfork(dls_lock_take_all, dls_lock_give_all, dls_lock_give_all);
    for (int i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work, NULL);
    }
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            work(NULL);
            _exit(0);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < 40; i++) {
        wrong += things[i].count != 40000;
    }
    {
        DLS_LOCK_STATE();
        DLS_UNLOCK();
    }
    printf("%d wrong\n", wrong);
    return 0;
}
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")
def test_a_lock_takes_any_address_and_is_free_after_a_fork(tmp_path: Path) -> None:
    """Compiled as for an interpreter without the GIL, and without Python."""
    (tmp_path / "locks.c").write_text(PROGRAM)
    line = [compiler(), "-std=c11", "-D_GNU_SOURCE", "-DDLS_FREE_THREADED=1", "-O2", "-Wall"]
    line += ["-Werror", f"-I{SRC}", str(tmp_path / "locks.c"), str(SRC / "core" / "lock.c")]
    made = subprocess.run(
        [*line, "-o", str(tmp_path / "locks"), "-pthread"], capture_output=True, text=True
    )
    if "pthread.h" in made.stderr:
        absent("no pthread.h")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([tmp_path / "locks"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "0 wrong\n")
