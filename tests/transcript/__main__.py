"""Record the transcript anew, compare it, or show scenarios: see the package's docstring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path[:1] = [str(Path(__file__).resolve().parent.parent)]
    __package__ = "transcript"
    import transcript  # noqa: F401

from . import running, store, witness


def main() -> int:
    parser = argparse.ArgumentParser(prog="transcript", description=__doc__)
    parser.add_argument("groups", nargs="*", help="groups, or commands of dlshim (default: all)")
    parser.add_argument("--write", action="store_true", help="record what is done now")
    parser.add_argument("--show", metavar="NAME", help="show scenarios whose name holds NAME")
    given = parser.parse_args()
    groups = given.groups or [*running.ALL, *witness.COMMANDS]
    bad = 0
    found, said = running.now([group for group in groups if group in running.ALL])
    print(said, end="", file=sys.stderr)
    found |= {group: witness.COMMANDS[group]() for group in groups if group in witness.COMMANDS}
    for group, now in found.items():
        kept = witness if group in witness.COMMANDS else store
        if given.show is not None:
            for name, body in now.items():
                if given.show in name:
                    print(f"{group}: {name}", *(f"    {line}" for line in body), sep="\n")
        elif given.write:
            kept.write(group, now)
        else:
            for line in store.differences(kept.read(group), now):
                bad = 1
                print(f"{group}: {line}")
    if bad:
        print("if this is wanted: python tests/transcript --write, with the names above")
    return bad


if __name__ == "__main__":
    sys.exit(main())
