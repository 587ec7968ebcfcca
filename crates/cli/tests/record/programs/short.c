// Makes children one after the other, each of which works for some milliseconds and ends.
// Argument: how many.
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long sink;

__attribute__((noinline)) void leaf_work(void) {
    clock_t end = clock() + CLOCKS_PER_SEC / 50;
    while (clock() < end)
        for (unsigned long i = 0; i < 10000; i++) sink += i * i;
}

int main(int count, char **words) {
    (void)count;
    for (int left = atoi(words[1]); left > 0; left--) {
        pid_t child = fork();
        if (child == 0) {
            leaf_work();
            _exit(0);
        }
        if (child < 0 || waitpid(child, 0, 0) != child) return 1;
    }
    return 0;
}
