"""Each option that is advised where a driver is missing, beside every other option.

sys.argv[1] is the vendor: cuda or rocm.
"""

import sys

from device.loading import AT, HANDLE, P2, CudaOnly, P1a, Uses, caps
from doubles import advice

use = Uses(sys.argv[1])
here, pinned = use.here, use.pinned
makers = {
    "an interface": lambda: CudaOnly(address=AT),
    "an interface with a stream": lambda: CudaOnly(address=AT, stream=HANDLE),
    "old": lambda: P1a(device=here, data=AT),
    "modern": lambda: P2(device=here, data=AT),
    "a capsule": lambda: caps.make(device=here, data=AT),
    "pinned": lambda: P1a(device=pinned, data=AT),
    "the host": lambda: P2(),
}
options = {
    "stream": [-1, None, "wait"],
    "producer_stream": [None, HANDLE, -1],
    "unknown_stream": ["same", "error", "legacy"],
    "device": [(1, 0), here],
    "copy": [True, False],
    "order": ["C"],
    "align": [4096],
    "assume_device": [(1, 0), here],
    "on_release": ["guard", "contract"],
}
refused, again = advice.repeated(makers, options, most=3)
assert again == [], "\n".join(again)
assert refused > 1000, refused
