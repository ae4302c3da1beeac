"""Fake producers and consumers, and the capsules they pass, made with ctypes alone.

``capsules``   the two managed structs, capsules with every field settable, and what a
               consumer can do to a capsule.
``producers``  one class per edition of the protocol and per peculiarity of real producers.
``consumers``  one function per way in which real consumers ask.
``ctable``     a consumer of the C exchange API.
``exporter``   an object of C whose buffer says whatever a test wants.
``structs``    what may stand in the struct of a capsule.
``layouts``    layouts of strided memory at the edges of what a host copy does.

None of them imports an array library or dlshim, so that they stay an independent witness.
"""

from __future__ import annotations

from . import capsules, consumers, ctable, exporter, layouts, producers, structs

__all__ = ["capsules", "consumers", "ctable", "exporter", "layouts", "producers", "structs"]
