/* Begins a process every half a millisecond, each of which works a little and waits, until the
   first argument's milliseconds are over. */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(int count, char **args) {
    (void)count;
    double end = seconds() + atof(args[1]) / 1e3;
    volatile unsigned long sum = 0;
    for (int children = 0; children < 400 && seconds() < end; children++) {
        if (fork() == 0) {
            while (seconds() < end) {
                for (int i = 0; i < 1000; i++) sum += i;
                usleep(50000);
            }
            _exit(0);
        }
        usleep(500);
    }
    while (seconds() < end) usleep(1000);
    return 0;
}
