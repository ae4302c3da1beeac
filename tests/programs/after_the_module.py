"""What is called after the collector has emptied the module, by a deleter written in Python.

python after_the_module.py EXPRESSION END

EXPRESSION says what is called, each part saved before; END is exit or collect.
"""

import ctypes as C
import gc
import sys

import dlshim
from doubles import capsules, ctable

gc.disable()


class Holder:
    pass


class Strange:
    def __dlpack__(self, tensor=dlshim.from_dlpack(bytearray(8)), **keywords):  # noqa: B008
        return tensor.__dlpack__(**keywords)


def prepare(holder, what):
    tensor = dlshim.from_dlpack(bytearray(8))
    producer, strange = dlshim.upgrade(bytearray(3)), dlshim.upgrade(Strange())
    for p in (producer, strange):
        p.__dlpack__(max_version=(1, 0))
    table = ctable.Table(dlshim.Producer)
    del table.capsule
    memory = (C.c_char * 256)()
    # (The collector may take the functions' argument types first.)
    out = C.c_void_p(C.addressof(memory))
    assert table._owned(tensor, out) == 0
    managed = C.c_void_p.from_buffer_copy(memory)  # noqa: F841 - for `what`
    dims = (C.c_int64 * 2)(2, 3)
    wanted = capsules.DLTensor(
        device_type=1, ndim=2, code=2, bits=32, lanes=1, shape=C.addressof(dims)
    )
    prototype = C.c_void_p(C.addressof(wanted))  # noqa: F841 - for `what`
    copying = dlshim.upgrade(tensor, copy=True)  # noqa: F841 - for `what`

    def call(function, *args, **keywords):
        return lambda: function(*args, **keywords)

    tensor.__dlpack__()
    called = eval(what)

    def deleter(_, called=called, print=print, type=type, Error=Exception):
        try:
            print(called())
        except Error as e:
            print(type(e).__name__, e)
        print("called", flush=True)

    callback = C.CFUNCTYPE(None, C.c_void_p)(deleter)
    one = (C.c_int64 * 1)(1)
    struct = capsules.ManagedTensor()
    struct.dl_tensor = capsules.DLTensor(
        C.addressof(one), 1, 0, 1, 0, 64, 1, C.addressof(one), C.addressof(one), 0
    )
    struct.deleter = C.cast(callback, C.c_void_p)
    new = C.PYFUNCTYPE(C.py_object, C.c_void_p, C.c_char_p, C.c_void_p)(
        ("PyCapsule_New", C.pythonapi)
    )
    holder.tensor = dlshim.from_dlpack(new(C.addressof(struct), b"dltensor", None))
    holder.keep = callback, one, struct, memory, dims, wanted
    holder.me = holder


holder = Holder()
holder.tensor = None
prepare(holder, sys.argv[1])
if sys.argv[2] == "collect":
    for name in [n for n in sys.modules if n.split(".")[0] in ("dlshim", "doubles")]:
        del sys.modules[name]
    del holder, prepare, Strange, Holder, dlshim, capsules, ctable
    gc.collect()
