"""Fake producers and consumers, and what tests of dlshim do with them.

Those that know nothing of dlshim belong to the kit that library authors install
(``kit/dlshim_testing/doubles``); its modules are found under this package's name too.

``older``      objects that speak only an older protocol.
``addresses``  exports as plain addresses, which another interpreter can give back.
``scenarios``  whole exchanges that several tests repeat under different strain.
``steps``      every protocol in every kind of export and with every option, one call each.
``delegating`` a producer that nothing but dlshim can make leak.
``faults``     the same while Python's own allocations fail, in a child process.
``extension``  extensions that are written with dlshim.h and compiled here.
``advice``     refusals that advise what the call was given already.
``c_failures`` their calls while Python's own allocations fail, in a child process.
``homes``      a class with an importer, and results that come home to it.
``forking``    what programs do that fork, or end, in the middle of exchanges.

None of them imports an array library, and none but the last eight dlshim, so that they stay an
independent witness.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

KIT = Path(__file__).resolve().parents[2] / "kit"
#: Modules of the kit that tests import as ``doubles.NAME``.
OF_THE_KIT = ("capsules", "producers", "consumers", "ctable", "exporter", "structs", "layouts")

if str(KIT) not in sys.path:
    sys.path.insert(0, str(KIT))
for _name in OF_THE_KIT:
    _module = importlib.import_module(f"dlshim_testing.doubles.{_name}")
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
capsules.linger = False  # type: ignore[name-defined]  # noqa: F821 - each test closes its books
