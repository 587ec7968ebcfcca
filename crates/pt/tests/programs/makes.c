/* Code that is made while the program runs, with a map of it for profilers. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
typedef int (*Function)(int, int (*)(int));
static int twice(int n) { return n * 2; }
int main(void) {
    /* push rbx; mov rbx, rsi; call rbx; cmp eax, 40; jl +2; mov edi, eax -> add eax, 1; pop rbx; ret */
    static const unsigned char code[] = {0x53, 0x48, 0x89, 0xf3, 0xff, 0xd3, 0x83, 0xf8, 0x28,
                                         0x7c, 0x03, 0x83, 0xc0, 0x05, 0x83, 0xc0, 0x01, 0x5b, 0xc3};
    unsigned char *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made + 64, code, sizeof code);
    char name[64];
    snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(name, "w");
    if (map) { fprintf(map, "%lx %zx made_function\n", (unsigned long)(made + 64), sizeof code); fclose(map); }
    int sum = 0;
    for (int i = 0; i < 200; i++) sum += ((Function)(made + 64))(i, twice);
    printf("%d\n", sum);
    unlink(name);
    return 0;
}
