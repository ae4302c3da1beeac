"""Classes with names and errors that a terminal would obey, and objects that end the process."""

import sys
import types

m = sys.modules["rude"] = types.ModuleType("rude")
m.__version__ = "1\x1b[2J"
TEXT = "\x1b]0;title\x07 \x9b31m \u202e \x7f"


def leave(*_, **__):
    raise SystemExit


def fail(*_, **__):
    raise BufferError(TEXT)


on_host = {"__dlpack_device__": lambda self: (1, 0)}
m.Named = type(f"N{TEXT}\nfake", (), {**on_host, "__module__": TEXT, "__dlpack__": fail})
m.Proxy = type("Proxy", (), {"__getattr__": leave})
m.Asked = type("Asked", (), {"__dlpack_device__": leave, "__dlpack__": leave})
m.Exported = type("Exported", (), {**on_host, "__dlpack__": leave})
m.Unread = type("Unread", (), {"__getattr__": lambda *_: 1 / 0})
m.fail, m.leave = fail, leave
