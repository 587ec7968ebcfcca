// Works in trees of calls, with frame pointers: 256 sums of products, forty calls deep and less.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t seed = 88172645463325252ULL;

static uint64_t next(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static uint64_t sum(int depth);

static __attribute__((noinline)) uint64_t number(void) {
    uint64_t value = next();
    for (int i = 0; i < 200; i++) value = value * 31 + (value >> 7);
    return value;
}

static __attribute__((noinline)) uint64_t negated(int depth) { return -sum(depth); }

static __attribute__((noinline)) uint64_t product(int depth) {
    return depth < 2 ? number() : sum(depth) * number();
}

static __attribute__((noinline)) uint64_t sum(int depth) {
    if (depth <= 0) return number();
    uint64_t value = next() % 3 ? product(depth - 2) : negated(depth - 2);
    return value + number();
}

int main(int count, char **words) {
    double end = count > 1 ? atof(words[1]) : 1;
    uint64_t all = 0;
    time_t start = time(NULL);
    while (difftime(time(NULL), start) < end) {
        for (int i = 0; i < 1000; i++) {
            seed = 88172645463325252ULL + i % 256;
            all += sum(20 + i % 20);
        }
    }
    printf("%llu\n", (unsigned long long)all);
    return 0;
}
