"""Breaks dlshim on purpose, one action at a time, and insists that the tests notice.

    python tools/mutants.py             every mutant
    python tools/mutants.py WORD ...    those whose name has the word
    python tools/mutants.py --list      their names

A matrix that is green proves something only if it turns red when an edge, a wait or a context is
missing. Each mutant is a change of the C source: what it replaces must be found there exactly once.
It is compiled without optimisation, with the objects of all other files used again, and a child
runs the checks of tests/device on it, on the fake drivers, until one fails. Needs a C compiler and
pytest in the running interpreter; the package that is installed there is left alone.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
CC = shlex.split(os.environ.get("CC", "gcc"))
#: Without NDEBUG: a broken contract ends the run, as a failed check does.
FLAGS = ["-std=c11", "-O0", "-fPIC", "-fvisibility=hidden", "-DPy_LIMITED_API=0x030a0000", "-MMD"]
#: A driver with events of whole devices, and one without.
VARIANTS = ("13.0", "12.2")
MODULES = (
    *("test_matrix", "test_managed", "test_copies", "test_release", "test_sync_threads"),
    *("test_work_stream", "test_wait", "test_labels", "test_copies_to_devices", "test_like"),
)
#: The same on ROCm.
HIP_VARIANTS = ("hip6", "hip5", "hip7")
HIP_MODULES = (
    *("test_matrix", "test_copies", "test_failures", "test_wait", "test_copies_to_devices"),
    *("test_like", "test_managed", "test_cuda_interface"),
)


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    first: str = MODULES[0]  # where it is likely to be seen
    variant: str = VARIANTS[0]

    @property
    def places(self) -> list[tuple[str, tuple[str, ...]]]:
        """Where it is looked for: drivers, and the files with the checks."""
        if self.variant in HIP_VARIANTS:
            return [(variant, HIP_MODULES) for variant in HIP_VARIANTS]
        return [(self.variant, (self.first,)), *[(variant, MODULES) for variant in VARIANTS]]


def pattern_of(code: str) -> str:
    """A pattern for this piece of C, however its lines are broken and indented."""
    tokens = re.findall(r"\w+|[^\w\s]", code)
    return r"\s*".join(re.escape(token) for token in tokens)


def rocm(name: str, file: str, old: str, new: str, variant: str = HIP_VARIANTS[0]) -> Mutant:
    return Mutant(f"ROCm, {name}", file, old, new, HIP_MODULES[0], variant)


RUN, SHARED, CUDA = "gpu/sync_run.c", "gpu/driver.c", "gpu/cuda.c"
SYNC_EXCHANGE, PRODUCER_STREAM = "sync/sync_exchange.c", "sync/producer_stream.c"
POOL, COPY = "gpu/pool.c", "gpu/device_copy.c"
RULES, ACTIONS = "gpu/sync_rules.def", "gpu/sync_rules.c"
LIBRARY, HIP, WORK = "exchange/libraries.def", "gpu/hip.c", "sync/work_stream.c"
STRUCT = "export/export_struct.c"
TO_DEVICE, MEMORY, COPY_STREAM = "gpu/copy_to_device.c", "gpu/device_memory.c", "sync/copy_stream.c"
LIKE, ATTEMPT = "export/like_allocator.c", "acquire/attempt_device.c"

MUTANTS = [
    # --- nothing is done ---
    Mutant("no edge", RUN, "return make_edge(run, false);", "return DLS_OK;"),
    Mutant("no edge of the whole device", RUN, "return make_edge(run, true);", "return DLS_OK;"),
    Mutant(
        "the host does not wait for P",
        RUN,
        "return check(run, run->place_p.api->stream_sync(dls_gpu_stream(run->p)), DLS_CALL_SYNC);",
        "return DLS_OK;",
        "test_managed",
    ),
    Mutant(
        "the host does not wait for the device",
        RUN,
        "return check(run, run->place_p.api->device_sync(), DLS_CALL_SYNC_DEVICE);",
        "return DLS_OK;",
        variant="12.2",
    ),
    Mutant("a record without a wait", RUN, "code = wait_event(run, event);", "code = DLS_OK;"),
    Mutant(
        "a wait without a record",
        RUN,
        "run->place_p.api->event_record(event, dls_gpu_stream(run->p))",
        "GPU_OK",
    ),
    Mutant(
        "no second edge for torch",
        RULES,
        "SYNC_RULE(CUDA, REFUSES_TWO, TWO, PASS_1, EDGE_FROM_L)",
        "SYNC_RULE(CUDA, REFUSES_TWO, TWO, PASS_1, NOTHING)",
    ),
    Mutant(
        "None on managed memory is no wait",
        RULES,
        "SYNC_RULE(CUDA_MANAGED, ANY, NONE, PASS_1, WAIT_L)",
        "SYNC_RULE(CUDA_MANAGED, ANY, NONE, PASS_1, NOTHING)",
        "test_managed",
    ),
    Mutant(
        "None on managed memory is an edge",
        RULES,
        "SYNC_RULE(CUDA_MANAGED, OLD, NONE, OMIT, WAIT)",
        "SYNC_RULE(CUDA_MANAGED, OLD, NONE, OMIT, SYNC)",
        "test_managed",
    ),
    Mutant(
        "old producers are believed to sync",
        RULES,
        "SYNC_RULE(CUDA, OLD, ANY, OMIT, SYNC)",
        "SYNC_RULE(CUDA, OLD, ANY, OMIT, NOTHING)",
    ),
    Mutant(
        "who ignores the stream is believed",
        RULES,
        "SYNC_RULE(CUDA, IGNORES, ANY, PASS_NONE, SYNC)",
        "SYNC_RULE(CUDA, IGNORES, ANY, PASS_NONE, NOTHING)",
    ),
    # --- something else is done ---
    Mutant(
        "an edge from L instead of P",
        RUN,
        "event_record(event, dls_gpu_stream(run->p))",
        "event_record(event, dls_gpu_stream(1))",
    ),
    Mutant(
        "an edge from L where P is not known",
        RUN,
        "return make_edge(run, true);",
        "return make_edge(run, false);",
    ),
    Mutant(
        "an edge to L instead of S",
        RUN,
        "stream_wait(dls_gpu_stream(run->job->s), event, 0)",
        "stream_wait(dls_gpu_stream(1), event, 0)",
    ),
    Mutant(
        "the host waits where an edge would do",
        RUN,
        "return make_edge(run, false);",
        "return check(run, run->place_p.api->stream_sync(dls_gpu_stream(run->p)), DLS_CALL_SYNC);",
    ),
    Mutant(
        "the whole device instead of P",
        RUN,
        "return make_edge(run, false);",
        "return make_edge(run, true);",
    ),
    Mutant(
        "None for torch stays None",
        RULES,
        "SYNC_RULE(CUDA, ANY, NONE, PASS_1, NOTHING)",
        "SYNC_RULE(CUDA, ANY, NONE, PASS_NONE, NOTHING)",
    ),
    Mutant(
        "None for JAX becomes 1",
        RULES,
        "SYNC_RULE(CUDA, NO_MINUS_ONE, NONE, PASS_NONE, NOTHING)\n",
        "",
        "test_like_bare",
    ),
    Mutant(
        "None becomes 1 for a library nobody knows",
        RULES,
        "SYNC_RULE(CUDA, UNHEARD, NONE, PASS_NONE, NOTHING)\n",
        "",
        "test_like_bare",
    ),
    Mutant(
        "torch's own current device is not set",
        LIBRARY,
        'DEVICE_GUARD("torch", ',
        'DEVICE_GUARD("?", ',
        "test_like_bare",
    ),
    Mutant(
        "paddle before 3.3 is believed to sync",
        LIBRARY,
        'IGNORES_BEFORE("paddle", "paddle", 3, 3)',
        'IGNORES_BEFORE("paddle", "paddle", 3, 0)',
        "test_like_bare",
    ),
    Mutant(
        "an omitted stream is an explicit None",
        SYNC_EXCHANGE,
        "return !sync->from.request->stream_said && ",
        "return false && ",
        "test_like_bare",
    ),
    Mutant(
        "-1 for JAX",
        RULES,
        "SYNC_RULE(ANY, NO_MINUS_ONE, MINUS_ONE, PASS_NONE, NOTHING)",
        "SYNC_RULE(ANY, NO_MINUS_ONE, MINUS_ONE, PASS_MINUS_1, NOTHING)",
    ),
    Mutant(
        "-1 is synced all the same",
        RULES,
        "SYNC_RULE(ANY, OLD, MINUS_ONE, OMIT, NOTHING)",
        "SYNC_RULE(ANY, OLD, MINUS_ONE, OMIT, SYNC)",
    ),
    Mutant(
        "managed memory is read while kernels run",
        CUDA,
        "|| !concurrent;",
        "|| concurrent < 0;",
        "test_managed",
    ),
    # --- contexts ---
    Mutant(
        "no context is pushed",
        RUN,
        "code = run.driver->enter(&run.place_p, &saved, err);",
        "(void)err;",
    ),
    Mutant("no context is popped", RUN, "    run.driver->leave(&saved);\n", ""),
    Mutant(
        "the current context, whosever the memory is",
        CUDA,
        "    context = pointer.context;\n",
        "    context = NULL;\n",
    ),
    Mutant(
        "the memory's context for any stream",
        CUDA,
        "    if (stream > 2) {\n        int result = cuda.cuStreamGetCtx",
        "    if (stream == UINT64_MAX) {\n        int result = cuda.cuStreamGetCtx",
    ),
    Mutant(
        "S in the context of P",
        RUN,
        "bool own = job->has_s && job->s <= 2 && p > 2;",
        "bool own = false;",
    ),
    Mutant(
        "producers are called in whatever context is current",
        CUDA,
        "return context != NULL && cuda.cuCtxPushCurrent_v2(context) == GPU_OK;",
        "return 0 && context != NULL;",
    ),
    # --- events ---
    Mutant(
        "an event is given back before it is waited for",
        RUN,
        "    if (code == DLS_OK) {\n        code = wait_event(run, event);\n    }\n"
        "    dls_pool_put_event(&run->place_p, event, code == DLS_OK);\n",
        "    dls_pool_put_event(&run->place_p, event, code == DLS_OK);\n"
        "    if (code == DLS_OK) {\n        code = wait_event(run, event);\n    }\n",
        "test_sync_threads",
        "12.5",
    ),
    Mutant(
        "an event is destroyed before it is waited for",
        RUN,
        "        code = wait_event(run, event);\n",
        "        dls_gpu_event_end(&run->place_p, event);\n"
        "        code = wait_event(run, event);\n",
    ),
    Mutant(
        "events are lost",
        POOL,
        "    if (!kept) {\n        dls_gpu_event_end(place, event);\n    }\n",
        "",
        "test_sync_threads",
        "12.5",
    ),
    Mutant(
        "events are not kept",
        POOL,
        "    if (is_sound) {\n",
        "    if (is_sound && place == NULL) {\n",
    ),
    # --- captures ---
    Mutant(
        "no capture probe",
        SHARED,
        "return result == GPU_CAPTURE_IMPLICIT || (result == GPU_OK && status != 0);",
        "return result < 0;",
    ),
    Mutant(
        "L is not asked about captures of others",
        SHARED,
        "return result == GPU_CAPTURE_IMPLICIT || (result == GPU_OK && status != 0);",
        "return result == GPU_OK && status != 0;",
    ),
    Mutant(
        "S is not asked",
        RUN,
        "facts->s_captures = dls_gpu_captures(&run->place_s, run->job->s);",
        "facts->s_captures = false;",
    ),
    Mutant("one capture is as two", SHARED, "&& of_a == of_b;", "&& of_a == of_b + 1;"),
    Mutant("two captures are as one", SHARED, "&& of_a == of_b;", "&& of_a != UINT64_MAX;"),
    # --- who knows what ---
    Mutant(
        "the policy is not heard",
        ACTIONS,
        "&& job->policy == DLS_UNKNOWN_LEGACY;",
        "&& job->policy == UINT8_MAX;",
    ),
    Mutant(
        "producer_stream is not heard",
        PRODUCER_STREAM,
        "if (named != NULL && named != Py_None) {",
        "if (named != NULL && named == Py_None) {",
    ),
    Mutant(
        "a library's current stream is not asked for",
        PRODUCER_STREAM,
        "return p->known == DLS_P_UNKNOWN ? ask_library(from, p, queue) : 0;",
        "(void)ask_library;\n    return 0;",
    ),
    Mutant(
        "the stream of an interface dict is not heard",
        "older_protocols/cuda_interface.c",
        "    *reading->p = dls_producer_stream_of_handle(handle);\n",
        "",
    ),
    Mutant(
        "a Tensor forgets its stream",
        SYNC_EXCHANGE,
        "        return dls_producer_stream_of_handle(s.handle);\n",
        "        return ready;\n",
    ),
    Mutant(
        "every thread's stream is one",
        "exchange/tensor_object.c",
        "return foreign ? legacy : p;",
        "return foreign && legacy.handle == 0 ? legacy : p;",
    ),
    Mutant(
        "empty arrays are synced",
        SYNC_EXCHANGE,
        "    if (dls_sync_is_empty(&acquired->tensor)) {\n        acquired->copy",
        "    if (false) {\n        acquired->copy",
    ),
    Mutant(
        "torch takes 2",
        LIBRARY,
        "DLS_LIB_LAZY_BITS | DLS_LIB_REFUSES_TWO",
        "DLS_LIB_LAZY_BITS",
    ),
    # --- what libraries mean by no stream ---
    Mutant(
        "None of numba says that nothing is unfinished",
        "acquire/attempt.c",
        "if (p.known == DLS_P_READY && dls_plan_has(x->plan, DLS_LIB_NONE_IS_UNSAID)) {",
        "if (false) {",
    ),
    Mutant(
        "PyCUDA's stream is not known",
        LIBRARY,
        'CURRENT_STREAM("pycuda", dl_kDLCUDA, "0")\n',
        "",
    ),
    Mutant(
        "JAX is told a stream",
        "module/interfaces_out.c",
        "    if (dls_library_drops_stream()) {",
        "    if (false) {",
        "test_cuda_interface",
    ),
    # --- what libraries say wrongly ---
    Mutant(
        "a wrong label is believed",
        "gpu/pointer.c",
        "    *device = true_label(said, found);\n",
        "",
        "test_labels",
    ),
    Mutant(
        "CV-CUDA is believed to sync",
        LIBRARY,
        '"ExternalBuffer", DLS_LIB_IGNORES_STREAM | DLS_LIB_LABEL_CHECKED',
        '"ExternalBuffer", DLS_LIB_LABEL_CHECKED',
    ),
    # --- consumers whose stream nobody knows ---
    Mutant(
        "the host does not wait for its own stream",
        RULES,
        "SYNC_RULE(CUDA, ANY, WAIT, PASS_OWN, WAIT_OWN)",
        "SYNC_RULE(CUDA, ANY, WAIT, PASS_OWN, NOTHING)",
        "test_wait",
    ),
    Mutant(
        "the host waits for L instead of its own stream",
        RULES,
        "SYNC_RULE(CUDA, ANY, WAIT, PASS_OWN, WAIT_OWN)",
        "SYNC_RULE(CUDA, ANY, WAIT, PASS_OWN, WAIT_L)",
        "test_wait",
    ),
    Mutant(
        "JAX is not asked to wait",
        RULES,
        "SYNC_RULE(CUDA, NO_MINUS_ONE, WAIT, PASS_NONE, NOTHING)",
        "SYNC_RULE(CUDA, NO_MINUS_ONE, WAIT, PASS_1, NOTHING)",
        "test_wait",
    ),
    Mutant(
        "who knows no stream is not waited for",
        RULES,
        "SYNC_RULE(CUDA, OLD, WAIT, OMIT, WAIT)",
        "SYNC_RULE(CUDA, OLD, WAIT, OMIT, NOTHING)",
        "test_wait",
    ),
    Mutant(
        "who ignores the stream is not waited for",
        RULES,
        "SYNC_RULE(CUDA, IGNORES, WAIT, PASS_NONE, WAIT)",
        "SYNC_RULE(CUDA, IGNORES, WAIT, PASS_NONE, NOTHING)",
        "test_wait",
    ),
    Mutant(
        "without a context nobody waits",
        SYNC_EXCHANGE,
        "bool none = sync->own == 0 && sync->own_queue == NULL;",
        "bool none = sync->own == 1 && sync->own_queue == NULL;",
        "test_wait",
    ),
    Mutant(
        "to_capsule does not wait",
        "module/functions.c",
        "    request.waits = true;",
        "    request.waits = false;",
        "test_wait",
    ),
    # --- copies and release ---
    Mutant(
        "a copy is not synced",
        SYNC_EXCHANGE,
        "    if (task == DLS_TASK_NOTHING) {\n",
        "    if (task == DLS_TASK_NOTHING || sync->transfer == DLS_TRANSFER_TO_HOST) {\n",
        "test_copies",
    ),
    Mutant(
        "a copy is not waited for",
        COPY,
        "    int result = c.place.api->stream_sync(dls_gpu_stream(stream));\n",
        "    int result = 0;\n",
        "test_copies",
    ),
    Mutant(
        "a slab is read before it has arrived",
        COPY,
        "        code = check(c, c->place.api->stream_sync(dls_gpu_stream(c->stream)),\n"
        "                     DLS_CALL_SYNC);\n",
        "",
        "test_copies",
    ),
    Mutant(
        "copies on a stream that blocks",
        SHARED,
        "stream_create(&made, GPU_NON_BLOCKING)",
        "stream_create(&made, 0)",
        "test_copies",
    ),
    Mutant("copies on L", POOL, "p->streams[use] = made;", "p->streams[use] = 1;", "test_copies"),
    Mutant(
        "a guard that waits for nothing",
        RUN,
        "result = place->driver->wait_device(place, event);",
        "result = 0;",
        "test_release",
    ),
    Mutant(
        "a guard that records nothing",
        RUN,
        "result = place->driver->record_device(place, event);",
        "result = 0;",
        "test_release",
    ),
    # --- copies to a device, and their end ---
    Mutant(
        "a copy on a device does not come after the work there",
        COPY_STREAM,
        "return dls_sync_run_job(x->state, x->source, &job);",
        "return (void)job, 0;",
        "test_copies_to_devices",
    ),
    Mutant(
        "a copy to a device is not waited for",
        TO_DEVICE,
        "int result = place->api->stream_sync(dls_gpu_stream(stream));",
        "int result = 0; (void)stream;",
        "test_copies_to_devices",
    ),
    Mutant(
        "new memory is used before its turn",
        TO_DEVICE,
        "code = wait_for_target(&c);",
        "(void)wait_for_target;",
        "test_copies_to_devices",
    ),
    Mutant(
        "managed memory is copied while kernels run",
        SYNC_EXCHANGE,
        "|| sync->transfer == DLS_TRANSFER_TO_DEVICE\n",
        "",
        "test_copies_to_devices",
    ),
    Mutant(
        "what a producer has moved is not synced again",
        ATTEMPT,
        "again ? DLS_PRODUCER_OLD : sync->kind",
        "again ? sync->kind : sync->kind",
        "test_copies_to_devices",
    ),
    Mutant(
        "a copy to a device does not ask about captures",
        TO_DEVICE,
        "return captures ? dls_fail(",
        "return place == NULL ? dls_fail(",
        "test_copies_to_devices",
    ),
    Mutant(
        "memory is freed while others use it",
        MEMORY,
        "result = place->api->stream_wait(dls_gpu_stream(memory->free_stream), event, 0);",
        "result = GPU_OK;",
        "test_copies_to_devices",
    ),
    Mutant(
        "memory is freed after L alone",
        MEMORY,
        "result = place->driver->record_device(place, event);",
        "result = place->api->event_record(event, dls_gpu_stream(1));",
        "test_copies_to_devices",
    ),
    Mutant(
        "memory of a pool is freed at once",
        CUDA,
        "return pooled ? cuda.cuMemFreeAsync(",
        "return pooled && stream == 0 ? cuda.cuMemFreeAsync(",
        "test_copies_to_devices",
    ),
    Mutant(
        "pools where nothing stands for all work",
        CUDA,
        "return place->records_device && cuda.cuMemAllocAsync != NULL",
        "return place != NULL && cuda.cuMemAllocAsync != NULL",
        "test_copies_to_devices",
        "12.2",
    ),
    Mutant(
        "copies queue behind what is freed",
        MEMORY,
        "dls_pool_stream(place, DLS_POOL_FREES,",
        "dls_pool_stream(place, DLS_POOL_COPIES,",
        "test_copies_to_devices",
    ),
    Mutant(
        "memory is freed during a capture",
        MEMORY,
        "bool done = !dls_gpu_captures(&memory->place, driver->legacy) && free_now(memory);",
        "bool done = free_now(memory);",
        "test_copies_to_devices",
    ),
    Mutant(
        "memory that waits is lost",
        MEMORY,
        "memory->next = waiting;\n    waiting = memory;",
        "memory->next = waiting;",
        "test_copies_to_devices",
    ),
    Mutant(
        "the table tells the stream from which it was copied",
        STRUCT,
        "if (x->copied) {",
        "if (x->copied && tensor == NULL) {",
        "test_copies_to_devices",
    ),
    Mutant(
        "a library's memory is used before its turn",
        LIKE,
        "return sync_with(x, device, p, *address, wanted->copy_stream);",
        "(void)sync_with; return 0;",
        "test_like",
    ),
    Mutant(
        "a library allocates while it captures",
        LIKE,
        "    if (captures) {\n",
        "    if (captures && p.handle == 0) {\n",
        "test_like",
    ),
    # --- the C table ---
    Mutant(
        "the table answers no stream",
        WORK,
        "void *stream = named ? (void *)(uintptr_t)p.handle : NULL;",
        "void *stream = NULL;\n    (void)named;",
        "test_work_stream",
    ),
    Mutant(
        "the table syncs nothing",
        STRUCT,
        "if (p->known == DLS_P_UNKNOWN || p->object != NULL) {",
        "if (p->object != NULL) {",
        "test_work_stream",
    ),
    Mutant(
        "a Tensor's stream is not told to the table",
        STRUCT,
        "*p = dls_tensor_ready_stream(dls_tensor_data(x->source));",
        "p->known = DLS_P_READY;",
        "test_work_stream",
    ),
    # --- the GIL, and errors ---
    Mutant(
        "the GIL is kept",
        SYNC_EXCHANGE,
        "        Py_BEGIN_ALLOW_THREADS\n        code = dls_sync_run(job, &err);\n"
        "        Py_END_ALLOW_THREADS\n",
        "        code = dls_sync_run(job, &err);\n",
    ),
    Mutant(
        "errors of the driver are hidden",
        SHARED,
        "    if (result == GPU_OK) {\n",
        "    if (result >= GPU_OK) {\n",
        "test_failures",
    ),
    # --- ROCm ---
    rocm(
        "no wait",
        RUN,
        "run->place_s.api->stream_wait(dls_gpu_stream(run->job->s), event, 0)",
        "event == NULL",
    ),
    rocm(
        "the device is not waited for",
        RUN,
        "return check(run, run->place_p.api->device_sync(), DLS_CALL_SYNC_DEVICE);",
        "return DLS_OK;",
    ),
    rocm(
        "an edge from the default stream",
        RUN,
        "event_record(event, dls_gpu_stream(run->p))",
        "event_record(event, dls_gpu_stream(0))",
    ),
    rocm(
        "the device is not set",
        HIP,
        "        result = api->hipSetDevice(device);\n",
        "        result = GPU_OK;\n",
    ),
    rocm(
        "the device is not put back",
        HIP,
        "        if (saved->device[i] > 0) {\n",
        "        if (saved->device[i] < 0) {\n",
    ),
    rocm(
        "the device is the memory's for any stream",
        HIP,
        "return stream > 2 && api->hipGetStreamDeviceId != NULL",
        "return stream > 2 && api->hipGetStreamDeviceId == NULL",
    ),
    rocm(
        "a copy to a device is not waited for",
        TO_DEVICE,
        "int result = place->api->stream_sync(dls_gpu_stream(stream));",
        "int result = 0; (void)stream;",
    ),
    rocm(
        "new memory is the current device's",
        HIP,
        "place->context = (uintptr_t)device_id;",
        "place->context = 0;",
    ),
    rocm("the memory types of 5", HIP, "version >= HIP_VERSION_6;", "version < 0;"),
    rocm("the memory types of 6", HIP, "version >= HIP_VERSION_6;", "version > 0;", "hip5"),
    rocm(
        "no capture probe",
        SHARED,
        "return result == GPU_CAPTURE_IMPLICIT || (result == GPU_OK && status != 0);",
        "return result < 0;",
    ),
    rocm(
        "the default stream is not asked about captures",
        SHARED,
        "return result == GPU_CAPTURE_IMPLICIT || (result == GPU_OK && status != 0);",
        "return result == GPU_OK && status != 0;",
    ),
    rocm("two captures are as one", SHARED, "&& of_a == of_b;", "&& of_a != UINT64_MAX;"),
    rocm(
        "copies on a stream that blocks",
        SHARED,
        "stream_create(&made, GPU_NON_BLOCKING)",
        "stream_create(&made, 0)",
    ),
    rocm("errors are left for others", HIP, "        api_of(calls)->hipGetLastError();\n", ""),
    rocm(
        "the host does not wait for its own stream",
        RULES,
        "SYNC_RULE(ROCM, ANY, WAIT, PASS_OWN, WAIT_OWN)",
        "SYNC_RULE(ROCM, ANY, WAIT, PASS_OWN, NOTHING)",
    ),
    rocm("1 is a stream", RULES, "SYNC_RULE(ROCM, ANY, ONE, OMIT, VALUE_ERROR)\n", ""),
    rocm(
        "None is 1",
        RULES,
        "SYNC_RULE(ROCM, ANY, NONE, PASS_0, NOTHING)",
        "SYNC_RULE(ROCM, ANY, NONE, PASS_1, NOTHING)",
    ),
    rocm(
        "who ignores the stream is believed",
        RULES,
        "SYNC_RULE(ROCM, IGNORES, ANY, PASS_NONE, SYNC)",
        "SYNC_RULE(ROCM, IGNORES, ANY, PASS_NONE, NOTHING)",
    ),
    rocm(
        "-1 is synced all the same",
        RULES,
        "SYNC_RULE(ANY, OLD, MINUS_ONE, OMIT, NOTHING)",
        "SYNC_RULE(ANY, OLD, MINUS_ONE, OMIT, SYNC)",
    ),
    rocm(
        "nobody waits for pinned memory",
        RULES,
        "SYNC_RULE(ROCM_HOST, OLD, ANY, OMIT, WAIT_IF_KNOWN)",
        "SYNC_RULE(ROCM_HOST, OLD, ANY, OMIT, NOTHING)",
    ),
]

CHILD = """
import importlib, sys
import dlshim._core
import drivers
import pytest
from drivers import checks
folder, library, variant, module = sys.argv[1:]
assert dlshim._core.__file__.startswith(folder), dlshim._core.__file__
drv = (drivers.load_hip if variant in drivers.HIP_VARIANTS else drivers.load)(library)
found = importlib.import_module("device." + module)
for name, check in list(vars(found).items()):
    known = name in getattr(found, "FAULTS", {})
    if not name.startswith("check_") or known or not checks.applies(check, variant):
        continue
    drv.reset()
    print("in", module, name.removeprefix("check_"), file=sys.stderr, flush=True)
    try:
        check(drv)
    except (Exception, pytest.fail.Exception) as error:
        text = " ".join(str(error).split())
        print(f"{module}: {name.removeprefix('check_')}: {text[:160]}")
        sys.exit(1)
"""


class Failed(Exception):
    """The run itself is at fault: it proves nothing."""


def call(command: list[str], **options: object) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise Failed(f"{' '.join(command)}\n{done.stderr}")


def compile_file(tree: Path, file: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    include = ["-I", ".", "-isystem", sysconfig.get_paths()["include"]]
    include += ["-isystem", str(ROOT / "shim" / "include")]
    call([*CC, *FLAGS, *include, "-c", file, "-o", str(target)], cwd=tree)


class Build:
    """The source as it is: every object, and what each was made from."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, ROOT / "src"
        self.files = sorted(str(f.relative_to(self.tree)) for f in self.tree.glob("*/*.c"))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda f: compile_file(self.tree, f, self.object(f)), self.files))

    def object(self, file: str) -> Path:
        return self.folder / "objects" / f"{file}.o"

    def made_from(self, file: str) -> list[str]:
        """The C files that have to be compiled again when `file` changes."""

        def reads(each: str) -> set[str]:
            rule = self.object(each).with_suffix(".d").read_text().split(":", 1)[1]
            return {os.path.normpath(name) for name in rule.replace("\\\n", " ").split()}

        return [each for each in self.files if file in reads(each)]

    def package(self, name: str, changed: dict[str, Path]) -> Path:
        """A folder with the package, linked from our objects but for those that changed."""
        site = self.folder / name / "site"
        ignored = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(ROOT / "shim", site / "dlshim", ignore=ignored)
        objects = [str(changed.get(file, self.object(file))) for file in self.files]
        library = site / "dlshim" / "_core.abi3.so"
        call([*CC, "-shared", "-o", str(library), *objects, "-ldl", "-lpthread"])
        return site

    def mutant(self, mutant: Mutant) -> Path:
        name = mutant.name.replace(" ", "-").replace(",", "").replace("'", "")
        tree = self.folder / name / "src"
        shutil.copytree(self.tree, tree)
        target = tree / mutant.file
        text = target.read_text()
        found = re.findall(pattern_of(mutant.old), text)
        if len(found) != 1:
            raise Failed(
                f"mutant {mutant.name!r}: what it replaces is found {len(found)} "
                f"times in src/{mutant.file}, not once; bring tools/mutants.py up to date"
            )
        target.write_text(text.replace(found[0], mutant.new))
        changed = {}
        for file in self.made_from(mutant.file):
            changed[file] = self.folder / name / "objects" / f"{file}.o"
            compile_file(tree, file, changed[file])
        if not changed:
            raise Failed(f"mutant {mutant.name!r}: nothing is compiled from src/{mutant.file}")
        return self.package(name, changed)


class Runner:
    """Runs the checks on a package, on fake drivers that are compiled once."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(TESTS))
        from drivers import build

        variants = sorted({variant for m in MUTANTS for variant, _ in m.places})
        self.libraries = {variant: build(variant, folder / "drivers") for variant in variants}

    def run(self, site: Path, variant: str, modules: Iterable[str]) -> str | None:
        """None when every check passes, else the first that does not.  As pytest runs them: a
        process for each file, so that none meets the events and contexts of another's checks."""
        return next(filter(None, (self.run_one(site, variant, each) for each in modules)), None)

    def run_one(self, site: Path, variant: str, module: str) -> str | None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(TESTS)])}
        command = [sys.executable, "-c", CHILD, str(site), str(self.libraries[variant]), variant]
        try:
            done = subprocess.run(
                [*command, module], capture_output=True, text=True, timeout=120, env=env
            )
        except subprocess.TimeoutExpired:
            return "hangs"
        if done.returncode == 0:
            return None
        if done.returncode == 1 and done.stdout:
            return done.stdout.strip().splitlines()[-1]
        where = [line for line in done.stderr.splitlines() if line.startswith("in ")][-1:]
        what = [line for line in done.stderr.splitlines() if line.startswith("fake driver:")][:1]
        if done.returncode < 0 and where:
            return f"{' '.join(where)}: signal {-done.returncode} {' '.join(what)}"
        raise Failed(f"the checks do not run:\n{done.stderr[-2000:]}")

    def kill(self, mutant: Mutant, site: Path) -> str | None:
        """What sees the mutant; None: it lives."""
        for variant, modules in mutant.places:
            seen = self.run(site, variant, modules)
            if seen is not None:
                return f"{variant} {seen}"
        return None


def chosen(words: list[str]) -> list[Mutant]:
    if len({mutant.name for mutant in MUTANTS}) != len(MUTANTS):
        raise Failed("two mutants have one name")
    return [m for m in MUTANTS if not words or any(word in m.name for word in words)]


def in_parallel(function: Callable[[Mutant], str], mutants: list[Mutant]) -> list[str]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, mutants))


def check(mutants: list[Mutant], folder: Path) -> int:
    begun = time.monotonic()
    build, runner = Build(folder), Runner(folder)
    site = build.package("unchanged", {})
    wanted: dict[str, set[str]] = {}
    for variant, modules in (place for mutant in mutants for place in mutant.places):
        wanted.setdefault(variant, set()).update(modules)
    for variant, modules in sorted(wanted.items()):
        if seen := runner.run(site, variant, sorted(modules)):
            raise Failed(f"the source as it is fails already, so nothing is proved: {seen}")
    print(f"unchanged: every check passes ({time.monotonic() - begun:.0f} s)", flush=True)

    def one(mutant: Mutant) -> str:
        seen = runner.kill(mutant, build.mutant(mutant))
        shutil.rmtree(folder / mutant.name, ignore_errors=True)
        print(f"{'KILLED' if seen else 'LIVES '} {mutant.name}: {seen or ''}"[:200], flush=True)
        return seen or ""

    living = [
        m.name for m, seen in zip(mutants, in_parallel(one, mutants), strict=True) if not seen
    ]
    seconds = time.monotonic() - begun
    print(f"{len(mutants) - len(living)} of {len(mutants)} mutants killed in {seconds:.0f} s")
    for name in living:
        print(f"no check of tests/device notices: {name}", file=sys.stderr)
    return 1 if living else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        print("\n".join(mutant.name for mutant in MUTANTS))
        return 0
    with tempfile.TemporaryDirectory() as name:
        try:
            mutants = chosen(arguments)
            if not mutants:
                raise Failed("no mutant has such a name")
            return check(mutants, Path(name).resolve())
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
