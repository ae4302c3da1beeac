"""Leaves out one sync at a time, and insists that the tests of tests/gpu which prove it fail.

    python tools/mutants_gpu.py             every row
    python tools/mutants_gpu.py WORD ...    those whose mutant has the word

Nobody has a card at hand to see these tests fail, so it is seen on the asynchronous fake driver.
PROOFS says which mutant of tools/mutants.py takes away what which tests prove; each of them must
fail, and each test of the suite is in one row or in NOT_OF_ORDER, with the reason.  Tests of
libraries that are not installed are skipped and told.  Needs a C compiler and pytest.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mutants
from mutants import ROOT, TESTS, Build, Failed

VARIANT = "13.0"
GPU = TESTS / "gpu"
STAND_INS = TESTS / "cuda_libraries" / "stand_ins"
KINDS = ("L", "PTDS", "blocking", "non-blocking")
#: Two streams of these kinds do not sync themselves (tests/gpu/test_gpu.py, UNSYNCED).
PAIRS = "|".join(
    f"{p}-{s}"
    for p in KINDS
    for s in KINDS
    if "non-blocking" in (p, s) or {p, s} == {"PTDS", "blocking"} or p == s == "blocking"
)
S_WAITS = "s_waits_for_p_and_the_host_does_not"
#: Streams of numba's, cuda.core's, tvm-ffi's, torch's, CuPy's and Warp's tests are non-blocking.
PROOFS: dict[str, str] = {
    "modern producers are passed no stream": rf"{S_WAITS}\[modern-({PAIRS})\]"
    r"|arrays_of_libraries\[of_(torch-(L|b.*|n.*)|cupy-.*|warp-(P.*|b.*|n.*))\]|jax_between.*",
    "no edge": rf"{S_WAITS}\[(interface|tensor|named)-({PAIRS})\]"
    r"|the_per_thread_stream_of_another_thread|an_edge_within_a_capture_is_part_of_the_graph"
    r"|arrays_of_libraries\[of_(numba|core_named|tvm_ffi)-.*|a_hundred_thousand_exchanges",
    "no edge of the whole device": rf"{S_WAITS}\[(capsule|silent)-({PAIRS})\]"
    r"|arrays_of_libraries\[of_core-.*",
    "the host does not wait for P": r"the_host_waits\[(managed|managed as cpu|pinned)\]",
    "the host does not wait for the device": r"the_host_waits\[managed, unknown\]",
    "a copy is not synced": r"the_host_waits\[copy(, unknown)?\]",
    "a copy is not waited for": r"copies_to_the_host\["
    r"(contiguous|permuted|pitched|planes|every other|far apart|one)\]|there_and_back",
    "a slab is read before it has arrived": r"copies_to_the_host\["
    r"(upside down, mirrored|repeated)\]",
    "a copy to a device is not waited for": r"a_host_array_is_ready_for_any_stream.*"
    r"|a_host_array_without_a_current_context|rows_are_copied_on_the_device",
    "a copy on a device does not come after the work there": "a_copy_comes_after_the_producers.*",
    "memory is freed while others use it": "memory_is_freed_after_its_readers.*",
    "a guard that waits for nothing": r"memory_written_again_while_s_reads\[guard\]",
    "a guard that records nothing": r"memory_written_again_while_s_reads\[guard\]",
    "no capture probe": "a_capture_survives_what_would_break_it.*",
    "no context is popped": "contexts_are_as_before",
    "None for JAX becomes 1": "jax_without_a_stream_is_ready_for_every_stream.*",
}
NOT_OF_ORDER: dict[str, str] = {
    rf"{S_WAITS}\[.*": "the driver orders these pairs by itself",
    r"arrays_of_libraries\[of_warp-L\]": "Warp's streams and L wait for each other by themselves",
    r"arrays_of_libraries\[of_torch-PTDS\]": "torch leads its work into L, for which PTDS waits",
    r"memory_written_again_while_s_reads\[contract\]": "the negative control of the guard",
    "what_the_driver_says_of_pointers.*": "no sync: what the driver answers",
    "an_unordered_read_shows_in_this_suite": "the negative control of all",
    "what_it_costs": "it reports and gates nothing",
    "no_memory_is_lost": "no sync: memory",
    "torch_takes_a_host_array_to_its_device": "torch itself waits for its own kernels",
    "torch_is_called_with_its_own_device_current.*": "no sync: the current device",
    "memory_like_a_torch_tensor_is_of_its_allocator": "no sync: whose memory it is",
    "torch_captures_an_exchange_without_a_stream.*": "none is made in a capture",
}
LINE = re.compile(r"(\S+\.py::test_.*?)(?: (PASSED|FAILED|ERROR|SKIPPED)\b.*)?")


def name_of(test: str) -> str:
    return test.partition("::test_")[2]


Outcomes = dict[str, str]


def run(
    paths: list[Path], library: Path, folder: Path, left_out: list[str]
) -> tuple[Outcomes, str]:
    """How the tests ended that began ("": not at all), and what was said."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*paths, TESTS]))}
    command = [sys.executable, str(GPU), f"--gpu-driver={library}", f"--gpu-results={folder}"]
    command += ["-v", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    command += [f"--deselect={test}" for test in left_out]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=900, env=env, cwd=ROOT
    )
    lines = map(LINE.fullmatch, map(str.rstrip, done.stdout.splitlines()))
    return {found[1]: found[2] or "" for found in lines if found}, done.stdout + done.stderr


def run_all(paths: list[Path], library: Path, folder: Path, left_out: list[str]) -> Outcomes:
    """One that ends the process has failed, and the rest runs anew."""
    found: Outcomes = {}
    while True:
        now, told = run(paths, library, folder, [*left_out, *found])
        if not now and not found:
            raise Failed(f"the suite does not run:\n{told[-3000:]}")
        found |= {test: outcome or "FAILED" for test, outcome in now.items()}
        if all(now.values()):
            return found


def outcomes(site: Path, library: Path, folder: Path, left_out: list[str]) -> Outcomes:
    """The outcome of every test on the package in this folder: with what is installed, and then,
    for the libraries that are not, with their stand-ins."""
    found = run_all([site], library, folder, left_out)
    there = [test for test, outcome in found.items() if outcome != "SKIPPED"]
    if len(there) < len(found):
        found |= run_all([site, STAND_INS], library, folder, [*left_out, *there])
    return found


def rows(tests: list[str]) -> dict[str, list[str]]:
    """The tests of each mutant; a test that no row names is an error."""
    known = {test: name_of(test) for test in tests}
    found = {
        mutant: [test for test, name in known.items() if re.fullmatch(pattern, name)]
        for mutant, pattern in PROOFS.items()
    }
    proving = {test for each in found.values() for test in each}
    idle = [
        pattern
        for pattern in NOT_OF_ORDER
        if not any(map(re.compile(pattern).fullmatch, known.values()))
    ]
    lost = [
        name for test, name in known.items()
        if test not in proving and not any(re.fullmatch(p, name) for p in NOT_OF_ORDER)
    ]  # fmt: skip
    if lost or idle or not all(found.values()):
        empty = [mutant for mutant, each in found.items() if not each]
        raise Failed(f"in no row: {lost}; rows without a test: {empty + idle}")
    return found


def check(words: list[str], folder: Path) -> int:
    from drivers import build

    begun = time.monotonic()
    built, library = Build(folder), build(VARIANT, folder / "drivers")
    whole = outcomes(built.package("unchanged", {}), library, folder, [])
    broken = [test for test, outcome in whole.items() if outcome not in ("PASSED", "SKIPPED")]
    if broken:
        raise Failed(f"the source as it is fails already, so nothing is proved: {broken}")
    known, living, proved = {m.name: m for m in mutants.MUTANTS}, [], 0
    print(f"unchanged: every test passes ({time.monotonic() - begun:.0f} s)", flush=True)
    for name, tests in rows(list(whole)).items():
        if words and not any(word in name for word in words):
            continue
        there = [test for test in tests if whole[test] == "PASSED"]
        absent = len(tests) - len(there)
        seen, asked = {}, time.monotonic()
        if there:
            site = built.mutant(known[name])
            seen = outcomes(site, library, folder, [t for t in whole if t not in there])
            shutil.rmtree(site.parent)
        passed = [test for test in there if seen.get(test) != "FAILED"]
        living += [f"{name}: {name_of(test)}" for test in passed]
        proved += len(there) - len(passed)
        told = f"{len(there) - len(passed)} of {len(there)} tests fail"
        told += f", {absent} skipped" if absent else ""
        print(f"{name}: {told} ({time.monotonic() - asked:.0f} s)", flush=True)
    print(f"{proved} tests are seen to fail, in {time.monotonic() - begun:.0f} s")
    for each in living:
        print(f"passes without what it proves: {each}", file=sys.stderr)
    return 1 if living else 0


def main(words: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        try:
            return check(words, Path(name).resolve())
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
