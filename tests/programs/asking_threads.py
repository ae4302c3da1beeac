"""More threads ask than there is room for to note who asks."""

import threading

import dlshim
from doubles.producers import P2

Mine = dlshim.producer(type("Mine", (P2,), {}))
x = Mine((4,), "float32", strides=(-1,), start=3)
ended = threading.Event()
asked = threading.Semaphore(0)


def ask():
    Mine().__dlpack_device__()
    asked.release()
    ended.wait()


x.__dlpack__(max_version=(1, 0))
threads = [threading.Thread(target=ask) for _ in range(100)]
for thread in threads:
    thread.start()
for _ in threads:
    asked.acquire()
try:
    x.__dlpack_device__()
    x.__dlpack__(max_version=(1, 0))
except BufferError as error:
    assert "negative strides" in str(error)
else:
    raise AssertionError("given")
ended.set()
print("end")
