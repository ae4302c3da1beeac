"""Every error text of ours that names something to type has a test that types it, or a reason.

The texts are those of the C sources and of what Python raises.  A new text with a cure, or a
changed one, fails here until `CURED` says where it is tested.
"""

from __future__ import annotations

import ast
import re

import pytest
from project.test_explain import KEYS, own_texts
from project.tree import ROOT

#: An option, a method or a call.
TYPED = re.compile(r"\b[a-z_]+=(?![=%])|\.\w+\(|\w\([^()]*\)")
#: Says that something is wrong, and not only what an attribute is.
REFUSES = re.compile(r"\n  |; |, e\.g\. |: |pass |, or ")
#: How a cure begins, where it is not on a line of its own.
BESIDE = re.compile(
    r"[;:] (?:allow|ask|call|convert|copy|drop|export|free|give|import|install|keep|leave|make"
    r"|move|name|pass|pip|put|set|stack|synchronise|take|update|wait|wrap) "
)
#: A warning is one line.
WARNINGS = re.compile("it is read-only, and text does not heed that")

COLUMNS = "tests/core/test_columns.py::test_the_cures_give_the_values"
TYPED_IN = "tests/core/test_cures_typed.py::test_the_cures_give_the_values"
LISTS = "tests/core/test_to.py::test_the_cures_of_lists_give_the_values"
BOOLS = "tests/core/test_options.py::test_T7_the_cure_for_other_bytes_gives_the_values"
WORDS = "tests/core/test_cures_typed.py::test_every_word_that_is_named_is_taken"
NUMPYS = "tests/core/test_cures.py::test_the_cures_of_numpy_and_ctypes_arrays_work"
KINDS = "tests/core/test_cures.py::test_the_cures_of_numpys_other_kinds_work"
BYTES = "tests/core/test_ways_out.py::test_the_cure_for_who_wants_bare_bytes_works"
COLUMN = "tests/core/test_arrow_out.py::test_the_cures_give_the_values"
ROWS = "tests/core/test_arrow_out.py::test_N9_polars_gets_no_rows_without_elements"
HEADER = "tests/core/test_c_interface.py::test_the_cure_that_is_named_works"
OBJECTS = "tests/objects/test_cures_applied.py::test_the_cures_of_refusals_work"
STRIDES = "tests/core/test_consumers.py::test_N9_who_ignores_strides_gets_row_major_memory_only"
SCALARS = (
    "tests/core/test_consumers.py::test_N9_who_takes_a_scalar_for_an_empty_array_is_refused_it"
)
HEED = (
    "tests/core/test_readonly_and_copies.py::"
    "test_T8_the_words_decide_for_a_consumer_that_does_not_heed_the_flag"
)
WRAPPED = "tests/interop/test_torch.py::test_the_cures_of_a_read_only_wrapper_work"
WAYS_IN = "tests/core/test_ways_in.py::test_T7_"
MORE_ELEMENTS = WAYS_IN + "a_buffer_that_shows_more_elements_than_there_are_is_refused"
ANY_LETTER = WAYS_IN + "a_kind_of_a_registered_dtype_may_have_any_letter"
ITSELF = "tests/core/test_authors.py::test_the_cures_of_a_method_that_asks_itself_give_the_values"
DEVICE = "tests/device/test_cures.py::"
NO_DRIVER = "tests/device/test_loading.py::test_the_cure_of_a_missing_driver_works"
EVENTS = "tests/device/test_arrow_events.py::"
#: By a piece of the text: the test that types its cure in and compares what it gives; or `explain`
#: and the rows whose examples do so (tests/interop/messages.toml); or why nothing can be typed.
CURED: dict[str, str] = {
    # options and data, on the host
    "but copy=False was asked for\n  allow it with copy=None, or drop": TYPED_IN,
    "cannot pickle": TYPED_IN,
    "has no attribute": "tests/project/test_stub.py::test_an_attribute_of_arrays_names_what_has_it",
    "its own __dlpack__ asks dlshim to export the object itself": ITSELF,
    "pass copy=True, which joins them": "tests/core/test_columns.py",
    "pass copy=True in its place, which joins": "tests/core/test_columns.py",
    "has host memory alone": "tests/device/test_to.py",
    "it has no axes, and text of text": "tests/interop/test_one_verb.py",
    "and a table of text has two": "tests/interop/test_one_verb.py",
    "its rows have no elements, and text": "tests/interop/test_one_verb.py",
    "None is in the list": LISTS,
    "lists of lists of arrays are": LISTS,
    "has no arrays of its own that are made": LISTS,
    "the arrays in the list have different": LISTS,
    "numpy has no dtype for the integers in the list": LISTS,
    "has no dtype for what is in the list": "why: what it is converted to depends on what it is",
    "the list contains itself": "why: no array is in such a list",
    "text\n  drop copy=False for a private copy": (
        "tests/core/test_to.py::test_the_word_of_a_wrapper_beside_copy"
    ),
    "is no class of arrays": "why: the name of a class is no text that anything can be passed for",
    "refuses the list": "why: the library says what is wrong with the list",
    "detach=True, but it has no .detach()": TYPED_IN,
    "and like=, which lies on": TYPED_IN,
    "like=text does not say on which device": TYPED_IN,
    "it has negative strides, and this consumer": TYPED_IN,
    "it is an array of pointers (suboffsets)": TYPED_IN,
    "its capsule has DLPack major version": TYPED_IN,
    "its capsule has flag bits": TYPED_IN,
    "its dtype has no format in the buffer protocol": TYPED_IN,
    "\n  pass reinterpret= to upgrade": TYPED_IN,
    "its elements are Python objects": TYPED_IN,
    "its elements are bit fields": TYPED_IN,
    "how many elements are in a byte is not said": TYPED_IN,
    "and it shows others\n  convert it": MORE_ELEMENTS,
    "and its dtype has no name that is": ANY_LETTER,
    "no code for\n  convert them with": TYPED_IN,
    "no code for\n  pass their bytes": TYPED_IN,
    ", or name a dtype of the same width, such as": TYPED_IN,
    ", or reinterpret=": TYPED_IN,
    "its elements are text, which": TYPED_IN,
    "its mask hides elements": TYPED_IN,
    "name a dtype of that width": TYPED_IN,
    "needs bytes that are 0 or 1, and one is": BOOLS,
    "and DLPack cannot describe that\n  pass order=": TYPED_IN,
    "view it as numbers first": TYPED_IN,
    "names no device\n  pass": TYPED_IN,
    "names no dtype\n  pass": TYPED_IN,
    "text=text is not known\n  pass text": WORDS,
    "text of any length": KINDS,
    "it is read-only, and the consumer": "explain: readonly",
    "ignores strides: it would read other elements": STRIDES,
    "takes a scalar for an empty array": SCALARS,
    "does not heed that: what is written there": HEED,
    "call x.detach() first, or pass detach=True": "explain: grad",
    "call x.resolve_conj() first": "explain: lazy-bit",
    "call x.resolve_neg() first": "explain: lazy-bit",
    "wrap tensor.detach() instead": WRAPPED,
    "wrap tensor.resolve_conj() instead": WRAPPED,
    "wrap tensor.resolve_neg() instead": WRAPPED,
    "a buffer without shape and format": BYTES,
    "it is not contiguous in the way": BYTES,
    "it gives a copy, and what is written": HEADER,
    "and who borrows it cannot be told so": HEADER,
    "its class has dlshim's C table": "tests/core/test_ctable.py",
    "Arrow packs booleans into bits": COLUMN,
    "Arrow has no": COLUMN,
    "it has no axes, and a column has one": COLUMN,
    "it is not C-contiguous, and a column is": COLUMN,
    "its rows have no elements, and text ends in a panic": ROWS,
    "a list of Arrow has at most": COLUMN,
    "its decimals are integers and a scale": COLUMNS,
    "its booleans may be any byte": COLUMNS,
    "its elements are dates, times or durations": COLUMNS,
    "its elements are periods of time": COLUMNS,
    "its values lie in several chunks of memory": COLUMNS,
    "offers no buffer functions to extensions": "tests/core/test_fallbacks.py",
    "its elements are no numbers, and its library ends": OBJECTS,
    # streams and devices
    "its sync_event points to no event": EVENTS + "check_an_event_that_is_none",
    "dlshim waits for events of CUDA": EVENTS + "test_events_of_other_devices_are_refused",
    "give producer_stream=, or pass": DEVICE + "check_an_unknown_producers_stream",
    "a graph capture is running, and it refuses": DEVICE + "check_a_capture",
    "give the capturing stream both as": DEVICE + "check_a_capture",
    "is not a stream of": DEVICE + "check_stream_zero",
    "its memory is not on the host\n  pass": DEVICE + "check_memory_that_is_not_on_the_host",
    "is memory that is not on the host\n  copy": DEVICE + "check_memory_that_is_not_on_the_host",
    "but copy=False was asked for\n  allow it": DEVICE + "check_a_copy_that_is_not_allowed",
    "pass assume_device=, such as (2, 0)": NO_DRIVER,
    "on_release=\"guard\": texttextdrop the option": NO_DRIVER,
    "['stream'] must not be 0": "tests/device/test_cuda_interface.py",
    "['syclobj'] does not tell its device": "tests/core/test_sycl_interface.py",
    "is known only to dpctl, which": "tests/core/test_sycl_interface.py",
    "the device of ['syclobj'] has the number": "tests/core/test_sycl_interface.py",
    "the queue of its producer is not known": "tests/oneapi/test_interface.py",
    "the producer's queue is not known": "tests/oneapi/test_sync.py",
    'on_release="guard" is kept for CUDA': "tests/device/test_release.py",
    'on_release="guard" needs a CUDA driver': "tests/device/test_release.py",
    # what is to be done elsewhere, in no words of ours
    "its strides are none that the driver copies": "why: the method is the producer's own",
    "dlshim makes no copies on such a device": "why: the method is the producer's own",
    "its producer cannot copy it": "why: the method is the producer's own",
    "and its library did not move it": "why: the method is the producer's own",
    "dlshim copies to CUDA and ROCm devices only": "why: the functions are the consumers' own",
    "the library of like= gave no memory": "why: it needs memory that is free",
    "knows no memory at its address": "why: the memory has to be alive",
    "is out of range\n  pass None": "why: it names the values, and none of them is better",
    "be a SyclQueue, a SyclContext": "why: it is for who writes the dict",
    # what Python raises
    "import ml_dtypes if it has one": "tests/core/test_numpy_habits.py",
    "is not known\n  pass \"C\", \"F\" or \"A\"": "tests/core/test_by_value.py",
    "has nothing to export\n  name its array": "tests/core/test_authors.py",
    "is not the name of an attribute": "tests/core/test_authors.py",
    "which stays\n  leave array=True out": "tests/core/test_authors.py",
    "takes inner=, array= and from_dlpack=": "tests/core/test_authors.py",
    "cannot be called\n  pass a function": "why: it is for who writes the class",
    "has no from_dlpack": "tests/core/test_kernel.py",
    "positions count from 0": "tests/core/test_kernel.py",
    "positions are below": "tests/core/test_kernel_accepts.py",
    "is no number of dimensions": "tests/core/test_wanted.py",
    "is empty, and would take no array": "tests/core/test_wanted.py",
    "is no parameter of": "tests/core/test_kernel.py",
    "the device has no memory for the": "why: another array has to give its memory back first",
    "whose other users would see it changed\n  wrap": "tests/core/test_authors.py",
    "cannot be changed\n  wrap its objects": "tests/core/test_authors.py",
}  # fmt: skip

#: Say what an option or a row of a table is, and refuse nothing.
NO_ERRORS = re.compile(
    r"^\(device_type|: NumPy <|: torch 2\.9|^stream=: |exports booleans as uint8"
    r"|neither True nor False|makes an array of NumPy, which|neither wait\(\) nor"
    r"|but making text of text needs"
)


def text_of(node: ast.expr) -> str:
    """A literal with "text" in the place of each value; nothing for other expressions."""
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.FormattedValue):
        return "text"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def raised_in_python() -> list[str]:
    """Every text of a `raise`; formatted values are replaced by a word."""
    texts = []
    for path in sorted((ROOT / "shim").rglob("*.py")):
        raises = [
            each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Raise)
        ]
        for call in (each.exc for each in raises if isinstance(each.exc, ast.Call)):
            for given in call.args:
                if isinstance(given, ast.JoinedStr):
                    parts = [getattr(each, "value", "") for each in given.values]
                    texts.append(
                        "".join(each if isinstance(each, str) else "text" for each in parts)
                    )
                elif isinstance(given, ast.Constant) and isinstance(given.value, str):
                    texts.append(given.value)
    return texts


def with_cures() -> list[str]:
    """The texts that name something to type.  Docstrings of functions are none of them."""
    texts = {text for text in (*own_texts(), *raised_in_python()) if " " in text}
    said = [text for text in texts if TYPED.search(text) and REFUSES.search(text)]
    docs = re.compile(r"\n(?!  \w)")
    return sorted(text for text in said if not (docs.search(text) or NO_ERRORS.search(text)))


@pytest.mark.parametrize("text", with_cures())
def test_a_text_with_a_cure_says_where_it_is_typed_in(text):
    assert [piece for piece in CURED if piece in text], "type its cure in, and add it to CURED"


def test_a_cure_is_the_last_line_and_the_first_is_the_reason():
    texts = {*own_texts(), *raised_in_python(), *with_cures()}
    two = [text for text in texts if text.count("\n") == 1 and not text.endswith("\n")]
    form = re.compile(r"([^\n]*[^,;:\s])?\n  ([(a-z%].*)?")
    assert [text for text in two if not form.fullmatch(text)] == []
    reasons = [text.partition("\n")[0] for text in texts if not WARNINGS.match(text)]
    assert [reason for reason in reasons if BESIDE.search(reason)] == []
    assert [text for text in with_cures() if text.count("\n") > 1] == []
    assert len([text for text in with_cures() if "\n  " in text]) > 100


def test_no_entry_is_left_over():
    texts = with_cures()
    assert [piece for piece in CURED if not any(piece in text for text in texts)] == []


@pytest.mark.parametrize("where", sorted({*CURED.values()}))
def test_the_test_is_there(where):
    kind, _, rest = where.partition(": ")
    if kind == "why":
        return
    if kind == "explain":
        assert rest in KEYS
        return
    path, _, name = where.partition("::")
    text = (ROOT / path).read_text()
    assert f"def {name}(" in text if name else "pytest.raises" in text or "match=" in text
