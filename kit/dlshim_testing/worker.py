"""The child process: ``python -m dlshim_testing.worker SIDE TARGET``, told checks on stdin."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from . import drivers
from .catalogue import TargetError, outcome
from .every import checks
from .partner import consumer_of, producer_of, said

#: Seconds after the limit of a check at which this process says where it hangs, and ends: whoever
#: waits for the answer has given up by then, or is not there any more.
AFTER = 0.5


def main(side: str, target: str) -> None:
    # Libraries print on stdout: answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    faulthandler.enable(all_threads=False)

    def answer(message: Any) -> None:
        answers.write(json.dumps(message).encode() + b"\n")

    options = {name: value for name, value in json.loads(sys.stdin.readline()).items() if value}
    limit = options.pop("timeout") + AFTER
    faulthandler.dump_traceback_later(options.pop("start") + AFTER, exit=True)
    try:
        if driver := options.pop("driver", None):
            drivers.start(*driver)  # before anything looks for libcuda
        every = checks(side)
        answer({"at": "import"})
        faulthandler.dump_traceback_later(limit, exit=True)
        partner_of: Callable[..., Any] = producer_of if side == "producer" else consumer_of
        partner = partner_of(target, **options)
        answer({"at": "claims"})
        faulthandler.dump_traceback_later(limit, exit=True)
        answer({"claims": partner.claims})
    except Exception as error:
        answer({"error": said(error)})
        return
    # A library's own objects need not be walked by the collections of every check.
    gc.collect()
    gc.freeze()
    faulthandler.cancel_dump_traceback_later()
    for line in sys.stdin:
        faulthandler.dump_traceback_later(limit, exit=True)
        try:
            answer(outcome(every[json.loads(line)], partner)._asdict())
        except TargetError as error:
            answer({"error": str(error)})
        faulthandler.cancel_dump_traceback_later()
    # What a library does when the interpreter ends is no business of the checks.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
