"""Exports of an interpreter with an allocator of its own, given back in the main one.

    python isolated_interpreters.py FIRST HELD

FIRST is what ends first, the export or the interpreter; HELD is 1 where the deleter has the GIL.
"""

import ctypes as C
import gc
import sys

import _interpreters as interpreters

import dlshim
from doubles import capsules as caps

first, held = sys.argv[1], sys.argv[2] == "1"
assert dlshim.from_dlpack(b"abc").shape == (3,)
slots = (C.c_size_t * 2)()
used = C.cast(C.c_char_p(caps._NAMES[caps.USED_VERSIONED]), C.c_void_p).value
inner_code = f"""
import sys; sys.path[:] = {sys.path!r}
import ctypes as C
import dlshim
get = C.PYFUNCTYPE(C.c_void_p, C.py_object, C.c_char_p)(("PyCapsule_GetPointer", C.pythonapi))
rename = C.PYFUNCTYPE(C.c_int, C.py_object, C.c_void_p)(("PyCapsule_SetName", C.pythonapi))
slots = (C.c_size_t * 2).from_address({C.addressof(slots)})
x = bytearray(range(6))
for k, source in enumerate((dlshim.upgrade(x), dlshim.from_dlpack(x))):
    capsule = source.__dlpack__(max_version=(1, 0))
    slots[k] = get(capsule, b"dltensor_versioned")
    rename(capsule, {used})
"""
for _ in range(3):
    inner = interpreters.create(interpreters.new_config("isolated", gil="shared"))
    failure = interpreters.run_string(inner, inner_code)
    assert failure is None, failure.formatted
    if first == "interpreter":
        interpreters.destroy(inner)
    gc.collect()
    for address in slots:
        caps.call_deleter(address, caps.VERSIONED, held=held)
    if first == "export":
        interpreters.destroy(inner)
assert dlshim.from_dlpack(b"abc").shape == (3,)
print("end")
