"""NumPy's own DLPack suite, upgraded."""

import pytest

from .adapter import load
from .amendments import NUMPY

pytestmark = pytest.mark.usefixtures("handing_on")

module, tally = load("numpy._core.tests.test_dlpack", NUMPY)
globals().update({name: value for name, value in vars(module).items() if name.startswith("Test")})
