"""Record the transcript anew, compare it, or show scenarios: see the package's docstring."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path[:1] = [str(Path(__file__).resolve().parent.parent)]

from transcript import running, store, witness


def main() -> int:
    groups = [*running.ALL, *witness.COMMANDS]
    parser = argparse.ArgumentParser(prog="transcript", description=__doc__)
    parser.add_argument("groups", nargs="*", help="groups, or commands of dlshim (default: all)")
    parser.add_argument("--write", action="store_true", help="record what is done now")
    parser.add_argument("--show", metavar="NAME", help="show scenarios whose name holds NAME")
    given = parser.parse_args()
    if unknown := set(given.groups) - set(groups):
        parser.error(f"no group is called {', '.join(sorted(unknown))}")
    bad = 0
    for group, now in running.now(given.groups or groups).items():
        if given.show is not None:
            some = {name: body for name, body in now.items() if given.show in name}
            print(store.text_of(some), end="")
        elif given.write:
            store.write(group, now)
        else:
            for line in store.differences(store.read(group), now):
                bad = 1
                print(f"{group}: {line}")
    if bad:
        print("if this is wanted: python tests/transcript --write, with the names above")
    return bad


if __name__ == "__main__":
    sys.exit(main())
