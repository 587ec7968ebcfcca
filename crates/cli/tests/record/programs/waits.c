// Waits in one way, so often, and prints how long in all: nanoseconds of the clock around each wait.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t waited;
static int count;

static int ends[2];

// Writes one byte every few milliseconds.
static void *writer(void *unused) {
    for (int i = 0; i < count; i++) {
        usleep(5000);
        if (write(ends[1], "x", 1) != 1) abort();
    }
    return NULL;
}

static void read_bytes(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, writer, NULL);
    for (int i = 0; i < count; i++) {
        char byte;
        int64_t start = now();
        if (read(ends[0], &byte, 1) != 1) abort();
        waited += now() - start;
    }
    pthread_join(thread, NULL);
}

static void wait_for_disk(void) {
    int file = open("written", O_CREAT | O_RDWR | O_TRUNC, 0600);
    static char page[4096];
    for (int i = 0; i < count; i++) {
        if (pwrite(file, page, sizeof page, i * 4096L) != sizeof page) abort();
        int64_t start = now();
        fsync(file);
        waited += now() - start;
    }
    unlink("written");
}

static void wait_in_epoll(void) {
    int poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    pipe(ends);
    epoll_ctl(poll, EPOLL_CTL_ADD, ends[0], &event);
    for (int i = 0; i < count; i++) {
        int64_t start = now();
        epoll_wait(poll, &event, 1, 5);
        waited += now() - start;
    }
}

static void wait_for_children(void) {
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            usleep(5000);
            _exit(0);
        }
        int64_t start = now();
        waitpid(child, NULL, 0);
        waited += now() - start;
    }
}

static void be_stopped(void) {
    pid_t self = getpid();
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            usleep(20000);
            kill(self, SIGCONT);
            _exit(0);
        }
        int64_t start = now();
        raise(SIGSTOP);
        waited += now() - start;
        waitpid(child, NULL, 0);
    }
}

static void wait_for_file_lock(void) {
    for (int i = 0; i < count; i++) {
        int ready[2];
        pipe(ready);
        pid_t child = fork();
        if (child == 0) {
            int file = open("locked", O_CREAT | O_RDWR, 0600);
            flock(file, LOCK_EX);
            if (write(ready[1], "x", 1) != 1) abort();
            usleep(10000);
            _exit(0);
        }
        char byte;
        if (read(ready[0], &byte, 1) != 1) abort();
        int file = open("locked", O_CREAT | O_RDWR, 0600);
        int64_t start = now();
        flock(file, LOCK_EX);
        waited += now() - start;
        close(file);
        waitpid(child, NULL, 0);
    }
}

static void nap(void) {
    for (int i = 0; i < count; i++) {
        int64_t start = now();
        usleep(5000);
        waited += now() - start;
    }
}

// Two functions that wait briefly, the one for three times as long as the other.
__attribute__((noinline)) static int64_t wait_briefly(long microseconds) {
    int64_t start = now();
    usleep(microseconds);
    return now() - start;
}

__attribute__((noinline)) static int64_t wait_a_third(void) {
    int64_t time = wait_briefly(50);
    __asm__ volatile("");
    return time;
}

__attribute__((noinline)) static int64_t wait_longer(void) {
    int64_t time = wait_briefly(350);
    __asm__ volatile("");
    return time;
}

static void wait_in_two(void) {
    int64_t third = 0;
    for (int i = 0; i < count; i++) {
        third += wait_a_third();
        waited += wait_longer();
    }
    printf("%lld ", (long long)third);
}

// The program is on one processor with one that never waits: who is woken waits for it.
static volatile int64_t woken_at;
// Whether a wake-up preempts, and so costs no wait, is up to the kernel: some are repeated until
// there was enough to compare.
static const int64_t enough_ns = 25000000;
static volatile int is_done;

static void *busy(void *unused) {
    for (;;) __asm__ volatile("");
    return NULL;
}

static void *waker(void *unused) {
    cpu_set_t others;
    CPU_ZERO(&others);
    for (int i = 1; i < CPU_SETSIZE; i++) CPU_SET(i, &others);
    sched_setaffinity(0, sizeof others, &others);
    while (!is_done) {
        usleep(15000);
        woken_at = now();
        if (write(ends[1], "x", 1) != 1) abort();
    }
    return NULL;
}

static void wait_for_a_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, busy, NULL);
    pipe(ends);
    pthread_create(&threads[2], NULL, waker, NULL);
    // The others are not interrupted for its sake.
    struct sched_param none = {0};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    for (int i = 0; i < count || (waited < enough_ns && i < 20 * count); i++) {
        char byte;
        if (read(ends[0], &byte, 1) != 1) abort();
        waited += now() - woken_at;
    }
    is_done = 1;
}

enum { BLOCK = 1 << 16 };

// Writes a file of so many blocks to the disk, for those that read it.
static void write_file(void) {
    int file = open("blocks", O_CREAT | O_RDWR | O_TRUNC, 0600);
    static char block[BLOCK];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < count; i++)
        if (write(file, block, sizeof block) != sizeof block) abort();
    fsync(file);
}

// The file, which is on the disk and nowhere else.
static int file_on_disk(int flags) {
    int file = open("blocks", O_RDONLY | flags);
    if (file < 0) exit(3);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    return file;
}

static void read_from_disk(void) {
    int file = file_on_disk(O_DIRECT);
    void *block;
    if (posix_memalign(&block, 4096, BLOCK)) abort();
    for (int i = 0; i < count; i++) {
        int64_t start = now();
        if (pread(file, block, BLOCK, (off_t)i * BLOCK) != BLOCK) abort();
        waited += now() - start;
    }
}

static void touch_pages(void) {
    int file = file_on_disk(0);
    char *pages = mmap(NULL, (size_t)count * BLOCK, PROT_READ, MAP_SHARED, file, 0);
    if (pages == MAP_FAILED) abort();
    // Without what is read ahead each block is a fault of its own.
    madvise(pages, (size_t)count * BLOCK, MADV_RANDOM);
    volatile char sum = 0;
    for (int i = 0; i < count; i++) {
        int64_t start = now();
        sum += pages[(size_t)i * BLOCK];
        waited += now() - start;
    }
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int given;

static void *gives(void *unused) {
    for (int i = 0; i < count; i++) {
        usleep(5000);
        pthread_mutex_lock(&mutex);
        given++;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void wait_for_condition(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, gives, NULL);
    pthread_mutex_lock(&mutex);
    for (int taken = 0; taken < count; taken++) {
        int64_t start = now();
        while (given <= taken) pthread_cond_wait(&condition, &mutex);
        waited += now() - start;
    }
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

__attribute__((noinline)) static void work_for(int64_t ns) {
    int64_t end = now() + ns;
    while (now() < end) __asm__ volatile("");
}

// Has the mutex, and works meanwhile, again and again, like the others.
static void *holds(void *unused) {
    for (;;) {
        int64_t start = now();
        pthread_mutex_lock(&mutex);
        waited += now() - start;
        int is_last = ++given > count;
        if (!is_last) work_for(10000000);
        pthread_mutex_unlock(&mutex);
        if (is_last) return NULL;
        usleep(100);
    }
}

static void wait_for_mutex(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, holds, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

// More threads than there are processors for them, all at work.
static void *works(void *unused) {
    int64_t *end = unused;
    while (now() < *end) __asm__ volatile("");
    return NULL;
}

static void crowd(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    pthread_t threads[24];
    int64_t start = now(), end = start + count * 50000000LL;
    for (int i = 0; i < 24; i++) pthread_create(&threads[i], NULL, works, &end);
    for (int i = 0; i < 24; i++) pthread_join(threads[i], NULL);
    waited = now() - start;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    count = argc > 2 ? atoi(argv[2]) : 20;
    if (!strcmp(how, "fsync")) wait_for_disk();
    if (!strcmp(how, "pipe")) pipe(ends), read_bytes();
    if (!strcmp(how, "socket")) socketpair(AF_UNIX, SOCK_STREAM, 0, ends), read_bytes();
    if (!strcmp(how, "epoll")) wait_in_epoll();
    if (!strcmp(how, "write")) write_file();
    if (!strcmp(how, "read")) read_from_disk();
    if (!strcmp(how, "fault")) touch_pages();
    if (!strcmp(how, "condition")) wait_for_condition();
    if (!strcmp(how, "mutex")) wait_for_mutex();
    if (!strcmp(how, "crowd")) crowd();
    if (!strcmp(how, "child")) wait_for_children();
    if (!strcmp(how, "stop")) be_stopped();
    if (!strcmp(how, "flock")) wait_for_file_lock();
    if (!strcmp(how, "sleep")) nap();
    if (!strcmp(how, "brief")) wait_in_two();
    if (!strcmp(how, "processor")) wait_for_a_processor();
    printf("%lld\n", (long long)waited);
    return 0;
}
