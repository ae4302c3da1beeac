"""The child process of trials: it makes an object, gives it to a function, and says what came out.

``trial/parent.py`` starts it.  It reads jobs and writes answers, a line of JSON each; before each
step it says which one begins, so that the parent knows what has ended the process.
"""

from __future__ import annotations

import base64
import gc
import json
import operator
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TextIO

from ..libraries import version_of_module
from . import look
from .expressions import evaluate, import_named
from .values import Untold, Values, values_of

Answer = dict[str, Any]

#: Functions of a library, the first of which is meant where the library alone is named.
USUAL = (
    *("from_dlpack", "numpy.from_dlpack", "dlpack.from_dlpack", "utils.dlpack.from_dlpack"),
    *("experimental.dlpack.from_dlpack", "Tensor.from_dlpack", "OrtValue.from_dlpack"),
    *("asarray", "Series", "array"),
)
#: Functions of libraries without which they take nothing; whoever makes an array has called them.
STARTS = {"warp": "init"}
#: Libraries whose functions are in a module of theirs.
MODULES = {"mlx": "mlx.core", "tf": "tensorflow", "onnxruntime": "onnxruntime"}


# ---- objects ------------------------------------------------------------------------------------


def maker_of(make: Answer) -> Callable[[], Any]:
    """Return what makes the object anew, each time that it is called."""
    if "expression" in make:
        return lambda: evaluate(make["expression"])
    if "array" in make:
        return lambda: _array(make["array"])
    if "upgraded" in make:
        source, options = maker_of(make["upgraded"]), make["options"]
        return lambda: import_module("dlshim").upgrade(source(), **options)
    raw = base64.b64decode(make["pickle"])
    return lambda: pickle.loads(raw)


def _array(told: Answer) -> Any:
    """Return an array of NumPy with the memory and the layout of another."""
    numpy = import_module("numpy")
    dtype = pickle.loads(base64.b64decode(told["dtype"]))
    raw = base64.b64decode(told["memory"])
    room = numpy.empty(len(raw) + 4096, numpy.uint8)
    start = (told["aligned"] - room.ctypes.data) % 4096
    memory = room[start : start + len(raw)]
    memory[:] = numpy.frombuffer(raw, numpy.uint8)
    x = numpy.ndarray(told["shape"], dtype, memory, told["offset"], told["strides"])
    x.flags.writeable = told["writeable"]
    return x


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


class Known:
    """What an object has: asked of objects that are made for this alone."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.values: Values | None = None
        self.why = self.refusal = ""
        #: Whether each one that is made has the same values.
        self.stable = True
        try:
            self.values = values_of(make())
            self.stable = repr(self.values) == repr(values_of(make()))
        except Untold as error:
            self.why = str(error)
        except Exception as error:
            self.why = _told(error)
        self.dtype, self.readonly = look.dtype_and_access(make)


# ---- attempts -----------------------------------------------------------------------------------


class Attempt:
    """One line, tried: the call, an operation on its result, writes, and the end of x."""

    def __init__(self, job: Answer, known: Callable[[], Known], begin: Callable[[str], None]):
        self.line, self.make, self.begin = job["line"], maker_of(job["make"]), begin
        self.plain = job["call"]
        self.known_of = known
        self.answer: Answer = {"warnings": [], "what": [], "copied": None, "writable": None}

    def call(self, x: Any) -> Any:
        """Return what the line gives; warnings are noted down."""
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                return evaluate(self.line, x=x)
            finally:
                names = [f"{each.category.__name__}: {each.message}" for each in seen]
                self.answer["warnings"] = [*dict.fromkeys(names)]

    def run(self, partly: Callable[[Answer], None]) -> Answer:
        """Return what came out; partly: is told of it before what may end the process."""
        self.begin("import")
        import_named(self.line)
        for name in STARTS.keys() & sys.modules.keys():
            with suppress(Exception):
                getattr(sys.modules[name], STARTS[name])()
        self.begin("make")
        try:
            x = self.make()
        except (Exception, SystemExit) as error:
            return {"unmade": _told(error)}
        self.begin("call")
        try:
            result = self.call(x)
        except (Exception, SystemExit) as error:
            return self._refused(error)
        self.begin("operation")
        operate(result)
        self.begin("look")
        known = self.known_of()
        seen = self._judge(known, x, result)
        partly(self.answer)
        if seen is not None:
            self.begin("write")
            self._access(known, x, result)
            partly(self.answer)
            self.begin("end")
            seen = values_of(result)  # after the write, which may have left another type
            del x
            look.churn()
            self._outlives(seen, result)
        return self.answer

    def _refused(self, error: BaseException) -> Answer:
        return self.answer | {
            "result": "refused",
            "raises": [type(error).__name__],
            "why": _told(error).strip(),
        }

    def _judge(self, known: Known, x: Any, result: Any) -> Values | None:
        """Say whether the result is right; return its values, where they can be looked at again."""
        self.answer["result"], self.answer["why"] = "works", ""
        wanted = known.values
        if not known.stable:
            with suppress(Untold):
                wanted = values_of(x)
        try:
            seen = values_of(result)
        except Untold as error:
            self._not_compared(f"nobody tells those of the result ({error})")
            return None
        dtype = look.dtype_of_result(result)
        if wanted is None:
            self._not_compared(f"nobody tells those of x ({known.why})")
            if None not in (known.dtype, dtype) and known.dtype != dtype and not self._computes():
                self.answer |= {"result": "changes", "why": f"{dtype} for {known.dtype}"}
            return seen
        said = look.fault(wanted, known.dtype, seen, dtype)
        if said[0] != "works" and self._computes():
            self._by_plain_array(wanted, known, seen)
            return seen
        self.answer["result"], self.answer["why"] = said
        by = f"; compared with {wanted.by}" if wanted.by else ""
        self.answer["compared"] = f"same values{by}" if said[0] == "works" else ""
        return seen

    def _not_compared(self, why: str) -> None:
        self.answer["compared"] = f"values not compared: {why}"

    def _computes(self) -> bool:
        """Whether the function gives something else than three numbers for three numbers."""
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return False
        try:
            seen = values_of(_quietly(self.line, numpy.arange(1, 4, dtype=numpy.float32)))
        except (Exception, SystemExit):
            return False
        return seen.elements != [1.0, 2.0, 3.0]

    def _by_plain_array(self, wanted: Values, known: Known, seen: Values) -> None:
        """Compare with what the function makes of NumPy's array of the same values."""
        numpy = import_module("numpy")
        try:
            if None in wanted.elements or wanted.shape is None or known.dtype is None:
                raise Untold("it has missing values, or no dtype")
            plain = numpy.array(wanted.elements, known.dtype).reshape(wanted.shape)
            one = values_of(_quietly(self.plain, plain))
            two = values_of(_quietly(self.plain, plain.copy()))
        except (Exception, SystemExit) as error:
            return self._not_compared(f"a plain array gives none to compare with ({_told(error)})")
        if repr(one) != repr(two):
            return self._not_compared("a plain array gives other values each time")
        said, why = look.fault(one, None, seen, None)
        self.answer |= {"result": said, "why": why and f"with a plain array: {why}"}
        self.answer["compared"] = "same result as with a plain array" if said == "works" else ""

    def _access(self, known: Known, x: Any, result: Any) -> None:
        """Say whether the result shares memory, and whether it can be written to."""
        self.answer |= look.access(x, result, readonly=known.readonly)
        if self.answer.pop("late_for", False) and self._reads_late():
            self.answer["what"].append("reads x after the call")

    def _reads_late(self) -> bool:
        """Whether a write to x, right after the call, shows in a result that is a copy."""
        x = self.make()
        try:
            result = _quietly(self.line, x)
            old, new = look.write(x)
            seen = values_of(result).elements[:1]
        except (Exception, SystemExit):
            return False
        return seen == [new] != [old]

    def _outlives(self, before: Values, result: Any) -> None:
        """Say so if the result changes now that x is gone."""
        try:
            alive = repr(values_of(result)) == repr(before)
        except Untold:
            alive = False
        if not alive:
            self.answer |= {"result": "wrong", "why": "its memory was freed while in use"}


def _quietly(line: str, x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return evaluate(line, x=x)


class Spy:
    """An object that writes down how it is asked for a capsule, and gives none."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked.append("1.x" if asked.get("max_version") else "0.x")
        raise TypeError(f"unexpected keywords {sorted(asked)}")  # so who can asks again


def operate(result: Any) -> None:
    """Let the library compute with a result; some die here and not before."""
    if isinstance(result, (list, tuple)):
        for each in result[:3]:
            operate(each)
        return
    for each in (lambda: operator.add(result, result), lambda: result.sum()):
        with suppress(Exception):
            made = each()
            getattr(made, "block_until_ready", int)()


# ---- jobs ---------------------------------------------------------------------------------------


class Worker:
    """Answers jobs."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.known: dict[str, Known] = {}
        self.modules = len(sys.modules)

    def say(self, **told: Any) -> None:
        print(json.dumps(told, default=str), file=self.out, flush=True)

    def begin(self, step: str) -> None:
        self.say(begin=step)

    def answer(self, job: Answer) -> Answer:
        return getattr(self, job["do"])(job)  # type: ignore[no-any-return]

    def attempt(self, job: Answer) -> Answer:
        def known() -> Known:
            key = json.dumps(job["make"])
            if key not in self.known:
                self.known = {
                    **dict([*self.known.items()][-50:]),
                    key: Known(maker_of(job["make"])),
                }
            return self.known[key]

        self.begin("import")
        import_named(job["make"].get("expression", "x"))
        self._freeze()
        return Attempt(job, known, self.begin).run(lambda partly: self.say(partly=partly))

    def report(self, job: Answer) -> Answer:
        """The report of the object, as a pickle, and what is compared with it besides."""
        self.begin("import")
        import_named(job["make"].get("expression", "x"))
        self.begin("make")
        try:
            x = maker_of(job["make"])()
        except (Exception, SystemExit) as error:
            return {"unmade": _told(error)}
        self.begin("look")
        try:
            told = import_module("dlshim").inspect(x, export=job["export"])
        except (Exception, SystemExit) as error:
            return {"unseen": _told(error)}
        raw = base64.b64encode(pickle.dumps(told)).decode()
        return {"report": raw, "more": look.more_of(x)}

    def function(self, job: Answer) -> Answer:
        """The call that a name stands for, and the release of its library."""
        self.begin("import")
        name: str = job["name"]
        try:
            import_named(name)
            module = import_module(MODULES.get(name, name)) if job["usual"] else None
        except (Exception, SystemExit) as error:
            return {"missing": _told(error)}
        if module is not None:
            found = [each for each in USUAL if _has(module, each)]
            if not found:
                return {"missing": f"{name} has none of {', '.join(USUAL)}"}
            name = f"{module.__name__}.{found[0]}"
        try:
            function = evaluate(name)
        except (Exception, SystemExit) as error:
            return {"missing": _told(error)}
        if not callable(function):
            return {"missing": f"{name} is no function"}
        return {"name": name, "version": _version(name)}

    def asks(self, job: Answer) -> Answer:
        """Which generation of DLPack a function asks for; None: it does not ask."""
        spy = Spy()
        with suppress(Exception, SystemExit):
            _quietly(job["call"], spy)
        return {"asks": " then ".join(dict.fromkeys(spy.asked)) or None}

    def gives(self, job: Answer) -> Answer:
        """Which generations an object exports; of one without DLPack its first protocol."""
        self.begin("import")
        import_named(job["make"]["expression"])
        self.begin("make")
        x = maker_of(job["make"])()
        if not hasattr(x, "__dlpack__"):
            offered = import_module("dlshim").inspect(x).protocols
            return {"gives": offered[0].name if offered else None}
        try:
            capsule = x.__dlpack__(max_version=(1, 0))
        except TypeError:
            return {"gives": "0.x"}
        return {"gives": "0.x and 1.x" if "versioned" in repr(capsule) else "0.x"}

    def other(self, job: Answer) -> Answer:
        """What another module of dlshim answers."""
        self.begin(job["step"])
        answer: Answer = getattr(import_module(job["module"]), job["function"])(job)
        return answer

    def version(self, job: Answer) -> Answer:
        self.begin("import")
        import_named(job["name"])
        return {"version": _version(job["name"])}

    def _freeze(self) -> None:
        """Do not collect again what imports have left: it would make each attempt slow."""
        if len(sys.modules) != self.modules:
            self.modules = len(sys.modules)
            gc.collect()
            gc.freeze()


def _has(module: Any, path: str) -> bool:
    try:
        if "." in path and not path.partition(".")[0][0].isupper():
            with suppress(ImportError):
                import_module(f"{module.__name__}.{path.rpartition('.')[0]}")
        return callable(operator.attrgetter(path)(module))
    except Exception:
        return False


def _version(name: str) -> str | None:
    return version_of_module(name.partition(".")[0])


def _prepare(setup: Answer) -> None:
    for name in setup["modules"]:
        with suppress(Exception):
            import_module(name)
    if setup["x64"]:
        with suppress(Exception):
            import_module("jax").config.update("jax_enable_x64", True)
    if setup["first"]:
        exec(setup["first"], {"__name__": "__main__"})


def main(setup: Answer) -> None:
    """Answer the jobs of standard input on what standard output was, until there is none."""
    # Libraries print; what they print must not be taken for an answer.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(out)
    worker.begin("import")
    try:
        _prepare(setup)
        worker.say(answer={})
    except (Exception, SystemExit) as error:
        worker.say(answer={"unmade": _told(error)})
    for line in sys.stdin:
        try:
            told = worker.answer(json.loads(line))
        except BaseException as error:  # of the engine, or of a library that raises such things
            told = {"failed": _told(error)}
        worker.say(answer=told)
    out.close()
    # Skip finalisation: libraries may die at it.
    os._exit(0)
