// Two threads hand a token to each other through pipes, as often as the argument says: each turn
// is a switch of each. Then both compute for a while.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static int there[2], back[2];
static long turns;
static volatile uint64_t sink;

__attribute__((noinline)) void compute(void) {
    for (uint64_t i = 0; i < 300000000; i++) sink += i;
}

static void *other(void *unused) {
    char token;
    for (long i = 0; i < turns && read(there[0], &token, 1) == 1; i++) write(back[1], &token, 1);
    compute();
    return unused;
}

int main(int count, char **words) {
    turns = count > 1 ? atol(words[1]) : 1;
    if (pipe(there) != 0 || pipe(back) != 0) return 1;
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);
    char token = 1;
    for (long i = 0; i < turns; i++) {
        write(there[1], &token, 1);
        if (read(back[0], &token, 1) != 1) return 1;
    }
    compute();
    pthread_join(thread, NULL);
    return 0;
}
