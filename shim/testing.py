"""The conformance kit, ``dlshim_testing``, under a second name: a distribution of its own."""

try:
    import dlshim_testing as _kit  # type: ignore
except ImportError:
    raise ImportError(
        "dlshim.testing is a distribution of its own: pip install dlshim[testing]; "
        "in a checkout of dlshim: pip install ./kit"
    ) from None


def __getattr__(name: str) -> object:
    return getattr(_kit, name)
