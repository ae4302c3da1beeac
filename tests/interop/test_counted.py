"""What rule T12 counts, on real libraries: bare, upgraded and cured, and by the matrix command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlshim.counted import COUNTED
from interop import libraries, runner

#: Those of which a row of T12 or a verdict speaks: the array, and how it ends bare and upgraded.
EXPECTED = {
    ("nanobind 3.1 rw", "jax"): ("works", "refused"),
    ("nanobind 3.1 rw", "tensorflow"): ("works", "refused"),
    ("nanobind 3.1 rw", "numpy, read-only"): ("refused", "refused"),
    ("nanobind 3.1 ro", "jax"): ("works", "works"),
    ("nanobind 2.12 rw", "jax"): ("works", "refused"),
    ("nanobind 2.12 ro", "jax"): ("works", "works"),
    ("nanobind 2.12 ro", "numpy, read-only"): ("works", "works"),
    ("nanobind 2.9 rw", "jax"): ("works", "works"),
    ("nanobind 2.9 ro", "numpy, read-only"): ("works", "refused"),
    ("nanobind 2.9 rw", "pyarrow.Array"): ("works", "refused"),
    **{
        (f"nanobind {release} {parameter}", f"torch, {what}"): (bare, "refused")
        for release in ("2.2", "2.9", "2.12", "3.1")
        for parameter in ("rw", "ro")
        for what, bare in (
            ("requires grad", "works"),
            ("conjugate bit", "wrong"),
            ("negative bit", "wrong"),
        )
    },
    ("mlx", "torch, requires grad"): ("works", "refused"),
    ("mlx.core.array", "torch, requires grad"): ("works", "refused"),
    ("torch.as_tensor", "torch, requires grad"): ("works", "refused"),
    ("tvm-ffi", "torch, requires grad"): ("works", "works"),
    ("tvm-ffi", "torch, conjugate bit"): ("wrong", "refused"),
    ("nanoarrow", "numpy, no dimension"): ("works", "refused"),
    ("nanoarrow", "numpy, two dimensions"): ("works", "refused"),
    ("nanoarrow", "numpy, bool"): ("works", "refused"),
    ("nanoarrow", "numpy, read-only"): ("works", "refused"),
}
CONSUMERS = sorted({consumer for consumer, _ in EXPECTED} | {"numpy"})


@pytest.fixture(scope="module")
def told():
    """What the child of a consumer says, by array."""
    runner.prepare()
    found: dict[str, dict] = {}

    def of(consumer: str) -> dict:
        adapter = next(
            each for each in [*libraries.CONSUMERS, *libraries.COUNTED] if each.name == consumer
        )
        if runner.versions.text(adapter.library) is None:
            pytest.skip(f"{adapter.library} is not in this environment")
        if consumer not in found:
            line = [sys.executable, "-m", "interop.counted_child", consumer]
            done = subprocess.run(
                line,
                cwd=Path(__file__).parents[1],
                env=os.environ | runner.ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stderr
            lines = [each for each in done.stdout.splitlines() if each.startswith("{")]
            found[consumer] = {each.pop("array"): each for each in map(json.loads, lines)}
        return found[consumer]

    return of


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_nothing_arrives_as_something_else(told, consumer):
    for array, seen in told(consumer).items():
        assert seen["upgraded"][0] != "wrong", (array, seen)


@pytest.mark.parametrize(("consumer", "array"), EXPECTED, ids=str)
def test_what_is_counted_is_so(told, consumer, array):
    seen = told(consumer)
    if array not in seen:
        pytest.skip(f"the library of the array is not in this environment: {array}")
    bare, upgraded = EXPECTED[consumer, array]
    assert (seen[array]["bare"][0], seen[array]["upgraded"][0]) == (bare, upgraded)
    if bare == "works" and upgraded == "refused":
        hidden = consumer == "mlx.core.array"  # whose error says nothing of what it met
        assert seen[array]["cured"] and seen[array]["counted"] != hidden, seen[array]


def test_an_immutable_array_is_vouched_for(told):
    """The parameter is the commonest one of nanobind, and the cure costs no copy."""
    seen = told("nanobind 3.1 rw")
    if "jax" not in seen:
        pytest.skip("jax is not in this environment")
    assert "dlshim.upgrade(x, readonly=False)" in seen["jax"]["cured"]
    assert any("readonly=False" in row.cure for row in COUNTED)


def test_the_matrix_command_has_columns_of_nanobind(tmp_path):
    """It compiles their functions; of what works bare all that is lost is counted, and cured."""
    if runner.versions.text("nanobind") is None:
        pytest.skip("nanobind is not in this environment")
    file = tmp_path / "matrix.json"
    line = [sys.executable, "-m", "dlshim", "matrix", "--only", "nanobind,numpy,stdlib,capsule"]
    done = subprocess.run([*line, "--json", str(file)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(file.read_text())
    assert told["left_out"] == {} and told["faults"] == 0
    came = {
        (cell["producer"], cell["consumer"], cell["case"]): cell["upgraded"]["outcome"]
        for cell in told["cells"]
    }
    assert came["numpy", "nanobind, writable", "transposed"] == "works"
    assert came["numpy", "nanobind, writable", "readonly"] == "refused"
    assert came["numpy", "nanobind, read-only", "readonly"] == "works"
    lost = [cell for cell in told["cells"] if cell["counted"]]
    assert all(cell["upgraded"]["cure"] for cell in lost)


def test_every_layout_that_nanoarrow_refuses_has_a_cure_that_works(tmp_path: Path) -> None:
    for library in ("numpy", "nanoarrow"):
        if runner.versions.text(library) is None:
            pytest.skip(f"{library} is not in this environment")
    file = tmp_path / "matrix.json"
    command = [sys.executable, "-m", "dlshim", "matrix", "--only", "numpy,nanoarrow", "--no-cost"]
    done = subprocess.run([*command, "--json", str(file)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads(file.read_text())["cells"]
    strided = [each for each in cells if "ontiguous" in each["reason"]]
    assert len(strided) >= 3
    assert all(each["upgraded"]["cure"] for each in strided)
