"""The conformance kit, ``dlshim_testing``, under a second name: a distribution of its own."""

from importlib import import_module

try:
    _kit = import_module("dlshim_testing")
except ModuleNotFoundError:
    raise ImportError(
        "dlshim.testing is a distribution of its own\n"
        "  pip install dlshim[testing]; in a checkout of dlshim: pip install ./kit"
    ) from None


def __getattr__(name: str) -> object:
    return getattr(_kit, name)


def __dir__() -> list[str]:
    return dir(_kit)


if __name__ == "__main__":
    raise SystemExit(import_module("dlshim_testing.__main__").main())
