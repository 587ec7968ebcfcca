// Each thread makes the next one and ends, so that a recorder never sees them all at once. In the
// middle of that a library is loaded; when a recorder watches it, or after a while, the thread
// whose turn it is calls a function of the library, and the program ends.
// Argument: the path of the library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic(void (*)(void)) planted;
static atomic_int is_done;

static void *link_of_chain(void *unused) {
    pthread_setname_np(pthread_self(), "link");
    void (*call)(void) = atomic_load(&planted);
    if (call) {
        call();
        atomic_store(&is_done, 1);
        return unused;
    }
    usleep(100);
    pthread_t next;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&next, &detached, link_of_chain, 0) != 0) _exit(3);
    return unused;
}

// Whether somebody has defined a probe in the file.
static int is_watched(const char *path) {
    char line[4096];
    int found = 0;
    FILE *probes = fopen("/sys/kernel/tracing/uprobe_events", "r");
    while (probes && fgets(line, sizeof line, probes)) found |= strstr(line, path) != NULL;
    if (probes) fclose(probes);
    return found;
}

int main(int count, char **words) {
    (void)count;
    link_of_chain(0);
    usleep(50 * 1000);
    void *library = dlopen(words[1], RTLD_NOW);
    if (!library) return 2;
    for (int i = 0; i < 1000 && !is_watched(words[1]); i++) usleep(10 * 1000);
    usleep(500 * 1000);
    atomic_store(&planted, (void (*)(void))dlsym(library, "planted"));
    for (int i = 0; i < 1000 && !atomic_load(&is_done); i++) usleep(10 * 1000);
    usleep(300 * 1000);
    return !atomic_load(&is_done);
}
