"""Columns of Arrow, pandas and Polars: missing values, chunks, and what is no array of numbers."""

from __future__ import annotations

from .message import Message

ROWS = (
    Message(
        "missing",
        patterns=("it has missing values", "values are missing in (it|its lists)"),
        versions="dlshim",
        cause=(
            "DLPack cannot describe missing values, and numpy.asarray makes floats of the integers "
            "beside them. Fill them first."
        ),
        cures=(
            "consumer(dlshim.upgrade(x.fill_null(0)))  # pyarrow, Polars",
            "consumer(dlshim.upgrade(x.to_numpy('int64', na_value=0)))  # pandas",
        ),
    ),
    Message(
        "own-chunks",
        patterns=("its values lie in several chunks",),
        versions="dlshim",
        cause=(
            'The column is in several pieces of memory, and an array is one. order="C" joins them, '
            "and copies nothing where there is one."
        ),
        cures=(
            'consumer(dlshim.upgrade(x, order="C"))',
            "consumer(dlshim.upgrade(x.rechunk()))  # Polars",
            "consumer(dlshim.upgrade(x.combine_chunks()))  # pyarrow, arro3",
        ),
    ),
    Message(
        "own-column",
        patterns=(
            "memory holds (codes|runs), not the values",
            "booleans are packed into bits",
            "its lists may differ in length",
            "it has fields or columns",
            "its decimals have",
        ),
        versions="dlshim",
        cause=(
            "The memory of this column is no array of numbers. The message names the call that "
            "makes one."
        ),
        cures=(
            "consumer(dlshim.upgrade(x.to_physical()))  # Polars, categories: their codes",
            "consumer(dlshim.upgrade(x.indices))  # pyarrow, categories: their codes",
            "consumer(dlshim.upgrade(numpy.asarray(x)))  # booleans",
            "consumer(dlshim.upgrade(x['a']))  # a table: one column",
        ),
    ),
    Message(
        "column-copy",
        patterns=(
            "copy not allowed: cannot convert to a NumPy array",
            "but zero_copy_only was True",
            "Zero copy conversions not possible with boolean",
            "zero_copy_only must be False",
        ),
        versions="Polars, pyarrow",
        cause=(
            "NumPy cannot show this column where it lies: values are missing, it has several "
            "chunks, or its booleans are bits."
        ),
        cures=(
            'numpy.from_dlpack(dlshim.upgrade(x, order="C"))  # several chunks: joined',
            "numpy.from_dlpack(dlshim.upgrade(x.fill_null(0)))  # missing values",
            "numpy.asarray(x)  # booleans",
        ),
    ),
    Message(
        "column-missing",
        patterns=(
            "array with missing values. Specify an appropriate 'na_value'",
            "numpy array from arrow array with nulls",
            "cannot convert NA to integer",
        ),
        versions="pandas, arro3",
        cause="Values are missing, and an array of integers cannot say so. Fill them first.",
        cures=(
            "consumer(dlshim.upgrade(x.to_numpy('int64', na_value=0)))  # pandas",
            "consumer(dlshim.upgrade(pyarrow.array(x).fill_null(0)))  # arro3",
        ),
    ),
    Message(
        "column-not-finite",
        patterns=("Cannot convert non-finite values",),
        versions="pandas",
        cause="Values are missing or infinite, and integers cannot say so. Replace them first.",
        cures=(
            "consumer(dlshim.upgrade(x.where(numpy.isfinite(x), 0).astype('int64')))",
            "consumer(dlshim.upgrade(x))  # the floats, as they are",
        ),
    ),
    Message(
        "column-torch",
        patterns=("cannot convert List dtype to Tensor",),
        versions="Polars",
        cause=(
            "torch has no lists of several lengths. Lists of one length have a dtype of their own."
        ),
        cures=('torch.from_dlpack(dlshim.upgrade(x.list.to_array(2), readonly="share"))',),
    ),
    Message(
        "arrow-nulls",
        patterns=("arrays with no nulls",),
        versions="pyarrow",
        cause="DLPack cannot describe missing values.",
        cures=("consumer(x.drop_null())", "consumer(x.fill_null(0))"),
    ),
    Message(
        "arrow-type",
        patterns=("Bit-packed boolean", "not compatible with DLPack spec"),
        versions="pyarrow",
        cause=(
            "Arrow packs eight booleans into a byte, and text, dates and lists are not numbers. "
            "DLPack can describe neither. For most of them dlshim's own error names what to pass."
        ),
        cures=(
            "consumer(x.cast('uint8'))  # booleans",
            "consumer(dlshim.upgrade(x))  # lists of fixed size",
            'consumer(dlshim.upgrade(x, reinterpret="int64"))  # times of 64 bits',
        ),
    ),
    Message(
        "column-table",
        patterns=(
            "DataFrame constructor not properly called!",
            "DataFrame constructor called with unsupported type 'Producer'",
        ),
        versions="pandas, Polars",
        cause=(
            "The function makes tables, and a wrapper is no array to it. pandas.Series even makes "
            "a column of wrappers, without a word. Bring the array into the library first."
        ),
        cures=(
            'dlshim.to(x, "pandas")  # a column, or a table of an array of two axes',
            'consumer(dlshim.to(x, "numpy"))',
        ),
    ),
    Message(
        "column-made",
        patterns=(
            r"Series constructor called with unsupported type '(Producer|\w*(Tensor|[Aa]rray)\w*)'",
            "'dlshim.Producer' object is not iterable",
            "Expected an Arrow-compatible array-like object",
        ),
        versions="Polars, pyarrow, pandas",
        cause=(
            "The function makes columns of objects with Arrow's methods, and this array has none. "
            "A Tensor of dlshim has them."
        ),
        cures=(
            "consumer(dlshim.from_dlpack(x))",
            'dlshim.to(x, "polars")  # or "pandas", "pyarrow"',
        ),
    ),
)
