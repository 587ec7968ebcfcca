/* Code that the kernel has put into the program: it is in no file. */
#include <stdio.h>
#include <time.h>
static long later(int n) {
    struct timespec time;
    clock_gettime(n % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &time);
    return time.tv_nsec & 1;
}
int main(void) {
    long sum = 0;
    for (int i = 0; i < 20; i++) sum += later(i);
    printf("%d\n", sum >= 0);
    return 0;
}
