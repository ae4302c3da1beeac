"""`dlshim.to`: any array as an array of a library that is named.

It is written with the public functions: an array is taken by `dlshim.from_dlpack` (``single``),
looked at and copied where the library needs that (``fitting``), and given to the library
(``targets``, ``making``).  What each library needs stands in ``habits``.
"""

from __future__ import annotations

from sys import modules
from types import ModuleType

from .._core import Producer, _options, upgrade
from . import gathered, single, sources
from .targets import Target, find
from .texts import NarrowedWarning as NarrowedWarning
from .texts import copy_needed, kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, overload

    import cupy
    import jax
    import mlx.core
    import numpy
    import paddle
    import pandas
    import polars
    import pyarrow
    import tensorflow
    import torch
    import tvm_ffi
    import warp

    from .._core import Tensor

#: What was named before, by its name or module.
_named: dict[str | ModuleType, Target] = {}
#: The same, and by the type of an array that came before: the shortest road, which makes what
#: `_convert` makes, or raises.
_roads: dict[str | ModuleType, dict[type, Callable[[Any], Any]]] = {}


# ---- the library, and the shortest road to it ----------------------------------------------------


def _target(library: Any) -> Target:
    is_kept = type(library) in (str, ModuleType)
    target = _named.get(library) if is_kept else None
    if target is None or modules.get(target.module_name) is not target.module:
        target = find(library)
        if is_kept:
            _named[library], _roads[library] = target, target.roads
    return target


def _keep_road(x: Any, target: Target, make: Callable[[Target], Callable[[Any], Any]]) -> None:
    """Remember the road of the next array of this type; types of users would live as long."""
    if type(x) not in target.roads and sources.top(type(x)) in sources.TAKES:
        target.roads[type(x)] = make(target)


def _own_road(target: Target) -> Callable[[Any], Any]:
    name, module = target.module_name, target.module

    def road(x: Any) -> Any:
        if modules[name] is not module:
            raise ImportError  # it is imported anew: the longer way finds it
        return x

    return road


def _exchange_road(target: Target) -> Callable[[Any], Any]:
    name, module, take = target.module_name, target.module, target.module.from_dlpack

    def heeding(x: Any) -> Any:
        if modules[name] is not module:
            raise ImportError
        return take(upgrade(x))

    def writing(x: Any) -> Any:
        if modules[name] is not module:
            raise ImportError
        return take(upgrade(x, order="auto", readonly="copy"))

    return heeding if target.has("HEEDS") else writing


# ---- one call ------------------------------------------------------------------------------------


def _convert(x: Any, target: Target, device: Any, copy: bool | None) -> Any:
    """As `to`, for a library that is found."""
    if isinstance(x, target.own) and (device is None or _is_there(x, device)):
        _keep_road(x, target, _own_road)
        return _clone(x, target) if copy else x
    if sources.is_python(x):
        return _of_python(x, target, device, copy)
    call = sources.undone(x)
    if call is not None:
        raise BufferError(f"{kind(x)}: it is work that has not been done yet\n  pass {call}")
    held = sources.held(x)
    if held is not x:
        return _convert(held, target, device, copy)
    older = sources.of_older_release(x)
    if older is not None:
        if copy is False:
            raise copy_needed(x, "this release of its library does not tell where its values lie")
        return _convert(older, target, device, copy)
    if sources.is_table(x):
        made, private = gathered.table(x, target, copy)
        return single.array(made, target, device, None if private else copy, private)
    if target.row.column and sources.is_dates(x):
        return single.dates(x, target, copy)
    if target.row.column and sources.is_column(x):
        return single.column(x, target, device, copy)
    result = single.array(x, target, device, copy)
    if target.is_direct and not isinstance(x, Producer) and not sources.is_fixed(x):
        _keep_road(x, target, _exchange_road)
    return result


def _of_python(x: Any, target: Target, device: Any, copy: bool | None) -> Any:
    """An array of numbers in lists, by the library's constructor; of arrays, which are stacked."""
    leaves = [] if isinstance(x, range) else gathered.leaves(x)
    are_arrays = bool(leaves) and all(sources.is_array(each) for each in leaves)
    if copy is False:
        lie = "its arrays lie in memory of their own"
        raise copy_needed(x, lie if are_arrays else "its numbers lie in no memory of an array")
    if are_arrays:
        if any(isinstance(each, (list, tuple)) for each in x):
            raise ValueError(
                "to(): lists of lists of arrays are no array\n  stack the inner ones first"
            )
        # By the exchange, which refuses what an array of NumPy hides: a mask.
        taker = _target("dlshim")
        batch = gathered.stacked([_convert(each, taker, None, None).numpy() for each in x])
        return single.array(batch, target, device, private=True)
    if any(each is None for each in leaves) and not target.has("KEEPS_NONE"):
        raise ValueError(
            f"to(): None is in the list, and an array of {target.name} has no missing values\n"
            "  put a number in its place, such as float('nan')"
        )
    return _of_numbers(x, leaves, target, device)


def _of_numbers(x: Any, leaves: list[Any], target: Target, device: Any) -> Any:
    if target.has("NO_SCALARS") and not isinstance(x, (list, tuple, range)):
        x = [x]
    make = target.constructor()
    if make is not None:
        made = gathered.constructed(make, x, target.name)
        return made if device is None else _convert(made, target, device, None)
    numbers = gathered.numbers(x, leaves)
    if isinstance(numbers, target.own) or (target.row.column and sources.is_dates(numbers)):
        return _convert(numbers, target, device, None)
    return single.array(numbers, target, device, private=True)


def _clone(x: Any, target: Target) -> Any:
    """A copy of an array of the library itself."""
    method = target.row.clone
    return getattr(x, method)() if method else single.array(x, target, None, True)


def _is_there(x: Any, device: Any) -> bool:
    """Whether an array lies where it is wanted."""
    try:
        here = upgrade(x).__dlpack_device__()
    except (BufferError, TypeError):
        return False  # the exchange says why
    return here == _options(upgrade(b"", device=device))["device"]


# ---- the public function -------------------------------------------------------------------------

# An editor and a type checker know the class of the result by the name of the library, for which
# nothing is imported.  Where the library is not installed, its classes are Any to them.

if TYPE_CHECKING:

    @overload
    def to(
        x: Any, library: Literal["numpy"], /, *, device: Any = None, copy: bool | None = None
    ) -> numpy.ndarray[Any, Any]: ...

    @overload
    def to(
        x: Any, library: Literal["torch"], /, *, device: Any = None, copy: bool | None = None
    ) -> torch.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["jax"], /, *, device: Any = None, copy: bool | None = None
    ) -> jax.Array: ...

    @overload
    def to(
        x: Any, library: Literal["tensorflow"], /, *, device: Any = None, copy: bool | None = None
    ) -> tensorflow.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["cupy"], /, *, device: Any = None, copy: bool | None = None
    ) -> cupy.ndarray: ...

    @overload
    def to(
        x: Any, library: Literal["mlx"], /, *, device: Any = None, copy: bool | None = None
    ) -> mlx.core.array: ...

    @overload
    def to(
        x: Any, library: Literal["paddle"], /, *, device: Any = None, copy: bool | None = None
    ) -> paddle.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["warp"], /, *, device: Any = None, copy: bool | None = None
    ) -> warp.array: ...

    @overload
    def to(
        x: Any, library: Literal["tvm_ffi"], /, *, device: Any = None, copy: bool | None = None
    ) -> tvm_ffi.Tensor: ...

    @overload
    def to(
        x: Any, library: Literal["pyarrow"], /, *, device: Any = None, copy: bool | None = None
    ) -> pyarrow.Array: ...

    @overload
    def to(
        x: Any, library: Literal["polars"], /, *, device: Any = None, copy: bool | None = None
    ) -> polars.Series: ...

    @overload
    def to(
        x: Any, library: Literal["pandas"], /, *, device: Any = None, copy: bool | None = None
    ) -> pandas.Series | pandas.DataFrame: ...

    @overload
    def to(
        x: Any, library: Literal["dlshim"], /, *, device: Any = None, copy: bool | None = None
    ) -> Tensor: ...

    @overload
    def to(x: Any, library: Any, /, *, device: Any = None, copy: bool | None = None) -> Any: ...


def to(x: Any, library: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """Bring an array into a library: an ordinary array of that library with the values of x.

    You may do with it whatever the library lets you do: memory that must not change is not changed
    by it, and an array that must not change is not changed by writing to x.  Memory is shared where
    that is so, else copied, once.

    library: a name ("torch", which is imported), a module, a class, or an array
    device: deliver there, as the option of `upgrade`
    copy: None: where it is needed; False: never, read-only memory is shared with a
        ReadOnlyWarning; True: always

    >>> dlshim.to(x, "torch", copy=False)
    """
    if device is None and copy is None and type(library) is str:
        try:
            return _roads[library][type(x)](x)
        except Exception:  # it did not come before, or is told, or cured, by the longer way
            pass
    else:
        upgrade(b"", device=device, copy=copy)  # which refuses values that are none
    return _convert(x, _target(library), device, copy)
