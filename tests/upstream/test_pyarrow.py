"""pyarrow's own DLPack suite, upgraded."""

from .adapter import load
from .amendments import PYARROW

module, tally = load("pyarrow.tests.test_dlpack", PYARROW)
globals().update({name: value for name, value in vars(module).items() if name.startswith("test")})
