"""Trials: what a function makes of an object, seen in a child process that may die."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import dlshim
from dlshim.trial import asked, expressions, parent, remake, values, ways

numpy = pytest.importorskip("numpy", reason="its arrays are tried")
takers = pytest.importorskip("doubles.takers", reason="its functions are NumPy's")

pytestmark = pytest.mark.once


@pytest.fixture(scope="module")
def child() -> Iterator[parent.Child]:
    made = parent.Child()
    yield made
    made.close()


def tried(child: parent.Child, expression: str, consumer: str) -> dlshim.Verdict:
    name, call, version = asked.function_of(child, consumer)
    trial = asked.Trial(child, {"expression": expression}, call)
    asked.try_all([trial])
    return trial.verdict(name, version)


def of(child: parent.Child, expression: str, taker: str) -> dlshim.Verdict:
    return tried(child, expression, f"doubles.takers.{taker}")


OWN = "doubles.takers.Own([1.0, 2.0, 4.0])"
DOUBLE = "doubles.takers.Own([0.1, 2.0], 'float64')"
READONLY = "doubles.takers.readonly()"


# ---- what comes out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "taker", "result", "why"),
    [
        (OWN, "take", "works", ""),
        (OWN, "copy", "works", ""),
        (OWN, "refuse", "refused", "ValueError: no such thing"),
        (OWN, "leave", "refused", "SystemExit: 3"),
        (OWN, "die", "dies", "SIGKILL"),
        (OWN, "die_later", "dies", "SIGKILL, in its first operation"),
        (DOUBLE, "narrow", "changes", "float32 for float64"),
        ("doubles.takers.Own([2.0**40], 'float64')", "truncate", "wrong", "int32 for float64"),
        ("numpy.arange(6.0)[::2]", "misread", "wrong", "1.0 for 2.0"),
        (OWN, "flatten", "wrong", "shape (1, 3) for (3,)"),
        (OWN, "dangle", "wrong", "its memory was freed while in use"),
        ("doubles.takers.Masked([1.0, 7.0])", "take", "wrong", "7.0 for a missing or hidden value"),
    ],
)
def test_each_way_in_which_a_call_ends(child, expression, taker, result, why) -> None:
    verdict = of(child, expression, taker)
    for outcome in (verdict.bare, verdict.upgraded):
        assert outcome.result == result, outcome
        assert why in outcome.why
    assert (verdict.cure == "") or result != "works"


def test_a_call_that_hangs_is_ended_and_no_other_follows(monkeypatch) -> None:
    monkeypatch.setattr(parent, "SILENCE_SECONDS", 0.2)
    own = parent.Child()
    try:
        verdict = of(own, OWN, "hang")
        assert [each.result for each in verdict.tried] == ["hangs", "hangs"]
        assert tried(own, OWN, "doubles.takers.take").bare.result == "works", "another child"
        assert own.started == 3
    finally:
        own.close()


def test_after_some_deaths_no_other_line_is_tried(child) -> None:
    verdict = of(child, OWN, "die")
    assert 0 < sum(each.result == "dies" for each in verdict.tried) <= ways.DEATHS + 1


def test_sharing_and_access(child) -> None:
    shared, copied = of(child, OWN, "take"), of(child, "numpy.arange(3.0)", "copy")
    assert (copied.bare.copied, copied.bare.writable) == (True, True)
    assert shared.upgraded.writable is True
    kept = of(child, READONLY, "take")
    assert (kept.upgraded.copied, kept.upgraded.writable, kept.what) == (False, False, "")


@pytest.mark.parametrize(
    ("expression", "writable"),
    [
        ("numpy.ones(3, 'c16')", True),
        ("numpy.array([True])", True),
        ("numpy.array([127], 'i1')", True),
        ("numpy.array([numpy.nan])", True),
        ("numpy.zeros(3, 'M8[D]')", None),
        ("numpy.zeros(0)", None),
    ],
)
def test_what_no_write_can_show_is_not_said(child, expression, writable) -> None:
    assert tried(child, expression, "numpy.asarray").bare.writable is writable


def test_a_mark_that_is_lost_is_told_and_cured(child) -> None:
    verdict = of(child, READONLY, "write_to")
    for outcome in (verdict.bare, verdict.upgraded):
        assert outcome.result == "works" and not outcome.copied
        assert outcome.what == ("WRITES INTO x, WHICH IS READ-ONLY",)
    assert verdict.cure == "doubles.takers.write_to(dlshim.upgrade(x, readonly='copy'))"


def test_a_copy_that_is_made_after_the_call_is_told(child) -> None:
    verdict = of(child, "numpy.arange(4.0)", "read_late")
    assert verdict.bare.result == "works" and verdict.bare.copied
    assert verdict.bare.what == ("reads x after the call",)
    assert of(child, "numpy.arange(4.0)", "copy").bare.what == ()


def test_warnings_are_told(child) -> None:
    verdict = of(child, OWN, "warn")
    assert verdict.bare.warnings == ("DeprecationWarning: soon it will be gone",)
    assert "with DeprecationWarning" in str(verdict.bare)


def test_a_function_that_computes_is_compared_with_a_plain_array(child) -> None:
    verdict = of(child, "numpy.arange(4.0)", "add_up")
    assert verdict.bare.compared == "same result as with a plain array"
    assert tried(child, "numpy.arange(4.0)", "numpy.sum(x, axis=0)").bare.result == "works"
    wrong = of(child, "numpy.arange(4.0)", "add_up_wrongly")
    assert (wrong.bare.result, wrong.upgraded.result) == ("works", "wrong")
    assert "with a plain array" in wrong.upgraded.why


def test_a_function_that_gives_other_values_each_time_is_not_compared(child) -> None:
    verdict = of(child, "numpy.arange(4.0)", "dice")
    assert verdict.bare.result == "works"
    assert "other values each time" in verdict.bare.compared


def test_the_elements_of_a_column_may_be_arrays() -> None:
    """Its shape is its length alone; of no row nothing is known but the shape."""

    class Column:
        shape = (2,)

        def __init__(self, listed: list) -> None:
            self.listed = listed

        def to_list(self) -> list:
            return self.listed

    assert values.values_of(Column([[1.0, 2.0], [3.0, 4.0]])).shape == (2, 2)
    assert values.values_of(Column([1.0, 2.0])).shape == (2,)
    assert values.values_of(Column([[1.0], [2.0, 3.0]])).shape == (2,)
    Column.shape = (0, 3)
    assert values.values_of(Column([])).shape == (0, 3)


def test_values_that_nobody_tells_are_not_compared(child) -> None:
    verdict = of(child, "doubles.takers.Silent([1.0])", "take")
    assert verdict.bare.result == "works"
    assert verdict.bare.compared.startswith("values not compared: nobody tells those of x")


def test_an_expression_that_gives_other_values_each_time_is_compared_with_itself(child) -> None:
    verdict = of(child, "numpy.random.default_rng().random(4)", "take")
    assert (verdict.bare.result, verdict.bare.compared) == ("works", "same values")
    every_second = "numpy.random.default_rng().random(6)[::2]"
    assert of(child, every_second, "misread").bare.result == "wrong"


# ---- which lines --------------------------------------------------------------------------------


def test_the_plain_upgrade_comes_first_and_the_bare_call_last(child) -> None:
    lines = [each.line for each in of(child, OWN, "take").tried]
    assert lines == ["doubles.takers.take(dlshim.upgrade(x))", "doubles.takers.take(x)"]


def test_the_option_that_helps_is_found(child) -> None:
    verdict = of(child, "numpy.arange(6.0)[::2]", "refuse_all_but_rows")
    assert verdict.upgraded.result == "refused"
    assert verdict.cure == "doubles.takers.refuse_all_but_rows(dlshim.upgrade(x, order='C'))"


def test_an_expression_that_a_message_names_is_tried(child) -> None:
    verdict = of(child, "[1.0, 2.0]", "take")
    assert verdict.cure == "doubles.takers.take(dlshim.upgrade(numpy.asarray(x)))"
    hidden = of(child, "numpy.ma.array([1.0, 2.0], mask=[False, True])", "take")
    assert hidden.cure == ""
    assert "for a missing or hidden value" in str(hidden) and "x.filled(0)" in str(hidden)


def test_who_takes_capsules_alone_gets_one(child) -> None:
    verdict = of(child, OWN, "capsule_only")
    assert verdict.bare.raises == ("TypeError",)
    assert verdict.cure == "doubles.takers.capsule_only(dlshim.to_capsule(x, align=64))"


def test_what_cannot_be_used_is_refused(child) -> None:
    for name, told in (("torhc", "torhc"), ("numpy.no_such", "no_such"), ("numpy.pi", "no func")):
        with pytest.raises(ValueError, match=told):
            asked.function_of(child, name)
    with pytest.raises(ValueError, match="no library, function"):
        asked.function_of(child, "1 +")
    with pytest.raises(asked.Unmade, match="ZeroDivisionError"):
        tried(child, "1 / 0", "numpy.asarray")
    with pytest.raises(asked.Unmade, match="SIGKILL"):
        tried(child, "doubles.takers.die(1)", "numpy.asarray")


@pytest.mark.parametrize(
    ("to", "call"),
    [
        ("numpy.asarray", "numpy.asarray(x)"),
        ("numpy:asarray", "numpy.asarray(x)"),
        ("f(x, axis=1)", "f(x, axis=1)"),
        ("lambda x: f(x)", "(lambda x: f(x))(x)"),
        ("x.sum()", "x.sum()"),
    ],
)
def test_a_consumer_is_a_function_or_an_expression_of_x(to: str, call: str) -> None:
    assert expressions.call_of(to) == call
    assert expressions.put("f(x, x=lambda x: x)", "g(y)") == "f(g(y), x=lambda x: x)"


def test_of_a_large_array_some_elements_are_compared() -> None:
    x = numpy.arange(values.MOST * 2).reshape(2, -1)
    other = x.copy()
    assert values.difference(values.values_of(x), values.values_of(other)) == ""
    assert len(values.values_of(x).elements) == values.SOME
    other[-1, -1] = 0
    assert values.difference(values.values_of(x), values.values_of(other)) != ""


# ---- an object of this process ------------------------------------------------------------------


def one(x: object, consumer: object) -> dlshim.Verdict:
    (verdict,) = dlshim.inspect(x, consumer=consumer).verdicts
    return verdict


ARRAYS = {
    "plain": lambda: numpy.arange(6.0),
    "reversed": lambda: numpy.arange(6.0)[::-1],
    "transposed": lambda: numpy.arange(6, dtype="i2").reshape(2, 3).T,
    "backwards in one axis": lambda: numpy.arange(12).reshape(3, 4)[::-1, 1::2],
    "broadcast": lambda: numpy.broadcast_to(numpy.float32(3), (4, 2)),
    "read-only": takers.readonly,
    "at an odd address": lambda: numpy.zeros(40, "u1")[3:35].view("f4"),
    "empty": lambda: numpy.zeros((0, 3)),
    "scalar": lambda: numpy.array(7),
    "big-endian": lambda: numpy.arange(3, dtype=">i4"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_of_numpy_is_made_anew_as_it_is(name: str) -> None:
    from dlshim.trial.child import maker_of

    x = ARRAYS[name]()
    make, unlike = remake.remake(x)
    made = maker_of(make)()
    assert unlike == "" and made.dtype == x.dtype and made.tolist() == x.tolist()
    assert (made.shape, made.strides) == (x.shape, x.strides)
    assert made.flags.writeable == x.flags.writeable
    if x.size:
        assert (made.ctypes.data - x.ctypes.data) % 4096 == 0


def test_objects_of_this_process_are_tried() -> None:
    assert one(numpy.arange(6.0)[::-1], "numpy").bare.result == "works"
    assert one(takers.Own([1.0]), takers.take).consumer == "doubles.takers.take"
    assert one(numpy.arange(3.0), takers.die).bare.result == "dies"
    assert one(numpy.arange(3.0), numpy).consumer == "numpy.from_dlpack"
    assert one(dlshim.upgrade(numpy.arange(6.0)[::2], order="C"), numpy).bare.result == "works"
    assert one(numpy.arange(3.0), "doubles.takers.add_up(x, weight=2)").bare.result == "works"


def test_nothing_is_imported_or_called_in_this_process() -> None:
    code = (
        "import sys, dlshim\n"
        "(told,) = dlshim.inspect(bytearray(3), consumer='numpy').verdicts\n"
        "assert told.upgraded.result == 'works', told\n"
        "assert 'numpy' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("x", "consumer", "why"),
    [
        (memoryview(b"abc"), "numpy", "cannot be pickled"),
        (takers.Unpicklable([1.0]), "numpy", "cannot be pickled"),
        (takers.OnDevice([1.0]), "numpy", "its memory is on a device"),
        (numpy.arange(3), lambda x: x, "a lambda"),
        (numpy.arange(3), [].append, "a method of an object"),
        (takers.Own([1.0]).held.__dlpack__(), "numpy", "cannot be pickled"),
    ],
)
def test_what_cannot_be_made_anew_is_not_tried_and_says_what_to_type(x, consumer, why) -> None:
    verdict = one(x, consumer)
    assert verdict.bare.result == verdict.upgraded.result == "not tried"
    assert why in verdict.why and "python -m dlshim inspect" in verdict.why
    assert verdict.cure == "" and "not tried" in str(verdict)


@pytest.mark.parametrize(
    ("name", "value"), [("executable", ""), ("executable", None), ("frozen", True)]
)
def test_a_program_that_has_no_python_starts_none(name, value, monkeypatch) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    assert "no Python" in one(numpy.arange(3), "numpy").why


def test_where_no_process_can_be_started_that_is_said(monkeypatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise RuntimeError("fork is not allowed here")

    monkeypatch.setattr(parent.subprocess, "Popen", refuse)
    monkeypatch.setattr(asked, "_warm", None)
    assert "fork is not allowed here" in one(numpy.arange(3), "numpy").why


def test_a_class_of_main_is_not_tried() -> None:
    code = (
        "import dlshim\n"
        "class Mine(bytearray): pass\n"
        "print(dlshim.inspect(Mine(3), consumer='numpy').verdicts[0].why)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "defined in __main__" in done.stdout, done.stderr


def test_a_large_array_is_cut_and_that_is_said() -> None:
    x = numpy.zeros((3000, 3000)).T
    assert one(x, "numpy").remade == f"x[:8, :8], of {x.nbytes >> 20} MB"
    assert one(bytes(65 << 20), "numpy").remade == "x[:8], of 65 MB"
    large = [numpy.zeros(9)] * 2
    assert one(large, "numpy").remade == ""


def test_what_differs_from_the_object_is_said() -> None:
    x = numpy.arange(3.0).view(numpy.recarray)
    x.flags.writeable = False
    assert "readonly False for True" in one(x, "numpy").remade


def test_a_consumer_that_is_none_is_refused() -> None:
    for consumer in (3, "no_such_module_here", "numpy.no_such"):
        with pytest.raises(ValueError, match="consumer"):
            dlshim.inspect(numpy.arange(3), consumer=consumer)


def test_the_child_is_kept_and_ends_with_the_process() -> None:
    code = (
        "import dlshim, numpy\n"
        "from dlshim.trial import asked\n"
        "dlshim.inspect(numpy.arange(3), consumer='numpy')\n"
        "first = asked._warm[1]\n"
        "dlshim.inspect(numpy.arange(3), consumer='numpy')\n"
        "assert asked._warm[1] is first and first.started == 1\n"
        "print(first.process.pid)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_a_child_of_its_own() -> None:
    code = (
        "import os, dlshim, numpy\n"
        "from dlshim.trial import asked\n"
        "def look(): return dlshim.inspect(numpy.arange(3), consumer='numpy').verdicts[0].bare\n"
        "look(); mine = asked._warm[1].process.pid\n"
        "forked = os.fork()\n"
        "if not forked:\n"
        "    assert asked._warm is None and look().result == 'works'\n"
        "    assert asked._warm[1].process.pid != mine\n"
        "    asked._close(); os._exit(0)\n"
        "assert os.waitpid(forked, 0)[1] == 0\n"
        "assert look().result == 'works' and asked._warm[1].process.pid == mine\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_interrupt_ends_the_child(child, monkeypatch) -> None:
    own = parent.Child()
    own.ask(do="version", name="numpy")

    def interrupt(_self: parent.Child) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(parent.Child, "_listen", interrupt)
        with pytest.raises(KeyboardInterrupt):
            own.ask(do="version", name="numpy")
    assert own.process is None
    assert own.ask(do="version", name="numpy")["version"] == numpy.__version__
    own.close()


def test_a_report_with_verdicts_prints_and_pickles() -> None:
    report = dlshim.inspect(takers.readonly(), consumer=takers.write_to)
    for word in ("to doubles.takers.write_to, tried: 3 calls", "! doubles", "use:  doubles"):
        assert word in str(report)
    assert pickle.loads(pickle.dumps(report)) == report


class Forged(takers.Own):
    """Its errors hold lines of their own."""

    def __dlpack__(self, **keywords):
        raise ValueError("no\n  readonly      False")


def test_an_error_adds_no_lines_to_what_was_tried(child) -> None:
    verdict = of(child, "core.test_trial.Forged([1.0])", "take")
    assert verdict.bare.result == "refused" and "\n" in verdict.bare.why
    assert not re.search(r"^  readonly ", str(verdict), re.M)


def test_options_and_expressions_are_read_from_messages() -> None:
    said = (
        'it is so\n  pass order="auto" or order="C", or x.filled(value), or call x.detach() first'
    )
    assert ways.options_in(said) == ["order='auto'", "order='C'"]
    assert ways.expressions_in(said) == ["x.filled(0)", "x.detach()"]
