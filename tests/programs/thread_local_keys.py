"""The module is imported again and again where no more thread-local keys are to be had."""

import ctypes
import sys

import dlshim

api = ctypes.pythonapi
api.PyThread_tss_alloc.restype = ctypes.c_void_p
made = []
while len(made) < 5000:
    key = ctypes.c_void_p(api.PyThread_tss_alloc())
    if api.PyThread_tss_create(key) != 0:
        break
    made.append(key)
for key in made[-5:]:
    api.PyThread_tss_delete(key)
kept = []
for _ in range(8):
    del sys.modules["dlshim._core"]
    import dlshim._core

    kept.append(dlshim._core)
print("end")
