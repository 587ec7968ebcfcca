/* Intel's own decoder, libipt, by its fastest interface, on a stream and the code beside it:
   prints how many instructions it found, the seconds and the errors, as our own does. */
#include <intel-pt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *what, int status) {
    fprintf(stderr, "%s: %s\n", what, pt_errstr(pt_errcode(status)));
    exit(1);
}

/* What it has to say in between; its own rules demand that it is asked. */
static int events(struct pt_block_decoder *decoder, int status) {
    while (status >= 0 && (status & pts_event_pending)) {
        struct pt_event event;
        status = pt_blk_event(decoder, &event, sizeof event);
    }
    return status;
}

static void decode(struct pt_config *config, struct pt_image *image) {
    struct pt_block_decoder *decoder = pt_blk_alloc_decoder(config);
    if (!decoder) fail("pt_blk_alloc_decoder", -pte_nomem);
    int status = pt_blk_set_image(decoder, image);
    if (status < 0) fail("pt_blk_set_image", status);
    unsigned long long instructions = 0, errors = 0;
    double start = now();
    while ((status = pt_blk_sync_forward(decoder)) >= 0) {
        for (;;) {
            struct pt_block block;
            block.ninsn = 0;
            status = events(decoder, status);
            if (status < 0) break;
            status = pt_blk_next(decoder, &block, sizeof block);
            instructions += block.ninsn;
            if (status < 0) break;
        }
        if (status != -pte_eos) errors++;
        else break;
    }
    printf("%llu %.6f %llu\n", instructions, now() - start, errors);
    pt_blk_free_decoder(decoder);
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "STREAM CODE ROUNDS\n"), 2;
    FILE *file = fopen(argv[1], "rb");
    if (!file) return perror(argv[1]), 1;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    unsigned char *stream = malloc((size_t)size);
    if (!stream || fread(stream, 1, (size_t)size, file) != (size_t)size) return perror(argv[1]), 1;
    struct pt_config config;
    pt_config_init(&config);
    config.begin = stream;
    config.end = stream + size;
    /* As the recorder of the tests has them. */
    config.mtc_freq = 2;
    config.nom_freq = 24;
    config.cpuid_0x15_eax = 1;
    config.cpuid_0x15_ebx = 64;
    struct pt_image *image = pt_image_alloc("stepped");
    /* Files stay mapped, and with them what it knows of their blocks: without this, it forgets
       them whenever a program goes from one file to another. */
    struct pt_image_section_cache *cache = pt_iscache_alloc("stepped");
    FILE *list = fopen(argv[2], "r");
    if (!image || !cache || !list) return perror(argv[2]), 1;
    pt_iscache_set_limit(cache, 1ull << 30);
    unsigned long long start, len;
    char path[4096];
    while (fscanf(list, "%llx %llu %4095s", &start, &len, path) == 3) {
        int section = pt_iscache_add_file(cache, path, 0, len, start);
        if (section < 0) fail(path, section);
        int status = pt_image_add_cached(image, cache, section, NULL);
        if (status < 0) fail(path, status);
    }
    for (int round = atoi(argv[3]); round > 0; round--) decode(&config, image);
    return 0;
}
