/* Works, and then becomes the program that it is given, if any. Its status says whether it is root
   in the end. */
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

__attribute__((noinline)) double leaf_work(double seconds) {
    double end = now() + seconds, last = 0;
    while (last < end)
        last = now();
    return last;
}

int main(int count, char **words) {
    leaf_work(0.3);
    if (count > 1)
        execv(words[1], words + 1);
    return geteuid() == 0 ? 4 : 3;
}
