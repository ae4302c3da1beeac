"""Deleters on a thread of an interpreter without dlshim: the main one's objects die there.

python deleters_elsewhere.py MADE GIL

MADE is what is exported, an expression behind `dlshim.` with Source, Memory and column in it; GIL
is own or shared, that of the other interpreter.
"""

import ctypes
import gc
import sys

import _interpreters as interpreters

import dlshim
from doubles import capsules, columns

made, gil = sys.argv[1:]
died = []


class Memory(bytearray):
    def __del__(self):
        died.append(interpreters.get_current()[0])


class Source:
    def __init__(self):
        self.memory, self.words = Memory(64), dict.fromkeys(map(str, range(50)))

    def __dlpack__(self, *, max_version=None):
        return dlshim.from_dlpack(self.memory).__dlpack__(max_version=max_version)


@columns.RELEASE
def release(address):
    died.append(interpreters.get_current()[0])
    columns.ArrowArray.from_address(address).release = None


def answer():
    count = columns.Count()
    memory = columns.array(count, 2, columns.numbers(1, 2))
    memory.release = ctypes.cast(release, ctypes.c_void_p).value
    return (
        columns.capsule(columns.schema(count, "l"), "arrow_schema", count),
        columns.capsule(memory, "arrow_array", count),
    )


version, kind = None, capsules.ManagedTensor
if made == "upgrade(column)":
    column = columns.method("__arrow_c_array__", answer)
    kept = dlshim.from_dlpack(column)  # its type is learned
    version, kind = (1, 0), capsules.ManagedTensorVersioned


def export(source):
    capsule = source.__dlpack__(max_version=version)
    capsules.rename(capsule)
    return capsules.look(capsule).address


CODE = """
import ctypes as C
for address in {}:
    deleter = C.c_void_p.from_address(address + {}).value
    C.PYFUNCTYPE(None, C.c_void_p)(deleter)(address)
"""
addresses = [export(eval(f"dlshim.{made}")) for _ in range(100)]
gc.collect()
inner = interpreters.create(interpreters.new_config("isolated", gil=gil))
failure = interpreters.run_string(inner, CODE.format(addresses, kind.deleter.offset))
assert failure is None, failure.formatted
interpreters.destroy(inner)
gc.collect()
assert died == [0] * 100, died
