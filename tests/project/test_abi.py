"""The declarations of src/abi/dlpack_abi.h against real dlpack.h files.

A file that includes both headers is compiled: every size, offset, width and constant
is compared by static assertions, so a pass needs no run.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from project import dlpack_headers
from project.tree import REQUIRED, SRC, absent, compiler, list_entries, without_comments

from dlshim_testing.doubles.producers import ExchangeTable

NEWEST = "1.3"
RELEASES = ("0.6", "1.0", NEWEST)

LEGACY_STRUCTS = {
    ("dl_device", "DLDevice"): ("device_type", "device_id"),
    ("dl_dtype", "DLDataType"): ("code", "bits", "lanes"),
    ("dl_tensor", "DLTensor"): (
        "data",
        "device",
        "ndim",
        "dtype",
        "shape",
        "strides",
        "byte_offset",
    ),
    ("dl_managed_tensor", "DLManagedTensor"): ("dl_tensor", "manager_ctx", "deleter"),
}
VERSIONED_STRUCTS = {
    ("dl_version", "DLPackVersion"): ("major", "minor"),
    # In the 1.0 header this one has a tag and no typedef.
    ("dl_managed_tensor_versioned", "struct DLManagedTensorVersioned"): (
        "version",
        "manager_ctx",
        "deleter",
        "flags",
        "dl_tensor",
    ),
}
EXCHANGE_STRUCTS = {
    ("dl_exchange_header", "DLPackExchangeAPIHeader"): ("version", "prev_api"),
    ("dl_exchange_api", "DLPackExchangeAPI"): (
        "header",
        "managed_tensor_allocator",
        "managed_tensor_from_py_object_no_sync",
        "managed_tensor_to_py_object_no_sync",
        "dltensor_from_py_object_no_sync",
        "current_work_stream",
    ),
}
STRUCTS = {
    "0.6": LEGACY_STRUCTS,
    "1.0": LEGACY_STRUCTS | VERSIONED_STRUCTS,
    "1.3": LEGACY_STRUCTS | VERSIONED_STRUCTS | EXCHANGE_STRUCTS,
}
LISTS = (
    "DL_DEVICE_LIST",
    "DL_DEVICE_LIST_UNRELEASED",
    "DL_DTYPE_LIST",
    "DL_DTYPE_LIST_UNRELEASED",
)


@pytest.fixture(scope="module", params=RELEASES)
def header(request: pytest.FixtureRequest) -> tuple[str, Path]:
    """A release and its header; a newer one than ours stands in for the newest."""
    try:
        if request.param != NEWEST:
            return request.param, dlpack_headers.debian(request.param)
        path = dlpack_headers.newest()
    except dlpack_headers.NotHere as reason:
        absent(str(reason))
        raise
    found = dlpack_headers.release(path)
    if found != NEWEST:
        told = f"DLPack {found} is out, this project speaks {NEWEST}: {path}"
        assert not REQUIRED, told
        print(told)
    return request.param, path


def enumerators(header: Path) -> dict[str, int]:
    """Every kDL... constant of a header, with its value."""
    text = without_comments(header.read_text())
    return {name: int(value) for name, value in re.findall(r"\b(kDL\w+)\s*=\s*(\d+)U?\b", text)}


def flags(header: Path) -> list[str]:
    """Every flag of a header, without the prefix."""
    return re.findall(r"#define DLPACK_FLAG_BITMASK_(\w+)", header.read_text())


def assertions(release: str, header: Path) -> Iterable[str]:
    """Static assertions for all that this release declares."""

    def same(ours: str, theirs: str) -> str:
        return f'_Static_assert({ours} == {theirs}, "{ours} is not {theirs}");'

    for (ours, theirs), fields in STRUCTS[release].items():
        yield same(f"sizeof({ours})", f"sizeof({theirs})")
        yield same(f"_Alignof({ours})", f"_Alignof({theirs})")
        for field in fields:
            yield same(f"offsetof({ours}, {field})", f"offsetof({theirs}, {field})")
            yield same(f"sizeof((({ours} *)0)->{field})", f"sizeof((({theirs} *)0)->{field})")
    for name in flags(header):
        yield same(f"(1UL << dl_bit_{name})", f"DLPACK_FLAG_BITMASK_{name}")
    known = {name for entries in LISTS for name in list_entries(entries)}
    for name in sorted(known & enumerators(header).keys()):
        yield same(f"(int)dl_{name}", f"(int){name}")


def compile_together(header: Path, lines: Iterable[str], folder: Path) -> tuple[int, str]:
    source = folder / "together.c"
    includes = (f'#include "{header}"', '#include "abi/dlpack_abi.h"', "#include <stddef.h>")
    source.write_text("\n".join((*includes, *lines)) + "\n")
    command = [compiler(), "-std=c11", "-Wall", "-Werror", "-fsyntax-only", f"-I{SRC}"]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_layouts_and_constants_are_the_real_ones(header: tuple[str, Path], tmp_path: Path) -> None:
    release, path = header
    lines = list(assertions(release, path))
    print(f"DLPack {release}: {len(lines)} comparisons")
    status, errors = compile_together(path, lines, tmp_path)
    assert status == 0, errors


def test_a_wrong_declaration_would_be_seen(header: tuple[str, Path], tmp_path: Path) -> None:
    _, path = header
    wrong = ['_Static_assert(offsetof(dl_tensor, shape) == offsetof(DLTensor, strides), "");']
    status, _ = compile_together(path, wrong, tmp_path)
    assert status != 0


def test_every_constant_of_the_header_is_listed(header: tuple[str, Path]) -> None:
    release, path = header
    listed = {name: value for entries in LISTS for name, value in list_entries(entries).items()}
    theirs = enumerators(path)
    assert len(theirs) > 10
    assert theirs.items() <= listed.items()
    assert {*flags(path)} <= {*list_entries("DL_FLAG_LIST")}
    if release == NEWEST == dlpack_headers.release(path):
        released = list_entries("DL_DEVICE_LIST") | list_entries("DL_DTYPE_LIST")
        assert released == theirs
        assert flags(path) == [*list_entries("DL_FLAG_LIST")]


def test_every_function_of_the_c_table_is_compared() -> None:
    """Here, and by the kit's table, whose functions tests/core/test_homes.py goes through."""
    text = without_comments((SRC / "abi" / "dlpack_abi.h").read_text())
    body = text.partition("dl_exchange_header header;")[2].partition("} dl_exchange_api;")[0]
    declared = ("header", *re.findall(r"^    int \(\*(\w+)\)\(", body, re.M))
    assert EXCHANGE_STRUCTS["dl_exchange_api", "DLPackExchangeAPI"] == declared
    assert tuple(name for name, *_ in ExchangeTable._fields_) == declared


def test_the_level_that_is_stamped_is_the_newest_release() -> None:
    text = (SRC / "abi" / "dlpack_abi.h").read_text()
    major = re.search(r"#define DL_MAJOR (\d+)", text)
    minor = re.search(r"#define DL_MINOR (\d+)", text)
    assert major and minor
    assert f"{major[1]}.{minor[1]}" == NEWEST
