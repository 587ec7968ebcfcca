/* Recursion, and functions that are called by address. */
#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
int main(void) {
    int numbers[40];
    for (int i = 0; i < 40; i++) numbers[i] = i * 7919 % 101;
    qsort(numbers, 40, sizeof *numbers, compare);
    printf("%d %d\n", numbers[3], fib(9));
    return 0;
}
