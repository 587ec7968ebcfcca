// Two threads work in cycles. The second one's seventh takes longer than the others, and the
// next begins later. Argument: what to do at the end (abort, raise USR1, or nothing).
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long sink;

static double own_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) void leaf_work(double seconds) {
    double end = own_seconds() + seconds;
    while (own_seconds() < end)
        for (unsigned long i = 0; i < 100000; i++) sink += i * i;
}

// Written so that no instruction of it is left out.
__attribute__((noinline)) void cycle(int millis) {
    leaf_work(0.005);
    if (millis) usleep(millis * 1000);
}

__attribute__((noinline)) void rare(void) { leaf_work(0.02); }

static void *first(void *unused) {
    for (int round = 0; round < 10; round++) cycle(0);
    return unused;
}

static void *second(void *unused) {
    pthread_setname_np(pthread_self(), "second");
    for (int round = 0; round < 10; round++) {
        cycle(round == 6 ? 2000 : 0);
        if (round == 7) usleep(2000 * 1000);
    }
    rare();
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[2];
    const char *end = count > 1 ? words[1] : "";
    signal(SIGUSR1, SIG_IGN);
    pthread_create(&threads[0], 0, first, 0);
    pthread_create(&threads[1], 0, second, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (!strcmp(end, "raise")) kill(getpid(), SIGUSR1);
    if (!strcmp(end, "abort")) abort();
    leaf_work(0.1);
    return 0;
}
