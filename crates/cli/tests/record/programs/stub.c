/* A function that ends with a jump to a stub, which others use far more often. */
#include <stdio.h>

static volatile int count;

__attribute__((noinline, noclone)) int leaves(const char *text) {
    count++;
    return puts(text);
}

int main(void) {
    for (int round = 0; round < 1000; round++) {
        puts("others");
        if (round % 100 == 0) leaves("ours");
    }
    return 0;
}
