// Threads that wait for a mutex and for a condition, and measure how long by their own clock.
//
// Writes a line a thread to the file that it is given: its number, what it waited for, and
// the nanoseconds. Waits are long and few, so that taking the time costs next to nothing.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, ROUNDS = 12, HOLD_NS = 3000000, MESSAGES = 15, PAUSE_US = 4000 };

static pthread_mutex_t resource = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER;
static int messages, is_closed;
static FILE *out;

static long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void tell(const char *what, long waited_ns) {
    fprintf(out, "%ld %s %ld\n", (long)syscall(SYS_gettid), what, waited_ns);
}

static void work(long ns) {
    for (long end = now_ns() + ns; now_ns() < end;) {
    }
}

static void *worker(void *unused) {
    long waited = 0;
    for (int round = 0; round < ROUNDS; round++) {
        long asked = now_ns();
        pthread_mutex_lock(&resource);
        waited += now_ns() - asked;
        work(HOLD_NS);
        pthread_mutex_unlock(&resource);
        usleep(500);
    }
    tell("mutex", waited);
    return unused;
}

static void *receiver(void *unused) {
    long waited = 0;
    pthread_mutex_lock(&queue);
    while (!is_closed || messages > 0) {
        if (messages > 0) {
            messages--;
            continue;
        }
        long asked = now_ns();
        pthread_cond_wait(&queued, &queue);
        waited += now_ns() - asked;
    }
    pthread_mutex_unlock(&queue);
    tell("condition", waited);
    return unused;
}

static void send(int closes) {
    pthread_mutex_lock(&queue);
    messages += !closes;
    is_closed |= closes;
    pthread_mutex_unlock(&queue);
    // Not before: the receiver would wake only to wait for the mutex, a wait of another sort.
    pthread_cond_signal(&queued);
}

int main(int count, char **words) {
    out = count > 1 ? fopen(words[1], "w") : stdout;
    if (!out) return 1;
    pthread_t threads[WORKERS + 1];
    pthread_create(&threads[WORKERS], 0, receiver, 0);
    for (int i = 0; i < WORKERS; i++) pthread_create(&threads[i], 0, worker, 0);
    for (int i = 0; i < MESSAGES; i++) {
        usleep(PAUSE_US);
        send(0);
    }
    send(1);
    for (int i = 0; i <= WORKERS; i++) pthread_join(threads[i], 0);
    return fclose(out) != 0;
}
