"""Where NumPy's and pyarrow's own tests expect what dlshim's design decides otherwise.

Each is one expectation, replaced by what dlshim promises instead, so that the rest of its test
still runs. An amendment whose text is not found as often as said fails: then the shipped suite has
changed, and the list has to be read again.
"""

from __future__ import annotations

from .adapter import Amendment

NUMPY: list[Amendment] = []
PYARROW: list[Amendment] = []
