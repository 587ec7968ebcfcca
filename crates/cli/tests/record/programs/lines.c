/* Spends its time on two lines of one function: about three quarters of it on the first. */
#include <stdint.h>

volatile uint64_t sink;

__attribute__((noinline)) static void turns(long rounds) {
    for (long round = 0; round < rounds; round++) {
        sink = sink * 31 / 7 + sink / 13 + sink / 11; /* most */
        if (round % 4 == 0)
            sink = sink * 17 / 5; /* less */
    }
}

int main(void) {
    turns(300L * 1000 * 1000); /* call */
    return sink == 1;
}
