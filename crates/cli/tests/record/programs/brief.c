// A program that is over at once, and calls functions of a library from its first moment on: also
// before `main`, and in children that end as soon as they have begun.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) static int own(int round) {
    __asm__ volatile("" ::: "memory");
    return round;
}

static void *volatile kept;

__attribute__((constructor)) static void before_main(void) {
    kept = calloc(1, 10);
    own(0);
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 100, children = count > 2 ? atoi(words[2]) : 0;
    for (int round = 0; round < rounds; round++) {
        free(kept);
        kept = calloc(1, 10 + round);
        own(round);
    }
    for (int child = 0; child < children; child++) {
        if (fork() == 0) {
            own(child);
            _exit(0);
        }
        wait(NULL);
    }
    return 0;
}
