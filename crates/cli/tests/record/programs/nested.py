"""Threads that are in known functions: waiting in them, or at work until they are told."""
import sys
import threading
import time


def deep(depth, last):
    return deep(depth - 1, last) if depth else last()


def nap():
    time.sleep(1000)


class Doer:
    def method(self, lock):
        return max([1, 2], key=lambda value: self.take(lock))

    @staticmethod
    def take(lock):
        with lock:
            return 0


def made_by_turns():
    yield deep(30, nap)


def leaf(until):
    total = 0
    while time.monotonic() < until:
        total += sum([number * number for number in range(100)])
    return total


def busy(seconds):
    return deep(10, lambda: leaf(time.monotonic() + seconds))


def main():
    if sys.argv[1] == "work":
        other = threading.Thread(target=busy, args=(0.5,))
        other.start()
        busy(0.5)
        other.join()
        return
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=Doer().method, args=(lock,), daemon=True).start()
    threading.Thread(target=lambda: next(made_by_turns()), daemon=True).start()
    deep(3, lambda: (open(sys.argv[2], "w").close(), nap()))


main()
