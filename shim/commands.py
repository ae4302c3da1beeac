"""The commands of ``python -m dlshim``: how they write, then streams, inspect, explain and doctor.

The fifth command, matrix, is a package of its own.  What a command says is put together as tables,
notes and boxes of styled text, which ``show`` draws by rich where it is installed, else as plain
text.

What ``explain`` knows are the rows of ``_ROWS``, from which the troubleshooting page is made too;
tests/interop/messages.toml has examples, and who says them.  A row:

    [key]
    ~ a pattern; one of several has to be found
    why, in one or two sentences
    > a cure, as code; each is one by itself

In a cure, ``x`` is what was exchanged and ``consumer`` the function that it was given to.  Special
rows stand before general ones.  Patterns see white space as single spaces.

``doctor`` imports nothing but dlshim and starts no driver: versions come from the metadata of
distributions, all else from the tables of ``known``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from . import __version__, _core, get_include, known
from .known import installed_versions, version_tuple
from .report import functions, inspect, names

# ---- output -------------------------------------------------------------------------------------

#: Everything is laid out for a terminal of so many columns.
WIDTH = 100

#: A piece of text and its style, one of STYLES.
Span = tuple[str, str]
Line = tuple[Span, ...]

#: The styles, as rich has them.
STYLES = {
    "good": "green",
    "bad": "bold red",
    "limit": "yellow",
    "dim": "dim",
    "name": "cyan",
    "strong": "bold",
    "": "",
}


class Parser(argparse.ArgumentParser):
    """argparse's parser; where help cannot be written, the command hears of it."""

    def __init__(self, command: str, about: str) -> None:
        super().__init__(
            prog=f"python -m dlshim {command}",
            description=about,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def print_help(self, file: Any = None) -> None:
        """Write the help to a file or to stdout.

        Newer argparse ignores that it could not write: a command whose output is not buffered
        would end with 0, and one whose output is buffered, and lost by the last flush, would not.
        """
        print(self.format_help(), end="", file=file)


# ---- output: the parts of an output -------------------------------------------------------------


def line(*pieces: str | Span) -> Line:
    """Put pieces of text together; a plain str has no style."""
    return tuple((piece, "") if isinstance(piece, str) else piece for piece in pieces)


def text_of(of: Line) -> str:
    return "".join(text for text, _ in of)


def width_of(of: Line) -> int:
    return len(text_of(of))


@dataclass(frozen=True)
class Column:
    name: str
    right: bool = False
    #: Takes the width that the others leave; what is longer is wrapped, or cut where `one_line`.
    wide: bool = False
    style: str = ""


_MARKS: dict[str, dict[str, Any]] = {
    "*": {"wide": True},
    ">": {"right": True},
    "@": {"style": "name"},
    "+": {"style": "good"},
    "~": {"style": "dim"},
}


def columns(heads: Iterable[str]) -> list[Column]:
    """Columns by their names; marks before a name say how it is drawn."""
    made = []
    for head in heads:
        name = head.lstrip("".join(_MARKS))
        how: dict[str, Any] = {}
        for mark in head.removesuffix(name):
            how |= _MARKS[mark]
        made.append(Column(name, **how))
    return made


@dataclass
class Table:
    title: Line
    columns: list[Column]
    rows: list[list[Line]] = field(default_factory=list)
    #: What stands under it.
    note: str = ""
    #: A row takes one line; what is too long is cut.
    one_line: bool = False

    def add(self, *cells: str | Line) -> None:
        self.rows.append([line(cell) if isinstance(cell, str) else cell for cell in cells])

    def widths(self, width: int, gap: int) -> list[int]:
        """Of each column.  What is too much is taken from the wide one, down to a third, and then
        from the widest."""
        widths = [
            max([len(column.name), *(width_of(row[number]) for row in self.rows)])
            for number, column in enumerate(self.columns)
        ]
        least = [
            min(had, width // 3) if column.wide else had
            for had, column in zip(widths, self.columns, strict=True)
        ]
        while (over := sum(widths) + gap * (len(widths) - 1) - width) > 0:
            room, number = max((widths[n] - least[n], n) for n in range(len(widths)))
            if room <= 0:
                room, number = 1, widths.index(max(widths))
            widths[number] -= min(over, room)
        return widths


@dataclass
class Note:
    lines: list[Line]


@dataclass
class Box:
    title: str
    lines: list[Line]


Block = Table | Note | Box


def show(blocks: list[Block]) -> None:
    """Print the blocks."""
    draw = _draw if find_spec("rich") else _print
    draw(blocks)


# ---- output: plain text -------------------------------------------------------------------------

GAP = "  "


def _row(cells: list[str], columns: list[Column], widths: list[int], *, one_line: bool) -> None:
    parts = [
        [cell if len(cell) <= width else cell[: width - 1] + "…"]
        if one_line
        else textwrap.wrap(cell, width) or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    for number in range(max(map(len, parts))):
        told = [part[number] if number < len(part) else "" for part in parts]
        aligned = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, column, width in zip(told, columns, widths, strict=True)
        ]
        print(GAP.join(aligned).rstrip())


def _print_table(block: Table) -> None:
    print(text_of(block.title))
    widths = block.widths(WIDTH, len(GAP))
    _row([column.name for column in block.columns], block.columns, widths, one_line=True)
    print("-" * min(WIDTH, sum(widths) + len(GAP) * (len(widths) - 1)))
    for row in block.rows:
        _row(list(map(text_of, row)), block.columns, widths, one_line=block.one_line)
    print()
    if block.note:
        print(textwrap.fill(block.note, WIDTH) + "\n")


def _print(blocks: list[Block]) -> None:
    for block in blocks:
        if isinstance(block, Table):
            _print_table(block)
        elif isinstance(block, Box):
            width = max(map(width_of, block.lines))
            print(f"--- {block.title} ".ljust(width, "-"))
            print(*map(text_of, block.lines), "-" * width, sep="\n")
        else:
            for each in block.lines:
                print("\n".join(textwrap.wrap(text_of(each), WIDTH)))
            print()


# ---- output: rich -------------------------------------------------------------------------------


def _text(of: Line) -> Any:
    from rich.text import Text

    return Text.assemble(*((text, STYLES[style]) for text, style in of))


def _rich_table(block: Table, room: int) -> Any:
    from rich import box, table

    made = table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column, width in zip(block.columns, block.widths(room - 2, 3), strict=True):
        cut = block.one_line or not column.wide
        made.add_column(
            column.name,
            justify="right" if column.right else "left",
            width=width,
            no_wrap=cut,
            overflow="ellipsis" if cut else "fold",
            style=STYLES[column.style],
        )
    for row in block.rows:
        made.add_row(*map(_text, row))
    return made


def _draw(blocks: list[Block]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.text import Text

    class Teller(Console):
        """Leaves a reader that went away to the command line."""

        def on_broken_pipe(self) -> None:
            raise

    console = Teller(highlight=False)
    if not console.is_terminal or console.width > WIDTH:
        console = Teller(highlight=False, width=WIDTH)
    for block in blocks:
        if isinstance(block, Table):
            console.print(_text(block.title))
            console.print(_rich_table(block, console.width))
            if block.note:
                console.print(f"{block.note}\n", style="dim")
            continue
        lines = Text("\n").join(map(_text, block.lines))
        if isinstance(block, Box):
            console.print(Panel(lines, title=block.title, title_align="left", expand=False))
        else:
            console.print(lines)


# ---- output: progress ---------------------------------------------------------------------------


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield what is called after each step; on a terminal it tells how far it is."""
    done, told = 0, sys.stderr.isatty()

    def step(what: str) -> None:
        nonlocal done
        done += 1
        if told and done % 10 == 1:
            print(f"\r{done:>6} of {total}  {what:<40}", end="", file=sys.stderr, flush=True)

    yield step
    if told:
        print(f"\r{'':<60}\r", end="", file=sys.stderr, flush=True)


# ---- streams ------------------------------------------------------------------------------------

STREAMS = """\
What a producer is passed as stream= and, after the arrow, what dlshim does itself.
P: the stream with the producer's unfinished work. S: the consumer's. L: the legacy default stream.
edge(P,S): S waits for what is in P now, the host does not. wait(P): the host waits.
wait: the option stream="wait", ready for every stream. D: a stream of dlshim's own.
sync(P,S): edge(P,S) if P is known or can be learned, else a device-wide edge or wait.
"""
_STREAMS_EXAMPLES = """
examples:
  python -m dlshim streams            all families of devices
  python -m dlshim streams CUDA       one of them
"""


def _lines(device: str) -> Iterable[str]:
    table = known.cells(device)
    values = next(iter(table.values()))
    rows = [["", *values], *([name, *row.values()] for name, row in table.items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    yield f"{device}:"
    for row in rows:
        yield "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def streams(arguments: list[str]) -> int:
    """Print the table; return the exit status."""
    parser = Parser("streams", STREAMS + _STREAMS_EXAMPLES)
    parser.add_argument(
        "device", nargs="*", metavar="DEVICE", help=f"of: {', '.join(known.families())}"
    )
    chosen = parser.parse_args(arguments).device or known.families()
    if unknown := [name for name in chosen if name not in known.families()]:
        parser.error(f"no device {unknown[0]!r}; there are: {', '.join(known.families())}")
    print(STREAMS)
    print("\n\n".join("\n".join(_lines(device)) for device in chosen))
    return 0


# ---- inspect ------------------------------------------------------------------------------------

INSPECT = """\
Say what an object offers and, with --to, what a consumer will do with it, and the cure.
EXPR is Python code that is evaluated; the modules that it names are imported.

exit status: 0 it works as it is, 1 it does not or cannot be told, 2 wrong usage

examples:
  python -m dlshim inspect "numpy.arange(6.)[::-1]" --to torch
  python -m dlshim inspect "b'bytes'" --to pyarrow --json

consumers: """
_NAMED = {"np": "numpy", "jnp": "jax.numpy", "tf": "tensorflow", "pa": "pyarrow", "cp": "cupy"}


def evaluate(text: str) -> Any:
    """Return the value of an expression; each module that it turns out to lack is imported."""
    from importlib import import_module

    space: dict[str, Any] = {}
    while True:
        try:
            return eval(text.strip(), space)
        except NameError as error:
            if error.name is None or error.name in space:
                raise
            space[error.name] = import_module(_NAMED.get(error.name, error.name))
        except AttributeError as error:
            module = getattr(error.obj, "__name__", "")
            if module not in sys.modules or f"{module}.{error.name}" in sys.modules:
                raise
            import_module(f"{module}.{error.name}")


def inspect_(arguments: list[str]) -> int:
    """Print the report; return the exit status."""
    parser = Parser("inspect", INSPECT + ", ".join(names()))
    parser.add_argument("expression", metavar="EXPR", help="evaluated to the object")
    parser.add_argument("--to", metavar="CONSUMER", help="a library or one of its functions")
    parser.add_argument("--export", action="store_true", help="look at one export, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    chosen = parser.parse_args(arguments)
    try:
        obj = evaluate(chosen.expression)
    except Exception as error:
        parser.error(f"EXPR cannot be evaluated: {type(error).__name__}: {error}")
    try:
        report = inspect(obj, export=chosen.export, consumer=chosen.to)
    except ValueError as error:
        parser.error(str(error))
    if chosen.json:
        print(json.dumps(dataclasses.asdict(report), indent=1, default=str))
    else:
        print(report)
    works = all(verdict.bare.result == "works" for verdict in report.verdicts)
    return 0 if works and report.plan else 1


# ---- explain ------------------------------------------------------------------------------------

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

#: More matches than these are not told.
MOST = 3

EXPLAIN = """\
Say what an error message around DLPack means, and what to type instead.  TEXT is the
message, a whole traceback, or - to read it from standard input.
The exit status is 0 if the message is known, 1 if it is not.

examples:
  python -m dlshim explain "Cannot export readonly array since signalling readonly ..."
  python my_program.py 2>&1 | python -m dlshim explain -
"""

UNKNOWN = """\
This message is not known.  What to do next:
  consumer(dlshim.upgrade(x))              errors of dlshim name their cure
  print(dlshim.inspect(x, export=True))    what an object offers
  python -m dlshim doctor                  known faults of the libraries that are installed
"""

#: Where the account of an exception begins; the last one of a traceback is what was raised.
_ERROR = re.compile(r"^(?:[\w.]+(?:Error|Exception|Warning)\b|terminate called)", re.M)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def find(text: str) -> list[Message]:
    """The rows that a text matches, the best first: those of its last error, then the others."""
    text = _COLOUR.sub("", text)
    last = [found.start() for found in _ERROR.finditer(text)][-1:]
    rows: dict[str, Message] = {}
    for part in (text[last[0] if last else 0 :], text):
        one_line = " ".join(part.split())
        rows |= {row.key: row for row in MESSAGES if row.key not in rows and row.matches(one_line)}
    # The row for every refusal of dlshim says nothing that a special one does not.
    if len(rows) > 1:
        rows.pop("own", None)
    return list(rows.values())


def _told(row: Message) -> list[str]:
    wrapped = textwrap.wrap(row.cause, WIDTH, initial_indent="why      ", subsequent_indent=" " * 9)
    heads = ["type     ", *["or type  "] * len(row.cures)]
    return wrapped + [head + cure for head, cure in zip(heads, row.cures, strict=False)]


def explain(arguments: list[str]) -> int:
    """Explain a message; return the exit status."""
    parser = Parser("explain", EXPLAIN)
    parser.add_argument("text", nargs="+", metavar="TEXT", help="the message, or - for stdin")
    given = parser.parse_args(arguments).text
    text = sys.stdin.read() if given == ["-"] else " ".join(given)
    if not text.strip():
        parser.error("the text is empty")
    rows = find(text)
    if not rows:
        print(UNKNOWN, end="")
        return 1
    told = _told(rows[0])
    for row in rows[1:MOST]:
        told += ["", "It may also be this:", *_told(row)]
    print(*told, "", "consumer: the function that failed; x: what it was given", sep="\n")
    return 0


# ---- doctor -------------------------------------------------------------------------------------

DOCTOR = """\
Say what is installed, its known faults, and what to expect between each two libraries.
Nothing is tried; python -m dlshim matrix does that.  The exit status is 0 if ordinary
arrays pass between all of them when upgraded, perhaps with an option; else 1.

examples:
  python -m dlshim doctor             what to expect here
  python -m dlshim doctor --json      the same for a bug report, or for a program
"""

#: What is looked for, by the beginning of its name on Linux.
DRIVERS = {"CUDA": "libcuda.so.1", "ROCm": "libamdhip64.so", "SYCL": "libsycl.so"}

Facts = dict[str, Any]


def _installed(versions: Mapping[str, str]) -> Iterable[Facts]:
    for key, text in versions.items():
        version = version_tuple(text)
        sources = [row for row in known.SOURCES if row.library == key]
        takes = known.rows_of("".join(functions(key)[:1]))
        gives, tried = known.nearest(sources, version) if sources else (None, True)
        into, verified = known.nearest(takes, version) if takes else (None, True)
        yield {
            "name": key,
            "version": text,
            "gives": gives and ("0.x and 1.x" if gives.versioned else "0.x"),
            "asks_for": into and into.asks,
            # Releases that are in no table count as the nearest that is.
            "verified": tried and verified,
            "faults": known.faults(key, version),
        }


def _pair(cells: list[Any]) -> Facts:
    exchange, limit = cells[0].exchange, cells[0].limit
    bare = exchange.expected()[0].result
    return {
        "from": exchange.producer.label,
        "into": exchange.consumer.label,
        # None: it cannot be told
        "bare": None if bare == "unknown" else bare == "works",
        # "works", the option that it needs, or "no"
        "upgraded": "works" if limit is None else limit.cure or "no",
        # Other arrays that a plain upgrade cannot pass, with the option that helps.
        "limits": [
            (cell.exchange.case.title, cell.limit.why, cell.limit.cure)
            for cell in cells[1:]
            if cell.limit
        ],
    }


def pairs(versions: dict[str, str]) -> list[Facts]:
    """What to expect of each two libraries that the matrix knows and that have float32."""
    from .matrix import command, run

    cells = command.between_libraries(run.plan(versions, set(versions)))
    cells = [cell for cell in cells if cell.exchange.producer.library != "ml_dtypes"]
    return list(map(_pair, command.by_pair(cells).values()))


def _driver(name: str) -> str | None:
    """The path of a driver; it is looked for and not opened."""
    cache = b""
    with contextlib.suppress(OSError):
        cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True).stdout
    found = re.findall(rf"\t{re.escape(name)}.* => (.*)", os.fsdecode(cache))
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders += [f"{sys.prefix}/lib", f"{sysconfig.get_path('platlib')}/torch/lib"]
    for folder in filter(None, [*folders, "/usr/lib/wsl/lib"]):
        found += map(str, Path(folder).glob(f"{name}*"))
    return found[0] if found else None


def _wheel() -> str:
    here = str(Path(__file__).parents[1])
    for found in importlib.metadata.distributions(name="dlshim", path=[here]):
        told = (found.read_text("WHEEL") or "").splitlines()
        return ", ".join(row[5:] for row in told if row.startswith("Tag: "))
    return "not installed as a wheel"


def diagnose() -> Facts:
    """All that is told, as data."""
    versions = installed_versions()
    expected = pairs(versions)
    free = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    python = f"{platform.python_implementation()} {platform.python_version()}{free}"
    return {
        "dlshim": f"{__version__}, {_wheel()}",
        "extension": _core.__file__,
        "python": f"{python}, {platform.platform()}",
        "drivers": {name: _driver(file) for name, file in DRIVERS.items()},
        "libraries": list(_installed(versions)),
        "pairs": expected,
        "works": all(pair["upgraded"] != "no" for pair in expected),
    }


def _table(title: str, *heads: str) -> Table:
    return Table(line((title, "strong")), columns(heads))


def _tables(told: Facts) -> list[Table]:
    here = _table("DLPack of the installed libraries", "@library", "version", "gives", "asks for")
    here.note = "*: nearest release that is known; not verified"
    wrong = _table("Known faults", "@library", "bare", "*what", "with dlshim")
    for each in told["libraries"]:
        mark = "" if each["verified"] else " *"
        here.add(
            each["name"], each["version"] + mark, each["gives"] or "—", each["asks_for"] or "—"
        )
        for fault in each["faults"]:
            wrong.add(each["name"], *fault)
    from .matrix.command import names as names_of

    works = _table("What to expect of ordinary arrays", "@from", "works", "*into")
    limits = _table("What a plain upgrade cannot do", "+works with", "*why", "into")
    ways: dict[tuple[str, str], list[str]] = defaultdict(list)
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pair in told["pairs"]:
        plain = pair["upgraded"] == "works"
        way = ("bare" if pair["bare"] else "upgraded") if plain else pair["upgraded"]
        ways[pair["from"], way].append(pair["into"])
        for _, reason, option in pair["limits"]:
            reasons[option or "—", reason].append(pair["into"])
    for (source, how), into in ways.items():
        works.add(source, how, ", ".join(into))
    for (option, reason), into in reasons.items():
        limits.add(option, reason, names_of(into, 3))
    return [table for table in (here, wrong, works, limits) if table.rows]


def blocks(told: Facts) -> list[Block]:
    drivers = "; ".join(f"{name} {path or 'not found'}" for name, path in told["drivers"].items())
    rows = {key: told[key] for key in ("dlshim", "extension", "python")} | {"drivers": drivers}
    verdict = line(("all ordinary arrays pass when upgraded", "good"))
    if not told["works"]:
        verdict = line(("some pairs do not work", "bad"))
    if not told["pairs"]:
        verdict = line("no array library is installed")
    count = sum(pair["bare"] is True for pair in told["pairs"])
    sums = f"{len(told['pairs'])} pairs, {count} work bare; python -m dlshim matrix tries them"
    return [
        Note([line((key.ljust(11), "strong"), text) for key, text in rows.items()]),
        *_tables(told),
        Box("dlshim doctor", [line(sums), verdict]),
    ]


def doctor(arguments: list[str]) -> int:
    """Print the diagnosis; return the exit status."""
    parser = Parser("doctor", DOCTOR)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    told = diagnose()
    if options.json:
        print(json.dumps(told, indent=1))
    else:
        show(blocks(told))
    return 0 if told["works"] else 1


# ---- all of them --------------------------------------------------------------------------------

HELP = """\
usage: python -m dlshim COMMAND [options]

  matrix      exchange arrays among the libraries that are installed here, bare and
              upgraded, and show what failed and what works now
  doctor      what is installed, its known faults, and what to expect between each two
              libraries
  explain     what an error message means, and what to type instead
  inspect     what an object offers, and what a library will do with it and why
  streams     the table of stream rules: what producers are passed, and what dlshim does
  --version   the version of dlshim
  --include   the folder of dlshim.h, for authors of C extensions

python -m dlshim COMMAND --help shows a command's options and examples.
In Python: import dlshim; help(dlshim.upgrade)
"""


def matrix(arguments: list[str]) -> int:
    """Exchange arrays among what is installed."""
    from .matrix.command import main as run

    return run(arguments)


COMMANDS = {
    "matrix": matrix,
    "doctor": doctor,
    "explain": explain,
    "inspect": inspect_,
    "streams": streams,
}


def main(arguments: list[str]) -> int:
    """Run a command; return the exit status."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"dlshim {__version__}")
        return 0
    if arguments[0] == "--include":
        print(get_include())
        return 0
    if command := COMMANDS.get(arguments[0]):
        return command(arguments[1:])
    print(f"python -m dlshim: no command {arguments[0]!r}\n\n{HELP}", file=sys.stderr, end="")
    return 2
