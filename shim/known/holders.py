"""Objects that hold an array, or can make one: what of them is exchanged."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    distribution: str
    #: Its name there.
    what: str
    #: The expression that is passed to ``dlshim.upgrade``; ``x`` is the object.
    given: str
    #: How the memory is reached, for people.
    how: str


HOLDERS = (
    Holder("pillow", "Image", "x", "a copy that Pillow makes, read-only"),
    Holder("opencv-python", "image", "x", "an array of NumPy"),
    Holder("opencv-python-headless", "image", "x", "an array of NumPy"),
    Holder("open3d", "Tensor", "x", "its own memory"),
    Holder("h5py", "Dataset", "x[:]", "read from the file"),
    Holder("zarr", "Array", "x[:]", "read from the store"),
    Holder("xarray", "DataArray", "x.data", "the array that has the labels"),
    Holder("dask", "Array", "x.compute()", "computed"),
    Holder("scipy", "sparse array", "x.toarray()", "a dense copy"),
    Holder("awkward", "Array", "numpy.asarray(x)", "rows of one length only"),
)
