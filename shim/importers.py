"""How a library makes an array of its own of a Tensor: by type, for results of compiled functions.

The C code asks once for each type that it learns, and `dlshim.kernel` for what a call gives back.
``import dlshim`` imports this module.
Nothing here imports a library: it is looked up among the imported modules, so that a later question
may find what an earlier one did not.
"""

from __future__ import annotations

import sys

from ._core import Producer, Tensor, from_dlpack, to_capsule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Importer = Callable[[Tensor], Any]

#: The name under which `dlshim.producer` keeps what it was given as from_dlpack=.
GIVEN = "__dlshim_from_dlpack__"
#: What `from_dlpack` of a class is where it is called on the class.
_OF_THE_CLASS = ("staticmethod", "classmethod", "classmethod_descriptor")


# ---- libraries whose function is not where their class is --------------------------------------
# The C code keeps these by their names, because an import anew makes them anew.


def jax_array(tensor: Tensor) -> Any:
    """``jax.numpy.from_dlpack``; ``jax.dlpack.from_dlpack`` before JAX had that."""
    jax = sys.modules["jax"]
    module = jax.numpy if hasattr(jax.numpy, "from_dlpack") else jax.dlpack
    return module.from_dlpack(tensor)


def tensorflow_tensor(tensor: Tensor) -> Any:
    """``tensorflow.experimental.dlpack.from_dlpack``, which takes capsules.

    TensorFlow takes any memory, and its first operation on memory that is not aligned to 64 bytes
    ends the process.
    """
    capsule = to_capsule(tensor, align=64)
    return sys.modules["tensorflow"].experimental.dlpack.from_dlpack(capsule)


def paddle_tensor(tensor: Tensor) -> Any:
    """``paddle.from_dlpack``; before 3.0 ``paddle.utils.dlpack.from_dlpack``, of a capsule."""
    paddle = sys.modules["paddle"]
    if hasattr(paddle, "from_dlpack"):
        return paddle.from_dlpack(tensor)
    return paddle.utils.dlpack.from_dlpack(to_capsule(tensor))


def numpy_array(tensor: Tensor) -> Any:
    """NumPy before 2.2.5 makes every array read-only; before 2.1 it refuses read-only memory."""
    return tensor.numpy()


def polars_series(tensor: Tensor) -> Any:
    """``polars.Series`` over the same memory, if that lies in rows; what is no column stays itself.

    Arrow packs booleans, so these are copied.  Polars panics where a row has no elements.
    """
    if not _may_be_column(tensor) or 0 in tensor.shape[1:] or tensor.dtype.kind in "cV":
        return tensor
    rows = from_dlpack(tensor, order="C")
    return sys.modules["polars"].Series(rows.numpy() if rows.dtype == "bool" else rows)


def pandas_series(tensor: Tensor) -> Any:
    """``pandas.Series``, over the same memory; what is no column of NumPy's stays itself."""
    if not _may_be_column(tensor) or tensor.ndim > 1 or tensor.dtype.kind == "V":
        return tensor
    return sys.modules["pandas"].Series(tensor.numpy(), copy=False)


def _may_be_column(tensor: Tensor) -> bool:
    return tensor.ndim > 0 and tensor.device[0] == 1


#: By the package of the class.
LIBRARIES: dict[str, Importer] = {
    "jax": jax_array,
    "jaxlib": jax_array,
    "paddle": paddle_tensor,
    "pandas": pandas_series,
    "polars": polars_series,
    "tensorflow": tensorflow_tensor,
}


# ---- all others --------------------------------------------------------------------------------


def _packages(cls: type) -> Iterator[str]:
    """The module of a class and the packages around it, from the inside out."""
    name = getattr(cls, "__module__", None)
    name = name if isinstance(name, str) else ""
    while name:
        yield name
        name = name.rpartition(".")[0]


def makes_read_only(module: Any) -> bool:
    """Whether it is a NumPy before 2.2.5, to which all that it takes is read-only."""
    if getattr(module, "__name__", None) != "numpy":
        return False
    told = str(getattr(module, "__version__", "")).split(".")[:3]
    return [int(part) for part in told if part.isdigit()] < [2, 2, 5]


def of_release(importer: Importer) -> Importer:
    """The function that serves the release of the library that is imported."""
    np = sys.modules.get("numpy")
    is_old = importer is getattr(np, "from_dlpack", None) and makes_read_only(np)
    return numpy_array if is_old else importer


def _of_library(cls: type) -> Importer | None:
    for base in cls.__mro__:
        top = [*_packages(base)][-1:]
        if top and top[0] in LIBRARIES and top[0] in sys.modules:
            return LIBRARIES[top[0]]
    return None


def of_class(cls: type) -> Importer | None:
    """The class's own `from_dlpack`, unless it is a method of objects."""
    for base in cls.__mro__:
        found = vars(base).get("from_dlpack")
        if GIVEN in vars(base):
            return vars(base)[GIVEN].function  # type: ignore[no-any-return]
        if found is not None:
            kind = type(found)
            plain = kind.__name__ in _OF_THE_CLASS or not hasattr(kind, "__get__")
            # Of the class that defines it, so that subclasses have one home.
            importer = getattr(base, "from_dlpack", None) if plain else None
            return importer if callable(importer) else None
    return None


def _of_module(cls: type) -> Importer | None:
    """`from_dlpack` of a module that the class comes from, unless it comes from elsewhere."""
    for base in cls.__mro__:
        for name in _packages(base):
            # Not by attribute: a lazy package would import what it is asked for.
            found = getattr(sys.modules.get(name), "__dict__", {}).get("from_dlpack")
            origin = getattr(found, "__module__", None) or name
            if callable(found) and origin.partition(".")[0] == name.partition(".")[0]:
                return of_release(found)
    return None


def importer_of(cls: type) -> Importer | None:
    """What makes an array of the library of a class; None: its results stay Tensors."""
    if issubclass(cls, (Tensor, Producer)):
        return None
    return of_class(cls) or _of_library(cls) or _of_module(cls)
