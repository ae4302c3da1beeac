"""Values of C++ become an array that owns them: and how many of them went."""

import numbers_

for how in range(9):
    before = numbers_.gone()
    try:
        x = numbers_.owns(how)
    except ValueError as error:
        print(error, numbers_.gone() - before)
        continue
    said = x.shape, str(x.dtype), x.readonly, x.tobytes().hex()
    kept = numbers_.gone() - before
    del x
    print(*said, kept, numbers_.gone() - before)
