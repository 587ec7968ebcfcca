// Exceptions through several frames, with destructors on the way.
#include <cstdio>
#include <stdexcept>
#include <string>
struct Guard { int *count; ~Guard() { ++*count; } };
static int dive(int depth, int *count) {
    Guard guard{count};
    if (depth == 0) throw std::runtime_error("bottom");
    return dive(depth - 1, count) + 1;
}
int main() {
    int count = 0;
    for (int i = 0; i < 3; i++) {
        try { dive(i * 3, &count); } catch (const std::exception &e) { count += e.what()[0]; }
    }
    std::printf("%d\n", count);
}
