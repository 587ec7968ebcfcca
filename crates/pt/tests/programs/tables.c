/* Deep recursion, jumps through tables, calls in place of returns. */
#include <stdio.h>
static unsigned state = 1;
__attribute__((noinline)) static int depth_of(int n) { return n == 0 ? 0 : depth_of(n - 1) + (int)(state & 1) + 1; }
__attribute__((noinline)) static int odd(int n);
__attribute__((noinline)) static int even(int n) { state += n; return n == 0 ? 1 : odd(n - 1); }
__attribute__((noinline)) static int odd(int n) { state ^= n; return n == 0 ? 0 : even(n - 1); }
__attribute__((noinline)) static int choose(int n) {
    switch (n) {
    case 0: return state + 3; case 1: return state * 5; case 2: return even(6);
    case 3: return state ^ 9; case 4: return depth_of(3); case 5: return state >> 2;
    case 6: return odd(7); default: return 1;
    }
}
int main(void) {
    int sum = depth_of(200) + even(50);
    for (int i = 0; i < 60; i++) { state = state * 1103515245 + 12345; sum += choose(state >> 16 & 7); }
    printf("%d\n", sum);
    return 0;
}
