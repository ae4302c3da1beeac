"""Error messages around DLPack: how each is recognised, why it is raised, and what to type instead.

The troubleshooting page of the manual is made from these rows too; tests/interop/messages.toml has
an example of each, and who says it.  Special rows stand before general ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ROWS = r"""
[readonly]
~ export readonly array
~ Legacy DLPack support
~ it is read-only, and the consumer
The array is read-only, and the consumer asks for DLPack 0.x, which cannot say so.
> consumer(dlshim.upgrade(x, readonly="share"))  # if the consumer never writes
> consumer(dlshim.upgrade(x, readonly="copy"))  # a private, writable copy

[own-negative]
~ has negative strides, which the consumer
torch up to 2.13 ends the process on them, and the consumer asks as torch does.
> consumer(dlshim.upgrade(x, order="C"))
> consumer(dlshim.upgrade(x, order="K"))  # if the consumer takes them

[grad]
~ that requires? gradient
~ it requires grad,
An export would bypass autograd, so the producer refuses it.
> consumer(dlshim.upgrade(x, detach=True))
> consumer(x.detach())

[lazy-bit]
~ (conjugate|negative) bit (is )?set
torch applies the bit when it reads values; other libraries read the memory as it is.
> consumer(x.resolve_conj().resolve_neg())

[own-nothing]
~ offers none of __dlpack__
The object offers no array protocol and no buffer, so there is no memory to share.
> consumer(numpy.asarray(x))  # if that gives numbers

[used]
~ got .*used_dltensor
~ capsule was consumed
~ consumed by another holder
A capsule can be used only once. dlshim.upgrade(capsule), made before that, can be used often.
> consumer(dlshim.to_capsule(x))  # x: the array, not its capsule

[own-kind]
~ its elements are (of a kind|Python objects|text|structs|bit fields)
DLPack describes numbers only. The message names the conversion.
> consumer(dlshim.upgrade(x, reinterpret="int64"))  # dates and durations

[own-capture]
~ graph capture is running
While a CUDA graph is being captured, nothing may be waited for.
> consumer(dlshim.upgrade(x, stream=s, producer_stream=s))  # s: the capturing stream

[keyword]
~ __dlpack__\(\) (takes no|got an unexpected) keyword argument
~ max_version argument
The consumer passes a keyword that the producer does not know, and does not try again without it.
> consumer(dlshim.upgrade(x))


[positional-stream]
~ __dlpack__\(\) takes (1|exactly 0|0) positional
The stream was passed by position, but the producer takes it by keyword only.
> dlshim.upgrade(x).__dlpack__(None)  # takes both

[consumer-keyword]
~ from_dlpack\(\) (takes no|got an unexpected) keyword argument
This release of the consumer does not take device= or copy=.
> consumer(dlshim.upgrade(x, copy=True))

[other-generation]
~ called with incorrect name
~ invalid capsule object
~ (got|produce a) .?dltensor_versioned
~ a dltensor field
The producer gave the generation of DLPack (0.x or 1.x) that the consumer does not take.
> consumer(dlshim.upgrade(x))

[invalid-capsule]
~ received an invalid capsule
~ a valid DLPack capsule
~ Expect from_dlpack to take
~ be consumed multiple times
The consumer did not get a fresh capsule that it understands. It got an object without __dlpack__, a
used capsule, or one of DLPack 1.x, which torch before 2.9 does not take.
> consumer(dlshim.upgrade(x))

[object-wanted]
~ PyCapsule'? (object )?has no attribute '__dlpack__'
~ must have __dlpack__ and
~ object of type PyCapsule to
~ incompatible function arguments.*DLPackCompatible
The consumer wants an object with __dlpack__ that it understands, and got something else.
> consumer(dlshim.upgrade(x))


[no-dlpack]
~ no (attribute|field named) '__dlpack(_device)?__'
~ any data exchange protocol
The object has no __dlpack__. dlshim also takes objects that have a buffer or an array interface.
> consumer(dlshim.upgrade(x))
> consumer(numpy.asarray(x))

[capsule-wanted]
~ TFE_FromDlpackCapsule
The consumer takes only raw capsules of DLPack 0.x.
> consumer(dlshim.to_capsule(x))

[nanobind]
~ incompatible function arguments.*(ndarray|Producer)
The dtype, the layout or the read-only mark is not as the function declares. nanobind does not say
which.
> consumer(dlshim.upgrade(x, readonly=False))  # if the function never writes
> consumer(x.copy())

[jax-to-dlpack]
~ jax\.dlpack.? has no attribute 'to_dlpack'
~ to_dlpack was deprecated
JAX has deprecated and then removed this function. Its arrays give capsules by __dlpack__.
> dlshim.to_capsule(x)

[numpy-readonly]
~ assignment destination is read-only
NumPy marks every array that came by DLPack 0.x as read-only; before 2.2.5, every one that came by
DLPack.
> numpy.from_dlpack(dlshim.upgrade(x))
> numpy.from_dlpack(dlshim.upgrade(x, readonly="copy"))  # where x is immutable

[torch-writes]
~ given (NumPy array|buffer) is not writable
~ it is read-only, and (torch|paddle)
torch and Paddle have no read-only tensors: writing to this one changes read-only memory.
> torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))
> torch.from_dlpack(dlshim.upgrade(x, readonly="share"))  # if nothing writes

[numpy-dtype]
~ only supports signed/unsigned
NumPy does not export this dtype: bfloat16, float8, dates, text or structs; before 1.25, bool.
> consumer(dlshim.upgrade(x))
> consumer(dlshim.upgrade(x, reinterpret="int64"))  # datetime64, timedelta64

[numpy-import]
~ Unsupported (dtype|lanes) in DLTensor
~ from_dlpack> returned NULL
The array has a dtype that NumPy does not have (bfloat16, float8). ml_dtypes has them.
> import ml_dtypes; numpy.asarray(dlshim.upgrade(x))
> numpy.from_dlpack(dlshim.upgrade(x, reinterpret="uint16"))  # the bits of bfloat16
> numpy.from_dlpack(dlshim.upgrade(x, reinterpret="uint8"))  # the bits of float8

[byte-order]
~ only supports native byte order
DLPack cannot describe numbers in another byte order than the machine's.
> consumer(x.astype(x.dtype.newbyteorder('=')))

[longdouble]
~ only supports IEEE
DLPack cannot describe longdouble, which has 80 bits in 16 bytes.
> consumer(x.astype('float64'))

[type-code]
~ Unsupported code \d
~ invalid DLPack type code
~ Unknown DLPack datatype
~ unsupported DLPack type \d
~ Can't convert dlpack data type
The consumer does not have this dtype. Code 4 is bfloat16, 5 is complex, 6 is bool, 7 and above are
float8 and smaller.
> consumer(dlshim.upgrade(x, reinterpret="uint8"))  # bool, float8: the bytes
> consumer(dlshim.upgrade(x, reinterpret="uint16"))  # bfloat16: the bits

[sparse]
~ other than torch\.strided
A sparse tensor is not one block of memory, so it cannot be shared.
> consumer(x.to_dense())

[meta]
~ pack tensors on meta
~ Unknown device type \w+ for Dlpack
The tensor has no memory (meta), or this release does not export memory of its device (mps).
> consumer(x.cpu())  # mps; a meta tensor has no values to share

[traced]
~ called on traced array
Inside jit, vmap or grad an array has no memory yet.
> jax.pure_callback(consumer, result_shape, x)  # or exchange outside of the function

[arrow-nulls]
~ arrays with no nulls
DLPack cannot describe missing values.
> consumer(x.drop_null())
> consumer(x.fill_null(0))

[arrow-type]
~ Bit-packed boolean
~ not compatible with DLPack spec
Arrow packs eight booleans into a byte, and text, dates and lists are not numbers. DLPack can
describe neither.
> consumer(x.cast('uint8'))  # booleans

[negative]
~ negative strides
~ strides item is negative
~ alloc memory of 18446744
~ Storage size calculation
~ terminate called .*c10::Error
The array has negative strides, which the consumer does not support. torch up to 2.13 ends the
process.
> consumer(dlshim.from_dlpack(dlshim.upgrade(x, order="C")))


[layout]
~ \(compact\) striding
~ non-default layout
~ Invalid strides array
~ only supports contiguous
~ (tensor|ndarray) is not contiguous
~ contiguous one dimensional
The memory layout is not one that the consumer takes. JAX wants data without gaps, the others want
C-contiguous data, and pyarrow.Array has one dimension.
> consumer(dlshim.upgrade(x, order="C"))
> consumer(dlshim.to_capsule(x, order="C"))  # TensorFlow

[odd-strides]
~ a multiple of itemsize
The array is a field of packed records. DLPack counts strides in whole elements, so it cannot
describe them.
> consumer(numpy.ascontiguousarray(x))

[device-type]
~ Unsupported device_type: ?\d+
~ Unsupported device in DLTensor
~ Unsupported array type: \d+
The consumer does not take this kind of memory. Number 2 is CUDA, 3 is pinned, 13 is managed, 14 is
oneAPI.
> consumer(dlshim.upgrade(x, device="cpu"))  # host libraries can read pinned memory
> consumer(dlshim.upgrade(x, assume_device="cuda"))  # managed memory, on its device

[device-number]
~ kDLCPUPinned
~ \(DLDeviceType
~ local_hardware_id
~ Unsupported source device
The consumer does not understand what __dlpack_device__ says: pinned memory, a value of its
library's own enum (Open3D), or no number at all (Paddle).
> consumer(dlshim.upgrade(x))
> consumer(dlshim.upgrade(x, device="cpu"))  # pinned memory

[move]
~ cannot move \(i\.e\. copy=False
~ unsupported device requested
~ Device not understood
~ Specified device \S+ does not match
The data are on another device than the one asked for, and the array API standard defines copies to
the host only.
> consumer(dlshim.upgrade(x, device="cpu"))
> consumer(x.to("cuda"))  # torch moves itself

[copy-refused]
~ copy=True only supported
~ copy not yet supported
~ Sorry, not supported:
~ copy argument is not supported
~ export with a (copy=True|non-None dl_device)
The producer cannot copy or move its data when it exports them. dlshim makes the copy itself.
> consumer(dlshim.upgrade(x, copy=True))
> consumer(dlshim.upgrade(x, device="cpu"))

[host-stream]
~ only supports stream=None
~ stream should be None
~ Only stream=None is supported
~ export with a non-None stream
~ stream must be None( or -1 for|\.)
~ BufferReadyOnStream
A stream was passed, but the data are in host memory, where there are no streams.
> dlshim.upgrade(x).__dlpack__(stream=-1, max_version=(1, 0))
> consumer(dlshim.upgrade(x))

[stream-zero]
~ stream for the DLPack protocol
Stream 0 is not allowed on CUDA, because it could mean two streams. The legacy default stream is 1.
> dlshim.upgrade(x).__dlpack__(stream=1)

[stream-none]
~ stream=None is ambiguous
cuda.core does not take None as a stream. Pass the pointer of your stream, or -1 if nothing has to
be waited for.
> StridedMemoryView.from_dlpack(dlshim.upgrade(x), stream_ptr=-1)

[own]
~ '[\w.]+' object: \S
The message of dlshim names the reason and the cure. If another library raised an error first, it is
the __cause__.
> print(dlshim.inspect(x, export=True))
"""


@dataclass(frozen=True)
class Message:
    key: str
    patterns: tuple[str, ...]
    cause: str
    cures: tuple[str, ...]

    def matches(self, text: str) -> bool:
        return any(re.search(pattern, text) for pattern in self.patterns)


def _read(text: str) -> Message:
    key, *lines = text.strip().splitlines()
    patterns = tuple(each[2:] for each in lines if each[0] == "~")
    cures = tuple(each[2:] for each in lines if each[0] == ">")
    return Message(
        key[1:-1], patterns, " ".join(each for each in lines if each[0] not in "~>"), cures
    )


MESSAGES = tuple(map(_read, _ROWS.split("\n\n")))
