/* Requests a snapshot from a spanwise that watches this program.
 *
 *     spanwise attach -p PID --trigger .
 *     spanwise run --trigger . --duration-thresh 5ms -- ./program
 *
 * Nothing needs to be linked. A call costs a nanosecond or two while nobody watches, and
 * about one microsecond where somebody does. Linux, GCC or Clang, C or C++.
 */
#ifndef SPANWISE_H
#define SPANWISE_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function that is watched, by its name. Programs call those below. */
__attribute__((weak, noinline, used, visibility("default"))) void
spanwise_snapshot(uint64_t started_ns, uint64_t argument)
{
    /* So that calls are not left out, and the arguments are there. */
    __asm__ volatile("" : : "r"(started_ns), "r"(argument) : "memory");
}

/* When this thread has begun what it does now, on CLOCK_MONOTONIC; 0 where it has not said. */
__attribute__((weak)) __thread uint64_t spanwise_started_ns;

static inline uint64_t spanwise_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* This thread begins something now: with --duration-thresh only what takes longer is saved. */
static inline void spanwise_mark_start(void)
{
    spanwise_started_ns = spanwise_now_ns();
}

/* Request a snapshot of the time before now, and pass a number along. */
static inline void spanwise_take_snapshot_with_arg(uint64_t argument)
{
    spanwise_snapshot(spanwise_started_ns, argument);
}

/* Request a snapshot of the time before now. */
static inline void spanwise_take_snapshot(void)
{
    spanwise_take_snapshot_with_arg(0);
}

/* The same where at least so long has passed since spanwise_mark_start: decided here, so that
 * what is short costs nothing although somebody watches. */
static inline void spanwise_take_snapshot_min_duration(uint64_t min_duration_ns, uint64_t argument)
{
    if (spanwise_started_ns != 0 && spanwise_now_ns() - spanwise_started_ns >= min_duration_ns)
        spanwise_take_snapshot_with_arg(argument);
}

#ifdef __cplusplus
}
#endif

#endif
