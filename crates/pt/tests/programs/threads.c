/* Two threads, each with its own way. */
#include <pthread.h>
#include <stdio.h>
static int left(int n) { return n == 0 ? 1 : left(n - 1) * 3; }
static int right(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += left(i & 7); return sum; }
static void *run(void *arg) { *(int *)arg = right(60); return 0; }
int main(void) {
    int results[2] = {0, 0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, &results[i]);
    int own = right(40);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%d %d\n", own, results[0] + results[1]);
    return 0;
}
