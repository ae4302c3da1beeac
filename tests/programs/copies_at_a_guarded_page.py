"""Copies of memory that lies against a page that nobody may read."""

import ctypes

import dlshim
from doubles import layouts
from doubles.producers import P2

first, end = layouts.guarded(1 << 18)
count = 0
for shape, strides, start, itemsize in layouts.edges():
    size = layouts.bytes_of((shape, strides, start, itemsize))
    if size > end - first:
        continue
    for address in (first, end - size):
        memory = (ctypes.c_char * size).from_address(address)
        x = P2(shape, (3, 8, itemsize), strides=strides, start=start, memory=memory)
        dlshim.from_dlpack(x, copy=True)
        count += 1
assert count > 4000, count
