"""Ordinary arrays of libraries, as expressions, and their quick trial for ``doctor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..text import in_one_line
from . import ways
from .asked import Trial, Unmade, function_of
from .parent import Child

if TYPE_CHECKING:
    Facts = dict[str, Any]

#: By the key of a library: arrays of its own, the most ordinary one first.  The order is that of
#: imports: TensorFlow and Paddle come last, for they do not bear every library after them.
SAMPLES = {
    "numpy": (
        "numpy.arange(6, dtype='float32')",
        "numpy.arange(6, dtype='float32')[::-1]",
        "numpy.arange(6.0).reshape(2, 3).T",
        "numpy.array([True, False])",
    ),
    "torch": (
        "torch.arange(6.0)",
        "torch.ones(3, requires_grad=True)",
        "torch.ones(3, dtype=torch.bfloat16)",
        "torch.tensor(7.0)",
    ),
    "jax": ("jax.numpy.arange(4.0)", "jax.numpy.array([True, False])"),
    "pyarrow": (
        "pyarrow.array([1.0, 2.0], 'float32')",
        "pyarrow.array([1, None])",
        "pyarrow.array([True, False])",
    ),
    "polars": ("polars.Series([1.0, 2.0], dtype=polars.Float32)", "polars.Series([1, None])"),
    "pandas": ("pandas.Series([1.0, 2.0], dtype='float32')",),
    "mlx": ("mlx.core.arange(4.0)",),
    "warp": ("warp.array([1.0, 2.0], dtype=float)",),
    "tvm_ffi": ("tvm_ffi.from_dlpack(numpy.arange(4, dtype='float32'))",),
    "array_api_strict": ("array_api_strict.arange(4.0, dtype=array_api_strict.float32)",),
    "tensorflow": ("tensorflow.range(4.0)",),
    "paddle": ("paddle.arange(4, dtype='float32')",),
}


def quick(
    versions: Mapping[str, str],
    step: Callable[[str], None],
    arrays: Mapping[str, Sequence[str]] | None = None,
    functions: Mapping[str, Sequence[str]] | None = None,
) -> Facts:
    """Try the arrays of each library with the functions of each other one: the usual ones.

    The plain upgrade of each comes first, and all that is bare last; step: is called after each.
    """
    child = Child()
    arrays = SAMPLES if arrays is None else arrays
    wanted = functions if functions is not None else {key: (key,) for key in arrays}
    try:
        calls, left_out = _functions(child, {key: wanted[key] for key in wanted if key in versions})
        trials = [
            (source, into, call, Trial(child, {"expression": expression}, call))
            for source in arrays
            if source in versions
            for into, call, _ in calls
            if into != source
            for expression in arrays[source]
        ]
        for bare in (False, True):
            for source, into, _, trial in trials:
                _carry_out(trial, f"from {source}, into {into}", left_out, bare=bare)
                step(f"{source} into {into}")
        gives = _gives(child, {key: arrays[key][0] for key in arrays if key in versions})
    finally:
        child.close()
    groups = groupby(trials, key=lambda each: each[:3])
    rows = [
        _pair(source, into, call, [trial for *_, trial in group])
        for (source, into, call), group in groups
    ]
    asks = {into: asked for into, _, asked in reversed(calls)}
    return {
        "pairs": [row for row in rows if row["arrays"]],
        "left_out": left_out,
        "asked": [
            {"name": name, "gives": gives.get(name), "asks_for": asks.get(name)}
            for name in dict.fromkeys((*arrays, *wanted))
            if name in gives or name in asks
        ],
        "calls": sum(len(trial.outcomes) for *_, trial in trials),
        "children": child.started,
    }


def _functions(
    child: Child, wanted: Mapping[str, Sequence[str]]
) -> tuple[list[tuple[str, str, str | None]], dict[str, str]]:
    """Return the library, the call and what it asks for, of each function."""
    found, left_out = [], {}
    for library, names in wanted.items():
        for name in names:
            try:
                _, call, _ = function_of(child, name)
            except (ValueError, Unmade) as error:
                left_out[f"into {name}"] = str(error)
                continue
            found.append((library, call, child.ask(do="asks", call=call).get("asks")))
    return found, left_out


def _gives(child: Child, makes: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for library, expression in makes.items():
        told = child.ask(do="gives", make={"expression": expression})
        if told.get("gives"):
            found[library] = told["gives"]
    return found


def _carry_out(trial: Trial, where: str, left_out: dict[str, str], *, bare: bool) -> None:
    if where in left_out:
        return
    try:
        if bare:
            trial.bare()
        else:
            trial.with_dlshim()
    except Unmade as error:
        left_out[where] = str(error)


def _pair(source: str, into: str, call: str, trials: list[Trial]) -> Facts:
    """Return what each array of a pair comes to; of those that were left out nothing."""
    done = [each for each in trials if any(line.line == call for line in each.outcomes)]
    return {
        "from": source,
        "into": call.removesuffix("(x)") or into,
        "library": into,
        "arrays": [_array(call, each) for each in done],
    }


def _array(call: str, trial: Trial) -> Facts:
    """Return what an array comes to; line: the one to use, "" where none works.

    harm_added: what the plain upgrade does to the array without a warning, and the bare call not.
    """
    bare = next(each for each in trial.outcomes if each.line == call)
    plain, best = trial.outcomes[0], ways.best(trial.outcomes)
    return {
        "array": trial.make["expression"],
        "bare": bare.result,
        "bare_why": in_one_line(bare.why),
        "upgraded": plain.result,
        "why": in_one_line(plain.why),
        "line": best.line if best else "",
        "harm": "; ".join(dict.fromkeys((*bare.what, *plain.what))),
        "harm_added": "; ".join(
            each for each in plain.what if each not in bare.what and not plain.warnings
        ),
    }
