"""The first use of dlshim.to, in eight threads at once."""

import threading

import dlshim

start, made = threading.Barrier(8), []


def use(n):
    x = memoryview(bytearray([n] * 4))
    start.wait()
    made.append((n, [dlshim.to(x, "numpy").tolist() for _ in range(20)]))


threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(made) == [(n, [[n] * 4] * 20) for n in range(8)], made
print("all")
