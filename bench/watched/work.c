// Work of a known size, for measuring what it costs to be watched: `work on` computes in one thread,
// piece by piece, until it is ended, and prints when each began and ended and the processor time that
// it took; `work threads` hands a token around eight threads, all on one processor and each woken
// by the one before it, so that there are as many switches each time; `work calls N` calls a small
// function N times, and both print their own processor time and wall time. All is in nanoseconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

__attribute__((noinline)) uint64_t leaf(uint64_t n) {
    uint64_t sum = n;
    for (uint64_t i = 0; i < n; i++) sum += i * i ^ sum;
    sink = sum;
    return sum;
}

__attribute__((noinline)) uint64_t nested(int depth, uint64_t n) {
    uint64_t sum = depth == 0 ? leaf(n) : nested(depth - 1, n) + 1;
    sink += sum;
    return sum;
}

// It begins with `push`, as most functions do that call others.
__attribute__((noinline)) uint64_t small(uint64_t n) {
    uint64_t kept = sink;
    __asm__ volatile("" : : : "rbx", "memory");
    return kept + n;
}

enum { THREADS = 8, TURNS = 60000 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned[THREADS];
static int turn;

static void *worker(void *number) {
    int own = (int)(intptr_t)number;
    for (int round = 0; round < TURNS; round++) {
        pthread_mutex_lock(&lock);
        while (turn != own) pthread_cond_wait(&turned[own], &lock);
        turn = (own + 1) % THREADS;
        pthread_cond_signal(&turned[turn]);
        pthread_mutex_unlock(&lock);
        nested(10, 2000);
    }
    return NULL;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t thread_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t used(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    uint64_t seconds = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    return seconds * 1000000000u + (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

int main(int count, char **words) {
    const char *mode = count > 1 ? words[1] : "on";
    uint64_t start = now(), before = used();
    if (strcmp(mode, "threads") == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
        sched_setaffinity(0, sizeof one, &one);
        pthread_t threads[THREADS];
        for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, worker, (void *)i);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    } else if (strcmp(mode, "calls") == 0) {
        long calls = count > 2 ? atol(words[2]) : 1000000;
        for (long i = 0; i < calls; i++) small((uint64_t)i);
    } else {
        for (;;) {
            uint64_t began = now();
            uint64_t used_before = thread_time();
            for (int i = 0; i < 150; i++) nested(20, 100000);
            uint64_t took = thread_time() - used_before;
            printf("%llu %llu %llu\n", (unsigned long long)began, (unsigned long long)now(), (unsigned long long)took);
            fflush(stdout);
        }
    }
    printf("%llu %llu\n", (unsigned long long)(used() - before), (unsigned long long)(now() - start));
    return 0;
}
