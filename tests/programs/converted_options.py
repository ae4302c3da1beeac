"""The options of an array as types of C++: what is taken with them, and what is refused."""

import numpy as np
from converts import numbers_of

x = np.arange(24).reshape(2, 3, 4)
for y in (
    x,
    x.T,
    x[::-1, :, ::2],
    x[:0],
    x[1, 2, 3],
    np.broadcast_to(x[0, 0], (3, 4)),
    x.astype("f4")[:, ::-1],
    np.frombuffer(bytearray(17), "<i4", 4, 1),
):
    for name in ("own", "options"):
        made = numbers_of(name, y)
        assert np.array_equal(made, y), (name, y)
        assert made.dtype == "float32" and not made.readonly
odd = np.frombuffer(bytearray(range(17)), "<i4", 4, 1)
assert np.array_equal(numbers_of("float64", odd), odd)
assert numbers_of("lent", x[0])[0] == 12
assert numbers_of("aligned", np.arange(3))[1] % 256 == 0
pairs = np.ones((3, 2))
for name in ("pairs", "lent pairs"):
    assert numbers_of(name, pairs) == (6, pairs.ctypes.data)
    assert numbers_of(name, pairs[:0])[0] == 0
assert numbers_of("rows", pairs.T)[1] != pairs.ctypes.data
huge = np.broadcast_to(np.int8(1), (1 << 46,))
for name, y in (
    ("pairs", pairs.T),
    ("lent pairs", pairs.T),
    ("pairs", pairs[0]),
    ("never", x),
    ("written", x),
    ("uint32", np.array([1.5])),
    ("uint32", np.array([7, -1])),
    ("bool", np.array([2])),
    ("float32", np.array([1e300])),
    ("float64", np.array([1j])),
    ("float64", huge),
):
    try:
        print(numbers_of(name, y))
    except Exception as error:
        print(type(error).__name__, error)
