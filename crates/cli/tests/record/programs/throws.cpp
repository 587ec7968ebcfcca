// Calls itself to a known depth, works there, and throws through all of it.
#include <cstdlib>
#include <ctime>

static volatile unsigned long sink;

struct Thrown {
    int depth;
};

__attribute__((noinline)) void leaf_work() {
    for (unsigned long i = 0; i < 300000; i++) sink = sink + i * i;
}

namespace deep {
__attribute__((noinline)) int descend(int depth) {
    if (depth == 0) {
        leaf_work();
        throw Thrown{0};
    }
    int below = descend(depth - 1);
    sink = sink + 1;
    return below + 1;
}
}  // namespace deep

int main(int, char **words) {
    int caught = 0;
    clock_t end = clock() + CLOCKS_PER_SEC * 4 / 10;
    while (clock() < end) {
        try {
            sink = sink + deep::descend(std::atoi(words[1]));
        } catch (const Thrown &) {
            caught++;
        }
    }
    return caught == 0;
}
