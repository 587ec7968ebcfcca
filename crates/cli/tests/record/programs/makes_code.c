// Makes a function at run time, says so in its map, as runtimes do, and runs it for a while. The
// map is given to the user whose number is the first argument. With a second one there is a dump
// of the code as well, which is mapped, so that recorders know of it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

// Counts a number down: mov %rdi,%rcx; 1: dec %rcx; jnz 1b; ret.
static const unsigned char code[] = {0x48, 0x89, 0xf9, 0x48, 0xff, 0xc9, 0x75, 0xfb, 0xc3};

int main(int count, char **arguments) {
    void *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof code);
    mprotect(made, 4096, PROT_READ | PROT_EXEC);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %zx made_at_run_time\n", (unsigned long)made, sizeof code);
    fclose(map);
    if (count > 1 && chown(path, atoi(arguments[1]), -1) != 0)
        return 1;
    if (count > 2) {
        char name[64];
        snprintf(name, sizeof name, "/tmp/jit-%d.dump", getpid());
        int dump = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (write(dump, "DTiJ made by a test", 19) != 19)
            return 2;
        if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, dump, 0) == MAP_FAILED)
            return 3;
    }
    struct timespec now;
    do {
        ((void (*)(long))made)(1000000);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec * 1e-9 < 0.4);
    // The recorder looks at the map when the process has ended; who runs this takes it away.
    puts(path);
    return 0;
}
