"""The collector is shown every object that an object of dlshim holds, and may stop at any of them.

``gc.get_referents`` walks to the end; ``gc.get_referrers`` stops where it has found what it looks
for.  The two must agree.
"""

from __future__ import annotations

import pytest

from doubles import child


@pytest.mark.once
@pytest.mark.parametrize(
    "case",
    [
        "producer",
        "producer_with_options",
        "tensor_of_a_buffer",
        "tensor_of_an_interface",
        "tensor_of_a_tensor",
        "a_kernel",
        "a_kernel_with_options",
        "a_method_of_a_kernel",
        "module",
    ],
)
def test_the_collector_may_stop_at_any_object(case: str) -> None:
    """In a process of its own: pytest has moved what was there before the tests out of sight
    (gc.freeze), and get_referrers does not look there."""
    child.program("referents", case)
