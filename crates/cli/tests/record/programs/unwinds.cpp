// Exceptions that pass functions whose calls are recorded. It says how often each was called, and
// what came of it; an argument says which way, and how deep.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#define WATCHED extern "C" __attribute__((noinline, noclone))

static volatile long sink;
static long leafs, deeps, agains, carries, firms, cleaned;

struct Cleans {
    ~Cleans() { cleaned++; }
};

WATCHED int leaf(int i) {
    leafs++;
    if (i % 2) throw i;
    return i;
}

WATCHED int deep(int depth, int i) {
    Cleans cleans;
    deeps++;
    int result = depth > 1 ? deep(depth - 1, i) : leaf(i);
    sink += result;
    return result;
}

// Catches in between, and throws the same again.
WATCHED int again(int i) {
    agains++;
    try {
        return deep(2, i);
    } catch (int &found) {
        sink += found;
        throw;
    }
}

// What was thrown in one thread is thrown again in another.
WATCHED int carry(int i) {
    carries++;
    std::exception_ptr thrown;
    std::thread([&] {
        try {
            deep(3, i);
        } catch (...) {
            thrown = std::current_exception();
        }
    }).join();
    if (thrown) std::rethrow_exception(thrown);
    return i;
}

// Ends the program where something is thrown.
WATCHED int firm(int i) noexcept {
    firms++;
    return deep(1, i);
}

static void tell() {
    printf("count leaf %ld\ncount deep %ld\ncount again %ld\ncount carry %ld\ncount firm %ld\n",
           leafs, deeps, agains, carries, firms);
    printf("cleaned %ld\n", cleaned);
    fflush(stdout);
}

static int caught(int (*what)(int), int rounds) {
    int count = 0;
    for (int i = 0; i < rounds; i++) {
        try {
            what(i);
        } catch (int) {
            count++;
        }
    }
    return count;
}

static int depth;

int main(int count, char **words) {
    getchar();
    const char *way = count > 1 ? words[1] : "";
    depth = count > 2 ? atoi(words[2]) : 1;
    int found = 0;
    if (!strcmp(way, "throw")) found = caught([](int i) { return deep(depth, i); }, 100);
    if (!strcmp(way, "again")) found = caught(again, 100);
    if (!strcmp(way, "carry")) found = caught(carry, 20);
    if (!strcmp(way, "firm")) {
        firm(0);
        std::set_terminate([] {
            tell();
            abort();
        });
        firm(1);
    }
    tell();
    printf("caught %d\n", found);
    return found % 7;
}
