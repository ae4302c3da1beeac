"""The rules that the checks test: each with its level and the sentence that it comes from.

This table is the only place where a rule stands: checks, reports, the manual and tests read it.
A quotation is shortened by " ... " only.  MUST is what the cited text demands, SHOULD what it
recommends or describes, HABIT what no text asks for and careful libraries do all the same.  Only a
MUST fails a run.
"""

from __future__ import annotations

from typing import NamedTuple

MUST, SHOULD, HABIT = "MUST", "SHOULD", "HABIT"
LEVELS = (MUST, SHOULD, HABIT)

#: The editions of the array API standard, oldest first; a claim is one of them.
EDITIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def edition(claims: str) -> str:
    """The claim itself, where it is an edition or nothing."""
    if claims and claims not in EDITIONS:
        raise ValueError(
            f"{claims!r} is no edition of the array API; they are {', '.join(EDITIONS)}"
        )
    return claims


ARRAY = "array API {}, array.__dlpack__"
DEVICE = "array API {}, array.__dlpack_device__"
FROM = "array API {}, from_dlpack"
INTERCHANGE = "array API {}, data interchange"
COPIES = "array API {}, copy keyword argument behavior"
PYTHON = "DLPack, Python specification"
HEADER = "DLPack {}, dlpack.h"


class Rule(NamedTuple):
    name: str
    side: str
    """Who has to follow it: "producer" or "consumer"."""
    level: str
    since: str
    """The first edition of the array API that says so; of a library that claims an older one, what
    breaks the rule is only noted."""
    source: str
    quote: str
    """The sentence that is tested; empty for a HABIT."""
    about: str
    """What the checks ask, in one sentence of ours."""


def _rules(side: str, *rows: tuple[str, str, str, str, str, str]) -> list[Rule]:
    return [
        Rule(name, side, level, since or EDITIONS[0], source.format(since), quote, about)
        for name, level, since, source, quote, about in rows
    ]


_TWO_METHODS = "uses them to construct a new array containing the data from the input array"
_NAME = 'The producer must set the ``PyCapsule`` name to ``"dltensor"``'
_ONCE = "it is consumed exactly once, and it will not be visible to users of the Python API"
_DESTRUCTOR = (
    "set :c:type:`PyCapsule_Destructor` that calls the ``deleter`` of the ``DLManagedTensor`` when "
    'the ``"dltensor"``-named capsule is no longer needed'
)
_ONLY_UNUSED = (
    "ensured if ``PyCapsule_Destructor`` calls ``deleter`` only for capsules whose name is "
    '``"dltensor"``'
)
_GIL = "the GIL must be acquired explicitly if it uses Python objects or API"
_KEEPS = "The producer keeps owning the memory of ``x`` (and ``y`` if a copy is made)"
_ZERO_COPY = "If possible, this must be zero-copy (i.e. ``y`` will be a *view* on ``x``)."
_MAX_VERSION = (
    "This method may return a capsule of version ``max_version`` (recommended if it does support "
    "that), or of a different version."
)
_COPIED_FLAG = "When a copy happens, the ``DLPACK_FLAG_BITMASK_IS_COPIED`` flag must be set."
_SOLE = (
    "If set, the tensor is considered solely owned throughout its lifetime by the consumer, until "
    "the producer-provided deleter is invoked."
)
_ALWAYS_COPY = "If ``True``, the function must always copy"
_NEVER_COPY = (
    "If ``False``, the function must never copy, and raise a ``BufferError`` in case a copy is "
    "deemed necessary"
)
_BUFFER_ERROR = "raise a ``BufferError`` in case a copy is deemed necessary"
_FREE_TO_WRITE = (
    "if they set ``copy=True``, they are free to use in-place operations on a returned array"
)
_CPU_STREAM = "On CPU and other device types without streams, only ``None`` is accepted."
_CANNOT = (
    "Implementations should raise ``BufferError`` when the data cannot be exported as DLPack "
    "(e.g., incompatible dtype or strides)."
)
_TRANSFER = (
    "ownership of the ``DLManagedTensor`` from the capsule to its own object. It does so by "
    'renaming the capsule to ``"used_dltensor"``'
)
_GIVE_BACK = (
    "will be called by the destructor of the consumer library object created to own the "
    "``DLManagedTensor`` obtained from the capsule"
)
_EITHER = (
    'which is called either when the refcount on the capsule named ``"dltensor"`` reaches zero or '
    "the consumer decides to deallocate its array"
)
_CONTAINS = (
    "Returns a new array containing the data from another (array) object with a ``__dlpack__`` "
    "method."
)
_OTHERWISE = (
    "If ``None``, the function must reuse the existing memory buffer if possible and copy "
    "otherwise."
)
_VERIFY = "the consumer must verify the version even when `max_version` is passed"
_BOTH = "a library should try to support both during the transition period if possible"
_STRIDES = "strides of the tensor (in number of elements, not bytes)"
_OFFSET = "The offset in bytes to the beginning pointer to data"
_READ_ONLY = "bit mask to indicate that the tensor is read only."
_IGNORE = (
    "A consumer that does not support read-only arrays should ignore this flag (this is preferred "
    "over raising an exception; the user is then responsible for ensuring the memory isn't "
    "modified)."
)
_ALL_DTYPES = (
    "The interchange mechanism must offer the following: ... Support for all dtypes in this API "
    "standard (see :ref:`data-types`)."
)
_TABLE = (
    'This attribute must be set on the type as a Python PyCapsule with name "dlpack_exchange_api".'
)
_TABLE_MAJOR = (
    "The provided DLPack version the consumer must check major version compatibility before using "
    "this struct."
)
_DESCRIBED = (
    "If the data cannot be described using DLPack this should be a BufferError if possible."
)
_V2023 = "Added the ``max_version``, ``dl_device``, and ``copy`` keywords."

#: What dlshim does on purpose, by rule: no author of a class that `dlshim.producer` has changed can
#: mend it.
BY_DLSHIM = {
    "stream-on-cpu": "dlshim takes the stream that generic consumers pass to every producer, and "
    "leaves it alone for host memory",
    "keyword-only": "dlshim takes `stream` by position, as older consumers pass it",
    "data-of-empty": "dlshim gives memory without elements a pointer, which some consumers test",
}

PRODUCER = _rules(
    "producer",
    ("methods", MUST, "", PYTHON,
     ":meth:`~array_api.array.__dlpack__` and :meth:`~array_api.array.__dlpack_device__` methods "
     "on the array object, which will be called from within :func:`~array_api.from_dlpack`",
     "The object has both methods, and a plain array of float32 is exported by them."),
    ("any-thread", HABIT, "2021.12", ARRAY, "",
     "An export works on another thread than the one that made the array."),
    ("device-pair", MUST, "2021.12", DEVICE,
     "a tuple ``(device_type, device_id)`` in DLPack format",
     "`__dlpack_device__()` gives two integers; the first may be an enum."),
    ("device-told", MUST, "2021.12", PYTHON, "to query what device the array is on",
     "`__dlpack_device__()` and a capsule of the array's own memory do not contradict each other "
     "(pinned and managed memory may be called memory of the host, or of the device that reads "
     "it)."),
    ("device-agrees", SHOULD, "2021.12", DEVICE,
     "Returns device type and device ID in DLPack format.",
     "The device of the capsule is the very one that `__dlpack_device__()` tells."),
    ("device-id", MUST, "", HEADER.format("1.1"),
     "For vanilla CPU memory, pinned memory, or managed memory, this is set to 0.",
     "The device id of host memory is 0."),
    ("capsule-name", MUST, "2021.12", PYTHON, _NAME,
     "`__dlpack__()` gives a capsule that is named `dltensor` or `dltensor_versioned`."),
    ("bare-legacy", SHOULD, "2023.12", ARRAY, "Keep and use the DLPack 0.X implementation",
     "Without `max_version` the capsule is one of DLPack 0.x."),
    ("fresh-capsule", MUST, "2021.12", PYTHON, _ONCE,
     "Two calls give two capsules with two structs; so do many, and one after a refused call."),
    ("destructor-frees", MUST, "2021.12", PYTHON, _DESTRUCTOR,
     "A capsule that nobody consumes calls the deleter once when it goes."),
    ("destructor-spares", MUST, "2021.12", PYTHON, _ONLY_UNUSED,
     "A capsule that was consumed calls nothing when it goes; the deleter then works."),
    ("error-kept", HABIT, "2021.12", PYTHON, "",
     "An exception that is on its way while a capsule that nobody consumed is dropped reaches the "
     "caller: the destructor, and the deleter that it calls, leave it as it is, and leave none of "
     "their own."),
    ("deleter-without-gil", MUST, "2021.12", PYTHON, _GIL,
     "The deleter may be called on a thread of C that does not hold the GIL."),
    ("deleter-frees", MUST, "", HEADER.format("1.1"),
     "to destruct the manager_ctx which backs the DLManagedTensor",
     "The memory of large arrays, and of copies, goes when they are gone and the deleters were "
     "called; many exports leave nothing behind."),
    ("keeps-memory", MUST, "2021.12", PYTHON, _KEEPS,
     "The memory stays as it is after the array is gone, until the deleter is called."),
    ("keeps-replaced-memory", SHOULD, "2021.12", PYTHON, _KEEPS,
     "An export keeps its memory where the library gives the array other memory in place "
     "(`resize`, `resize_`, `set_`, `data = ...`); the text does not speak of that."),
    ("shape", MUST, "", HEADER.format("1.1"), "The shape of the tensor",
     "`ndim` and `shape` are those of the array."),
    ("dtype", MUST, "", HEADER.format("1.1"), "The data type of the pointer",
     "Code, bits and lanes are those of the array's dtype; bool has 8 bits."),
    ("dtype-support", SHOULD, "2021.12", INTERCHANGE,
     _ALL_DTYPES,
     "Each dtype of the standard that the library can make is exported; the text says so of the "
     "mechanism, not of each library."),
    ("strides-present", MUST, "", HEADER.format("1.3"), "can not be NULL if ndim != 0",
     "A struct that says 1.2 or newer has strides."),
    ("data-present", MUST, "", HEADER.format("1.1"),
     "The data pointer points to the allocated data.",
     "An array with elements has a data pointer."),
    ("data-of-empty", SHOULD, "", HEADER.format("1.1"),
     "if the tensor is of size zero, then the data pointer should be set to `NULL`",
     "An array without elements has NULL for data."),
    ("values", MUST, "", HEADER.format("1.1"), _STRIDES,
     "What lies at data, byte_offset and strides is what the array holds."),
    ("special-values", MUST, "2021.12", PYTHON, _TWO_METHODS,
     "What lies at data, byte_offset and strides is what an array holds that the library makes in "
     "a special way (lazy bits, views)."),
    ("zero-copy", SHOULD, "2021.12", PYTHON, _ZERO_COPY,
     "Two exports of an array have the same memory, and an export of a view that of the whole."),
    ("stream-none", MUST, "2021.12", ARRAY, _CPU_STREAM, "`stream=None` is taken."),
    ("stream-on-cpu", SHOULD, "2021.12", ARRAY, _CPU_STREAM,
     "Other streams are refused for host memory."),
    ("keywords", MUST, "2023.12", ARRAY, _V2023,
     "The keywords of 2023.12 are taken, with None for each value, and together where each is "
     "taken alone."),
    ("keyword-only", HABIT, "2023.12", ARRAY, "", "No argument is taken by position."),
    ("unknown-keyword", HABIT, "2023.12", ARRAY, "",
     "An unknown keyword is a TypeError, by which consumers tell that they must ask again."),
    ("versioned-answer", SHOULD, "2023.12", ARRAY, _MAX_VERSION,
     "`max_version` with a major of 1 or more gives a struct of DLPack 1.x, whatever else is "
     "asked; not asked of libraries that have none."),
    ("versioned-supported", HABIT, "2023.12", ARRAY, "",
     "A struct of DLPack 1.x can be had."),
    ("older-version", SHOULD, "2023.12", ARRAY,
     "If so, use that. Else, the producer should raise a BufferError",
     "`max_version` below 1.0 gives DLPack 0.x, or a BufferError."),
    ("known-major", MUST, "2023.12", HEADER.format("1.1"),
     "A change in major version indicates that we have changed the data layout of the ABI",
     "A struct has the major version 1, whatever version is asked for: there is no other layout "
     "yet; its minor version may be any."),
    ("known-flags", SHOULD, "2023.12", HEADER.format("1.1"),
     "By default the flags should be set to 0.",
     "No flag is set that DLPack does not define, nor the one for elements of less than a byte of "
     "other elements."),
    ("copy-true", MUST, "2023.12", ARRAY, _ALWAYS_COPY,
     "What `copy=True` gives lies elsewhere than the array, with the same values."),
    ("copy-supported", SHOULD, "2023.12", ARRAY, _ALWAYS_COPY,
     "`copy=True` is not refused."),
    ("copied-flag", MUST, "2023.12", ARRAY, _COPIED_FLAG,
     "A versioned struct for `copy=True` has the flag IS_COPIED."),
    ("copied-falsely", MUST, "2023.12", HEADER.format("1.1"), _SOLE,
     "Memory that the array still uses does not have the flag IS_COPIED."),
    ("copy-false", MUST, "2023.12", ARRAY, _NEVER_COPY,
     "`copy=False` gives the array's own memory, or a BufferError; a ValueError, which "
     "from_dlpack's text names, passes too."),
    ("copy-false-error", MUST, "2024.12", ARRAY, _BUFFER_ERROR,
     "Where `copy=False` is refused, it is by a BufferError."),
    ("copy-alone", SHOULD, "2024.12", COPIES,
     "conforming libraries are recommended to always perform a physical copy of the underlying "
     "array data",
     "What is written into what `copy=True` gave shows neither in the array nor in another copy."),
    ("copy-elements", SHOULD, "2024.12", COPIES, _FREE_TO_WRITE,
     "No two elements of what `copy=True` gives lie in the same memory, though those of a "
     "broadcast array do."),
    ("copy-writable", SHOULD, "2024.12", COPIES, _FREE_TO_WRITE,
     "What `copy=True` gives does not have the flag READ_ONLY, though the array may not be "
     "written; not asked of libraries whose arrays may never be written."),
    ("to-cpu", SHOULD, "2023.12", ARRAY,
     "a compliant library should offer a way for ``__dlpack__`` to return a capsule referencing "
     "an array whose underlying memory is accessible to the Python interpreter",
     "`dl_device=(1, 0)` gives host memory."),
    ("other-device", MUST, "2023.12", ARRAY,
     "If the device type cannot be handled by the producer, this function must raise "
     "``BufferError``.",
     "`dl_device` with a type of device that the library does not have is refused by a "
     "BufferError."),
    ("read-only-flag", MUST, "2023.12", HEADER.format("1.1"), _READ_ONLY,
     "A versioned struct of an array that may not be written has the flag READ_ONLY."),
    ("read-only-falsely", SHOULD, "2023.12", HEADER.format("1.1"),
     "By default the flags should be set to 0.",
     "A versioned struct of an array that may be written does not have the flag READ_ONLY."),
    ("read-only-legacy", HABIT, "2023.12", HEADER.format("1.1"), "",
     "Memory that may not be written is not given out as DLPack 0.x, which cannot say so."),
    ("leaves-array", HABIT, "2021.12", ARRAY, "",
     "An array may be written after an export if it might be before."),
    ("refusals", SHOULD, "2022.12", ARRAY, _CANNOT,
     "What is refused, be it a layout or an array that DLPack cannot describe, is refused by a "
     "BufferError."),
    ("refused-freed", HABIT, "2021.12", ARRAY, "",
     "An array whose export was refused goes with its last reference, and with what it held; so "
     "does one that refused a device, a stream or a keyword."),
    ("not-exported", MUST, "2021.12", PYTHON, _TWO_METHODS,
     "An array that the target lists as refused, because DLPack cannot describe it, is not "
     "exported."),
    ("device-stream", SHOULD, "2021.12", ARRAY,
     "``> 2``: stream number represented as a Python integer.",
     "Every value of `stream` that the device has is taken: -1, a stream, the default stream "
     "(1 for CUDA, 0 for ROCm), and 2 for CUDA."),
    ("device-stream-refused", SHOULD, "2021.12", ARRAY,
     "is disallowed due to its ambiguity",
     "The values of `stream` that the device has not are refused: 0 for CUDA, 1 and 2 for ROCm."),
    ("device-order", MUST, "2021.12", ARRAY,
     "to instruct the producer to ensure that operations can safely be performed on the array",
     "Work on the consumer's stream comes after what the producer has in flight; None, or no "
     "stream, is the legacy default stream."),
    ("device-no-sync", MUST, "2021.12", ARRAY, "producer must not perform any synchronization",
     "`stream=-1` makes no event, and waits for nothing."),
    ("device-own", SHOULD, "2023.12", ARRAY,
     "the exported capsule should be on the same device as ``self`` is",
     "`dl_device` of the array's own device is taken, and gives the same memory."),
    ("device-to-cpu", MUST, "2023.12", ARRAY,
     "a synchronization must be performed to ensure data safety",
     "What `dl_device=(1, 0)` gives of device memory may be read by the host at once."),
    ("device-copy-false", MUST, "2023.12", ARRAY, _NEVER_COPY,
     "`dl_device=(1, 0)` and `copy=False` give the array's own memory, or a BufferError or "
     "ValueError."),
    ("device-current", HABIT, "2021.12", ARRAY, "",
     "An export leaves the thread's current context, or device, as it was."),
    ("device-events", HABIT, "2021.12", ARRAY, "",
     "The events that exports make do not grow in number."),
    ("table-capsule", MUST, "", HEADER.format("1.3"), _TABLE,
     "The C table is found on the type, in a capsule of that name."),
    ("table-spelling", HABIT, "", HEADER.format("1.3"), "",
     "A type with the name of DLPack 1.2, `__c_dlpack_exchange_api__`, has the newer name too."),
    ("table-version", MUST, "", HEADER.format("1.3"),
     _TABLE_MAJOR, "The table's major version is 1."),
    ("table-functions", MUST, "", HEADER.format("1.3"), "This function must not be NULL.",
     "No function but the borrowing one is NULL."),
    ("table-export", MUST, "", HEADER.format("1.3"),
     "Exports a PyObject* Tensor/NDArray to a DLManagedTensorVersioned.",
     "The table exports the same memory, shape, strides and dtype as `__dlpack__`."),
    ("table-deleter", MUST, "", HEADER.format("1.3"),
     "The owning DLManagedTensorVersioned* or NULL on failure with a Python exception set.",
     "What the table gives is kept alive until its deleter is called, without the GIL."),
    ("table-borrow", MUST, "", HEADER.format("1.3"),
     "This function provides a faster interface for temporary, non-owning, exchange.",
     "What is borrowed has the same memory, shape and strides as what is exported."),
    ("table-import", MUST, "", HEADER.format("1.3"),
     "Imports a DLManagedTensorVersioned to a PyObject* Tensor/NDArray.",
     "The table makes an array of what it exported, of the same memory."),
    ("table-stream", MUST, "", HEADER.format("1.3"),
     "When device_type is kDLCPU, the consumer do not have to query the stream and the producer "
     "can simply return NULL when queried.", "The stream of the CPU is told without a failure."),
    ("table-frees", MUST, "", HEADER.format("1.3"),
     "This should be called to destruct manager_ctx which holds the DLManagedTensorVersioned.",
     "Many exports, imports and borrows by the table leave nothing behind."),
    ("table-allocator", MUST, "", HEADER.format("1.3"),
     "SetError is called exactly when NULL is returned (the implementer must ensure this).",
     "The table allocates what it is asked for: shape, dtype and device; a refusal is told by "
     "SetError, and by nothing else."),
    ("table-failure", MUST, "", HEADER.format("1.3"),
     "The owning DLManagedTensorVersioned* or NULL on failure with a Python exception set.",
     "An export by the table gives a tensor, or fails with an exception."),
    ("table-refusals", SHOULD, "", HEADER.format("1.3"), _DESCRIBED,
     "The table refuses with a BufferError what `__dlpack__` refuses."),
)  # fmt: skip

CONSUMER = _rules(
    "consumer",
    ("takes-any", MUST, "2021.12", FROM, _CONTAINS,
     "A plain array of float32 is taken, by whichever generation, also again and after a refusal."),
    ("any-thread", HABIT, "2021.12", FROM, "",
     "An import works on another thread than the first."),
    ("takes", SHOULD, "2021.12", INTERCHANGE, _ALL_DTYPES,
     "A plain array of each dtype of the standard is taken; the text says so of the mechanism, not "
     "of each library."),
    ("takes-legacy", SHOULD, "2021.12", PYTHON, _BOTH, "A plain array of DLPack 0.x is taken."),
    ("takes-versioned", SHOULD, "2023.12", PYTHON, _BOTH, "A plain array of DLPack 1.x is taken."),
    ("retries", SHOULD, "2023.12", ARRAY,
     "except TypeError: x.__dlpack__(...) ... This logic is also applicable to handling of the new "
     "``dl_device`` and ``copy`` keywords.",
     "A producer that does not know the new keywords is asked again without them."),
    ("retries-bare", HABIT, "2021.12", ARRAY, "",
     "A producer that knows no keyword at all is asked again without any."),
    ("legacy-answer", SHOULD, "2023.12", ARRAY, _MAX_VERSION,
     "A producer that takes `max_version` and answers DLPack 0.x is understood."),
    ("wrong-answer", MUST, "2023.12", ARRAY, _VERIFY,
     "A versioned answer that was not asked for is taken rightly or refused; nothing is misread."),
    ("keywords-only", MUST, "2021.12", ARRAY,
     "def __dlpack__( self: array, /, *, stream: Optional[Union[int, Any]] = None ) -> PyCapsule",
     "Arguments of `__dlpack__` are passed by keyword."),
    ("stream-on-cpu", MUST, "2021.12", ARRAY, _CPU_STREAM,
     "No stream but None is passed for host memory."),
    ("asks-device", HABIT, "2021.12", PYTHON, "",
     "`__dlpack_device__()` is called before `__dlpack__()`."),
    ("asks-version", SHOULD, "2023.12", ARRAY,
     "the maximum DLPack version that the *consumer* (i.e., the caller of ``__dlpack__``) "
     "supports, in the form of a 2-tuple ``(major, minor)``.",
     "`max_version` is passed first, as a tuple."),
    ("values", MUST, "", HEADER.format("1.1"), _STRIDES,
     "What was taken has the values that the strides lead to; a refusal passes."),
    ("exact", MUST, "2021.12", FROM, _CONTAINS,
     "Numbers that need every bit of their dtype are the same in the result; a refusal passes."),
    ("dtype", SHOULD, "2021.12", FROM, _CONTAINS,
     "The result has the dtype of what was taken; a refusal passes."),
    ("byte-offset", MUST, "", HEADER.format("1.1"), _OFFSET,
     "The first element is read at data plus byte_offset; a refusal passes."),
    ("null-strides", SHOULD, "", HEADER.format("1.1"),
     "can be NULL, indicating tensor is compact and row-majored",
     "NULL strides, which DLPack allowed before 1.2, are taken as row-major."),
    ("null-deleter", MUST, "", HEADER.format("1.1"),
     "It can be NULL if there is no way for the caller to provide a reasonable destructor.",
     "A struct without a deleter does no harm."),
    ("owns", MUST, "2021.12", PYTHON, _TRANSFER,
     "The deleter is not called while the result lives and needs the memory."),
    ("gives-back", MUST, "2021.12", PYTHON, _GIVE_BACK,
     "The deleter is called once when the result goes."),
    ("producer-freed", HABIT, "", HEADER.format("1.1"), "",
     "The object that was imported, and the capsule, go with their last reference when the "
     "result is gone."),
    ("gives-back-refused", MUST, "2021.12", PYTHON, _EITHER,
     "The deleter is called once where the consumer refuses, too."),
    ("renames", SHOULD, "2021.12", PYTHON, _TRANSFER, "A consumed capsule has the used name."),
    ("renames-versioned", SHOULD, "2023.12", PYTHON,
     "when ``DLManagedTensorVersioned`` is in use the capsule names ``dltensor`` and "
     "``used_dltensor`` will need a ``_versioned`` suffix",
     "The used name of a consumed capsule is the one that belongs to its own name."),
    ("consumed-once", MUST, "2021.12", PYTHON, _ONCE,
     "A capsule that was consumed is refused, by whatever object it is given again."),
    ("struct-untouched", HABIT, "", HEADER.format("1.1"), "",
     "The struct, which is the producer's, is left as it was."),
    ("other-major", MUST, "", HEADER.format("1.1"),
     "(i.e. major != DLPACK_MAJOR_VERSION), the consumer must call the deleter (and it is safe to "
     "do so). It is not safe to access any other fields",
     "A struct of another major version is refused, deleted once, and not read."),
    ("major-zero", HABIT, "", HEADER.format("1.1"), "",
     "A versioned struct of the major version 0, which no edition has, is refused."),
    ("newer-minor", SHOULD, "", HEADER.format("1.1"),
     "In the case of a minor version mismatch, the tensor can be safely used",
     "A struct of a newer minor version is taken."),
    ("copied", SHOULD, "2023.12", HEADER.format("1.1"), _SOLE,
     "A struct with the flag IS_COPIED is taken."),
    ("read-only", HABIT, "2023.12", HEADER.format("1.1"), "",
     "What was taken with the flag READ_ONLY says that it may not be written, or is a copy."),
    ("writable", HABIT, "2023.12", HEADER.format("1.1"), "",
     "What was taken without the flag READ_ONLY, and without a copy, may be written."),
    ("read-only-taken", SHOULD, "2023.12", ARRAY, _IGNORE,
     "Memory with the flag READ_ONLY is not refused."),
    ("unknown-dtype", MUST, "", HEADER.format("1.1"),
     "the consumer must stop importing if the value is unexpected",
     "Elements of 6 or 4 bits that say another number of bits are refused."),
    ("odd-dtype", HABIT, "", HEADER.format("1.1"), "",
     "Codes, bits and lanes that mean nothing are refused; nothing crashes."),
    ("other-device", SHOULD, "2021.12", PYTHON, "it is recommended to raise a :obj:`BufferError`",
     "A device that the consumer refuses is refused by a BufferError."),
    ("device-not-read", MUST, "", HEADER.format("1.1"), "It may be opaque on some device types.",
     "Memory of a device that the consumer does not know is not read as the host's."),
    ("propagates", MUST, "2023.12", FROM, "``from_dlpack`` must propagate such exceptions.",
     "What the producer's methods raise reaches the caller, itself or as the stated cause."),
    ("error-kept", HABIT, "2021.12", PYTHON, "",
     "A refusal reaches the caller, and the memory its owner, where nobody else keeps the capsule, "
     "whose destructor saves the exception that is on its way."),
    ("no-capsule", HABIT, "2021.12", PYTHON, "",
     "A function that takes capsules refuses an object that is none, and a function that takes "
     "objects refuses one whose `__dlpack__` gives no capsule."),
    ("no-methods", SHOULD, "2023.12", FROM,
     "If the ``__dlpack__`` and ``__dlpack_device__`` methods are not present on the input array.",
     "An object without the methods is an AttributeError."),
    ("copy-true", MUST, "2023.12", FROM, "If ``True``, the function must always copy.",
     "`copy=True` gives other memory."),
    ("copy-false", MUST, "2023.12", FROM,
     "If ``False``, the function must never copy, and raise ``BufferError`` in case a copy is "
     "deemed necessary",
     "`copy=False` gives the producer's memory, or a BufferError or ValueError (its text names "
     "both)."),
    ("copy-writable", SHOULD, "2024.12", COPIES, _FREE_TO_WRITE,
     "What `copy=True` gives may be written, of memory with the flag READ_ONLY too; not asked of "
     "libraries whose arrays may never be written."),
    ("device-of-the-capsule", HABIT, "2021.12", HEADER.format("1.1"), "",
     "Memory is not read where the capsule says a device that the consumer does not know, though "
     "`__dlpack_device__()` says the host."),
    ("proxies", HABIT, "2021.12", PYTHON, "",
     "An object that forwards the two methods by `__getattr__` is taken, and so is one that has "
     "neither truth nor length, and cannot be compared or iterated."),
    ("same-device", MUST, "2023.12", FROM,
     "If ``device`` is ``None`` and ``x`` supports DLPack, the output array must be on the same "
     "device as ``x``.",
     "Where no `device` is passed, memory of the host stays there, whatever kind of it is told."),
    ("copy-keyword", MUST, "2023.12", FROM, "Added device and copy support.",
     "`copy=None` and `device=None` are taken."),
    ("unknown-device", HABIT, "2023.12", FROM, "",
     "A `device` that names none is refused."),
    ("zero-copy", SHOULD, "2023.12", FROM, _OTHERWISE,
     "A plain row-major array is not copied."),
    ("strided", SHOULD, "2023.12", FROM, _OTHERWISE,
     "Memory with gaps or in another order is taken, by a copy where it must be one; a function "
     "that refuses plain arrays of the same edition is not asked."),
    ("empty", SHOULD, "", HEADER.format("1.1"),
     "if the tensor is of size zero, then the data pointer should be set to `NULL`",
     "NULL data of an array without elements are taken."),
    ("shapes", SHOULD, "2021.12", FROM, _CONTAINS,
     "Arrays without dimensions, of up to eight, and without elements are taken."),
    ("row-major", HABIT, "", HEADER.format("1.1"), "",
     "A row-major array is taken whatever its strides along extents of one or none say."),
    ("missing-data", HABIT, "", HEADER.format("1.1"), "",
     "NULL data of an array with elements are refused."),
    ("table-no-borrow", MUST, "", HEADER.format("1.3"),
     "This function can be NULL when the producer does not support this function.",
     "A C table without the borrowing function is used rightly or not at all."),
    ("table-major", MUST, "", HEADER.format("1.3"),
     _TABLE_MAJOR, "A C table of another major version is not used."),
)  # fmt: skip

RULES = [*PRODUCER, *CONSUMER]
#: The rules that say nothing without a fake driver.
NEED_DRIVER = {
    "device-stream", "device-stream-refused", "device-order", "device-no-sync", "device-own",
    "device-to-cpu", "device-copy-false", "device-current", "device-events",
}  # fmt: skip
BY_NAME = {(rule.side, rule.name): rule for rule in RULES}
