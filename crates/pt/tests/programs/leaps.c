/* Stacks that are left all at once. */
#include <setjmp.h>
#include <stdio.h>
static jmp_buf start;
static int dive(int depth) {
    if (depth == 0) longjmp(start, 3);
    return dive(depth - 1) + 1;
}
int main(void) {
    int rounds = 0;
    if (setjmp(start) && rounds++ > 5) return 0;
    rounds++;
    for (int i = 0; i < 4; i++)
        if (!setjmp(start)) dive(i * 30);
    printf("%d\n", rounds);
    return 0;
}
