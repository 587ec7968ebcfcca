// A library with the function that a recorder watches for.
volatile unsigned long sink;

__attribute__((noinline)) void planted(void) { sink++; }
