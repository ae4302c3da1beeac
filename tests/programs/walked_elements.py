"""dlshim::each follows the indices whatever the strides are."""

import itertools

import numpy as np
import walks

base = np.arange(4 * 6 * 8.0).reshape(4, 6, 8)
cuts = slice(None), slice(None, None, 2), slice(None, None, -1), slice(1, 2), slice(0)
for axes in itertools.permutations(range(3)):
    for where in itertools.product(cuts, repeat=3):
        x = base[where].transpose(axes)
        assert walks.walk(x) == (x.ravel().tolist(), x.ravel().tolist(), []), x.strides
for shape in ((4, 6, 8), (4, 1, 8), (3, 6, 8)):
    x = np.broadcast_to(base[:1, :1, :1], shape)
    assert walks.walk(x) == (x.ravel().tolist(), x.ravel().tolist(), []), shape
