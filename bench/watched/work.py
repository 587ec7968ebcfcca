"""Work in Python, piece by piece, until it is ended: prints when each began and ended, and the
processor time that it took, in nanoseconds."""
import time


def leaf(count):
    return sum(number * number for number in range(count))


def nested(depth, count):
    return leaf(count) if depth == 0 else nested(depth - 1, count) + 1


while True:
    start, before = time.monotonic_ns(), time.process_time_ns()
    for _ in range(50):
        nested(20, 5000)
    print(start, time.monotonic_ns(), time.process_time_ns() - before, flush=True)
