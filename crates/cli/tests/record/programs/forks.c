// A process that forks another, and functions that both of them call.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline, noclone)) static int in_child(int round) {
    __asm__ volatile("" ::: "memory");
    return round;
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        // The recorder hears of it a moment later: long enough, however busy the machine is.
        for (int round = 0; round < 300; round++) {
            in_child(round);
            usleep(10000);
        }
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}
