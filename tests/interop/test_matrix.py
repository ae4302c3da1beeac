"""The questions put to a run of the matrix."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec

import pytest

from interop import cells, environments, faults, libraries, outcomes, runner, versions
from interop.summary import Summary, grouped

ENVIRONMENT = os.environ.get("DLSHIM_INTEROP_ENV")


def takes_part(module: str, present: runner.Presence) -> bool:
    """Some adapter that imports the module is in use, or its functions are tried by outcomes."""
    top = module.split(".")[0]
    if top in outcomes.MODULES:
        return find_spec(module) is not None
    for kind, adapters in (("producers", libraries.PRODUCERS), ("consumers", libraries.CONSUMERS)):
        for adapter in adapters:
            names = {adapter.library, *(m.split(".")[0] for m in adapter.modules)}
            if top in names and adapter.name in getattr(present, kind):
                return True
    return False


def test_what_the_environment_requires_takes_part(present):
    required = environments.load()[ENVIRONMENT].required if ENVIRONMENT else ("numpy",)
    absent = [module for module in required if not takes_part(module, present)]
    assert not absent, "%s: %s" % (absent, present.absent)
    assert "upgraded" in present.shims, present.absent


def test_every_cell_is_as_the_model_says(matrix):
    red = matrix.summary.red()
    assert not red, "%d cells are red:\n%s" % (len(red), grouped(red))


def test_a_tensor_in_between_changes_nothing(matrix):
    red = matrix.summary.red("tensor")
    assert not red, "%d cells are red:\n%s" % (len(red), grouped(red))


@pytest.mark.parametrize("shim", ["upgraded", "tensor"])
def test_dlshim_warns_of_nothing_that_bare_exchanges_are_silent_about(matrix, shim):
    """Whoever makes warnings errors keeps what works bare."""
    noisy = matrix.summary.noisy(shim)
    told = "\n".join(f"{warning}\n{grouped(cells)}" for warning, cells in noisy.items())
    assert not noisy, told


def test_a_warning_that_bare_exchanges_do_not_give_is_seen():
    def heard(shim, *warned, dtype="int8"):
        return runner.Result(
            "a", "b", shim, dtype, "contiguous-1d", cells.OK, "", "", "", "", None, warned
        )

    old, own = "DeprecationWarning: old", "ReadOnlyWarning: read-only"
    new = heard("upgraded", old, own, "UserWarning: new")
    summary = Summary([heard("bare", old, dtype="bool"), heard("bare"), new, heard("tensor", old)])
    assert summary.noisy() == {"UserWarning: new": [new]}
    assert summary.noisy("tensor") == {}


def test_what_works_bare_works_upgraded(matrix):
    """But for the rows of dlshim itself, and what rule T12 counts of others."""
    broken = matrix.summary.broken()
    lines = grouped(after for _, after in broken)
    assert not broken, "%d exchanges work bare and not upgraded:\n%s" % (len(broken), lines)


def test_all_that_can_be_cured_is_cured(matrix):
    curable = matrix.summary.curable()
    left = [after for _, after in curable if not after.works]
    assert curable, "nothing fails bare: the matrix does not see anything"
    assert not left, "%d of %d are not cured:\n%s" % (len(left), len(curable), grouped(left))


def test_few_arrays_could_not_be_made(matrix):
    upgraded = matrix.summary.shim("upgraded").values()
    unmade = [r for r in upgraded if r.kind == cells.NA]
    assert len(unmade) < 0.05 * len(upgraded), grouped(unmade)


def test_both_shims_ran_the_same_cells(matrix):
    """After a crash the bare shim leaves the other element types of that layout out."""
    bare, upgraded = matrix.summary.shim("bare"), matrix.summary.shim("upgraded")
    crashed = {(k[0], k[1], k[3]) for k, r in bare.items() if r.kind in (cells.CRASH, cells.HANG)}
    alone = [k for k in upgraded.keys() - bare.keys() if (k[0], k[1], k[3]) not in crashed]
    assert not alone
    assert not bare.keys() - upgraded.keys()


def test_the_option_that_an_error_names_works(matrix):
    """The first one that it names, in each exchange that a plain upgrade does not get through.

    What the library refuses then is a limit of its own, which other cells have."""
    cured = matrix.summary.shim("cured").values()
    named = [r for r in cured if not r.detail.startswith("NoCure") and r.kind != cells.NA]
    failed = [
        r
        for r in named
        if not r.works
        and r.kind != cells.LEAK
        and (r.kind != cells.ERROR or re.search("' object: ", r.detail))
    ]
    assert sum(r.works for r in named) > len(named) / 2
    assert not failed, "%d cures:\n%s" % (len(failed), grouped(failed))


# --- planted faults --------------------------------------------------------------------------

COPY = {
    "numpy(copy=True)": "dlshim makes the copy before the fault",
    "torch(copy=True)": "dlshim makes the copy before the fault",
    "mlx": "copies on import, at once",
}
HONOURS_READ_ONLY = {
    "numpy", "numpy(device='cpu')", "array-api-strict", "awkward", "pyarrow.Tensor",
    "pyarrow.Array", "cuda.core", "nanobind 2.12 rw", "nanobind 3.1 rw",
}  # fmt: skip
TAKES_BOTH = {
    "numpy(copy=True)": "its copy is writable either way",
    **dict.fromkeys(
        ["torch", "torch(copy=True)", "torch(copy=False)", "torch(device='cpu')", "torch.asarray"],
        "takes both generations and ignores the flag",
    ),
    "paddle": "takes both generations and ignores the flag",
    "mlx": "takes both generations",
    "cuda.core": "takes both generations, writable either way",
    **dict.fromkeys(
        ["nanobind 2.12 rw", "nanobind 2.12 ro", "nanobind 3.1 rw", "nanobind 3.1 ro"],
        "takes both generations",
    ),
}

KEEPS_THE_OBJECT = {
    "nanobind %s %s" % (g, p): "holds the imported object itself, so nothing is freed"
    for g in ("2.2", "2.9", "2.12", "3.1")
    for p in ("rw", "ro")
}
KEEPS_THE_OBJECT["cuda.core"] = "its view holds the imported object too (exporting_obj)"

# Per fault: the layout in which it shows, and who need not notice it, each with the reason.
# All others must. Written from what the fault does, not from what was seen.
SHOWS = {
    "flag lost": ("readonly-1d", None),
    "offset lost": ("offset-1d", {}),
    "wrong generation": ("contiguous-1d", TAKES_BOTH),
    "stride wrong": ("step2-1d", {n: r for n, r in COPY.items() if n != "mlx"}),
    "freed early": ("contiguous-1d", COPY | KEEPS_THE_OBJECT),
    "silent copy": ("contiguous-1d", COPY),
}


def blind_here(fault: str) -> set[str]:
    """Who need not notice it in the versions installed here."""
    found: set[str] = set()
    if fault == "wrong generation" and (2, 1) <= versions.of("numpy") < (2, 2, 5):
        # takes both generations, and what it imports is read-only either way
        found |= {"numpy", "numpy(device='cpu')", "array-api-strict", "awkward"}
    if fault == "wrong generation" and versions.of("jax") >= (0, 12):
        found |= {"jax"}  # takes both generations
    old_paddle = versions.of("paddlepaddle") < (3,)
    if old_paddle and fault in ("stride wrong", "freed early", "silent copy"):
        found |= {"paddle"}  # copies on import, and ignores strides in doing so
    return found


@pytest.fixture(scope="session")
def spoilt(present):
    """All faults, each on arrays of NumPy towards every consumer."""
    batches = [
        runner.Batch("numpy", consumer, "fault:" + fault, ("float32",))
        for fault in faults.FAULTS
        for consumer in present.consumers
    ]
    return Summary(runner.run(batches))


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_a_planted_fault_turns_cells_red(fault, spoilt, present):
    layout, exempt = SHOWS[fault]
    if exempt is None:
        watching = present.consumers.keys() & HONOURS_READ_ONLY
        if versions.of("numpy") < (2, 2, 5):
            watching -= {"numpy", "numpy(device='cpu')", "array-api-strict", "awkward"}
    else:
        blind = {each.name for each in libraries.CONSUMERS if fault in each.blind_to}
        watching = present.consumers.keys() - exempt.keys() - blind - blind_here(fault)
    if not watching:
        pytest.skip("no consumer of this environment can notice it")
    results = spoilt.shim("fault:" + fault)
    blind = [c for c in watching if not results["numpy", c, "float32", layout].red]
    assert not blind, "%s was not noticed by the cells of %s" % (fault, sorted(blind))


def test_the_same_cells_are_green_without_a_fault(matrix, present):
    upgraded = matrix.summary.shim("upgraded")
    for layout, _ in SHOWS.values():
        for consumer in present.consumers:
            assert not upgraded["numpy", consumer, "float32", layout].red
