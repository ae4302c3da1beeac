"""What rows about libraries say: their classes and words."""

from __future__ import annotations

from dataclasses import dataclass, field

Version = tuple[int, ...]


@dataclass(frozen=True)
class Library:
    key: str
    #: The module that is imported; submodules that it needs come with it.
    module: str
    distributions: tuple[str, ...]
    #: Its name in the manual; "": it has no section there.
    title: str = ""


@dataclass(frozen=True)
class Fault:
    """A known fault of a library, from `since` on and before `until`; (): it is not mended."""

    library: str
    what: str
    #: It "kills" the process, gives something "wrong", "leaks" or "refuses".
    harm: str
    since: Version
    until: Version = ()
    #: What becomes of it with dlshim.
    upgraded: str = field(kw_only=True)
    #: A public issue, a case of tests/replays/replays.toml, or habits.py.
    source: str = field(kw_only=True)


def unsaid_immutable(
    library: str, since: Version, until: Version = (), *, source: str = "M13"
) -> Fault:
    """Return the fault of arrays that never change, and that their library hands out as writable.

    dlshim marks them, and nobody is warned (T8), so doctor says who writes all the same.
    """
    return Fault(
        library,
        "calls immutable arrays writable",
        "wrong",
        since=since,
        until=until,
        upgraded='marked, but torch and Paddle write all the same; readonly="copy"',
        source=source,
    )
