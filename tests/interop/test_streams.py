"""Values of `stream` that a real library refuses (rule N6).

There is no device here: ``assume_device`` has dlshim ask host memory as it asks a device's, and
nothing is synced.
"""

from __future__ import annotations

from typing import Any

import pytest

import dlshim

np = pytest.importorskip("numpy", reason="this environment has no NumPy")


def max_buffer() -> Any:
    driver = pytest.importorskip("max.driver", reason="MAX is not installed here")
    return driver.Buffer.from_numpy(np.arange(6, dtype=np.float32))


def ask(x: Any, stream: object) -> object:
    upgraded = dlshim.upgrade(x, assume_device="cuda:0", unknown_stream="same")
    return upgraded.__dlpack__(stream=stream, max_version=(1, 0))


class Passes:
    """Of a type that dlshim has no row for: what the real binding is passed."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer
        self.streams: list[object] = []

    def __dlpack__(self, *, stream: object = None, **keywords: object) -> object:
        self.streams.append(stream)
        return self.buffer.__dlpack__(stream=stream, **keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_the_buffers_of_max_refuse_minus_one() -> None:
    buffer = max_buffer()
    with pytest.raises(TypeError):
        buffer.__dlpack__(stream=-1)
    for stream in (-1, 12345, None, -1):
        assert "dltensor_versioned" in repr(ask(buffer, stream))


@pytest.mark.parametrize("order", [(-1, 12345), (12345, -1)])
def test_what_max_refuses_does_not_spoil_the_type(order: tuple[int, int]) -> None:
    x = type("Passes", (Passes,), {})(max_buffer())
    for stream in (*order, -1, 12345):
        x.streams.clear()
        ask(x, stream)
        assert x.streams[-1] == (None if stream == -1 else stream), (stream, x.streams)
    assert x.streams == [12345], "in one call, once it was met"
