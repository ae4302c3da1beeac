"""A class that `dlshim.producer` changes, here and in subinterpreters, in turn."""

import array
import sys

import dlshim


def own():
    @dlshim.producer
    class Own(array.array):
        pass

    x = Own("b", [1, 2])
    for _ in range(3):
        assert memoryview(dlshim.from_dlpack(x)).tolist() == [1, 2]
    assert x.__dlpack_device__() == (1, 0)


if __name__ == "__main__":
    import _testcapi

    inside = f"import sys; sys.path[:] = {sys.path!r}\nimport classes_of_subinterpreters as here\n"
    own()
    for _ in range(3):
        assert _testcapi.run_in_subinterp(f"{inside}here.own()") == 0
        own()
    print("end")
