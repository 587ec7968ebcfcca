// Two workers and the first thread compute 21 calls deep; workers sleep in between.
// Arguments: how often each worker works (0: until it is killed), and the exit status.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long sink;
void *volatile frame;

__attribute__((noinline)) unsigned long leaf_work(unsigned long n) {
    unsigned long sum = 0;
    // Compilers leave the frame of a function out that calls none.
    frame = __builtin_frame_address(0);
    for (unsigned long i = 0; i < n; i++) sum += i * i ^ sum;
    sink = sum;
    return sum;
}

__attribute__((noinline)) unsigned long recurse(int depth, unsigned long n) {
    if (depth == 0) return leaf_work(n);
    unsigned long sum = recurse(depth - 1, n) + 1;
    sink += sum;
    return sum;
}

static double own_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

__attribute__((noinline)) void busy(double seconds) {
    double end = own_seconds() + seconds;
    while (own_seconds() < end) recurse(20, 200000);
}

static int rounds;

static void *worker(void *unused) {
    pthread_setname_np(pthread_self(), "worker");
    for (int round = 0; rounds == 0 || round < rounds; round++) {
        busy(0.05);
        usleep(5000);
    }
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[2];
    rounds = count > 1 ? atoi(words[1]) : 4;
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, worker, 0);
    busy(0.1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return count > 2 ? atoi(words[2]) : 0;
}
