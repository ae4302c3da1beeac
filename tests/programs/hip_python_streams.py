"""Memory, streams and copies of hip-python on a fake HIP runtime, judged by values.

python hip_python_streams.py CASE RUNTIME       for tests/device/test_hip_python.py
"""

import ctypes as C
import sys

import dlshim
import drivers
from doubles import capsules as caps

drv = drivers.load_any(sys.argv[2])
drv.start()
drv.asynchronous()
from hip import hip  # noqa: E402

OLD, NEW, COUNT = 7, 42, 16
TO_DEVICE = hip.hipMemcpyKind.hipMemcpyHostToDevice
TO_HOST = hip.hipMemcpyKind.hipMemcpyDeviceToHost


def words(value):
    return (C.c_int32 * COUNT)(*[value] * COUNT)


def ok(result):
    assert result[0] == hip.hipError_t.hipSuccess, result
    return result[1] if len(result) > 1 else None


p, s = (ok(hip.hipStreamCreateWithFlags(1)) for _ in "PS")
old, new = words(OLD), words(NEW)


def pending(stream):
    """Memory that is OLD, and will be NEW when P comes to it."""
    x = ok(hip.hipMalloc(4 * COUNT))
    ok(hip.hipMemcpyAsync(x, C.addressof(old), 4 * COUNT, TO_DEVICE, p))
    ok(hip.hipStreamSynchronize(p))
    ok(hip.hipMemcpyAsync(x, C.addressof(new), 4 * COUNT, TO_DEVICE, p))
    return x.configure(typestr="<i4", itemsize=4, shape=(COUNT,), stream=stream)


def seen_on_s(taken):
    seen = words(0)
    ok(hip.hipMemcpyAsync(C.addressof(seen), taken.view.data, 4 * COUNT, TO_HOST, s))
    ok(hip.hipDeviceSynchronize())
    return set(seen)


def the_configured_stream_is_waited_for():
    for asked, wanted in ((int(s), {NEW}), (-1, {OLD})):
        taken = caps.take(dlshim.upgrade(pending(p)).__dlpack__(stream=asked, max_version=(1, 0)))
        assert taken.view.device == (10, 0)
        assert seen_on_s(taken) == wanted, asked
        taken.release()


def a_tensor_remembers_it():
    tensor = dlshim.from_dlpack(pending(p), stream=int(s))
    assert tensor.device == (10, 0)
    assert seen_on_s(caps.take(tensor.__dlpack__(stream=int(s)))) == {NEW}


def the_host_waits_for_its_copy():
    for stream in (None, -1):
        host = dlshim.upgrade(pending(p), device="cpu")
        taken = caps.take(host.__dlpack__(stream=stream, max_version=(1, 0)))
        assert set(taken.values()) == {NEW}, stream


def a_copy_on_the_device_comes_after_it():
    for asked in (int(s), -1):
        copied = dlshim.upgrade(pending(p), copy=True)
        taken = caps.take(copied.__dlpack__(stream=asked, max_version=(1, 0)))
        assert taken.view.copied and seen_on_s(taken) == {NEW}, asked


def its_stream_is_named_by_its_handle():
    x = pending(p)
    capsule = dlshim.upgrade(x, stream=-1).__dlpack__()
    source = dlshim.upgrade(capsule, producer_stream=int(p))
    assert seen_on_s(caps.take(source.__dlpack__(stream=int(s)))) == {NEW}


def memory_that_is_not_configured_names_its_cure():
    try:
        dlshim.upgrade(ok(hip.hipMalloc(4))).__dlpack__()
    except BufferError as error:
        assert "typestr" in str(error) and "DeviceArray" in str(error), error
    else:
        raise AssertionError("typestr 'B' is none")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
