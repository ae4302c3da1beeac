"""pyarrow's own DLPack suite, upgraded."""

import pytest

from .adapter import load
from .amendments import PYARROW

pytestmark = pytest.mark.usefixtures("handing_on")

module, tally = load("pyarrow.tests.test_dlpack", PYARROW)
globals().update({name: value for name, value in vars(module).items() if name.startswith("test")})
