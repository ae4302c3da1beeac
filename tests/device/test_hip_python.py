"""AMD's hip-python, unmodified, on the fake HIP runtimes, which run later
(``Driver.asynchronous``): its memory, streams and copies, judged by values.

It looks for ``libamdhip64.so`` by that name, so each child finds the fake there.  Its memory has
the CUDA array interface, which names the stream that its user has configured.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from doubles import child
from drivers import HIP_LIVE, built


@pytest.mark.parametrize(
    "case",
    [
        "the_configured_stream_is_waited_for",
        "a_tensor_remembers_it",
        "the_host_waits_for_its_copy",
        "a_copy_on_the_device_comes_after_it",
        "its_stream_is_named_by_its_handle",
        "memory_that_is_not_configured_names_its_cure",
    ],
)
@pytest.mark.parametrize("variant", HIP_LIVE)
def test_hip_python(
    variant: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hip", reason="hip-python is not installed")
    (tmp_path / "libamdhip64.so").symlink_to(built(variant))
    paths = [str(tmp_path), os.environ.get("LD_LIBRARY_PATH", "")]
    monkeypatch.setenv("LD_LIBRARY_PATH", os.pathsep.join(filter(None, paths)))
    child.program("hip_python_streams", case, built(variant))
