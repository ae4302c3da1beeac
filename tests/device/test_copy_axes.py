"""Copies by every axis at once: how it is wanted, the stream that is asked for, the context of the
source, and each option.  A copy comes after the work in its memory, is ready for every stream, and
is freed after its readers, whatever the axes say (rules S10, S18 and S19).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import dlshim
import sampling
from doubles import capsules as caps
from doubles import device as fake
from drivers import Driver, checks, run_checks

#: How a copy is wanted: options, and keywords of the consumer.
WANTED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "copy=True": ({"copy": True}, {}),
    "the consumer's copy": ({}, {"copy": True}),
    "the host": ({"device": "cpu"}, {}),
    "the consumer's host": ({}, {"dl_device": (1, 0)}),
    "another device": ({"device": "cuda:1"}, {}),
    "the consumer's device": ({}, {"dl_device": (2, 1)}),
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    *({"unknown_stream": policy} for policy in ("auto", "error", "legacy", "same")),
    {"order": "C"},
    {"align": 256},
    {"readonly": "copy"},
    {"readonly": True},
    {"stream": "S"},
    {"stream": "wait"},
    {"producer_stream": "P"},
    {"reinterpret": "int32"},
    {"on_release": "contract"},
)
#: What names its stream, so that no policy is asked.
SOURCES: dict[str, Any] = {"interface": fake.Cai3, "capsule": fake.RawFn}


def cases() -> Iterator[tuple[Any, ...]]:
    return itertools.product(SOURCES, WANTED, (-1, None, "S"), (False, True), OPTIONS)


def check_copies_by_every_axis(drv: Driver) -> None:
    for name, how, asked, apart, option in sampling.every(7, cases()):
        told = (name, how, asked, "another context" if apart else "primary", option)
        drv.reset()
        drv.make_current(0)
        of = {"context": drv.context_new(0)} if apart else {}
        p = drv.stream_new(0, False, name="P", **of)
        array = SOURCES[name](drv, p, **of)
        assert not array.write()
        options, keywords = WANTED[how]
        target = 1 if "device" in how else 0
        s = drv.stream_new(target, False, name="S")
        its = options | {key: {"P": p, "S": s}.get(value, value) for key, value in option.items()}
        if name == "capsule":
            its.setdefault("producer_stream", p)
        source = array() if name == "capsule" else array
        keywords = keywords | ({} if asked is None else {"stream": s if asked == "S" else asked})
        taken = caps.take(dlshim.upgrade(source, **its).__dlpack__(max_version=(1, 0), **keywords))
        assert taken.view.copied, told
        assert taken.view.device == ((1, 0) if "host" in how else (2, target)), told
        if "host" in how:
            assert not drv.host_read(taken.view.data, 24), (told, drv.races())
        else:
            assert not drv.read(s, taken.view.data, 24, context=drv.context(target)), told
        taken.release()
        assert not drv.races(), (told, drv.races())
    caps.close_accounts()


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ("12.2", "13.0")))
def test_copy_axes(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
