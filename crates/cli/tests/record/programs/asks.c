// A program that asks for a snapshot itself, as spanwise.h lets it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../../probe/include/spanwise.h"

static volatile long sink;

__attribute__((noinline)) static void work_before(void) {
    uint64_t until = spanwise_now_ns() + 150000000u;
    while (spanwise_now_ns() < until) sink++;
}

static void *other(void *mode) {
    pthread_setname_np(pthread_self(), "asker");
    for (int round = 1; round <= 3; round++) {
        spanwise_mark_start();
        usleep(round == 3 ? 300000 : 1000);
        if (strcmp(mode, "min") == 0)
            spanwise_take_snapshot_min_duration(250000000u, 40 + round);
        else
            spanwise_take_snapshot_with_arg(40 + round);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    // Time to be attached to, where somebody wants to.
    work_before();
    pthread_create(&thread, NULL, other, argc > 1 ? argv[1] : "");
    pthread_join(thread, NULL);
    spanwise_take_snapshot();
    return 0;
}
