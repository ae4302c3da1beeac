"""What an extension and a dlshim of different releases do together."""

import array

import extension

import dlshim

x = array.array("d", [3.0])


def told(call, *args):
    try:
        return call(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


for _ in range(3):  # what is learned of a type in between
    same = told(extension.first, x, 0, 0), told(extension.first, dlshim.upgrade(x), 0, 0)
print(*same, memoryview(extension.made()).tolist(), sep="\n")
print(told(extension.first, x, 5, 0), told(extension.first, x, 0, 4), sep="\n")
print(told(extension.answer) if hasattr(extension, "answer") else "none")
