// Functions inside of functions, for tests of inlined frames: `innermost` is put into `middle`,
// which is put into `outermost` twice, and that into `work`, which is called for real.
#include <stdio.h>
#include <stdlib.h>

#define INTO_CALLER static inline __attribute__((always_inline))

INTO_CALLER unsigned long innermost(unsigned long x) {
    for (int i = 0; i < 64; i++)
        x = x * 6364136223846793005UL + (x >> 7) + 1;
    return x;
}

INTO_CALLER unsigned long middle(unsigned long x) {
    if (x & 1)
        return innermost(x) ^ 5;
    return x / 3;
}

INTO_CALLER unsigned long outermost(unsigned long x) {
    return middle(x) + middle(x ^ 9);
}

__attribute__((noinline)) unsigned long work(unsigned long rounds) {
    unsigned long sum = rounds;
    for (unsigned long i = 0; i < rounds; i++)
        sum += outermost(sum | 1);
    return sum;
}

__attribute__((noinline)) unsigned long plain(unsigned long x) {
    return x * 3 + 1;
}

int main(int argc, char **argv) {
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    printf("%lu\n", plain(work(rounds)));
    return 0;
}
