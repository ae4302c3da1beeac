"""Debian in a folder: made by mmdebstrap, entered with mounts of its own.

tools/newer_python.py, tools/fresh.py and tools/foreign.py use it. Needs Linux, root and Debian's
mmdebstrap. It writes below the folder that it is given and nowhere else.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Runs in a mount namespace of its own, so that the mounts end with the command. The arguments are
#: the folder, an entry of binfmt_misc or nothing, pairs of paths (what is bound, and where), "--",
#: and what `env -i` is passed.
ENTER = """
set -e
root=$1 programs=$2; shift 2
if [ -n "$programs" ]; then
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf %s "$programs" > /proc/sys/fs/binfmt_misc/register
fi
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
exec env -i "$@"
"""


def archive() -> str:
    """The address of Debian's archive in this machine's own sources."""
    for file in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        if file.exists() and (found := re.search(r"https?://\S+/debian/?(?=\s)", file.read_text())):
            return found[0]
    sys.exit("this machine's apt sources do not name Debian's archive")


def make(
    root: Path, suite: str, variant: str, packages: Sequence[str], architecture: str = ""
) -> None:
    """A new folder with `packages` of Debian's `suite`; `variant` says what comes with them, and
    `architecture` names another processor than this machine's."""
    root.parent.mkdir(parents=True, exist_ok=True)
    unfinished = root.with_name(f"{root.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    line = ["mmdebstrap", "--quiet", f"--variant={variant}", f"--include={','.join(packages)}"]
    line += [f"--architectures={architecture}"] if architecture else []
    # A mirror's copy of the unstable suite may be older than its signature allows.
    line += ['--aptopt=Acquire::Check-Valid-Until "false"']
    line += [suite, str(unfinished), f"deb {archive()} {suite} main"]
    subprocess.run(line, check=True)
    unfinished.rename(root)


def place_for(source: Path, place: Path) -> None:
    """Something that `source` can be bound to."""
    if place.is_symlink():
        place.unlink()  # it may lead out of the folder
    if source.is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def entering(
    root: Path,
    command: Sequence[str],
    variables: Mapping[str, str],
    bound: Mapping[str, Path],
    programs: str = "",
) -> list[str]:
    """The line that runs `command` in the folder with these variables and no others.

    `bound` says what of this machine is seen there, by the path that it has there; `programs` is
    an entry of binfmt_misc, which holds in a user namespace made for the command.
    """
    for folder in ("dev", "proc", "tmp"):
        (root / folder).mkdir(exist_ok=True)
    pairs = []
    for inside, source in bound.items():
        place = root / inside.lstrip("/")
        place_for(source, place)
        pairs += [str(source), str(place)]
    chroot = shutil.which("chroot") or "/usr/sbin/chroot"
    spaces = ["--map-root-user", "--mount"] if programs else ["--mount"]
    line = ["unshare", *spaces, "sh", "-c", ENTER, "sh", str(root), programs, *pairs, "--"]
    words = [f"{name}={value}" for name, value in variables.items()]
    return [*line, *words, chroot, str(root), *command]
