"""An exchange on device 0: what the checks of several files begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from doubles import capsules as caps


class Scene:
    """Device 0 is current; P and S are streams that do not wait for the default one."""

    def __init__(self, drv: Any) -> None:
        drv.reset()
        drv.make_current(0)
        self.drv = drv
        self.p = drv.stream_new(0, False, name="P")
        self.s = drv.stream_new(0, False, name="S")

    def array(self, make: Callable[..., Any], **fields: Any) -> Any:
        """With unfinished work on P; the log begins behind it."""
        array = make(self.drv, self.p, **fields)
        assert not array.write()
        self.drv.clear_log()
        return array

    def races(self, array: Any, capsule: Any, reader: int | None = None) -> bool:
        """Does a read on S race?  The capsule is given back."""
        racy = self.drv.read(self.s if reader is None else reader, array.address)
        caps.take(capsule).release()
        caps.close_accounts()
        return racy

    def ends(self) -> None:
        assert not self.drv.races(), self.drv.races()
        assert not self.drv.gil_held_calls(every=True)
        assert self.drv.now_current() == 0 or len(self.drv.context_stack()) <= 1
        caps.close_accounts()
