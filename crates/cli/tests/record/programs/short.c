// Makes children one after the other, each of which works for a moment and ends.
// Arguments: how many, and for how many microseconds of processor time each works.
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile unsigned long sink;

__attribute__((noinline)) void leaf_work(long microseconds) {
    clock_t end = clock() + microseconds * CLOCKS_PER_SEC / 1000000;
    while (clock() < end)
        for (unsigned long i = 0; i < 1000; i++) sink += i * i;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    for (int left = atoi(words[1]); left > 0; left--) {
        pid_t child = fork();
        if (child == 0) {
            leaf_work(atol(words[2]));
            _exit(0);
        }
        if (child < 0 || waitpid(child, 0, 0) != child) return 1;
    }
    return 0;
}
