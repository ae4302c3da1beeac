"""Seventy libraries with C tables of their own: each has a home."""

import ctypes as C

import dlshim
from doubles.ctable import Table
from doubles.producers import P2, TableMixin, c_table, table_capsule

kept, homes = [], []
for n in range(70):

    def stream(kind, number, out, n=n):
        C.c_void_p.from_address(out).value = n + 1
        return 0

    function = C.PYFUNCTYPE(C.c_int, C.c_int32, C.c_int32, C.c_void_p)(stream)
    kept.append(function)
    own = c_table(current_work_stream=C.cast(function, C.c_void_p).value)
    cls = type("Own", (TableMixin, P2), {"__dlpack_c_exchange_api__": table_capsule(own)})
    homes.append(type(dlshim.upgrade(cls((3,), "float32", device=(12, 0)))))
assert len(set(homes)) == 70
answers = [Table(home).stream((12, 0)) for home in homes]
assert answers[:64] == list(range(1, 65)) and answers[64:] == [None] * 6, answers
print("end")
