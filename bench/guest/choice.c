/* Measures what choosing a side costs and loses: calls by name of functions that the device and this process have.
 *
 *     choice regret BUDGET_NS SEED   lines "FUNCTION SIZE CALLS TOOK HOST CPU": nanoseconds of all calls on the chosen
 *                                    sides, on the host alone, on the CPU alone
 *     choice decision ROUNDS         lines with the nanoseconds of one decision, among 10,000 functions
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "vgc.h"

enum { SIZES = 20, MOST = 1 << 19, LEAST_CALLS = 40, MOST_CALLS = 4000, BLOCK = 256, FUNCTIONS = 10000, BATCH = 1000 };

static const char SOURCE[] = "extern \"C\" __global__ void scale(int n, const float *x, float *y)\n"
                             "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i] + 1; }\n"
                             "extern \"C\" __global__ void polynomial(int n, const float *x, float *y)\n"
                             "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float r = 1;\n"
                             "  for (int k = 0; k < 64; k++) r = r * x[i] + 0.5f; y[i] = r; }\n"
                             "extern \"C\" __global__ void roots(int n, const float *x, float *y)\n"
                             "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float r = 1;\n"
                             "  for (int k = 0; k < 60; k++) r = 0.5f * (r + x[i] / r); y[i] = r; }\n";

static float *x, *y;
static int n; /* of the current call */
static struct vgc_arg args[3];

static void must(int result, const char *what)
{
    if (result != VGC_OK) {
        fprintf(stderr, "%s: %s\n", what, vgc_last_error());
        exit(1);
    }
}

static void scale(void)
{
    for (int i = 0; i < n; i++)
        y[i] = 2 * x[i] + 1;
}

static void polynomial(void)
{
    for (int i = 0; i < n; i++) {
        float r = 1;
        for (int k = 0; k < 64; k++)
            r = r * x[i] + 0.5f;
        y[i] = r;
    }
}

static void roots(void)
{
    for (int i = 0; i < n; i++) {
        float r = 1;
        for (int k = 0; k < 60; k++)
            r = 0.5f * (r + x[i] / r);
        y[i] = r;
    }
}

static const struct {
    const char *name;
    void (*local)(void);
} SUBJECTS[] = {{"scale", scale}, {"polynomial", polynomial}, {"roots", roots}};

static void take_size(int count)
{
    n = count;
    args[0] = (struct vgc_arg){.direction = VGC_ARG_VALUE, .size = sizeof(n), .data = &n};
    args[1] = (struct vgc_arg){.direction = VGC_ARG_IN, .size = (uint64_t)n * sizeof(float), .data = x};
    args[2] = (struct vgc_arg){.direction = VGC_ARG_OUT, .size = (uint64_t)n * sizeof(float), .data = y};
}

/* Local call, as vgc_call_named() makes it: OUT buffers begin with zeros. */
static uint64_t on_cpu(int subject)
{
    uint64_t begin = vgcb_now_ns();
    memset(y, 0, args[2].size);
    SUBJECTS[subject].local();
    return vgcb_now_ns() - begin;
}

static uint64_t on_host(struct vgc_device *device, int subject)
{
    struct vgc_geometry geometry = {.grid = {(uint32_t)((n + BLOCK - 1) / BLOCK), 1, 1}, .block = {BLOCK, 1, 1}};
    uint64_t begin = vgcb_now_ns();
    must(vgc_call(device, SUBJECTS[subject].name, &geometry, args, 3, NULL), "call");
    return vgcb_now_ns() - begin;
}

struct tally {
    int size;
    int calls;
    int left;
    uint64_t took;
    uint64_t host;
    uint64_t cpu;
};

/* Both sides do the call; the table hears of the one that it has chosen. */
static void measure(struct vgc_device *device, int subject, struct tally *tally)
{
    struct vgc_choice choice;
    take_size(tally->size);
    uint64_t begin = vgcb_now_ns();
    must(vgc_choose(device, SUBJECTS[subject].name, args, 3, NULL, &choice), "choose");
    uint64_t decision = vgcb_now_ns() - begin;
    uint64_t host = on_host(device, subject);
    uint64_t cpu = on_cpu(subject);
    uint64_t took = choice.side == VGC_SIDE_CPU ? cpu : host;
    (void)vgc_choice_end(device, SUBJECTS[subject].name, &choice, VGC_OK, took);
    tally->took += took + decision;
    tally->host += host;
    tally->cpu += cpu;
}

/* Short calls are more frequent, so that each size takes about as long. */
static void plan(int subject, struct tally tallies[SIZES], uint64_t budget_ns)
{
    for (int i = 0; i < SIZES; i++) {
        tallies[i] = (struct tally){.size = (int)(16 * pow(MOST / 16.0, i / (SIZES - 1.0)))};
        take_size(tallies[i].size);
        uint64_t calls = budget_ns / (on_cpu(subject) + 1);
        tallies[i].calls = tallies[i].left = (int)(calls < LEAST_CALLS  ? LEAST_CALLS
                                                   : calls > MOST_CALLS ? MOST_CALLS
                                                                        : calls);
    }
}

static void regret(struct vgc_device *device, uint64_t budget_ns, unsigned seed)
{
    struct tally tallies[SIZES];
    for (int subject = 0; subject < 3; subject++) {
        int left = 0;
        plan(subject, tallies, budget_ns);
        for (int i = 0; i < SIZES; i++)
            left += tallies[i].calls;
        for (; left > 0; left--) { /* in random order */
            int pick = (int)((double)rand_r(&seed) / RAND_MAX * (left - 1));
            int i = 0;
            for (; pick >= tallies[i].left; i++)
                pick -= tallies[i].left;
            tallies[i].left--;
            measure(device, subject, &tallies[i]);
        }
        for (int i = 0; i < SIZES; i++)
            printf("%s %d %d %llu %llu %llu\n", SUBJECTS[subject].name, 8 * tallies[i].size, tallies[i].calls,
                   (unsigned long long)tallies[i].took, (unsigned long long)tallies[i].host,
                   (unsigned long long)tallies[i].cpu);
    }
}

static void decision(struct vgc_device *device, long rounds)
{
    static char names[FUNCTIONS][32];
    struct vgc_choice choice;
    for (int i = 0; i < FUNCTIONS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "a function, number %d", i);
        must(vgc_local_register(device, names[i], NULL, NULL), "register");
        for (int call = 0; call < 8; call++) {
            take_size(1024);
            must(vgc_choose(device, names[i], args, 3, NULL, &choice), "choose");
            (void)vgc_choice_end(device, names[i], &choice, VGC_OK, choice.side == VGC_SIDE_CPU ? 1000 : 30000);
        }
    }
    for (long i = 0; i < rounds; i++) {
        uint64_t begin = vgcb_now_ns();
        for (int call = 0; call < BATCH; call++)
            must(vgc_choose(device, names[(call * 7919l + i) % FUNCTIONS], args, 3, NULL, &choice), "choose");
        printf("%.1f\n", (double)(vgcb_now_ns() - begin) / BATCH);
    }
}

int main(int argc, char **argv)
{
    struct vgc_device *device;
    struct vgc_program *program;
    if (argc < 3) {
        fprintf(stderr, "usage: %s regret BUDGET_NS SEED | decision ROUNDS\n", argv[0]);
        return 2;
    }
    x = malloc(MOST * sizeof(float));
    y = malloc(MOST * sizeof(float));
    for (int i = 0; x != NULL && y != NULL && i < MOST; i++)
        x[i] = (float)(i % 1000 + 1) / 1000;
    must(vgc_open(NULL, &device), "open");
    must(vgc_program_load(device, VGC_SOURCE_CUDA, SOURCE, sizeof(SOURCE) - 1, NULL, 0, &program), "load");
    for (int subject = 0; subject < 3; subject++)
        must(vgc_local_register(device, SUBJECTS[subject].name, NULL, NULL), "register");
    if (strcmp(argv[1], "regret") == 0)
        regret(device, strtoull(argv[2], NULL, 10), argc > 3 ? (unsigned)atoi(argv[3]) : 1);
    else
        decision(device, strtol(argv[2], NULL, 10));
    vgc_close(device);
    return 0;
}
