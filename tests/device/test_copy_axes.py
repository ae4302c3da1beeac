"""Copies by every axis at once: the kind of memory, how a copy is wanted, the stream that is asked
for, the context of the source, and each option.  A copy comes after the work in its memory, is
ready for every stream, and is freed after its readers, whatever the axes say (rules S10, S18, S19).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import dlshim
import sampling
from doubles import capsules as caps
from doubles import device as fake
from doubles import vendors
from doubles.vendors import Vendor
from drivers import checks, run_checks

#: How a copy is wanted: options, and keywords of the consumer.
WANTED: dict[str, Callable[[Vendor], tuple[dict[str, Any], dict[str, Any]]]] = {
    "copy=True": lambda vendor: ({"copy": True}, {}),
    "the consumer's copy": lambda vendor: ({}, {"copy": True}),
    "the host": lambda vendor: ({"device": "cpu"}, {}),
    "the consumer's host": lambda vendor: ({}, {"dl_device": (1, 0)}),
    "another device": lambda vendor: ({"device": f"{vendor.name}:1"}, {}),
    "the consumer's device": lambda vendor: ({}, {"dl_device": (vendor.device_type, 1)}),
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
    {"on_release": "guard"},
    {"detach": True},
    {"assume_device": "its device"},
)


class Interface(fake.Cai3):
    def detach(self) -> Any:
        return self


#: They name their stream, or their user does, so that no policy is asked.
SOURCES: dict[str, Any] = {"interface": Interface, "capsule": fake.RawFn}
KINDS = ("device", "pool", "managed", "pinned")
#: What is in a context that is not the device's own.
APART: tuple[tuple[str, ...], ...] = ((), ("P",), ("P", "current"), ("S",))


def cases(vendor: Vendor) -> Iterator[tuple[Any, ...]]:
    """HIP has neither the interface nor contexts, and no number for managed memory."""
    sources = [name for name in SOURCES if name != "interface" or not vendor.is_hip]
    kinds = [kind for kind in KINDS if kind in ("device", "pinned") or not vendor.is_hip]
    contexts = APART[:1] if vendor.is_hip else APART
    return itertools.product(sources, kinds, WANTED, (-1, None, "S"), contexts, OPTIONS)


def check_copies_by_every_axis(drv: Any) -> None:
    vendor = vendors.of(drv)
    copies: Counter[tuple[str, str]] = Counter()
    for name, kind, how, asked, apart, option in sampling.every(7, cases(vendor)):
        target = 1 if "device" in how else 0
        if "detach" in option and name == "capsule":
            continue
        s_is_told = (target, asked) == (0, "S") and option.get("stream") != "wait"
        if "S" in apart and not s_is_told:
            continue
        told = (name, kind, how, asked, apart, option)
        drv.reset()
        drv.make_current(0)
        own = drv.context_new(0) if apart else None
        of = {"context": own if "P" in apart else drv.context(0)}
        p = drv.stream_new(0, False, name="P", **of)
        array = SOURCES[name](drv, p, kind=kind, **of)
        assert not array.write()
        options, keywords = WANTED[how](vendor)
        home = own if "S" in apart else drv.context(target)
        s = drv.stream_new(target, False, name="S", context=home)
        if "current" in apart:
            drv.set_current(own)
        values = {"P": p, "S": s, "its device": f"{vendor.name}:0"}
        its = options | {key: values.get(value, value) for key, value in option.items()}
        if name != "interface":
            its.setdefault("producer_stream", p)
        source = dlshim.upgrade(array() if name == "capsule" else array, **its)
        keywords = keywords | ({} if asked is None else {"stream": values.get(asked, asked)})
        as_device = kind in ("device", "pool") or "assume_device" in option
        if kind == "managed" and "copy" in how and not as_device:
            with pytest.raises(BufferError, match="makes no copies on such a device"):
                source.__dlpack__(max_version=(1, 0), **keywords)
            continue
        taken = caps.take(source.__dlpack__(max_version=(1, 0), **keywords))
        del source  # it keeps the memory of its last export (T8)
        # The host reads managed and pinned memory where it is; -1 then asks for no sync.
        assert taken.view.copied or ("host" in how and not as_device), told
        copies[kind, how] += taken.view.copied
        if "host" in how or (kind == "pinned" and "copy" in how and not as_device):
            racy = taken.view.copied and drv.host_read(taken.view.data, 24)
        else:
            assert taken.view.device == (vendor.device_type, target), told
            racy = drv.read(s, taken.view.data, 24, context=home)
        assert not racy, (told, drv.races())
        taken.release()
        assert not drv.races(), (told, drv.races())
    caps.close_accounts()
    assert len(copies) == len({(kind, how) for _, kind, how, *_ in cases(vendor)})


@pytest.mark.parametrize(("variant", "name"), checks.pairs(globals(), ("12.2", "13.0", "hip6")))
def test_copy_axes(variant: str, name: str) -> None:
    results = run_checks(variant, __file__)
    assert results[name] is None, results[name]
