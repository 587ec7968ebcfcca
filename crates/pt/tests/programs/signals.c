/* Handlers that the kernel calls: one by request, one when it pleases. */
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile int received, ticks;
static void receive(int signal) { received += signal; }
static void tick(int signal) { ticks += signal > 0; }
static int work(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += i ^ received; return sum; }
int main(void) {
    signal(SIGUSR1, receive);
    signal(SIGALRM, tick);
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &timer, 0);
    int sum = 0;
    for (int i = 0; i < 6; i++) { raise(SIGUSR1); sum += work(300); }
    struct itimerval off = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &off, 0);
    printf("%d %d\n", sum, ticks);
    return 0;
}
