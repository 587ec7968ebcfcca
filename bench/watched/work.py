"""Work of a known size in Python; prints its own processor time and wall time."""
import time


def leaf(count):
    return sum(number * number for number in range(count))


def nested(depth, count):
    return leaf(count) if depth == 0 else nested(depth - 1, count) + 1


start, before = time.monotonic_ns(), time.process_time_ns()
for _ in range(12000):
    nested(20, 5000)
print(time.process_time_ns() - before, time.monotonic_ns() - start)
