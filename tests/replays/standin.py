"""Partners of the real libraries that a replay is about: objects that give what they are told to.

Their capsules have no destructor.  Those of ``doubles`` have one in Python, which eats the error of
a consumer that refuses (numpy/numpy#32697); that would change what other replays show.
"""

from __future__ import annotations

from typing import Any

from doubles import capsules as caps

CPU = caps.CPU


class Gives:
    """`__dlpack__` with every keyword, which all change nothing: always the same description."""

    def __init__(self, *shape_and_dtype: Any, **fields: Any) -> None:
        self.fields = fields
        self.arguments = shape_and_dtype
        self.made: list[caps.Made] = []

    def __dlpack__(self, **keywords: Any) -> Any:
        made = caps.Made(*self.arguments, **self.fields)
        self.made.append(made)
        return made.capsule(destructor=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.fields.get("device", CPU)


class GivesBare(Gives):
    """`__dlpack__` without any keyword, as before the array API standard of 2021."""

    def __dlpack__(self) -> Any:
        return super().__dlpack__()


def shown(x: Any, **keywords: Any) -> caps.View:
    """What the capsule says that `x` gives; the capsule is dropped unused."""
    return caps.look(x.__dlpack__(**keywords))
