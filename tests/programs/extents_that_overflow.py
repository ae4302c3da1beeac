"""The module of extents_that_overflow.c refuses every export, and computes nothing wrong."""

import far

for asked in ({}, {"max_version": (1, 0)}, {"copy": True}):
    try:
        far.Far().__dlpack__(**asked)
    except BufferError as error:
        assert "more bytes than memory can have" in str(error)
    else:
        raise AssertionError(asked)
