// Functions that end with jumps to others: always, under a condition, through a pointer, through a
// table of code. It says how often each was called.
#include <stdio.h>

#define WATCHED __attribute__((noinline, noclone))

static volatile long sink;
static long counts[6];

typedef long (*Next)(long);

WATCHED long last(long x) { counts[0]++; return sink += x; }
WATCHED long twice(long x) { counts[1]++; return sink += 2 * x; }

WATCHED long always(long x) { counts[2]++; return last(x + 1); }

WATCHED long sometimes(long i, long x) {
    counts[3]++;
    if (i & 1) return twice(x);
    return x + sink;
}

static Next pointers[2] = {last, twice};

struct Object { long number; Next next; };

WATCHED long by_pointer(const struct Object *object, long x) {
    counts[4]++;
    if (!x) return 7;
    return object->next(x);
}

WATCHED long by_table(long i, long x) {
    counts[5]++;
    switch (i % 9) {
        case 0: return last(x);
        case 1: return x * 3;
        case 2: return x ^ 5;
        case 3: return twice(x + 1);
        case 4: return x - 9;
        case 5: sink++; return x;
        case 6: return always(x);
        case 7: return x + sink;
        default: return pointers[x & 1](x);
    }
}

int main(void) {
    getchar();
    long sum = 0;
    for (long i = 0; i < 180; i++) {
        struct Object object = {i, pointers[i & 1]};
        sum += always(i) + sometimes(i, i) + by_pointer(&object, i % 5) + by_table(i, i);
    }
    printf("count last %ld\ncount twice %ld\ncount always %ld\n", counts[0], counts[1], counts[2]);
    printf("count sometimes %ld\ncount by_pointer %ld\ncount by_table %ld\nsum %ld\n", counts[3],
           counts[4], counts[5], sum);
    return sum % 7;
}
