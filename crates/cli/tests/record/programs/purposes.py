"""Programs that each do one thing only: purposes.py PURPOSE SECONDS [FILE].

At its end each prints as JSON, or writes into the file, for how long it was at it, in seconds, by
its own clocks: `wall` and `cpu` of the work, `startup`, the processor time before it, and
`collecting`, that of the garbage collector.
"""

import array
import gc
import json
import multiprocessing.reduction
import os
import pickle
import sys
import time

if sys.argv[1] == "plain_asyncio":
    # The event loop is then Python alone, for which there is a clock.
    sys.modules["_asyncio"] = None
import asyncio


def goes_on(end):
    """Until then, and on a busy machine until there was some processor time."""
    now = time.monotonic()
    return now < end or (time.process_time() < 0.8 and now < end + 10)


def do_asyncio(end):
    async def tick():
        await asyncio.sleep(0)

    async def main():
        polls_at(asyncio.get_running_loop())
        while goes_on(end):
            await asyncio.gather(*(tick() for _ in range(100)))

    asyncio.run(main())


do_plain_asyncio = do_asyncio


def polls_at(loop):
    """Counts the processor time for which the kernel is asked what happened."""
    select = loop._selector.select
    spent["polling"] = 0.0

    def clocked(timeout=None):
        before = time.thread_time()
        found = select(timeout)
        spent["polling"] += time.thread_time() - before
        return found

    loop._selector.select = clocked


def ask_slowly():
    time.sleep(0.05)


def do_blocking(end):
    async def handle():
        ask_slowly()

    async def main():
        while time.monotonic() < end:
            await handle()
            await asyncio.sleep(0.005)

    asyncio.run(main())


def do_pickle(end):
    # So small that its memory is used again and again: that of larger ones goes back to the kernel.
    message = {"names": [str(number) for number in range(500)], "values": list(range(500))}
    spent["freeing"] = 0.0
    while goes_on(end):
        copy = pickle.loads(pickle.dumps(message))
        before = time.thread_time()
        copy = None
        spent["freeing"] += time.thread_time() - before


def do_numpy(end):
    before = time.thread_time()
    import numpy

    spent["importing"] = time.thread_time() - before
    values = numpy.random.default_rng(1).random(200_000)
    # In place, so that nothing is allocated.
    ordered = values.copy()
    spent["native"] = 0.0
    while goes_on(end):
        before = time.thread_time()
        numpy.copyto(ordered, values)
        ordered.sort()
        numpy.sqrt(ordered, out=ordered)
        spent["native"] += time.thread_time() - before


def do_arrays(end):
    values = array.array("d", (number * 7919 % 100003 for number in range(100_000)))
    spent["native"] = 0.0
    while goes_on(end):
        before = time.thread_time()
        ordered = sorted(values)
        spent["native"] += time.thread_time() - before
        del ordered


def do_allocate(end):
    while goes_on(end):
        for _ in range(10):
            bytearray(8 << 20)


def step(value):
    return value * 31 % 1009


def do_python(end):
    value = 1
    while goes_on(end):
        for _ in range(1000):
            value = step(value) + 1


def total(numbers):
    return len(numbers)


def do_pool(end):
    pickles = multiprocessing.reduction.ForkingPickler.dumps
    spent["pickling"] = 0.0

    def clocked(message, protocol=None):
        before = time.thread_time()
        pickled = pickles(message, protocol)
        spent["pickling"] += time.thread_time() - before
        return pickled

    multiprocessing.reduction.ForkingPickler.dumps = clocked
    large = list(range(300_000))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        while time.monotonic() < end:
            pool.map(total, [large] * 4)
        pool.close()
        pool.join()
    spent["children"] = sum(os.times()[2:4])


class ImageDataset:
    """Items that are made one by one."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        values = [(index * number) % 255 for number in range(3000)]
        return [value / 255.0 for value in values]


class DataLoader:
    def __init__(self, dataset):
        self.dataset = dataset

    def __iter__(self):
        for start in range(0, len(self.dataset), 8):
            yield [self.dataset[index] for index in range(start, start + 8)]


def train(batch):
    return sum(value * value for item in batch for value in item[::20])


def do_loading(end):
    loader = DataLoader(ImageDataset())
    spent["loading"] = 0.0
    while goes_on(end):
        batches = iter(loader)
        while True:
            batch = None
            start = time.monotonic()
            batch = next(batches, None)
            spent["loading"] += time.monotonic() - start
            if batch is None:
                break
            train(batch)


def collecting(phase, _):
    change = time.thread_time()
    spent["collecting"] += change if phase == "stop" else -change


spent = {"collecting": 0.0}
gc.callbacks.append(collecting)
purpose, seconds = sys.argv[1], float(sys.argv[2])
start, cpu = time.monotonic(), time.process_time()
spent["startup"] = cpu
globals()["do_" + purpose](start + seconds)
spent["wall"], spent["cpu"] = time.monotonic() - start, time.process_time() - cpu
with open(sys.argv[3], "w") if sys.argv[3:] else sys.stdout as out:
    print(json.dumps(spent), file=out)
