// Works as near to the top of its stacks as can be, for some seconds: copies of the first
// thread's stack reach above its first function.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static double seconds;

__attribute__((noinline)) static void work(clockid_t clock) {
    struct timespec now;
    do
        clock_gettime(clock, &now);
    while (now.tv_sec + now.tv_nsec * 1e-9 < seconds);
}

__attribute__((noinline)) static void *in_thread(void *nothing) {
    work(CLOCK_THREAD_CPUTIME_ID);
    return nothing;
}

int main(int count, char **arguments) {
    seconds = count > 1 ? atof(arguments[1]) / 2 : 1;
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    work(CLOCK_THREAD_CPUTIME_ID);
    pthread_join(thread, NULL);
    return 0;
}
