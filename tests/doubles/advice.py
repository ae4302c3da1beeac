"""Refusals whose advice is what the call was given already: every pair of options, tried out."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dlshim

#: Where the advice begins; what is said before it may name the options of the call.
BEGINS = re.compile(r"; |pass |give |allow it with|, or ")
OPTION = re.compile(r'(\w+)=("[^"]*"|-?\d+|True|False|None|\(\d+, \d+\))')

Options = dict[str, Any]
Ask = Callable[[Any, Options], Any]

#: How a consumer asks; a function of the object and of the options that `upgrade` gets.
ASKS: dict[str, Ask] = {
    "a Tensor": lambda x, options: dlshim.from_dlpack(x, **options),
    "a capsule": lambda x, options: dlshim.to_capsule(x, **options),
    "legacy": lambda x, options: dlshim.upgrade(x, **options).__dlpack__(),
    "modern": lambda x, options: dlshim.upgrade(x, **options).__dlpack__(max_version=(1, 0)),
    "the host": lambda x, options: dlshim.upgrade(x, **options).__dlpack__(
        max_version=(1, 0), dl_device=(1, 0)
    ),
}


def torch_like(x: Any, options: Options) -> Any:
    asked = dlshim.upgrade(x, **options)
    asked.__dlpack_device__()
    return asked.__dlpack__(max_version=(1, 0))


ASKS["torch-like"] = torch_like


def already_said(text: str, said: Options) -> list[str]:
    """The options that the text advises, and that were given with the very value."""
    begin = BEGINS.search(text)
    found = OPTION.findall(text[begin.start() :]) if begin else []
    values = [(name, ast.literal_eval(value)) for name, value in found]
    return [
        f"{name}={value!r}"
        for name, value in values
        if name in said
        and (said[name] == ((1, 0) if value == "cpu" else value))
        and type(said[name]) is type((1, 0) if value == "cpu" else value)
    ]


def choices(options: Mapping[str, Sequence[Any]], most: int = 2) -> Iterator[Options]:
    """Every choice of up to so many of the options, with every value."""
    for count in range(most + 1):
        for names in itertools.combinations(options, count):
            for values in itertools.product(*(options[name] for name in names)):
                yield dict(zip(names, values, strict=True))


def repeated(
    makers: Mapping[str, Callable[[], Any]],
    options: Mapping[str, Sequence[Any]],
    asks: Mapping[str, Ask] = ASKS,
    most: int = 2,
    around: Callable[[], Any] = contextlib.nullcontext,
) -> tuple[int, list[str]]:
    """How many calls were refused, and the refusals that advise what was said, once each."""
    refused, found = 0, {}
    for name, make in makers.items():
        for given, (how, ask) in itertools.product(list(choices(options, most)), asks.items()):
            x = make()
            with warnings.catch_warnings(), around():
                warnings.simplefilter("ignore")
                try:
                    ask(x, given)
                except (BufferError, TypeError, ValueError) as error:
                    refused += 1
                    if again := already_said(str(error), given):
                        found.setdefault(str(error), f"{name}, {how}, {given}: {again}: {error}")
    return refused, list(found.values())
