"""dlshim.enums says what the C declarations say."""

from __future__ import annotations

from enum import IntEnum

import pytest
from project.tree import list_entries

import dlshim
from dlshim import _core
from dlshim_testing.doubles import capsules


@pytest.mark.parametrize(
    ("enum", "lists"),
    [
        (dlshim.DLDeviceType, ("DL_DEVICE_LIST", "DL_DEVICE_LIST_UNRELEASED")),
        (dlshim.DLDataTypeCode, ("DL_DTYPE_LIST", "DL_DTYPE_LIST_UNRELEASED")),
    ],
)
def test_members_are_those_of_the_header(enum: type[IntEnum], lists: tuple[str, ...]) -> None:
    listed = {name: value for entries in lists for name, value in list_entries(entries).items()}
    assert {member.name: member.value for member in enum} == listed
    assert len(enum.__members__) == len(enum), "two names for one value"


def test_flags_are_those_of_the_header() -> None:
    listed = {name: 1 << bit for name, bit in list_entries("DL_FLAG_LIST").items()}
    assert listed == _core._FLAGS
    # The kit, which runs without dlshim, has its own.
    kit = (capsules.READ_ONLY, capsules.IS_COPIED, capsules.SUBBYTE_PADDED)
    assert kit == tuple(listed.values())


def test_members_are_ints_wherever_ints_are_wanted() -> None:
    producer = dlshim.upgrade(bytearray(4), device=(dlshim.DLDeviceType.kDLCPU, 0))
    assert producer.__dlpack_device__() == (dlshim.DLDeviceType.kDLCPU, 0)
    assert type(producer.__dlpack_device__()[0]) is int
