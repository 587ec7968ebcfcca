/* Works before main, then in two functions of its own and in the C library. Prints the processor
   time of each, by its own clock: constructor, first, second, library (ns). */
#include <stdio.h>
#include <string.h>
#include <time.h>

volatile unsigned long sum;
static char block[1 << 20];
static long constructor_ns;

static long cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((noinline)) static void prepares(void) {
    for (long i = 0; i < 200000; i++) sum += i * i;
}

__attribute__((constructor)) static void constructs(void) {
    long start = cpu_ns();
    while (cpu_ns() - start < 150000000) prepares();
    constructor_ns = cpu_ns() - start;
}

__attribute__((noinline)) static void works_first(void) {
    for (long i = 0; i < 200000; i++) sum += i % 7;
}

__attribute__((noinline)) static void works_second(void) {
    for (long i = 0; i < 200000; i++) sum += i ^ 5;
}

static long spent(void (*function)(void), long wanted) {
    long start = cpu_ns();
    while (cpu_ns() - start < wanted) function();
    return cpu_ns() - start;
}

__attribute__((noinline)) static void fills(void) {
    for (int i = 0; i < 20; i++) memset(block, i, sizeof block);
}

int main(void) {
    long first = spent(works_first, 200000000), second = spent(works_second, 300000000);
    long library = spent(fills, 500000000);
    printf("%ld %ld %ld %ld\n", constructor_ns, first, second, library);
    return 0;
}
