"""The process that tries: it starts the child of trials, gives it jobs, and survives its death."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any

from ..locks import changing

Answer = dict[str, Any]

#: A call that says nothing for so long is ended, and counts as hanging; an import may take longer.
SILENCE_SECONDS = 60.0
IMPORT_SECONDS = 600.0
#: A process that has closed its output, or has no more input, gets so long to end by itself.
_GRACE_SECONDS = 10.0

#: Steps that are no call of the function.
_OTHER_STEPS = ("import", "make")

#: The line of what a dying process has written that says why; stacks follow it.
_TELLING = re.compile(r"^.*(?:what\(\):|\w*Error\b|error:|Check failed|FATAL|[Ff]atal).*$", re.M)

_CODE = (
    "import json, sys; told = json.loads(sys.argv[1]); sys.path[:] = told['path']; "
    "from dlshim.trial.child import main; main(told)"
)


class Child:
    """A child process that answers jobs; after its death the next job starts another one."""

    def __init__(
        self, *, modules: tuple[str, ...] = (), x64: bool = False, first: str = ""
    ) -> None:
        path = [os.path.abspath(each) for each in sys.path]
        self.setup = {"path": path, "modules": modules, "x64": x64, "first": first}
        self.process: subprocess.Popen[bytes] | None = None
        self.errors: Any = None
        self.said: queue.SimpleQueue[bytes]
        #: Held by a thread while it has the child's jobs and answers for itself.
        self.busy = threading.Lock()
        #: How many were started.
        self.started = 0

    def ask(self, **job: Any) -> Answer:
        """Return the answer to a job.

        Where there is none, it has "died" or "hangs", with the step, and what was said before.
        """
        try:
            unfit = self._start() if self.process is None else None
            if unfit is not None:
                return unfit
            assert self.process is not None and self.process.stdin is not None
            with contextlib.suppress(OSError):  # its end is told below
                self.process.stdin.write(json.dumps(job).encode() + b"\n")
            return self._listen()
        except BaseException:  # such as an interrupt: its answer would be taken for a later one
            if self.process is not None:
                self.process.kill()
            self.close()
            raise

    def close(self) -> None:
        """End the child by the end of its input."""
        if self.process is None:
            return
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self._end()

    def forget(self) -> None:
        """Leave the child to the process that started it; a fork calls this in its own child."""
        process, self.process = self.process, None
        for stream in (process.stdin, process.stdout) if process is not None else ():
            if stream is not None:
                with contextlib.suppress(OSError):
                    os.close(stream.fileno())
        if process is not None:
            process.returncode = 0  # nobody here may wait for it
            self.errors.close()

    def _start(self) -> Answer | None:
        """Start a process; return what it says if it cannot begin."""
        flags = [f"-W{each}" for each in sys.warnoptions]
        with changing:  # a process forked meanwhile would wait for the lock of tempfile without end
            self.errors = tempfile.TemporaryFile("w+b")  # noqa: SIM115  # closed with the child
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", _CODE, json.dumps(self.setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
        )
        self.started += 1
        self.said = queue.SimpleQueue()
        assert self.process.stdout is not None
        its = os.fdopen(os.dup(self.process.stdout.fileno()), "rb")
        threading.Thread(target=_hear, args=(its, self.said), daemon=True).start()
        answer = self._listen()
        return answer or None

    def _listen(self) -> Answer:
        step = "import"
        partly: Answer = {}
        while True:
            limit = IMPORT_SECONDS if step in _OTHER_STEPS else SILENCE_SECONDS
            try:
                line = self.said.get(timeout=limit)
            except queue.Empty:
                self._end(kill=True)
                return {**partly, "hangs": f"nothing for {limit:.0f} s", "step": step}
            if not line:
                return {**partly, "died": self._end(), "step": step}
            told = json.loads(line)
            if "answer" in told:
                return told["answer"]  # type: ignore[no-any-return]
            step = told.get("begin", step)
            partly = told.get("partly", partly)

    def _end(self, *, kill: bool = False) -> str:
        """Return how the process ended; it is on its way to that, or is killed."""
        process, self.process = self.process, None
        assert process is not None and process.stdin is not None and process.stdout is not None
        if kill:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()
        code = process.wait()
        self.errors.seek(0)
        errors = self.errors.read().decode(errors="replace")
        self.errors.close()
        said = _TELLING.search(errors)
        return f"{_name_of(code)}: {said[0].strip()}" if said else _name_of(code)


def _hear(its: Any, said: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(OSError), its:
        for line in its:
            said.put(line)
    said.put(b"")


def _name_of(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
