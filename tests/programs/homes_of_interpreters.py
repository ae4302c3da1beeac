"""Interpreters have slots of their own: a home that another one has met gives a Tensor."""

import _testcapi
import sys

import dlshim
from doubles.ctable import Table
from doubles.homes import Own, result

INNER = (
    f"import sys; sys.path[:] = {sys.path!r}\n"
    + """
import dlshim
from doubles import capsules as caps
from doubles.ctable import Table
from doubles.homes import Own, result

def table(address):
    capsule = caps.new_capsule(address, "dlpack_exchange_api")
    return Table(type("T", (), {"__dlpack_c_exchange_api__": capsule}))

first, second = [table(address) for address in ADDRESSES]
assert type(result(first)) is dlshim.Tensor and type(result(second)) is dlshim.Tensor
own = Table(type(dlshim.upgrade(Own())))
assert result(own)[0] is Own
assert type(result(second)) is dlshim.Tensor
print("inner", flush=True)
"""
)


class Second(Own):
    @classmethod
    def from_dlpack(cls, tensor):
        return "second", tensor


tables = [Table(type(dlshim.upgrade(cls()))) for cls in (Own, Second)]
assert [result(table)[0] for table in tables] == [Own, "second"]
addresses = [table.address for table in tables]
for _ in range(3):
    assert _testcapi.run_in_subinterp(INNER.replace("ADDRESSES", str(addresses))) == 0
    assert [result(table)[0] for table in tables] == [Own, "second"]
print("end")
