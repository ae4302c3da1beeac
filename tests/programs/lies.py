"""Structs whose pointers lead nowhere, beside a field that gives the struct away."""

import dlshim
from doubles import capsules as caps

for version in (None, (1, 0)):
    for lie in ("ndim", "extent", "flags", "bits"):
        made = caps.Made(version=version)
        tensor = made.struct.dl_tensor
        tensor.strides, tensor.data = (32, 48)
        if lie == "ndim":
            tensor.ndim, tensor.shape = -5, 16
        elif lie == "extent":
            made._shape[0] = -2
            tensor.strides = None
        elif lie == "flags" and version:
            made.struct.flags = 1 << 20
            tensor.shape = 16
        else:
            tensor.bits, tensor.strides = 0, None
        capsule = made.capsule()
        for _ in range(2):
            try:
                dlshim.upgrade(capsule).__dlpack__(copy=True)
            except BufferError:
                pass
            else:
                raise AssertionError((version, lie))
        del capsule
        assert made.deleted == 1, (version, lie, made.deleted)
