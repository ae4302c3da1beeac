"""How a consumer asks: what it calls on an object that writes everything down.

python -m interop.spy CONSUMER ...    prints the calls of each as one line of JSON
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np

from . import versions


class Spy:
    """Answers as a modern producer does, from a NumPy array."""

    def __init__(self, array: np.ndarray) -> None:
        self._array, self.calls = array, []

    def __dlpack__(self, *args, **keywords):
        self.calls.append({"call": "__dlpack__", "positional": len(args), **keywords})
        wants = keywords.get("max_version")
        if wants and wants[0] >= 1 and versions.of("numpy") >= (2, 1):
            return self._array.__dlpack__(max_version=wants)
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        self.calls.append({"call": "__dlpack_device__"})
        return (1, 0)


def calls(consumer) -> list[dict]:
    spy = Spy(np.arange(7, dtype="float32"))
    try:
        consumer.take(spy)
    except Exception as error:  # the question is what was asked, not what became of it
        spy.calls.append({"call": "error", "error": str(error)})
    return spy.calls


def main(names: list[str]) -> None:
    from . import worker

    found = {}
    for name in names:
        consumer = worker.adapter(worker.CONSUMERS[name])
        said = {
            "asks": consumer.asks,
            "supports_negative": consumer.supports_negative,
            "copy": consumer.asks_copy,
        }
        said["capsule"] = consumer.capsule  # some say so only when they know the version
        found[name] = [said, calls(consumer)]
    print("\n" + json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
