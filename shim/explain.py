"""``python -m dlshim explain``: what an error means, and what to type instead.

Messages around DLPack are in the rows below, with which the troubleshooting page is made too;
tests/interop/messages.toml has examples, and who says them.  A row:

    [key]
    ~ a pattern; one of several has to be found
    why, in one or two sentences
    > a cure, as code; each is one by itself

In a cure, ``x`` is what was exchanged and ``consumer`` the function that it was given to.  Special
rows stand before general ones.  Patterns see white space as single spaces.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from dataclasses import dataclass

_ROWS = r"""
[readonly]
~ Cannot export readonly array
~ Legacy DLPack support is not implemented
~ it is read-only, and the consumer
The array is read-only, and the consumer asks for DLPack 0.x, which cannot say so.
> consumer(dlshim.upgrade(x, legacy_readonly="strip"))  # if the consumer never writes
> consumer(dlshim.upgrade(x, legacy_readonly="copy"))  # a private, writable copy

[own-negative]
~ has negative strides, which the consumer
torch up to 2.13 ends the process on them, and the consumer asks as torch does.
> consumer(dlshim.upgrade(x, order="C"))
> consumer(dlshim.upgrade(x, order="K"))  # if the consumer takes them

[grad]
~ [Tt]ensors? that requires? gradient
~ it requires grad, and consumers
An export would bypass autograd, so the producer refuses it.
> consumer(dlshim.upgrade(x, detach=True))
> consumer(x.detach())

[lazy-bit]
~ with the conjugate bit set
~ its (conjugate|negative) bit is set
torch conjugates or negates the values when it reads them; other libraries read the memory as it is.
> consumer(x.resolve_conj().resolve_neg())

[own-nothing]
~ offers none of __dlpack__
The object offers no array protocol and no buffer, so there is no memory to share.
> consumer(numpy.asarray(x))  # if that gives numbers

[used]
~ got .*used_dltensor
~ the capsule was consumed already
~ consumed by another holder
A capsule can be used only once. dlshim.upgrade(capsule), made before the first use, can be used
often.
> consumer(dlshim.to_capsule(x))  # x: the array, not its capsule

[own-kind]
~ its elements are (of a kind that DLPack has no code for|Python objects|text|structs|bit fields)
DLPack describes numbers only. The message names the conversion.
> consumer(dlshim.upgrade(x, reinterpret="int64"))  # dates and durations

[own-capture]
~ a graph capture is running
While a CUDA graph is being captured, nothing may be waited for.
> consumer(dlshim.upgrade(x, stream=s, producer_stream=s))  # s: the capturing stream

[keyword]
~ __dlpack__\(\) got an unexpected keyword argument '(max_version|dl_device|copy)'
~ max_version argument .* not yet implemented
~ __dlpack__\(\) got an unexpected keyword argument 'stream'
~ __dlpack__\(\) takes no keyword arguments
The consumer passes a keyword that the producer does not know, and does not try again without it.
> consumer(dlshim.upgrade(x))


[positional-stream]
~ __dlpack__\(\) takes (1|exactly 0|0) positional arguments? (but|\()
The stream was passed by position, but the producer takes it by keyword only.
> dlshim.upgrade(x).__dlpack__(None)  # takes both

[consumer-keyword]
~ from_dlpack\(\) (takes no keyword arguments|got an unexpected keyword argument '(copy|device)')
This release of the consumer does not take device= or copy=.
> consumer(dlshim.upgrade(x, copy=True))

[other-generation]
~ PyCapsule_GetPointer called with incorrect name
~ did not produce a .?dltensor_versioned
~ dlpack: invalid capsule object
~ got .?dltensor_versioned
~ Expect a dltensor field
The producer gave the generation of DLPack (0.x or 1.x) that the consumer does not take.
> consumer(dlshim.upgrade(x))

[invalid-capsule]
~ from_dlpack received an invalid capsule
~ [Ee]xpected a valid DLPack capsule
~ Expect from_dlpack to take
~ tensor object cannot be consumed multiple times
The consumer did not get a fresh capsule that it understands. It got an object without __dlpack__, a
used capsule, or one of DLPack 1.x, which torch before 2.9 does not take. Each raises this error.
> consumer(dlshim.upgrade(x))

[object-wanted]
~ PyCapsule'? (object )?has no attribute '__dlpack__'
~ must have __dlpack__ and __dlpack_device__
~ Can't convert object of type PyCapsule to nanoarrow
~ from_dlpack\(\): incompatible function arguments.*DLPackCompatible
The consumer wants an object with __dlpack__ that it understands, and got something else.
> consumer(dlshim.upgrade(x))


[no-dlpack]
~ has no attribute '__dlpack(_device)?__'
~ no field named '__dlpack__'
~ does not support any data exchange protocol
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
~ jax\.dlpack\.to_dlpack was deprecated
JAX has deprecated and then removed this function. Its arrays give capsules by __dlpack__.
> dlshim.to_capsule(x)

[numpy-readonly]
~ assignment destination is read-only
NumPy marks every array that came by DLPack 0.x as read-only; before 2.2.5, every one that came by
DLPack.
> numpy.from_dlpack(dlshim.upgrade(x))
> numpy.from_dlpack(dlshim.upgrade(x, copy=True))  # where x is immutable

[torch-writes]
~ given (NumPy array|buffer) is not writable
torch has no read-only tensors: writing to this one changes read-only memory.
> torch.from_dlpack(dlshim.upgrade(x, copy=True))

[numpy-dtype]
~ DLPack only supports signed/unsigned integers
NumPy does not export this dtype: bfloat16, float8, dates, text or structs; before 1.25, bool.
> consumer(dlshim.upgrade(x))
> consumer(dlshim.upgrade(x, reinterpret="int64"))  # datetime64, timedelta64

[numpy-import]
~ Unsupported (dtype|lanes) in DLTensor
~ from_dlpack> returned NULL without
The array has a dtype that NumPy does not have (bfloat16, float8).
> numpy.asarray(dlshim.from_dlpack(x)).view(ml_dtypes.bfloat16)
> numpy.from_dlpack(dlshim.upgrade(x, reinterpret="uint16"))  # the bits

[byte-order]
~ DLPack only supports native byte order
DLPack cannot describe numbers in another byte order than the machine's.
> consumer(x.astype(x.dtype.newbyteorder('=')))

[longdouble]
~ DLPack only supports IEEE floating point
DLPack cannot describe longdouble, which has 80 bits in 16 bytes.
> consumer(x.astype('float64'))

[type-code]
~ Unsupported code \d
~ Unknown or invalid DLPack type code
~ Unknown DLPack datatype
~ unsupported DLPack type \d
~ Can't convert dlpack data type
The consumer does not have this dtype. Code 4 is bfloat16, 5 is complex, 6 is bool, 7 and above are
float8 and smaller.
> consumer(dlshim.upgrade(x, reinterpret="uint8"))  # bool, float8: the bytes
> consumer(dlshim.upgrade(x, reinterpret="uint16"))  # bfloat16: the bits

[sparse]
~ layout other than torch\.strided
A sparse tensor is not one block of memory, so it cannot be shared.
> consumer(x.to_dense())

[meta]
~ Cannot pack tensors on meta
~ Unknown device type \w+ for Dlpack
The tensor has no memory (meta), or this release does not export memory of its device (mps).
> consumer(x.cpu())  # mps; a meta tensor has no values to share

[traced]
~ method was called on traced array
Inside jit, vmap or grad an array has no memory yet, so there is nothing to share.
> jax.pure_callback(consumer, result_shape, x)  # or exchange outside of the function

[arrow-nulls]
~ DLPack on arrays with no nulls
DLPack cannot describe missing values.
> consumer(x.drop_null())
> consumer(x.fill_null(0))

[arrow-type]
~ Bit-packed boolean data type
~ not compatible with DLPack spec
Arrow packs eight booleans into a byte, and text, dates and lists are not numbers. DLPack can
describe neither.
> consumer(x.cast('uint8'))  # booleans

[negative]
~ negative strides
~ strides item is negative
~ Fail to alloc memory of 184467440737095\d+ size
~ Storage size calculation overflowed
~ terminate called after throwing .*c10::Error
The array has negative strides, which the consumer does not support. torch up to 2.13 ends the
process.
> consumer(dlshim.from_dlpack(dlshim.upgrade(x, order="C")))


[layout]
~ trivial \(compact\) striding
~ array with non-default layout
~ Invalid strides array
~ ORT only supports contiguous
~ (tensor|ndarray) is not contiguous
~ Only contiguous one dimensional tensor
The memory layout is not one that the consumer takes. JAX wants data without gaps, the others want
C-contiguous data, and pyarrow.Array has one dimension.
> consumer(dlshim.upgrade(x, order="C"))
> consumer(dlshim.to_capsule(x, order="C"))  # TensorFlow

[odd-strides]
~ strides which are a multiple of itemsize
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
~ device type \(DLDeviceType
~ device_from_local_hardware_id\(\)
~ Unsupported source device
The consumer does not understand what __dlpack_device__ says. It says pinned memory, a value of its
library's own enum (Open3D), or no number at all (Paddle).
> consumer(dlshim.upgrade(x))
> consumer(dlshim.upgrade(x, device="cpu"))  # pinned memory

[move]
~ cannot move \(i\.e\. copy=False\) tensor
~ unsupported device requested
~ Device not understood\. Only "cpu"
~ Specified device \S+ does not match
The data are on another device than the one asked for, and the array API standard defines copies to
the host only.
> consumer(dlshim.upgrade(x, device="cpu"))
> consumer(x.to("cuda"))  # torch moves itself

[copy-refused]
~ copy=True only supported for copy to CPU
~ copy not yet supported
~ Sorry, not supported: (copy=True|dl_device)
~ copy argument is not supported
~ export with a (copy=True|non-None dl_device)
The producer cannot copy or move its data when it exports them. dlshim makes the copy itself.
> consumer(dlshim.upgrade(x, copy=True))
> consumer(dlshim.upgrade(x, device="cpu"))

[host-stream]
~ only supports stream=None
~ stream should be None on cpu
~ Only stream=None is supported
~ export with a non-None stream
~ stream must be None( or -1 for|\.)
~ WaitUntilBufferReadyOnStream
A stream was passed, but the data are in host memory, where there are no streams.
> dlshim.upgrade(x).__dlpack__(stream=-1, max_version=(1, 0))
> consumer(dlshim.upgrade(x))

[stream-zero]
~ valid stream for the DLPack protocol is
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
class Known:
    key: str
    patterns: tuple[str, ...]
    cause: str
    cures: tuple[str, ...]

    def matches(self, text: str) -> bool:
        return any(re.search(pattern, text) for pattern in self.patterns)


def _read(text: str) -> Known:
    key, *lines = text.strip().splitlines()
    patterns = tuple(each[2:] for each in lines if each[0] == "~")
    cures = tuple(each[2:] for each in lines if each[0] == ">")
    return Known(
        key[1:-1], patterns, " ".join(each for each in lines if each[0] not in "~>"), cures
    )


KNOWN = tuple(map(_read, _ROWS.split("\n\n")))

WIDTH = 100
#: More matches than these are not told.
MOST = 3

ABOUT = """\
Say what an error message around DLPack means, and what to type instead.  TEXT is the
message, a whole traceback, or - to read it from standard input.
The exit status is 0 if the message is known, 1 if it is not.

examples:
  python -m dlshim explain "Cannot export readonly array since signalling readonly ..."
  python my_program.py 2>&1 | python -m dlshim explain -
"""

UNKNOWN = """\
This message is not known; docs/troubleshooting.rst has those that are.  What to do next:
  consumer(dlshim.upgrade(x))              errors of dlshim name their cure
  print(dlshim.inspect(x, export=True))    what an object offers
  python -m dlshim matrix                  what the libraries here can do
"""

#: Where the account of an exception begins; the last one of a traceback is what was raised.
_ERROR = re.compile(r"^(?:[\w.]+(?:Error|Exception|Warning)\b|terminate called)", re.M)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def find(text: str) -> list[Known]:
    """The rows that a text matches, the best first: those of its last error, then the others."""
    text = _COLOUR.sub("", text)
    last = [found.start() for found in _ERROR.finditer(text)][-1:]
    rows: dict[str, Known] = {}
    for part in (text[last[0] if last else 0 :], text):
        one_line = " ".join(part.split())
        rows |= {row.key: row for row in KNOWN if row.key not in rows and row.matches(one_line)}
    # The row for every refusal of dlshim says nothing that a special one does not.
    if len(rows) > 1:
        rows.pop("own", None)
    return list(rows.values())


def _lines(row: Known) -> list[str]:
    wrapped = textwrap.wrap(row.cause, WIDTH, initial_indent="why      ", subsequent_indent=" " * 9)
    heads = ["type     ", *["or type  "] * len(row.cures)]
    return wrapped + [head + cure for head, cure in zip(heads, row.cures, strict=False)]


def main(arguments: list[str]) -> int:
    """Explain a message; return the exit status."""
    parser = argparse.ArgumentParser(
        "python -m dlshim explain",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the message, or - for stdin")
    given = parser.parse_args(arguments).text
    text = sys.stdin.read() if given == ["-"] else " ".join(given)
    if not text.strip():
        parser.error("the text is empty")
    rows = find(text)
    if not rows:
        print(UNKNOWN, end="")
        return 1
    told = _lines(rows[0])
    for row in rows[1:MOST]:
        told += ["", "It may also be this:", *_lines(row)]
    print(*told, "", "consumer: the function that failed; x: what it was given", sep="\n")
    return 0
