"""Runs functions by turns, and writes down which of them ran when, by a clock of its own.

attribution.py MODE SECONDS FILE: the file has a line for each call: thread, function, start, end
(CLOCK_MONOTONIC in ns), and the processor time of the call in ns.
"""

import hashlib
import json
import sys
import threading
import time

_, MODE, SECONDS, FILE = sys.argv
calls = []
numbers = list(range(20000, 0, -1))
text = json.dumps({str(key): [key] * 5 for key in range(300)})


def noted(function):
    """Calls the function, and notes when that was and what it took."""
    tid = threading.get_native_id()
    cpu, start = time.thread_time_ns(), time.monotonic_ns()
    function()
    end, cpu_end = time.monotonic_ns(), time.thread_time_ns()
    calls.append((tid, function.__name__, start, end, cpu_end - cpu))


def spin(count):
    total = 0
    for number in range(count):
        total += number * number % 7
    return total


def first():
    spin(ROUNDS)


def second():
    spin(ROUNDS)


def first_sorts():
    for _ in range(ROUNDS):
        sorted(numbers, key=int)


def second_hashes():
    for _ in range(ROUNDS * 5):
        hashlib.sha256(text.encode() * 20).hexdigest()


def third_parses():
    for _ in range(ROUNDS * 10):
        json.loads(text)


def alternate(functions, between=None):
    end = time.thread_time() + float(SECONDS)
    while time.thread_time() < end:
        for function in functions:
            noted(function)
            if between:
                between()


ROUNDS = {"short": 4000, "threads": 2000, "native": 2}.get(MODE, 20000)
if MODE == "threads":
    threads = [threading.Thread(target=alternate, args=([one],)) for one in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
elif MODE == "native":
    alternate([first_sorts, second_hashes, third_parses])
elif MODE == "clocks":
    alternate([first, second], time.process_time)
else:
    alternate([first, second])
with open(FILE, "w") as out:
    for call in calls:
        print(*call, file=out)
