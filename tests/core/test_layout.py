"""T4 to T7: strides, offsets, empty tensors, and codes that nobody knows."""

from __future__ import annotations

import pytest

import dlshim
from doubles import capsules as caps
from doubles.asking import ASKINGS, bare, tells, versioned, walk
from doubles.capsules import ADDRESS_DEVICES, HANDLE_DEVICES
from doubles.producers import (
    P1,
    P2,
    P0Mxnet,
    P1b,
    P1bOffset,
    P1NullStrides,
    P3NullData,
    P3TableOnly,
    VersionedAlways,
    fresh,
)

BOTH = pytest.mark.parametrize("ask", ASKINGS.values(), ids=ASKINGS.keys())
SOURCES = pytest.mark.parametrize("cls", [P1, P1b, P2, P3TableOnly, VersionedAlways])
DEVICE_SOURCES = pytest.mark.parametrize("cls", [P1, P1b, P2, VersionedAlways])


# --- T4: strides ----------------------------------------------------------------------

CANONICAL = {
    # (shape, given strides): what must come out
    "NULL": ((2, 3), None, (3, 1)),
    "NULL 1-d": ((5,), None, (1,)),
    "NULL with a zero extent": ((3, 0, 4), None, (0, 4, 1)),
    "zeros of an empty tensor": ((3, 0, 4), (0, 0, 0), (0, 4, 1)),
    "rubbish of an empty tensor": ((3, 0, 4), (-7, 5, 99), (0, 4, 1)),
    "torch's ones in size-1 dimensions": ((2, 1, 3), (3, 1, 1), (3, 3, 1)),
    "size-1 in front": ((1, 3), (77, 1), (3, 1)),
    "size-1 at the end": ((3, 1), (1, 44), (1, 1)),
    "all size-1": ((1, 1, 1), (9, 8, 7), (1, 1, 1)),
    "one element, negative": ((1,), (-1,), (1,)),
    "negative in a size-1 dimension": ((1, 3), (-3, 1), (3, 1)),
    "canonical already": ((4, 2, 3), (6, 3, 1), (6, 3, 1)),
    "transposed": ((3, 2), (1, 3), (1, 3)),
    "step": ((3,), (2,), (2,)),
    "broadcast": ((4, 3), (0, 1), (0, 1)),
    "channels last": ((2, 3, 4, 5), (60, 1, 15, 3), (60, 1, 15, 3)),
}


@SOURCES
@pytest.mark.parametrize(("shape", "given", "wanted"), CANONICAL.values(), ids=CANONICAL.keys())
def test_T4_strides_are_filled_and_canonical(cls, shape, given, wanted):
    x = cls(shape, "int32", strides=given, null_strides=given is None)
    tensor = dlshim.from_dlpack(x)
    assert tensor.strides == wanted
    for ask in ASKINGS.values():
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.shape == shape
            assert imported.view.strides == wanted
            assert imported.values() == x.values()
        with ask(tensor) as imported:
            assert imported.view.strides == wanted


OVERFLOW = {
    "left of the zero": ((0, 2**62, 4), (0, 4, 1)),
    "right of the zero": ((2**62, 4, 0), (0, 0, 1)),
    "both sides": ((2**40, 0, 2**40, 2**40), (0, 0, 2**40, 1)),
}


@BOTH
@SOURCES
@pytest.mark.parametrize(("shape", "wanted"), OVERFLOW.values(), ids=OVERFLOW.keys())
def test_T4_a_product_that_overflows_beside_a_zero_extent_is_zero(cls, ask, shape, wanted):
    x = cls(shape, "float32", strides=(0,) * len(shape))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.shape == shape
        assert imported.view.strides == wanted


@BOTH
@SOURCES
def test_T4_a_negative_stride_on_a_short_extent_is_rewritten_not_refused(cls, ask):
    x = cls((2, 1, 3), "int32", strides=(12, -5, 2))  # not contiguous because of the step
    upgraded = dlshim.upgrade(x)
    upgraded.__dlpack_device__()  # asked like torch, which supports no negative strides
    with ask(upgraded) as imported:
        first, middle, last = imported.view.strides
        assert (first, last) == (12, 2) and middle >= 0
        assert imported.values() == x.values()


@BOTH
@SOURCES
def test_T4_no_dimensions(cls, ask):
    x = cls((), "float64", start=3)
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.ndim == 0
        assert imported.view.shape == ()
        assert imported.values() == [3.0]


@BOTH
def test_T4_many_dimensions(ask):
    shape = (1,) * 30 + (2,) + (1,) * 30 + (3,)
    x = P1NullStrides(shape, "int8")
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.shape == shape
        assert imported.view.strides == caps.row_major(shape)


# --- T5: byte_offset ------------------------------------------------------------------


@BOTH
@DEVICE_SOURCES
def test_T5_an_offset_is_folded_where_data_is_an_address(cls, ask):
    def check(device_type):
        x = fresh(cls)((3,), "float32", start=4, byte_offset=12, device=(device_type, 0))
        with ask(dlshim.upgrade(x), stream=-1) as imported:
            assert imported.view.byte_offset == 0
            assert imported.view.data == x.element_zero
            assert imported.view.device == (device_type, 0)

    walk(ADDRESS_DEVICES, check)


@BOTH
@DEVICE_SOURCES
def test_T5_an_offset_is_never_touched_where_data_is_a_handle(cls, ask):
    def check(device_type):
        device = (device_type, 2)
        x = fresh(cls)(
            (3,), "float32", data=0xC1_0000, byte_offset=12, device=device, null_strides=True
        )
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.byte_offset == 12
            assert imported.view.data == 0xC1_0000
            assert imported.view.device == device
            assert imported.view.strides == (1,)

    walk(HANDLE_DEVICES, check)


@BOTH
def test_T5_an_offset_is_kept_on_oneapi_with_a_negative_stride(ask):
    """dpctl refuses a folded pointer there."""
    x = P2((3,), "float32", strides=(-1,), start=2, byte_offset=8, device=(14, 0))
    with ask(dlshim.upgrade(x, order="K")) as imported:
        assert imported.view.byte_offset == 8
        assert imported.view.data + 8 == x.element_zero


def test_T5_what_mlx_sends_reaches_consumers_that_ignore_the_offset():
    from doubles.consumers import ask_like_paddle33, ask_like_torch28, ask_like_warp

    for ask in (ask_like_warp, ask_like_torch28, ask_like_paddle33):
        x = P1bOffset()
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.values() == x.values()


def test_T5_a_tensor_folds_too():
    tensor = dlshim.from_dlpack(P1bOffset((3,), "float32"))
    assert tensor.byte_offset == 0
    assert memoryview(tensor).tolist() == [4.0, 5.0, 6.0]


# --- T6: empty tensors and NULL data --------------------------------------------------


@BOTH
@SOURCES
@pytest.mark.parametrize("data", [None, "memory"])
def test_T6_empty_host_tensors_keep_their_shape_and_get_an_address(cls, ask, data):
    """torch <= 2.1 skipped the deleter of a tensor with a NULL pointer."""
    for shape in ((0,), (3, 0, 4), (0, 0), (1, 0, 2**40)):
        x = cls(shape, "float32", data=data)
        with ask(dlshim.upgrade(x)) as imported:
            assert imported.view.shape == shape
            assert imported.view.data != 0
            if data is not None:
                assert imported.view.data == x.element_zero


@BOTH
@DEVICE_SOURCES
def test_T6_empty_device_tensors_keep_their_null(cls, ask):
    x = fresh(cls)((0, 3), "float32", data=None, device=(2, 1))
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.data == 0
        assert imported.view.device == (2, 1)


@BOTH
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_T6_no_elements_need_no_sync(ask, version):
    """A raw capsule of device memory needs a stream; an empty one does not."""
    capsule = caps.make((0, 3), device=(2, 0), data=None, version=version)
    with ask(dlshim.upgrade(capsule)) as imported:
        assert imported.view.shape == (0, 3)


@BOTH
@pytest.mark.parametrize("cls", [P1, P1b, P2, VersionedAlways, P0Mxnet])
def test_T6_null_data_with_elements(cls, ask):
    """pyarrow 25 exports read-only tensors so; NumPy then makes memory up."""
    x = cls((2, 3), "float32", data=None)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, cls.__name__, "NULL|null pointer|no memory")
    with pytest.raises(BufferError):
        dlshim.from_dlpack(x)


@BOTH
def test_T6_null_data_from_a_table_means_the_next_protocol(ask):
    x = P3NullData()
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.values() == x.values()
    assert x.calls


@BOTH
def test_T6_null_data_of_a_table_alone(ask):
    x = P3TableOnly(data=None)
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(x))


# --- T7: unknown codes, flag bits, sub-byte elements ----------------------------------


@BOTH
@SOURCES
@pytest.mark.parametrize("dtype", [(18, 32, 1), (77, 16, 1), (255, 8, 1), (2, 32, 4), (3, 64, 1)])
def test_T7_unknown_dtype_codes_pass(cls, ask, dtype):
    x = cls((3,), dtype)
    with ask(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == dtype
        assert imported.view.elements() == [caps.encode(dtype, k) for k in range(3)]


@BOTH
@pytest.mark.parametrize("device", [(21, 5), (32, 1), (99, 3), (1000, 0), (5, 0)])
def test_T7_unknown_devices_pass(ask, device):
    x = P2((3,), "float32", device=device)
    upgraded = dlshim.upgrade(x)
    with ask(upgraded) as imported:
        assert imported.view.device == device
        assert imported.view.data == x.element_zero
    assert upgraded.__dlpack_device__() == device


@BOTH
@pytest.mark.parametrize("flags", [8, 16, 1 << 63, 9])
def test_T7_unknown_flag_bits(ask, flags):
    x = VersionedAlways(flags=flags)
    with pytest.raises(BufferError) as error:
        ask(dlshim.upgrade(x))
    tells(error.value, "VersionedAlways", "flag")
    capsule = caps.make(version=(1, 0), flags=flags)
    made = caps.made_of(capsule)
    with pytest.raises(BufferError):
        ask(dlshim.upgrade(capsule))
    del capsule
    assert made.deleted == 1


SUBBYTE = [(0, 4, 1), (1, 4, 1), (1, 1, 1), (17, 4, 1), (15, 6, 1), (0, 2, 1)]


@pytest.mark.parametrize("dtype", SUBBYTE)
def test_T7_subbyte_elements_do_not_cross_generations(dtype):
    for ask, x in ((versioned, P1((8,), dtype)), (bare, VersionedAlways((8,), dtype))):
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x))
        tells(error.value, type(x).__name__, "bit")


@pytest.mark.parametrize("dtype", SUBBYTE)
@pytest.mark.parametrize("flags", [0, caps.SUBBYTE_PADDED])
def test_T7_subbyte_elements_stay_within_a_generation(dtype, flags):
    x = P1((8,), dtype)
    with bare(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == dtype
        assert imported.view.data == x.element_zero
    x = VersionedAlways((8,), dtype, flags=flags)
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == dtype
        assert imported.view.flags == flags


def test_T7_packed_pairs_are_whole_bytes():
    """torch's float4_e2m1fn_x2 is (17, 4 bits, 2 lanes): nothing is left unsaid."""
    x = P1((3,), (17, 4, 2))
    with versioned(dlshim.upgrade(x)) as imported:
        assert imported.view.dtype == (17, 4, 2)


FAMILIES = {
    **dict(enumerate(["int", "uint", "float", "handle", "bfloat", "complex", "bool"])),
    18: "bcomplex",
}


@pytest.mark.parametrize("code", FAMILIES)
def test_a_width_without_a_name_is_told_by_its_family(code):
    """The longest word once had no end, and what lay behind it was shown too."""
    tensor = dlshim.from_dlpack(P2((3,), (code, 48, 1)))
    assert str(tensor.dtype) == f"{FAMILIES[code]}48"


@BOTH
def test_T7_mxnets_one_bit_bool_is_cured_by_reinterpret(ask):
    x = P0Mxnet((2,), (1, 1, 1))  # its elements are 0 and 1
    if ask is versioned:
        with pytest.raises(BufferError) as error:
            ask(dlshim.upgrade(x))
        tells(error.value, "reinterpret", "bool")
    with ask(dlshim.upgrade(x, reinterpret="bool")) as imported:
        assert imported.view.dtype == (6, 8, 1)
        assert imported.view.strides == (1,)
