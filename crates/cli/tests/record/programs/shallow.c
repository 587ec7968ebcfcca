// Works as near to the top of its stacks as can be, for some seconds: copies of the first
// thread's stack reach above its first function. Leaves the kernel's random bytes for this process
// in a file that the environment names.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
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

static void leave_random_bytes(const char *path) {
    FILE *file = path ? fopen(path, "wb") : NULL;
    if (!file) return;
    fwrite((const void *)getauxval(AT_RANDOM), 1, 16, file);
    fclose(file);
}

int main(int count, char **arguments) {
    leave_random_bytes(getenv("RANDOM_BYTES"));
    seconds = count > 1 ? atof(arguments[1]) / 2 : 1;
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    work(CLOCK_THREAD_CPUTIME_ID);
    pthread_join(thread, NULL);
    return 0;
}
