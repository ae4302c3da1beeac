"""A deleter comes back to the array that lets go of it, in sys.argv[1]: take or assign."""

import sys

import again

from doubles.producers import P2

ended = []


def source(n, then=None):
    x = P2((n,), "float64")
    export = x._export

    def exported(*args, **fields):
        made = export(*args, **fields)
        made.on_delete = lambda: (ended.append(n), then and then())
        return made

    x._export = exported
    return x


again.take(source(3, lambda: again.take(source(4))))
print(again.size())
told = getattr(again, sys.argv[1])(source(5))  # 3 goes, and its deleter takes 4 instead of 5
print(told, ended, again.size())
again.take(source(6, lambda: again.take(source(7))))
again.drop()  # 6 goes; what its deleter takes goes nowhere else than with the process
print(ended, again.size())
