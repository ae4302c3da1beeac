"""Each number of each dtype in each other one: NumPy says which it is; none wraps."""

import ml_dtypes
import numpy as np
from converts import numbers_of

import dlshim

np.seterr(all="ignore")
NAMES = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
]  # fmt: skip
TYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in NAMES}
WHOLE = [0, 1, 2] + [
    s * (1 << n) + d
    for n in (7, 8, 15, 16, 31, 32, 53, 63, 64)
    for s in (1, -1)
    for d in (-1, 0, 1)
]
VALUES = [*WHOLE, 0.5, -0.0, 1.1, 65504.0, 1e5, 1e30, 1e300, float("inf"), float("nan")]


def of(values, name):
    x = np.array(values, dtype="float64" if name == "bfloat16" else name).astype(TYPES[name])
    plain = x if name != "bfloat16" else dlshim.upgrade(x.view("uint16"), reinterpret=name)
    return x, plain


def fits(value, x, to):
    """Whether each number of this dtype exists in the other, rounded as floats are."""
    if to == "bool":
        return value in (0, 1)
    if "int" in to:
        info = np.iinfo(to)
        return (
            value == value
            and abs(value) != float("inf")
            and value == int(value)
            and (info.min <= int(value) <= info.max)
        )
    now = x.astype(TYPES[to]).astype("complex128")[0]
    return not np.isinf(now) or abs(value) == float("inf")


count = 0
for given in NAMES:
    for number in VALUES:
        try:
            x, plain = of([number], given)
        except (OverflowError, ValueError):
            continue  # no value of this dtype
        for name in NAMES:
            value = complex(x[0]) if "complex" in given else x.tolist()[0]
            try:
                got = numbers_of(name, plain)
            except TypeError:
                assert "complex" in given and "complex" not in name, (given, name)
                continue
            except ValueError as error:
                assert not fits(value, x, name), (given, number, name)
                assert str(error).startswith("numbers_of(): x has the value "), error
                continue
            assert fits(value, x, name), (given, number, name, got)
            # through float32: NumPy rounds an integer twice on its way to 16 bits, too
            small = "float16" in name and given != name
            right = (x.astype("float32") if small else x).astype(TYPES[name])
            if name == "bfloat16":
                got = np.asarray(dlshim.from_dlpack(got, reinterpret="uint16")).view(TYPES[name])
            assert np.asarray(got).dtype == TYPES[name]
            same = np.array_equal(
                np.asarray(got).astype("complex128"), right.astype("complex128"), equal_nan=True
            )
            assert same, (given, number, name, got, right)
            count += 1
print(count > 1500)
