"""Floats of 16 bits are read and written by C++ as NumPy does."""

import ml_dtypes
import numbers_
import numpy as np

import dlshim

word = np.arange(1 << 16, dtype="uint16")
step = np.linspace(0.9999, 1.0001, 1 << 16, dtype="float32")
for name, code in ("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16):
    for by in (1.0, 0.5, 3.0, 2.0**-14, 1.0 + 2.0**-12, -1 / 3):
        x = word.copy()
        dtype = dlshim.upgrade(x, reinterpret=name)
        with np.errstate(all="ignore"):
            same = x.view(code).astype("float64")
            times = (same.astype("float32") * np.float32(by)).astype(code)
        read = np.asarray(numbers_.halves(dtype, by))
        assert np.array_equal(read, same, equal_nan=True), (name, by)
        now = x.view(code)
        nan = np.isnan(times.astype("float32"))
        assert np.array_equal(np.isnan(now.astype("float32")), nan), (name, by)
        wrong = np.flatnonzero((now.view("uint16") != times.view("uint16")) & ~nan)
        assert not len(wrong), (name, by, word[wrong[:5]])
assert numbers_.halves(np.arange(3), 2.0).__class__ is dlshim.Tensor
other = dlshim.upgrade(np.arange(3, dtype="uint8"), reinterpret="float8_e5m2")
assert numbers_.halves(other, 1.0) is None
print("read and written")
