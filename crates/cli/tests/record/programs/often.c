// A trivial function that is called far too often to be recorded, and one that is called rarely.
#include <stdio.h>
#include <stdlib.h>

static volatile long sink;

__attribute__((noinline, noclone)) long trivial(long x) {
    sink += x;
    return x;
}

__attribute__((noinline, noclone)) long seldom(long x) {
    long sum = 0;
    for (long i = 0; i < x; i++) sum += trivial(i);
    return sum;
}

int main(int count, char **words) {
    long rounds = count > 1 ? atol(words[1]) : 10, inner = count > 2 ? atol(words[2]) : 10, sum = 0;
    for (long i = 0; i < rounds; i++) sum += seldom(inner);
    printf("sum %ld\n", sum);
    return 0;
}
