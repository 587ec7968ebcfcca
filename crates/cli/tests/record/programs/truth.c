/* Functions of known CPU time: in short bursts between naps, in one piece, in many threads, and
   in many short processes.

       truth bursts MS
       truth threads COUNT MS     (each thread does both, for MS milliseconds of CPU time in all)
       truth forks COUNT US       (each child works for US microseconds)

   It prints a line for each function: its name and its CPU time in nanoseconds, by
   CLOCK_THREAD_CPUTIME_ID. Then a line "all" with the CPU time of the process and its children,
   and of its threads by the scheduler's own count "runnable", how long they waited for a CPU. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BURST_NS 70000

struct truth {
    uint64_t bursts_ns, stretch_ns, children_ns, runnable_ns;
};

static struct truth *truth;
static uint64_t turns_of_burst;

static uint64_t cpu_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void add(uint64_t *sum, uint64_t ns) {
    __atomic_fetch_add(sum, ns, __ATOMIC_RELAXED);
}

/* Three functions with the same body, which the compiler may not make one. */
#define WORK(name)                                                                               \
    __attribute__((noinline)) static uint64_t name(uint64_t turns) {                             \
        volatile uint64_t sum = sizeof #name;                                                    \
        for (uint64_t turn = 0; turn < turns; turn++)                                            \
            sum = sum * 31 + turn;                                                               \
        return sum;                                                                              \
    }
WORK(short_bursts)
WORK(long_stretch)
WORK(child_works)

/* Calls it for so long, in pieces of a burst; what asking the clock takes is not in it. */
static void measured(uint64_t (*work)(uint64_t), uint64_t turns, uint64_t *sum) {
    uint64_t begin = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    work(turns);
    add(sum, cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
}

/* Turns that take a burst on this machine: the best of some, since others may disturb it. */
static void calibrate(void) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 20; round++) {
        uint64_t ns = 0;
        measured(short_bursts, 20000, &ns);
        truth->bursts_ns += ns;
        best = ns < best ? ns : best;
    }
    turns_of_burst = 20000ull * BURST_NS / best;
}

static void bursts(uint64_t count) {
    for (; count > 0; count--) {
        measured(short_bursts, turns_of_burst, &truth->bursts_ns);
        usleep(100);
    }
}

/* How long this thread has been able to run without a CPU. */
static uint64_t runnable_ns(void) {
    char text[128] = "";
    int file = open("/proc/thread-self/schedstat", O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    close(file);
    char *second = length > 0 ? strchr(text, ' ') : NULL;
    return second ? strtoull(second, NULL, 10) : 0;
}

static void *both(void *count) {
    bursts((uintptr_t)count);
    measured(long_stretch, (uintptr_t)count * turns_of_burst, &truth->stretch_ns);
    add(&truth->runnable_ns, runnable_ns());
    return NULL;
}

static void threads(int count, uint64_t of_each) {
    pthread_t *made = calloc(count, sizeof *made);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int thread = 0; thread < count; thread++)
        if (pthread_create(&made[thread], &small, both, (void *)(uintptr_t)of_each) != 0)
            exit(3);
    for (int thread = 0; thread < count; thread++)
        pthread_join(made[thread], NULL);
}

static void forks(int count, uint64_t us) {
    for (int child = 0; child < count; child++) {
        pid_t pid = fork();
        if (pid < 0)
            exit(3);
        if (pid == 0) {
            measured(child_works, turns_of_burst * us * 1000 / BURST_NS, &truth->children_ns);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
    }
}

static uint64_t used_ns(int who) {
    struct rusage used;
    getrusage(who, &used);
    uint64_t us = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000ull;
    return (us + used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
}

int main(int count, char **args) {
    int shared = MAP_SHARED | MAP_ANONYMOUS;
    truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, shared, -1, 0);
    if (truth == MAP_FAILED || count < 3)
        return 2;
    calibrate();
    uint64_t first = strtoull(args[2], NULL, 10);
    uint64_t second = count > 3 ? strtoull(args[3], NULL, 10) : 0;
    if (strcmp(args[1], "bursts") == 0) {
        both((void *)(uintptr_t)(first * 1000000 / BURST_NS / 2));
    } else if (strcmp(args[1], "threads") == 0) {
        threads(first, second * 1000000 / BURST_NS / 2);
        truth->runnable_ns += runnable_ns();
    } else if (strcmp(args[1], "forks") == 0) {
        forks(first, second);
        truth->runnable_ns = 0;
    }
    printf("short_bursts %llu\n", (unsigned long long)truth->bursts_ns);
    printf("long_stretch %llu\n", (unsigned long long)truth->stretch_ns);
    printf("child_works %llu\n", (unsigned long long)truth->children_ns);
    printf("runnable %llu\n", (unsigned long long)truth->runnable_ns);
    printf("all %llu\n", (unsigned long long)used_ns(RUSAGE_SELF) + used_ns(RUSAGE_CHILDREN));
    return 0;
}
