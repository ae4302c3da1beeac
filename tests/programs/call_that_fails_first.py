"""A call of the driver that fails in the first exchange of a process, and the exchange again.

sys.argv holds the driver, the function and its error.
"""

import sys

import drivers
from device.test_every_call import COMMON, Trial

function, code = sys.argv[2], int(sys.argv[3])
drv = drivers.load_any(sys.argv[1])
drv.start()
trial = Trial(drv, COMMON["copy, another device"])
drv.fail_next(function, code)
trial.run()
text = "" if trial.error is None else f"{type(trial.error).__name__}: {trial.error}"
assert not text or text.startswith(("BufferError", "RuntimeError")), text
trial.end(text, 2)
trial = Trial(drv, COMMON["copy, another device"])
trial.run()
again = "" if trial.error is None else f"{type(trial.error).__name__}: {trial.error}"
trial.end(again, 2)
print("first", bool(text), "again", bool(again), text)
