// A function `root` with a known tree of calls: recursion, a function pointer, a library that
// calls back, a jump out of several calls, a signal. Another thread counts meanwhile. Prints how
// often it was called back. Argument: how often `root` is called (0: until it is killed).
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile int sink;
volatile unsigned long counted;
static jmp_buf out;

#define APART __attribute__((noinline, noclone))

APART int leaf(int x) {
    sink += x;
    return sink;
}

APART int twice(int x) { return leaf(x) + leaf(x + 1) + 1; }

APART int down(int depth) {
    if (depth == 0) return leaf(0);
    return down(depth - 1) + 1;
}

static volatile int compares;

APART int compare(const void *a, const void *b) {
    compares++;
    return *(const int *)a - *(const int *)b;
}

APART void throws(int depth) {
    if (depth == 0) longjmp(out, 1);
    throws(depth - 1);
    sink++;
}

APART int catches(void) {
    if (setjmp(out) == 0) throws(2);
    return leaf(7);
}

APART void handler(int signal) { sink += leaf(signal); }

static int (*volatile chosen)(int) = twice;

APART int root(int round) {
    int values[4] = {3, 1, 2, 0};
    int sum = chosen(round) + down(5);
    qsort(values, 4, sizeof values[0], compare);
    sum += catches() + getppid();
    raise(SIGUSR1);
    return sum + leaf(values[0]);
}

APART void nap(void) { usleep(300000); }

APART void never(void) { sink = 0; }

void *counter(void *unused) {
    pthread_setname_np(pthread_self(), "counter");
    for (;;) counted++;
    return unused;
}

int main(int count, char **words) {
    pthread_t thread;
    int rounds = count > 1 ? atoi(words[1]) : 1;
    signal(SIGUSR1, handler);
    pthread_create(&thread, 0, counter, 0);
    for (int round = 0; rounds == 0 || round < rounds; round++) {
        sink += root(round);
        usleep(2000);
    }
    nap();
    if (count > 2) never();
    printf("%d\n", compares);
    return 0;
}
