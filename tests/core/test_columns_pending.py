"""A stream of Arrow leaves an exception behind: it is reported, and the values are given.  Its
functions are called without the GIL, unless all that they give is in memory.

The functions of the stream are in C, because what a callback of ctypes raises is printed by ctypes.
"""

from __future__ import annotations

import signal
import sys
import types
from typing import Any

import pytest

import dlshim
from doubles.extension import build
from doubles.producers import masquerade


@pytest.fixture(scope="module")
def pending(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build("pending", tmp_path_factory.mktemp("pending"), limited=False)


class Column:
    def __init__(self, pending: Any, guilty: str) -> None:
        self.make = lambda: pending.make(guilty)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.make()


@pytest.mark.parametrize("guilty", ["get_schema", "get_next", "release", "nobody"])
@pytest.mark.parametrize(
    "take", [dlshim.from_dlpack, lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0))]
)
def test_T9_an_exception_that_a_stream_leaves_is_reported(
    pending: Any, guilty: str, take: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: told.append(str(report.exc_value)))
    taken = take(Column(pending, guilty))
    assert (taken if isinstance(taken, dlshim.Tensor) else dlshim.from_dlpack(taken)).shape == (3,)
    assert {*told} == ({f"left by {guilty}"} if guilty != "nobody" else set())


def test_T9_an_exception_that_is_left_beside_an_error_is_reported(
    pending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("sys.unraisablehook", lambda report: told.append(str(report.exc_value)))
    with pytest.raises(BufferError, match="could not give the values: the file has ended"):
        dlshim.from_dlpack(Column(pending, "get_last_error"))
    assert told == ["left by get_last_error"]


#: A class that is known to have its chunks in memory, by the module and the name under which it
#: is found; a subclass; and classes that only have these names.
KNOWN = masquerade(Column, "ChunkedArray", "pyarrow.lib")
SERIES = masquerade(Column, "Series", "polars.series.series")
FOUND = {"pyarrow": ("ChunkedArray", KNOWN), "polars": ("Series", SERIES)}
CLASSES = {
    "pyarrow": (KNOWN, True),
    "polars": (SERIES, True),
    "a subclass": (masquerade(KNOWN, "Column", "mine"), False),
    "unknown": (masquerade(Column, "ChunkedArray", "pyarrows"), False),
    "another of the name": (masquerade(Column, "ChunkedArray", "pyarrow.lib"), False),
    "of a plug-in": (masquerade(SERIES, "Series", "polars.plugin"), False),
}


@pytest.mark.parametrize(("column", "in_memory"), CLASSES.values(), ids=CLASSES)
@pytest.mark.parametrize("guilty", ["nobody", "get_schema", "get_next", "release"])
def test_C11_the_gil_is_let_go_of_where_a_query_may_run(
    pending: Any, column: Any, in_memory: bool, guilty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.unraisablehook", lambda report: None)
    for module, (name, cls) in FOUND.items():
        monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(**{name: cls}))
    x = column(pending, guilty)
    for take in (
        dlshim.from_dlpack,  # met, then learned
        dlshim.from_dlpack,
        lambda x: dlshim.upgrade(x).__dlpack__(max_version=(1, 0)),
        lambda x: dlshim.upgrade(x, readonly="share").__dlpack__(max_version=(1, 0)),
    ):
        take(x)
        calls, with_gil = pending.called()
        assert calls == 4 and with_gil == (4 if in_memory else 0)


def test_a_query_that_the_user_interrupts_is_no_buffer_error(pending: Any) -> None:
    """Whoever catches a BufferError begins something else."""
    # A shell starts what runs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            dlshim.from_dlpack(Column(pending, "the user"))
    finally:
        signal.signal(signal.SIGINT, before)
