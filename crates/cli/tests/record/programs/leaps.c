// Ways to leave functions whose calls are recorded without returning from them, and to change
// stacks. It says how often each was called.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define WATCHED __attribute__((noinline, noclone))

static volatile long sink;
static long inners, outers;
static jmp_buf back;
static ucontext_t first, second, third;

WATCHED int inner(int i) {
    // Not first: the kernel sets no probe on an instruction with a lock.
    sink += i;
    __atomic_add_fetch(&inners, 1, __ATOMIC_RELAXED);
    return i + 1;
}

// Calls what it is given, which may never come back.
WATCHED int outer(int (*then)(int), int i) {
    __atomic_add_fetch(&outers, 1, __ATOMIC_RELAXED);
    int result = then(i);
    sink += result;
    return result + inner(i);
}

static int leaps(int i) {
    if (i % 2) longjmp(back, 1);
    return i;
}

static int sinks(int depth) {
    if (!depth) longjmp(back, 1);
    return outer(sinks, depth - 1);
}

static int ends(int i) {
    if (i % 2) pthread_exit((void *)7);
    return i;
}

static void *thread(void *number) {
    outer(ends, (int)(long)number);
    return (void *)3;
}

static int to_first(int i) { swapcontext(&second, &first); return i; }
static int to_third(int i) { swapcontext(&second, &third); return i; }
static int back_to_second(int i) { swapcontext(&third, &second); return i; }
static int to_second(int i) { swapcontext(&first, &second); return i; }

static void body_of_second(void) {
    for (int i = 0;; i++) outer(i % 3 ? to_third : to_first, i);
}

static void body_of_third(void) {
    for (int i = 0;; i++) outer(back_to_second, i);
}

static int raises(int i) { raise(SIGUSR1); return i; }
static void handler(int number) { inner(number); }

static int contexts(void) {
    size_t size = 1 << 16;
    char *stacks = mmap(0, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED) return -1;
    getcontext(&second);
    getcontext(&third);
    second.uc_stack = (stack_t){.ss_sp = stacks, .ss_size = size};
    third.uc_stack = (stack_t){.ss_sp = stacks + size, .ss_size = size};
    makecontext(&second, body_of_second, 0);
    makecontext(&third, body_of_third, 0);
    int count = 0;
    for (int i = 0; i < 100; i++) count += outer(to_second, i) == 2 * i + 1;
    return count;
}

static int signals(int is_above) {
    size_t size = 1 << 16;
    // A stack above all frames, or below.
    char here[1 << 17];
    char *stack = is_above ? here : malloc(size);
    stack_t other = {.ss_sp = stack, .ss_size = size};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, 0);
    sigaction(SIGUSR1, &action, 0);
    int count = 0;
    for (int i = 0; i < 100; i++) count += outer(raises, i) == 2 * i + 1;
    return count;
}

int main(int words, char **word) {
    getchar();
    const char *way = words > 1 ? word[1] : "";
    volatile int count = 0;
    if (!strcmp(way, "longjmp")) {
        for (volatile int i = 0; i < 200; i++) {
            if (setjmp(back)) count++;
            else outer(leaps, i);
        }
    }
    if (!strcmp(way, "deep")) {
        if (!setjmp(back)) sinks(100);
        for (int i = 0; i < 100; i++) count += inner(i) == i + 1;
    }
    if (!strcmp(way, "threads")) {
        for (long i = 0; i < 20; i++) {
            pthread_t one;
            void *result;
            pthread_create(&one, 0, thread, (void *)i);
            pthread_join(one, &result);
            count += (int)(long)result;
        }
    }
    if (!strcmp(way, "contexts")) count = contexts();
    if (!strcmp(way, "below")) count = signals(0);
    if (!strcmp(way, "above")) count = signals(1);
    printf("count inner %ld\ncount outer %ld\n%s %d\n", inners, outers, way, count);
    return count % 7;
}
