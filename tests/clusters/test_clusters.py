"""A Tensor in the object stores of Ray and dask.distributed, each on a cluster of this machine.

Both pickle with protocol 5, out of band: what is received lies in the store, and is not copied.
`nox -s clusters` installs them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlshim

N = 1_000_000


def made() -> dlshim.Tensor:
    return dlshim.from_dlpack(np.arange(N, dtype="float64"))


def seen(x: Any) -> tuple[str, float, bool]:
    """What a worker has: the type, the sum of the elements, whether it may not write."""
    return type(x).__name__, float(np.from_dlpack(x).sum()), x.readonly


SEEN = ("Tensor", N * (N - 1) / 2, True)


def test_ray_shares_a_tensor_of_its_store() -> None:
    ray = pytest.importorskip("ray", reason="`nox -s clusters` installs it")
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=200_000_000)
    try:
        stored = ray.put(made())
        assert ray.get(ray.remote(seen).remote(stored)) == SEEN
        first, second = ray.get(stored), ray.get(stored)
        assert first.data_ptr() == second.data_ptr()  # the memory of the store itself
        assert first.readonly and first.shape == (N,)
    finally:
        ray.shutdown()


def test_dask_receives_a_tensor() -> None:
    distributed = pytest.importorskip("distributed", reason="`nox -s clusters` installs it")
    from distributed.protocol import deserialize, serialize

    tensor = made()
    header, frames = serialize(tensor)
    assert max(memoryview(frame).nbytes for frame in frames) == 8 * N  # apart from the pickle
    assert deserialize(header, frames).data_ptr() == tensor.data_ptr()
    with distributed.Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        sent = client.scatter(tensor)
        kind, total, _ = client.submit(seen, sent, pure=False).result(timeout=60)
        assert (kind, total) == SEEN[:2]
