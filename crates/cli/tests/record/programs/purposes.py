"""Programs that each do one thing only: purposes.py PURPOSE SECONDS.

At its end each prints, as JSON, for how long it was at it, by its own clocks: `wall` and `cpu` of the
work and `startup`, the processor time before it, in seconds.
"""

import array
import asyncio
import json
import multiprocessing
import pickle
import sys
import time


def goes_on(end):
    """Until then, and on a busy machine until there was some processor time."""
    now = time.monotonic()
    return now < end or (time.process_time() < 0.8 and now < end + 10)


def do_asyncio(end):
    async def tick():
        await asyncio.sleep(0)

    async def main():
        while goes_on(end):
            await asyncio.gather(*(tick() for _ in range(100)))

    asyncio.run(main())


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
    message = {"names": [str(number) for number in range(5000)], "values": list(range(5000))}
    spent["freeing"] = 0.0
    while goes_on(end):
        copy = pickle.loads(pickle.dumps(message))
        before = time.thread_time()
        copy = None
        spent["freeing"] += time.thread_time() - before


def do_numpy(end):
    import numpy

    values = numpy.random.default_rng(1).random(200_000)
    spent["native"] = 0.0
    while goes_on(end):
        before = time.thread_time()
        numpy.median(numpy.sort(values))
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
    large = list(range(300_000))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        while time.monotonic() < end:
            pool.map(total, [large] * 4)


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


spent = {}
purpose, seconds = sys.argv[1], float(sys.argv[2])
start, cpu = time.monotonic(), time.process_time()
spent["startup"] = cpu
globals()["do_" + purpose](start + seconds)
spent["wall"], spent["cpu"] = time.monotonic() - start, time.process_time() - cpu
print(json.dumps(spent))
