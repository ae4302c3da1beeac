"""The commands of ``python -m dlshim``: how they write, then each of them.

What ``matrix`` tries is in ``exchanges``; how it is told is here.  Its page is one file of HTML,
made by Jinja2, that needs nothing else and no network.

What a command says is put together as tables, notes and boxes of styled text, which ``show`` draws
by rich where it is installed, else as plain text.

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
import io
import json
import os
import platform
import re
import signal
import subprocess
import sys
import sysconfig
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__, _core, get_include, known
from .known import functions, inspect, installed_versions, names, version_tuple

if TYPE_CHECKING:
    from .exchanges import Cell, Consumer, Producer, Report

    #: A piece of text and its style, one of STYLES.
    Span = tuple[str, str]
    Line = tuple[Span, ...]
    Facts = dict[str, Any]
    Pairs = dict[tuple[str, str], list[Cell]]

# ---- output -------------------------------------------------------------------------------------

#: Everything is laid out for a terminal of so many columns.
WIDTH = 100

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


if TYPE_CHECKING:
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
  python -m dlshim streams --json     by device, producer and stream, for a program
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
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    chosen = options.device or known.families()
    if unknown := [name for name in chosen if name not in known.families()]:
        parser.error(f"no device {unknown[0]!r}; there are: {', '.join(known.families())}")
    if options.json:
        print(json.dumps({name: known.cells(name) for name in chosen}, indent=1))
        return 0
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
    parser.add_argument("expression", metavar="EXPR")
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

#: More matches than these are not told.
MOST = 3

EXPLAIN = """\
Say what an error message around DLPack means, and what to type instead.  TEXT is the
message, a whole traceback, or - to read it from standard input.
The exit status is 0 if the message is known, 1 if it is not.

examples:
  python -m dlshim explain "Cannot export readonly array since signalling readonly ..."
  python my_program.py 2>&1 | python -m dlshim explain -
  python -m dlshim explain --json "..."     every row that fits, the best first, for a program
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
    parser.add_argument("text", nargs="+", metavar="TEXT")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    given = options.text
    text = sys.stdin.read() if given == ["-"] else " ".join(given)
    if not text.strip():
        parser.error("the text is empty")
    rows = find(text)
    if options.json:
        told = [{"key": row.key, "cause": row.cause, "cures": row.cures} for row in rows]
        print(json.dumps(told, indent=1))
        return 0 if rows else 1
    if not rows:
        print(UNKNOWN, end="")
        return 1
    lines = _told(rows[0])
    for row in rows[1:MOST]:
        lines += ["", "It may also be this:", *_told(row)]
    print(*lines, "", "consumer: the function that failed; x: what it was given", sep="\n")
    return 0


# ---- matrix -------------------------------------------------------------------------------------
#: Rows of a table on the one screen, and in the whole output.
FEW, MANY = 6, 28


def _lost_of(cells: Iterable[Cell]) -> list[Cell]:
    """What worked bare, and does not upgraded."""
    return [cell for cell in cells if cell.works_bare and not cell.works_upgraded]


def between_libraries(cells: Iterable[Cell]) -> list[Cell]:
    """The exchanges in which neither side is a buffer of Python's or a raw capsule."""
    built_in = set(known.BUILT_IN)
    return [
        cell
        for cell in cells
        if not built_in & {cell.exchange.producer.library, cell.exchange.consumer.library}
    ]


def by_pair(cells: Iterable[Cell]) -> Pairs:
    pairs: Pairs = defaultdict(list)
    for cell in cells:
        pairs[cell.exchange.producer.key, cell.exchange.consumer.key].append(cell)
    return pairs


_NOISE = re.compile(r"0x[0-9a-f]+|\d{4,}")


def complaint(told: dict[str, object]) -> str:
    """Why an exchange failed, with what differs each time taken out."""
    detail = str(told.get("detail", "")) or "?"
    if told["outcome"] == "died":
        detail = f"process killed, {detail}"
    return _NOISE.sub("…", detail)


def some_of(names: Iterable[str], most: int) -> str:
    """Join distinct names; what is beyond ``most`` of them is only counted."""
    distinct = list(dict.fromkeys(names))
    rest = f" +{len(distinct) - most}" if len(distinct) > most else ""
    return ", ".join(distinct[:most]) + rest


def _versions(report: Report) -> Note:
    here = "  ".join(f"{key} {version}" for key, version in report.versions.items())
    lines = [line(("Libraries  ", "strong"), here or "none")]
    for key, error in report.broken.items():
        lines.append(line((f"{key} is installed but cannot be imported: ", "limit"), error))
    for what, reason in report.left_out.items():
        lines.append(line(("left out: ", "limit"), f"{what}: {reason}"))
    return Note(lines)


def _now(cell: Cell) -> str:
    """What came of an exchange upgraded, in a word or two."""
    if cell.works_upgraded:
        return "right"
    if cell.works_with_option and cell.limit is not None:
        return f"right with {cell.limit.cure}"
    return str(cell.upgraded["outcome"])


def _grouped(
    title: str,
    heads: str,
    cells: Iterable[Cell],
    key: Callable[[Cell], tuple[Any, ...] | None],
    row: Callable[[tuple[Any, ...], list[Cell]], list[str]],
    most: int,
) -> list[Table]:
    """A table with a row for each kind of cells, those with most cells first; no cell, no table.

    The key of a kind begins with what comes before the number; None: the cell is left out.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        if (kind := key(cell)) is not None:
            groups[kind].append(cell)
    ordered = sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1])))
    if len(ordered) == most + 1:
        most += 1
    rest = sum(len(members) for _, members in ordered[most:])
    total = sum(map(len, groups.values()))
    table = Table(line((f"{title}: {total}", "strong")), columns([*heads.split(", "), ">cases"]))
    table.one_line = most < MANY or "it said" in heads or "gave" in heads
    for kind, members in ordered[:most]:
        table.add(*row(kind, members), str(len(members)))
    if rest:
        more = [f"{len(ordered) - most} more kinds", *[""] * (len(table.columns) - 3)]
        table.add("…", *more, str(rest))
    return [table] if groups else []


def _into(cells: list[Cell], most: int) -> str:
    return some_of((cell.exchange.consumer.label for cell in cells), most)


def _from(cells: list[Cell], most: int = 2) -> str:
    return some_of((cell.exchange.producer.label for cell in cells), most)


def _cured(cells: list[Cell], most: int) -> list[Table]:
    """What failed bare and works upgraded: what killed the process first, then libraries."""
    own = set(map(id, between_libraries(cells)))

    def key(cell: Cell) -> tuple[Any, ...] | None:
        died = cell.bare["outcome"] == "died"
        works = cell.works_upgraded or cell.works_with_option
        if not works or not (died or cell.bare["outcome"] == "refused"):
            return None
        kind = "" if died else cell.bare["detail"].split(":")[0]
        return (not died, id(cell) not in own), cell.exchange.consumer.label, kind, _now(cell)

    return _grouped(
        "What failed bare and works with dlshim",
        "@into, from, *bare it said, upgraded",
        cells,
        key,
        lambda kind, them: [kind[1], _from(them), complaint(them[0].bare), kind[3]],
        most,
    )


def _silent(cells: list[Cell], most: int) -> list[Table]:
    """What was silently wrong bare, and what came of it upgraded."""
    return _grouped(
        "What was silently wrong bare",
        "@into, from, *bare it gave, upgraded",
        [cell for cell in cells if cell.bare["outcome"] == "wrong"],
        lambda cell: ((), cell.exchange.consumer.label, _now(cell)),
        lambda kind, them: [kind[1], _from(them), complaint(them[0].bare), kind[2]],
        most,
    )


def _reason(kind: tuple[Any, ...], cells: list[Cell], most: int) -> list[str]:
    limit = cells[0].limit
    return [kind[1], _into(cells, most), limit.cure if limit and limit.cure else "—"]


def _lost(cells: list[Cell], most: int) -> list[Table]:
    """What works bare and not with a plain upgrade, with the reason and the cure."""
    return _grouped(
        "What works bare and not with a plain upgrade",
        "*reason, into, +works with",
        _lost_of(cells),
        lambda cell: ((), cell.limit.why if cell.limit else complaint(cell.upgraded)),
        lambda kind, them: _reason(kind, them, 2),
        most,
    )


def _limits(cells: Iterable[Cell]) -> list[Table]:
    return _grouped(
        "What no plain upgrade can do",
        "*reason, into, +works with, >bare",
        cells,
        lambda cell: ((), cell.limit.why) if cell.limit else None,
        lambda kind, them: [*_reason(kind, them, 4), str(sum(c.works_bare for c in them) or "—")],
        MANY,
    )


def _faults(faults: list[Cell]) -> list[Table]:
    return _grouped(
        "Upgraded exchanges that should work and do not",
        "@into, from, case, *it said",
        faults,
        lambda cell: ((), cell.exchange.consumer.label, _NOISE.sub("…", cell.fault or "")),
        lambda kind, them: [
            kind[1],
            _from(them, 3),
            some_of((cell.exchange.case.key for cell in them), 3),
            kind[2][:200],
        ],
        MANY,
    )


# --- producers down, consumers across --------------------------------------------------------


def _exchange_text(cells: list[Cell]) -> Line:
    bare = sum(cell.works_bare for cell in cells)
    plain = sum(cell.works_upgraded for cell in cells)
    now = plain + sum(cell.works_with_option for cell in cells)
    harm = {cell.bare.get("outcome") for cell in cells} & {"wrong", "died"}
    if any(cell.fault for cell in cells):
        style = "bad"
    elif now == len(cells):
        style = "good" if bare < now else "dim"
    else:
        style = "limit" if now else "dim"
    mark = "†" if "died" in harm else "!" if harm else ""
    copied = any(cell.upgraded.get("zero_copy") is False for cell in cells)
    return (
        (f"{bare}{mark}", "bad" if mark else "dim"),
        ("→", "dim"),
        (f"{now}", style),
        ("c" if copied else " ", "dim"),
    )


def _short(nanoseconds: float) -> str:
    if nanoseconds < 9_950:
        return f"{nanoseconds:.0f}"
    return f"{nanoseconds / 1000:.0f}k"


def _cost_text(cells: list[Cell]) -> Line:
    timed = [cell for cell in cells if "ns" in cell.upgraded]
    if not timed:
        return ()
    now = timed[0].upgraded["ns"]
    bare = timed[0].bare.get("ns")
    style = "good" if bare and now < bare else "limit" if bare and now > 1.5 * bare else ""
    return (f"{_short(bare)}→" if bare else "-→", "dim"), (_short(now), style)


def _parts(
    width: int,
    rows: Sequence[Producer],
    columns: Sequence[Consumer],
    texts: dict[tuple[str, str], Line],
) -> Iterable[list[Consumer]]:
    """Cut the columns into as many parts as the width needs."""
    part: list[Consumer] = []
    used = 0
    for consumer in columns:
        widest = max(width_of(texts.get((p.key, consumer.key), ())) for p in rows)
        need = max(len(consumer.label), widest) + 3
        if part and used + need > width:
            yield part
            part, used = [], 0
        part.append(consumer)
        used += need
    if part:
        yield part


def _grids(
    title: str, note: str, pairs: Pairs, content: Callable[[list[Cell]], Line], *, counts: bool
) -> list[Table]:
    from .exchanges import CONSUMERS, PRODUCERS

    texts = {key: content(cells) for key, cells in pairs.items()}
    rows = [p for p in PRODUCERS if any(texts.get((p.key, c.key)) for c in CONSUMERS)]
    consumers = [c for c in CONSUMERS if any(texts.get((p.key, c.key)) for p in rows)]
    arrays = {producer: len(cells) for (producer, _), cells in pairs.items()}
    label = max((len(p.label) for p in rows), default=0)
    tables: list[Table] = []
    for part in _parts(WIDTH - label - len(" of   "), rows, consumers, texts):
        told = title if not tables else f"{title} (continued)"
        heads = ["@from \\ to", *["~>of"] * counts, *[f">{consumer.label}" for consumer in part]]
        table = Table(line((told, "strong")), columns(heads))
        for producer in rows:
            cells = [texts.get((producer.key, consumer.key), ()) for consumer in part]
            table.add(producer.label, *[str(arrays[producer.key])] * counts, *cells)
        tables.append(table)
    if tables:
        tables[-1].note = note
    return tables


def _exchanges(pairs: Pairs) -> list[Table]:
    return _grids(
        "What works: bare → upgraded",
        "How many small arrays (layouts, dtypes), of as many as there are, arrive whole. "
        "!: silently wrong when bare; †: killed the process when bare; c: the consumer copies "
        "(all else is zero-copy). Yellow: a limit, see below. "
        "caps.: a raw capsule, as C code wants it.",
        pairs,
        _exchange_text,
        counts=True,
    )


def _cost(pairs: Pairs) -> list[Table]:
    return _grids(
        "Cost of one exchange in ns: bare → upgraded, wrapper made each time",
        "Six float32, least of a few batches. -: fails when bare. Green: cheaper upgraded; "
        "yellow: more than half as much again.",
        pairs,
        _cost_text,
        counts=False,
    )


# --- the verdict -----------------------------------------------------------------------------


def _both(what: str, cells: Iterable[Cell], outcome: str) -> str:
    """How many came to an outcome, bare and upgraded."""
    came = [(cell.bare.get("outcome"), cell.upgraded.get("outcome")) for cell in cells]
    bare, upgraded = (each.count(outcome) for each in zip(*came, strict=True))
    return f"{what}: {bare} bare, {upgraded} upgraded"


def _sum_line(of_what: str, cells: Sequence[Cell]) -> Line:
    return line(
        f"{of_what}: {len(cells)} exchanges, ",
        (f"{sum(cell.works_bare for cell in cells)}", "strong"),
        " work bare, ",
        (f"{sum(cell.works_upgraded for cell in cells)}", "good"),
        f" upgraded, {sum(cell.works_with_option for cell in cells)} more with an option",
    )


def _ratios(cells: Iterable[Cell]) -> list[float]:
    return [
        cell.upgraded["ns"] / cell.bare["ns"]
        for cell in cells
        if "ns" in cell.upgraded and "ns" in cell.bare
    ]


def _warned(cells: Iterable[Cell]) -> list[Line]:
    """How often dlshim warned; a filter that makes warnings errors turns these into refusals."""
    warned = [cell.exchange.consumer.label for cell in cells if cell.upgraded.get("warned")]
    if not warned:
        return []
    who = some_of(warned, 3)
    return [line(f"read-only memory that {who} may write: {len(warned)}, each with a warning")]


def verdict(report: Report) -> Box:
    """The sums, library to library first, and whether all is as it should be."""
    from statistics import geometric_mean

    cells = report.cells
    own = between_libraries(cells)
    told = [
        cell.upgraded["zero_copy"]
        for cell in cells
        if cell.works_upgraded and cell.upgraded.get("zero_copy") is not None
    ]
    lines = [_sum_line("library to library", own)] if own else []
    if len(own) != len(cells):
        lines.append(_sum_line("buffers and capsules too", cells))
    wrong = _both("silently wrong", cells, "wrong")
    lines += [
        line(f"{wrong}; {_both('killed the process', cells, 'died')}"),
        line(f"work bare and not with a plain upgrade: {len(_lost_of(cells))}"),
        *_warned(cells),
        line(f"zero-copy: {sum(told)} of the {len(told)} whose addresses both sides tell"),
    ]
    if ratios := _ratios(cells):
        lines.append(
            line(
                f"cost where both work: {geometric_mean(ratios):.2f} times the bare exchange "
                f"(geometric mean of {len(ratios)})"
            )
        )
    lines.append(
        line((f"{len(report.faults)} that should work do not (see above)", "bad"))
        if report.faults
        else line(("every upgraded exchange that should work does", "good"))
    )
    return Box("dlshim matrix", lines)


# --- the two outputs ---------------------------------------------------------------------------

NOTHING = Note([line("No exchange to carry out: install some array libraries first.")])


def one_screen(report: Report) -> list[Block]:
    """What failed bare, what was silently wrong, what is lost, and the sums: 40 lines at most."""
    if not report.cells:
        return [_versions(report), NOTHING]
    more = "--full shows every pair, limit and cost; --html FILE writes a page"
    return [
        _versions(report),
        *_cured(report.cells, FEW),
        *_silent(report.cells, 3),
        *_lost(report.cells, 2),
        *_faults(report.faults),
        verdict(report),
        Note([line((more, "dim"))]),
    ]


def full(report: Report) -> list[Block]:
    """All tables and the verdict."""
    if not report.cells:
        return [_versions(report), NOTHING]
    pairs = by_pair(report.cells)
    return [
        _versions(report),
        *_exchanges(pairs),
        *_cured(report.cells, MANY),
        *_silent(report.cells, MANY),
        *_limits(report.cells),
        *_lost(report.cells, MANY),
        *_cost(pairs),
        *_faults(report.faults),
        verdict(report),
    ]


MATRIX = """\
Exchange small arrays among the array libraries that are installed here, bare and
upgraded by dlshim, each in a child process, and show what failed and what works now.
The exit status is 0 only if every upgraded exchange that should work does.

examples:
  python -m dlshim matrix                         one screen about all that is installed
  python -m dlshim matrix --only numpy,torch      two libraries
  python -m dlshim matrix --full                  every pair, every limit, every cost
  python -m dlshim matrix --html matrix.html      a page to look at or to send

libraries: """


def _matrix_parser() -> Parser:
    names = ", ".join([*known.MATRIX, *known.BUILT_IN])
    parser = Parser("matrix", MATRIX + names)
    parser.add_argument("--only", metavar="A,B", help="exchange among these libraries only")
    parser.add_argument("--full", action="store_true", help="print all tables, not one screen")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every result to FILE")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page to FILE")
    parser.add_argument("--no-cost", action="store_true", help="do not time the exchanges")
    return parser


def _chosen(only: str | None, versions: dict[str, str]) -> set[str]:
    """Return the libraries to exchange among; ValueError says which cannot be."""
    here = set(versions) | set(known.BUILT_IN)
    if only is None:
        return here
    names = {name.strip().replace("-", "_") for name in only.split(",") if name.strip()}
    unknown = names - set(known.MATRIX) - set(known.BUILT_IN)
    if unknown:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))} (see --help)")
    if names - here:
        raise ValueError(f"not installed: {', '.join(sorted(names - here))}")
    if not names:
        raise ValueError("--only names no library")
    return names


def _check_files(json: Path | None, page: Path | None) -> None:
    """An error where a result could not be written, before an hour is spent on it."""
    if page and not find_spec("jinja2"):
        raise ValueError("--html makes its page with Jinja2:  pip install jinja2")
    for file in filter(None, (json, page)):
        file.open("a").close()


@dataclass(frozen=True)
class Spot:
    """A pair in the heat map: what works of it, bare and upgraded, and why not the rest."""

    cases: int
    bare: int
    upgraded: int
    cured: int
    wrong: tuple[int, int]
    why: list[str]

    @classmethod
    def of(cls, cells: list[Cell]) -> Spot:
        return cls(
            cases=len(cells),
            bare=sum(cell.works_bare for cell in cells),
            upgraded=sum(cell.works_upgraded for cell in cells),
            cured=sum(cell.works_with_option for cell in cells),
            wrong=(_wrong(cell.bare for cell in cells), _wrong(cell.upgraded for cell in cells)),
            why=[line for cell in cells if (line := _why(cell))],
        )

    def style(self, now: bool) -> str:
        """The class of its colour, upgraded or bare: how many tenths of its cases work."""
        works = self.upgraded if now else self.bare
        return "bad" if self.wrong[now] else f"t{10 * works // self.cases}"


def _wrong(results: Iterable[dict[str, Any]]) -> int:
    """How many were silently wrong or killed the process."""
    return sum(told["outcome"] in ("wrong", "died") for told in results)


def _why(cell: Cell) -> str:
    """What is to be known of one exchange: the reason and the cure; "" where all is well."""
    told = []
    if not cell.works_bare:
        told.append(f"bare: {complaint(cell.bare)}")
    if not cell.works_upgraded:
        told.append(f"upgraded: {complaint(cell.upgraded)}")
        if cell.limit:
            told.append(f"reason: {cell.limit.why}")
        if cell.limit and cell.limit.cure:
            told.append(f"works with {cell.limit.cure}")
    return f"{cell.exchange.case.title}: {'; '.join(told)}" if told else ""


def _heat(report: Report) -> dict[str, Any]:
    from .exchanges import CONSUMERS, PRODUCERS

    pairs = by_pair(report.cells)
    rows = [p for p in PRODUCERS if any(key[0] == p.key for key in pairs)]
    columns = [c for c in CONSUMERS if any(key[1] == c.key for key in pairs)]
    spots = {key: Spot.of(cells) for key, cells in pairs.items()}
    return {"rows": rows, "columns": columns, "spots": spots}


def _write_page(report: Report, file: Path) -> None:
    """Write the page; OSError where the file cannot be written."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    blocks = full(report)
    page = environment.get_template("page.html").render(
        version=__version__,
        report=report,
        heat=_heat(report),
        box=next(block for block in blocks if isinstance(block, Box)),
        tables=[b for b in blocks if isinstance(b, Table) and "\\" not in b.columns[0].name],
    )
    file.write_text(page, encoding="utf-8")


def matrix(arguments: list[str]) -> int:
    """Exchange arrays among what is installed; return the exit status."""
    from . import exchanges

    parser = _matrix_parser()
    options = parser.parse_args(arguments)
    versions = known.installed_versions(known.MATRIX)
    try:
        chosen = _chosen(options.only, versions)
        _check_files(options.json, options.html)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    cells = exchanges.plan(versions, chosen)
    versions = {key: version for key, version in versions.items() if key in chosen}
    with progress(2 * len(cells)) as step:
        report = exchanges.run(versions, cells, cost=not options.no_cost, progress=step)
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    if options.html is not None and report.cells:
        _write_page(report, options.html)
    elif options.html is not None and options.html.is_file():
        options.html.unlink()  # no page of this run
    show(full(report) if options.full else one_screen(report))
    return 1 if report.faults or not report.cells else 0


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
    from . import exchanges

    cells = between_libraries(exchanges.plan(versions, set(versions)))
    cells = [cell for cell in cells if cell.exchange.producer.library != "ml_dtypes"]
    return list(map(_pair, by_pair(cells).values()))


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
        limits.add(option, reason, some_of(into, 3))
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


def run(arguments: list[str]) -> int:
    """Run a command; where its reader goes away, end by SIGPIPE as other tools do."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal may lack an arrow or a frame; that is no reason to end.
        sys.stdout.reconfigure(errors="replace")
    try:
        try:
            return main(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The rest of the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGPIPE)
        return 1
