"""Conversions between torch and NumPy without DLPack: the errors that are searched most."""

from __future__ import annotations

from .message import Message

#: What is searched most is first, here and on the manual's page.
ROWS = (
    Message(
        "device-to-numpy",
        patterns=(
            r"can't convert (?!meta)\S+ device type tensor to numpy",
            "Implicit conversion to a NumPy array is not allowed",
        ),
        versions="torch, CuPy",
        cause="The memory is on a GPU, and NumPy reads host memory. Ask for the copy.",
        cures=('numpy.from_dlpack(dlshim.upgrade(x, device="cpu"))',),
    ),
    Message(
        "list-of-tensors",
        patterns=("only one element tensors can be converted",),
        versions="torch.tensor",
        cause="torch.tensor takes a list of numbers, and this one has tensors.",
        cures=("torch.stack(x)",),
    ),
    Message(
        "objects",
        patterns=(
            r"np\.ndarray of type numpy\.object_",
            "Unsupported object type",
            "Dtype object is not a valid JAX array type",
        ),
        versions="torch, TensorFlow, JAX",
        cause=(
            "The array holds Python objects, not numbers: its rows are arrays, or numbers of "
            "several types."
        ),
        cures=(
            "consumer(numpy.stack(x))  # rows of one shape",
            "consumer(x.astype('float64'))  # numbers",
        ),
    ),
    Message(
        "numpy-wanted",
        patterns=(r"expected np\.ndarray \(got",),
        versions="torch.from_numpy",
        cause="torch.from_numpy takes arrays of NumPy only: no columns, no scalars, no others.",
        cures=(
            'torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))  # a copy if it is read-only',
        ),
    ),
    Message(
        "ragged",
        patterns=("expects each tensor to be equal size", "inhomogeneous shape"),
        versions="torch.stack and torch's DataLoader; NumPy from 1.24",
        cause="The rows differ in length, and an array has one length for all. Fill them up.",
        cures=(
            "torch.nn.utils.rnn.pad_sequence([torch.as_tensor(i) for i in x], batch_first=True)",
        ),
    ),
    Message(
        "two-dtypes",
        patterns=(
            "to have the same dtype, but got",
            "must have the same dtype, but got",
            r"expected scalar type \w+ but found",
        ),
        versions="torch",
        cause="NumPy makes float64 and torch float32, and torch converts neither by itself.",
        cures=("consumer(x.astype('float32'))", "consumer(x).float()  # if x is a tensor"),
    ),
    Message(
        "torch-dtype",
        patterns=(
            r"Cannot interpret 'torch\.\w+' as a data type",
            "'torch.dtype' object has no attribute",
        ),
        versions="NumPy, Zarr",
        cause="NumPy does not know the dtypes of torch. An exchange translates them.",
        cures=(
            "numpy.zeros_like(numpy.asarray(dlshim.upgrade(x)))  # x: a tensor of that dtype",
            "consumer(dlshim.upgrade(x))  # a function that was given the tensor",
        ),
    ),
    Message(
        "no-numpy",
        patterns=("Numpy is not available",),
        versions="torch before 2.3 with NumPy 2; torch that was imported without NumPy",
        cause=(
            "This torch cannot use the NumPy that is installed, because it was built for NumPy 1. "
            "DLPack works without that."
        ),
        cures=(
            "numpy.asarray(dlshim.upgrade(x))  # x: a tensor",
            "torch.from_dlpack(dlshim.upgrade(x))  # x: an array",
        ),
    ),
    Message(
        "list-of-arrays",
        patterns=("tensor from a list of numpy.ndarrays is extremely slow",),
        versions="torch.tensor",
        cause="torch reads a list number by number. Arrays of one shape are stacked first.",
        cures=('dlshim.to(x, "torch")', "torch.from_dlpack(dlshim.upgrade(numpy.stack(x)))"),
    ),
    Message(
        "collate",
        patterns=("default_collate: batch must contain",),
        versions="torch's DataLoader",
        cause=(
            "default_collate knows tensors and arrays of NumPy. Give the DataLoader a collate_fn= "
            "for images, columns and arrays of other libraries."
        ),
        cures=('torch.stack([torch.from_dlpack(dlshim.upgrade(i, readonly="share")) for i in x])',),
    ),
    Message(
        "quantized",
        patterns=(r"Got unsupported ScalarType QU?Int", "QUInt/QInt types are not supported"),
        versions="torch",
        cause=(
            "The tensor is quantized: its memory holds whole numbers, and its values are these "
            "times a scale."
        ),
        cures=("x.dequantize().numpy()  # a copy as float32", "consumer(x.dequantize())"),
    ),
    Message(
        "no-numpy-dtype",
        patterns=("Got unsupported ScalarType",),
        versions="torch; TensorFlow, JAX and Polars that are given a tensor",
        cause=(
            "NumPy alone has neither bfloat16 nor float8. ml_dtypes has them, and torch does not "
            "ask it."
        ),
        cures=(
            "import ml_dtypes; numpy.asarray(dlshim.upgrade(x))",
            "x.float().numpy()  # a copy as float32",
        ),
    ),
    Message(
        "no-torch-dtype",
        patterns=("np.ndarray of type ml_dtypes",),
        versions="torch",
        cause="torch.from_numpy does not know the dtypes of ml_dtypes, although torch has them.",
        cures=("torch.from_dlpack(dlshim.upgrade(x))",),
    ),
    Message(
        "saved-dtype",
        patterns=(r"np\.ndarray of type numpy\.void",),
        versions="torch",
        cause=(
            "The elements have fields, or a dtype that numpy.save and HDF5 do not know, such as "
            "bfloat16: its width alone was kept."
        ),
        cures=(
            'torch.from_dlpack(dlshim.upgrade(x, reinterpret="bfloat16"))  # if it was bfloat16',
            "torch.from_dlpack(dlshim.upgrade(x['name']))  # one field, by its name",
        ),
    ),
    Message(
        "old-torch-unsigned",
        patterns=(r"np\.ndarray of type numpy\.uint(16|32|64)",),
        versions="torch before 2.3",
        cause="This torch has no unsigned integers that are wider than a byte.",
        cures=("torch.from_numpy(x.astype('int64'))  # values above 2**63 - 1 become negative",),
    ),
    Message(
        "torch-memoryview",
        patterns=("determine the shape of object type 'memoryview'",),
        versions="torch.tensor, torch.as_tensor",
        cause="torch takes a memoryview for a sequence, and its items for numbers.",
        cures=('torch.from_dlpack(dlshim.upgrade(x, readonly="copy"))',),
    ),
    Message(
        "dates",
        patterns=(r"np\.ndarray of type numpy\.(datetime64|timedelta64)",),
        versions="torch",
        cause="torch has no dates. Their numbers pass: the time since 1970, in the array's unit.",
        cures=('torch.from_dlpack(dlshim.upgrade(x, reinterpret="int64"))',),
    ),
    Message(
        "text",
        patterns=(
            r"np\.ndarray of type numpy\.(str|bytes)_",
            r"Unsupported NumPy data type '\W?[US]\d",
            r"Dtype \W?[US]\d+ is not a valid JAX array type",
        ),
        versions="torch, Warp, JAX",
        cause="The array holds text. Its different values can be numbered.",
        cures=("consumer(numpy.unique(x, return_inverse=True)[1])",),
    ),
    Message(
        "jax-no-numbers",
        patterns=(r"The problematic value is of type <class 'numpy\.ndarray'>",),
        versions="JAX",
        cause=(
            "The array holds text, dates, fields, Python objects or long doubles, and JAX has no "
            "dtype for these."
        ),
        cures=(
            "consumer(x.astype('float64'))  # objects that are numbers, long doubles",
            "consumer(numpy.unique(x, return_inverse=True)[1])  # numbers the different texts",
            'consumer(dlshim.upgrade(x, reinterpret="int64"))  # dates, durations',
            "consumer(x['name'])  # one field, by its name",
        ),
    ),
    Message(
        "frame",
        patterns=("determine the shape of object type 'DataFrame'",),
        versions="torch",
        cause="A table is no array. to_numpy() gives its numbers one dtype, and makes one of them.",
        cures=('torch.from_dlpack(dlshim.upgrade(x.to_numpy(), readonly="copy"))',),
    ),
    Message(
        "not-resizable",
        patterns=("storage that is not resizable",),
        versions="torch, often in a DataLoader with workers",
        cause=(
            "torch cannot grow memory that another library owns. In a DataLoader the arrays of a "
            "batch differ in shape."
        ),
        cures=("torch.from_dlpack(dlshim.upgrade(x)).clone()  # memory of torch's own",),
    ),
    Message(
        "repeated",
        patterns=("refers? to a single memory location",),
        versions="torch",
        cause="The array was broadcast: its elements share memory, so it cannot be written to.",
        cures=("torch.from_dlpack(dlshim.upgrade(x, copy=True))",),
    ),
)
