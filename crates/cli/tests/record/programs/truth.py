"""A pool of processes whose jobs have a known CPU time; prints it for each function, in ns."""

import multiprocessing
import sys
import time


def count(turns):
    total = 0
    for turn in range(turns):
        total = total * 31 % 1000003 + turn
    return total


def short_job(turns):
    begin = time.thread_time_ns()
    for _ in range(10):
        count(turns // 10)
        time.sleep(0.0002)
    return "short_job", time.thread_time_ns() - begin


def long_job(turns):
    begin = time.thread_time_ns()
    count(turns)
    return "long_job", time.thread_time_ns() - begin


def main():
    jobs, turns = int(sys.argv[1]), 1_500_000
    sums = {}
    with multiprocessing.get_context("fork").Pool(4) as pool:
        given = [pool.apply_async(job, (turns,)) for _ in range(jobs) for job in (short_job, long_job)]
        for name, ns in (result.get() for result in given):
            sums[name] = sums.get(name, 0) + ns
        pool.close()
        pool.join()
    for name, ns in sums.items():
        print(name, ns)


main()
