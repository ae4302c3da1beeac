"""What `dlshim.to` makes of everyday objects, in each library: docs/results/one_verb.csv.

    python tests/interop/one_verb.py [TARGET ...]    writes the table, of what is here
    python tests/interop/one_verb.py child TARGET    one column of it, as JSON

A column is made in a process of its own.  Each cell is looked at: values, dtype, whether the memory
is shared, whether it may be written, warnings, and the number of copies.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import importlib.util
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "results" / "one_verb.csv"
#: The same in a line for each row of the table of the manual.
ROWS = TABLE.with_name("one_verb_rows.csv")

#: The libraries, and the names of modules that the objects are made with, in an order in which they
#: can be imported.
TARGETS = (
    "numpy",
    "torch",
    "jax",
    "tensorflow",
    "mlx",
    "paddle",
    "warp",
    "tvm_ffi",
    "array_api_strict",
    "pyarrow",
    "polars",
    "pandas",
    "dlshim",
)
MODULES = {
    "np": "numpy",
    "ml_dtypes": "ml_dtypes",
    "paddle": "paddle",
    "torch": "torch",
    "jax": "jax",
    "jnp": "jax.numpy",
    "tf": "tensorflow",
    "mx": "mlx.core",
    "wp": "warp",
    "tvm_ffi": "tvm_ffi",
    "xp": "array_api_strict",
    "pa": "pyarrow",
    "pl": "polars",
    "pd": "pandas",
    "Image": "PIL.Image",
    "xr": "xarray",
    "da": "dask.array",
    "h5py": "h5py",
    "zarr": "zarr",
    "array": "array",
    "mmap": "mmap",
    "io": "io",
    "dlshim": "dlshim",
}
#: Targets whose arrays may be written, whatever READ_ONLY says.
WRITE = {"torch", "paddle", "warp", "tvm_ffi", "pandas"}
F = "np.arange(6, dtype='f4').reshape(2, 3)"

#: Targets that share memory which is aligned to 64 bytes: whether small memory is so is luck.
ALIGNED = {"jax", "tensorflow"}

#: The row of the table, what it is, how it is made, and its values; "": they are not looked at.
OBJECTS: tuple[tuple[str, str, str, str], ...] = (
    ("plain", "NumPy", F, F),
    ("plain", "NumPy, one axis", "np.arange(40, dtype='f4')", "np.arange(40, dtype='f4')"),
    ("plain", "NumPy uint8", "np.arange(9, dtype='u1')", "np.arange(9, dtype='u1')"),
    ("plain", "NumPy float16", "np.ones(4, 'f2')", "np.ones(4, 'f2')"),
    ("plain", "NumPy int32 of three axes", "np.ones((2, 3, 4), 'i4')", "np.ones((2, 3, 4), 'i4')"),
    ("plain", "torch", "torch.arange(6, dtype=torch.float32)", "np.arange(6, dtype='f4')"),
    ("plain", "torch, two axes", "torch.ones(2, 3)", "np.ones((2, 3), 'f4')"),
    ("plain", "array.array", "array.array('f', [1, 2, 3])", "np.array([1, 2, 3], 'f4')"),
    ("plain", "bytearray", "bytearray(b'abc')", "np.frombuffer(b'abc', 'u1')"),
    ("plain", "memoryview", "memoryview(bytearray(8)).cast('i')", "np.zeros(2, 'i4')"),
    ("plain", "dlshim.Tensor", f"dlshim.from_dlpack({F})", F),
    ("plain", "dlshim.Producer", f"dlshim.upgrade({F})", F),
    ("plain", "array-api-strict", "xp.ones((2, 3), dtype=xp.float32)", "np.ones((2, 3), 'f4')"),
    ("plain", "Warp", "wp.zeros(4, dtype=float)", "np.zeros(4, 'f4')"),
    ("plain", "tvm-ffi", f"tvm_ffi.from_dlpack({F})", F),
    ("plain", "Paddle", "paddle.ones([2, 3])", "np.ones((2, 3), 'f4')"),
    ("plain", "pyarrow.Tensor", f"pa.Tensor.from_numpy({F})", F),
    ("read-only", "NumPy, flag", f"fixed({F})", F),
    ("read-only", "NumPy, broadcast", f"np.broadcast_to({F}, (2, 2, 3))", f"np.stack([{F}] * 2)"),
    ("read-only", "bytes", "b'abcd'", "np.frombuffer(b'abcd', 'u1')"),
    ("read-only", "memoryview of bytes", "memoryview(b'abcd')", "np.frombuffer(b'abcd', 'u1')"),
    ("read-only", "mmap", "mapped()", "np.frombuffer(b'abcd' * 16, 'u1')"),
    ("read-only", "Pillow, RGB", "Image.new('RGB', (4, 3), (1, 2, 3))", "rgb()"),
    ("read-only", "Pillow, L", "Image.new('L', (4, 3), 7)", "np.full((3, 4), 7, 'u1')"),
    ("read-only", "Pillow, 1", "Image.new('1', (4, 3), 1)", "np.ones((3, 4), '?')"),
    ("read-only", "Pillow, I;16", "Image.new('I;16', (4, 3), 300)", "np.full((3, 4), 300, 'u2')"),
    (
        "read-only",
        "numpy.frombuffer",
        "np.frombuffer(b'abcd' * 2, 'f4')",
        "np.frombuffer(b'abcd' * 2, 'f4')",
    ),
    ("reversed", "NumPy, rows", f"{F}[::-1]", f"{F}[::-1]"),
    ("reversed", "NumPy, both", f"{F}[::-1, ::-1]", f"{F}[::-1, ::-1]"),
    ("reversed", "NumPy, rot90", f"np.rot90({F})", f"np.rot90({F})"),
    ("transposed", "NumPy", f"{F}.T", f"{F}.T"),
    ("transposed", "torch", "torch.arange(6.).reshape(2, 3).t()", f"{F}.T"),
    ("transposed", "NumPy, Fortran", f"np.asfortranarray({F})", F),
    ("gaps", "NumPy, columns", f"{F}[:, ::2]", f"{F}[:, ::2]"),
    (
        "gaps",
        "NumPy, crop",
        "np.arange(40, dtype='u1').reshape(5, 8)[1:3, 2:5]",
        "np.arange(40, dtype='u1').reshape(5, 8)[1:3, 2:5]",
    ),
    ("gaps", "torch, expanded", "torch.ones(3).expand(2, 3)", "np.ones((2, 3), 'f4')"),
    ("big-endian", "NumPy int32", "np.arange(3, dtype='>i4')", "np.arange(3, dtype='i4')"),
    (
        "big-endian",
        "NumPy, read-only, reversed",
        "fixed(np.arange(3, dtype='>f4')[::-1])",
        "np.arange(3, dtype='f4')[::-1]",
    ),
    ("odd strides", "field of a packed record", "packed()['b']", "np.array([1, 2, 3], 'f4')"),
    ("unaligned", "NumPy", "np.zeros(25, 'u1')[1:].view('f4')", "np.zeros(6, 'f4')"),
    ("float64, int64", "float64", "np.ones(3)", "np.ones(3)"),
    ("float64, int64", "int64", "np.arange(3)", "np.arange(3)"),
    ("float64, int64", "uint64", "np.arange(3, dtype='u8')", "np.arange(3, dtype='u8')"),
    ("float64, int64", "int64 that needs it", "np.array([2**40])", "np.array([2**40])"),
    ("float64, int64", "float64 that needs it", "np.array([1e300])", "np.array([1e300])"),
    (
        "float64, int64",
        "float64 with NaN",
        "np.array([np.nan, np.inf])",
        "np.array([np.nan, np.inf])",
    ),
    ("bfloat16", "ml_dtypes", "np.ones(3, ml_dtypes.bfloat16)", "np.ones(3, ml_dtypes.bfloat16)"),
    ("bfloat16", "torch", "torch.ones(3, dtype=torch.bfloat16)", "np.ones(3, ml_dtypes.bfloat16)"),
    ("bfloat16", "JAX", "jnp.ones(3, dtype='bfloat16')", "np.ones(3, ml_dtypes.bfloat16)"),
    (
        "fp8",
        "torch",
        "torch.ones(3).to(torch.float8_e4m3fn)",
        "np.ones(3, ml_dtypes.float8_e4m3fn)",
    ),
    ("fp8", "ml_dtypes", "np.ones(3, ml_dtypes.float8_e5m2)", "np.ones(3, ml_dtypes.float8_e5m2)"),
    ("complex", "complex64", "np.full(3, 1 + 2j, 'c8')", "np.full(3, 1 + 2j, 'c8')"),
    ("complex", "complex128", "np.full(3, 1 + 2j)", "np.full(3, 1 + 2j)"),
    ("bool", "NumPy", "np.array([True, False])", "np.array([True, False])"),
    ("bool", "NumPy, two axes", "np.eye(2, dtype='?')", "np.eye(2, dtype='?')"),
    ("bool", "torch", "torch.tensor([True, False])", "np.array([True, False])"),
    ("0-d", "NumPy array", "np.array(2, 'f4')", "np.array(2, 'f4')"),
    ("0-d", "NumPy scalar", "np.float32(2)", "np.array(2, 'f4')"),
    ("0-d", "torch", "torch.tensor(2.0)", "np.array(2, 'f4')"),
    ("no elements", "(0, 3)", "np.ones((0, 3), 'f4')", "np.ones((0, 3), 'f4')"),
    ("no elements", "(3, 0)", "np.ones((3, 0), 'f4')", "np.ones((3, 0), 'f4')"),
    ("no elements", "(0,)", "np.ones(0, 'f4')", "np.ones(0, 'f4')"),
    ("requires grad", "Parameter", "torch.nn.Parameter(torch.ones(3))", "np.ones(3, 'f4')"),
    ("requires grad", "torch", "torch.ones(3, requires_grad=True)", "np.ones(3, 'f4')"),
    ("conj, neg bit", "torch, conj", "torch.full((2,), 1 + 2j).conj()", "np.full(2, 1 - 2j, 'c8')"),
    ("conj, neg bit", "torch, neg", "torch.full((2,), 1 + 2j).conj().imag", "np.full(2, -2, 'f4')"),
    ("immutable", "JAX", "jnp.arange(40, dtype='float32')", "np.arange(40, dtype='f4')"),
    ("immutable", "JAX, two axes", "jnp.ones((2, 3))", "np.ones((2, 3), 'f4')"),
    ("immutable", "MLX", "mx.arange(6, dtype=mx.float32)", "np.arange(6, dtype='f4')"),
    ("immutable", "TensorFlow", "tf.ones((2, 3))", "np.ones((2, 3), 'f4')"),
    ("immutable", "tf.Variable", "tf.Variable(tf.ones(3))", "np.ones(3, 'f4')"),
    ("columns", "polars", "pl.Series([1.0, 2.0], dtype=pl.Float32)", "np.array([1, 2], 'f4')"),
    (
        "columns",
        "polars Array",
        "pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int32, 2))",
        "np.array([[1, 2], [3, 4]], 'i4')",
    ),
    ("columns", "pyarrow", "pa.array([1.0, 2.0], pa.float32())", "np.array([1, 2], 'f4')"),
    (
        "columns",
        "pyarrow fixed lists",
        "pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))",
        "np.array([[1, 2], [3, 4]], 'i4')",
    ),
    ("columns", "pandas", "pd.Series(np.arange(3, dtype='f4'))", "np.arange(3, dtype='f4')"),
    (
        "columns",
        "pandas, Arrow",
        "pd.Series([1, 2], dtype='int32[pyarrow]')",
        "np.array([1, 2], 'i4')",
    ),
    ("columns", "pandas Int32", "pd.Series([1, 2], dtype='Int32')", "np.array([1, 2], 'i4')"),
    ("columns", "pandas Index", "pd.Index([1, 2], dtype='int32')", "np.array([1, 2], 'i4')"),
    (
        "chunks",
        "polars",
        "pl.Series([1, 2], dtype=pl.Int32).append(pl.Series([3], dtype=pl.Int32))",
        "np.array([1, 2, 3], 'i4')",
    ),
    (
        "chunks",
        "pyarrow",
        "pa.chunked_array([[1, 2], [3]], pa.int32())",
        "np.array([1, 2, 3], 'i4')",
    ),
    ("bits", "polars", "pl.Series([True, False])", "np.array([True, False])"),
    ("bits", "pyarrow", "pa.array([True, False])", "np.array([True, False])"),
    ("bits", "pyarrow, chunks", "pa.chunked_array([[True], [False]])", "np.array([True, False])"),
    (
        "bits",
        "pandas boolean",
        "pd.Series([True, False], dtype='boolean')",
        "np.array([True, False])",
    ),
    (
        "bits",
        "pandas, Arrow",
        "pd.Series([True, False], dtype='bool[pyarrow]')",
        "np.array([True, False])",
    ),
    ("no numbers", "polars, missing", "pl.Series([1, None])", ""),
    ("no numbers", "pyarrow, missing", "pa.array([1, None])", ""),
    ("no numbers", "pandas Int64, missing", "pd.Series([1, None], dtype='Int64')", ""),
    ("no numbers", "polars, text", "pl.Series(['a', 'b'])", ""),
    ("no numbers", "pandas, text", "pd.Series(['a', 'b'])", ""),
    ("no numbers", "pyarrow, dates", "pa.array([0, 1], pa.date32())", ""),
    ("no numbers", "polars, lists", "pl.Series([[1], [2, 3]])", ""),
    ("no numbers", "pandas, categories", "pd.Series(['a', 'b'], dtype='category')", ""),
    (
        "tables",
        "pandas, one dtype",
        "pd.DataFrame(np.ones((3, 2), 'f4'), columns=['a', 'b'])",
        "np.ones((3, 2), 'f4')",
    ),
    (
        "tables",
        "polars, one dtype",
        "pl.DataFrame({'a': [1, 2], 'b': [3, 4]}, schema={'a': pl.Int32, 'b': pl.Int32})",
        "np.array([[1, 3], [2, 4]], 'i4')",
    ),
    (
        "tables",
        "pyarrow, one dtype",
        "pa.table({'a': pa.array([1, 2], pa.int32()), 'b': pa.array([3, 4], pa.int32())})",
        "np.array([[1, 3], [2, 4]], 'i4')",
    ),
    ("tables", "pandas, mixed", "pd.DataFrame({'a': [1], 'b': [1.5]})", ""),
    ("tables", "polars, missing", "pl.DataFrame({'a': [1, None]})", ""),
    ("NumPy's own", "dates", "np.array(['2026-01-01'], 'M8[D]')", ""),
    ("NumPy's own", "text", "np.array(['a', 'b'])", ""),
    ("lists", "numbers", "[1.0, 2.0]", "np.array([1, 2], 'f4')"),
    ("lists", "of lists", "[[1.0, 2.0], [3.0, 4.0]]", ""),
    ("lists", "range", "range(3)", "np.arange(3)"),
    ("lists", "a number", "1.5", ""),
    ("lists", "None among them", "[1.0, None]", ""),
    ("lists", "ragged", "[[1.0], [2.0, 3.0]]", ""),
    ("lists", "of arrays", f"[{F}[0], {F}[1]]", F),
    (
        "lists",
        "of tensors",
        "[torch.ones(3), torch.zeros(3)]",
        "np.stack([np.ones(3, 'f4'), np.zeros(3, 'f4')])",
    ),
    ("lists", "of arrays, of two shapes", "[np.ones(2), np.ones(3)]", ""),
    ("holders", "xarray", f"xr.DataArray({F})", F),
    ("holders", "h5py", "in_hdf5()", F),
    ("holders", "zarr", "in_zarr()", F),
    ("holders", "dask", "da.ones(3, chunks=2)", ""),
    ("masks", "no element masked", "np.ma.array([1, 2], 'i4')", "np.array([1, 2], 'i4')"),
    ("masks", "one masked", "np.ma.array([1, 2], 'i4', mask=[0, 1])", ""),
    ("no arrays", "records", "np.zeros(2, 'i4,f4')", ""),
    ("no arrays", "objects", "np.array([None, {}])", ""),
    ("no arrays", "longdouble", "np.ones(2, 'longdouble')", ""),
    ("no arrays", "torch, sparse", "torch.eye(2).to_sparse()", ""),
    ("no arrays", "torch, meta", "torch.ones(2, device='meta')", ""),
    (
        "no arrays",
        "torch, quantized",
        "torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8)",
        "",
    ),
    ("no arrays", "JAX, PRNG key", "jax.random.key(0)", ""),
    ("no arrays", "None", "None", ""),
    ("no arrays", "dict", "{'a': 1}", ""),
    ("no arrays", "text", "'abc'", ""),
)


# ---- the child -----------------------------------------------------------------------------------


def names() -> dict[str, Any]:
    """What the objects are made with; a module that is not here is left out."""
    found: dict[str, Any] = {}
    for name, module in MODULES.items():
        with contextlib.suppress(ImportError):
            found[name] = importlib.import_module(module)
    np = found["np"]

    def fixed(x: Any) -> Any:
        x.flags.writeable = False
        return x

    def mapped() -> Any:
        room = found["mmap"].mmap(-1, 64)
        room[:] = b"abcd" * 16
        return fixed(np.frombuffer(room, "u1"))

    def rgb() -> Any:
        return np.broadcast_to(np.array([1, 2, 3], "u1"), (3, 4, 3))

    def packed() -> Any:
        made = np.zeros(3, [("a", "u1"), ("b", "f4")])
        made["b"] = 1, 2, 3
        return made

    def in_hdf5() -> Any:
        file = found["h5py"].File(found["io"].BytesIO(), "w")
        return file.create_dataset("x", data=np.arange(6, dtype="f4").reshape(2, 3))

    def in_zarr() -> Any:
        return found["zarr"].array(np.arange(6, dtype="f4").reshape(2, 3))

    return found | {each.__name__: each for each in (fixed, mapped, rgb, packed, in_hdf5, in_zarr)}


def seen(made: Any, target: str, np: Any) -> Any:
    """The values of an array of the library, by the library's own means."""
    if target in ("pyarrow", "polars"):
        flat = made.to_pylist() if target == "pyarrow" else made.to_list()
        return np.array(flat)
    if target == "torch":
        made = made.detach()
        return (
            made.float() if made.dtype.itemsize < 3 and made.is_floating_point() else made
        ).numpy()
    if target == "mlx":
        wide = str(made.dtype) == "mlx.core.bfloat16"
        return np.array(made.astype(sys.modules["mlx.core"].float32) if wide else made)
    if target in ("tensorflow", "warp"):
        return made.numpy()
    if target == "pandas":
        return made.to_numpy()
    if target == "paddle":
        return (
            made.astype("float32")
            if "float8" in str(made.dtype) or "bfloat16" in str(made.dtype)
            else made
        ).numpy()
    import dlshim

    if target == "array_api_strict":
        return np.asarray(made._array)
    return np.asarray(dlshim.from_dlpack(made))


#: Exports that were looked at: some objects give new memory for each, at an address that may
#: otherwise be used again.
KEPT: list[Any] = []


def address(x: Any) -> int | None:
    import dlshim

    try:
        KEPT.append(dlshim.from_dlpack(x, detach=hasattr(x, "detach"), order="K"))
        return KEPT[-1].data_ptr()
    except (BufferError, TypeError):
        return None


def is_fixed(x: Any) -> bool:
    import dlshim

    try:
        return dlshim.from_dlpack(x, order="K").readonly or "mlx" in type(x).__module__
    except (BufferError, TypeError):
        return False


def wrong(made: Any, x: Any, target: str, want: Any, np: Any, narrowed: bool) -> str:
    """What is not as it is promised; "": all is."""
    import dlshim

    got = seen(made, target, np)
    if tuple(got.shape) != tuple(want.shape) and want.size:
        return f"shape {got.shape}"
    same = np.array_equal(
        got.astype("c16"), want.astype("c8" if narrowed else "c16"), equal_nan=True
    )
    if want.size and not same:
        return f"values {got!r}"
    with contextlib.suppress(BufferError, TypeError):
        dtype = str(dlshim.from_dlpack(made, order="K", detach=hasattr(made, "detach")).dtype)
        if dtype != str(want.dtype) and not narrowed and type(x) not in (list, range, float):
            return f"dtype {dtype}"
    return ""


def cell(make: str, values: str, target: str, around: dict[str, Any]) -> str:
    """What becomes of an object, in words."""
    import dlshim

    np = around["np"]
    x = eval(make, around)
    held = x.to_numpy() if type(x).__name__ == "DataFrame" and "pandas" in type(x).__module__ else x
    held = x.data if type(x).__name__ == "DataArray" else held
    where, fixed = address(held), is_fixed(held)
    before = dlshim.stats()["copied"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            made = dlshim.to(x, target)
        except (BufferError, ValueError, TypeError) as error:
            lines = map(str.strip, str(error).splitlines())
            return f"refused: {type(error).__name__}: {'; '.join(lines)}"
    copied = dlshim.stats()["copied"] - before
    others = [
        w for w in told if w.category is not dlshim.NarrowedWarning and w.filename == __file__
    ]
    if others:
        return f"WRONG: warning {others[0].message}"
    narrowed = any(w.category is dlshim.NarrowedWarning for w in told)
    if made is x:
        return "itself"
    if values:
        fault = wrong(made, x, target, eval(values, around), np, narrowed)
        if fault:
            return f"WRONG: {fault}"
    if values and eval(values, around).size == 0:
        return "no elements"
    shared = where is not None and where == address(made)
    some = getattr(made, "size", 1) != 0
    if shared and fixed and target in WRITE and some:
        return "WRONG: memory that must not change is shared with who writes"
    if shared and target == "jax" and not fixed and some:
        return "WRONG: memory that may be written is shared with JAX"
    if copied > 1 and not isinstance(x, list):
        return f"WRONG: {copied} copies"
    return ("shared" if shared else "copied") + (", NarrowedWarning" if narrowed else "")


def child(target: str) -> None:
    around = names()
    for _, what, make, values in OBJECTS:
        try:
            eval(make, around)
        except (NameError, KeyError, ImportError):
            print(json.dumps([what, "not here"]), flush=True)
            continue
        print(json.dumps([what, cell(make, values, target, around)]), flush=True)
    KEPT.clear()  # Warp 1.4 ends the process where an export of its own outlives it


# ---- the table -----------------------------------------------------------------------------------


def column(target: str) -> list[str]:
    """The cells of a target, each made in one process; "not here": nothing makes the object."""
    command = [sys.executable, str(Path(__file__)), "child", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    found = [json.loads(line)[1] for line in done.stdout.splitlines() if line.startswith("[")]
    if done.returncode or len(found) != len(OBJECTS):
        last = OBJECTS[min(len(found), len(OBJECTS) - 1)][1]
        raise RuntimeError(f"{target} ended at {last!r}: {done.stderr[-2000:]}")
    return found


def here() -> list[str]:
    """The targets that are installed."""
    return [name for name in TARGETS if importlib.util.find_spec(name) is not None]


def table(targets: list[str]) -> list[dict[str, str]]:
    columns = {target: column(target) for target in targets}
    return [
        {"row": row, "object": what, **{target: columns[target][i] for target in targets}}
        for i, (row, what, _, _) in enumerate(OBJECTS)
    ]


def recorded() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write() -> None:
    """Write the table; columns and cells of what is not here stay as they were."""
    old = {row["object"] + row["row"]: row for row in recorded()} if TABLE.exists() else {}
    with_new = table(sys.argv[1:] or here())
    for row in with_new:
        before = old.get(row["object"] + row["row"], {})
        for target in TARGETS:
            if row.get(target, "not here") == "not here":
                row[target] = before.get(target, "not here")
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["row", "object", *TARGETS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(with_new)
    write_short()


def short(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """What becomes of each row's objects: the different words, in their order."""
    signs = {"shared": "=", "copied": "c", "itself": "x", "no elements": "=", "refused": "!"}
    made = []
    for name in dict.fromkeys(row["row"] for row in rows):
        line = {"x": name}
        for target in TARGETS:
            words = [row[target].partition(": ")[0] for row in rows if row["row"] == name]
            told = [
                signs[word.partition(",")[0]] + "W" * ("," in word)
                for word in words
                if word != "not here"
            ]
            line[target] = " ".join(sorted(set(told), key=told.index))
        made.append(line)
    return made


def write_short() -> None:
    with ROWS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["x", *TARGETS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(short(recorded()))


if __name__ == "__main__":
    child(sys.argv[2]) if sys.argv[1:2] == ["child"] else write()
