/* Built-in functions: code of libvgc-builtins.so, whose blocks run on the PEs as those of kernels do.
 *
 * A launch is a grid of one block, which plans the call. The steps of the plan are grids that wait for the end of the
 * one before, as those of kernels that launch others do. Small calls are done by the first block. */
#include "cpu_engine.h"

#include "builtins/vgc_builtins.h"
#include "engines/cpu/builtins/vgc_cpu_builtins.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)VGC_CPU_WHY == (int)VGC_BUILTIN_WHY, "texts have room");
_Static_assert((int)VGC_CPU_WORKSPACE <= (int)CPU_ALIGN, "workspaces are aligned");
_Static_assert((int)VGC_CPU_STEPS < (int)CPU_MAX_TAILS, "a plan fits");

/* The parts of a call, as kernels of which a block has one thread. */
enum { PLAN, STEP, END, NUM_PARTS };

enum { ROW_BLOCKS = 1 << 20 }; /* of the grid of a step with more */

struct cpu_builtin {
    struct vgc_cpu_kernel_desc parts[NUM_PARTS]; /* must be first */
    const struct vgc_builtin *builtin;
    struct cpu_builtin *next;
};

struct cpu_builtins {
    int (*open)(const char *openblas_path, char *why);
    int (*usable)(const struct vgc_builtin *builtin);
    uint64_t (*workspace)(const struct vgc_builtin *builtin, const void *params, uint32_t num_pes);
    uint32_t (*plan)(const struct vgc_builtin *builtin, const void *params, void *workspace, uint32_t num_pes,
                     struct vgc_cpu_step *steps);
    const char *(*failed)(const void *workspace);
    struct cpu_builtin *first;
};

/* ---- running them ------------------------------------------------------------------------------------------- */

static const struct cpu_builtin *running(const struct cpu_pe *pe, int part)
{
    return (const struct cpu_builtin *)(const void *)(pe->inner->kernel - part);
}

static void *workspace_of(const struct cpu_pe *pe)
{
    return (void *)(uintptr_t)pe->inner->op->workspace; // NOLINT(performance-no-int-to-ptr)
}

/* Ends the launch with an error if the call has failed. */
static void check_end(struct cpu_pe *pe, const void *workspace)
{
    const char *why = pe->engine->builtins->failed(workspace);
    if (why != NULL)
        cpu_fail_launch(pe, VGC_STATUS_INVALID_ARGUMENT, "%s: %s", pe->inner->kernel->name, why);
}

static void run_behind(struct cpu_pe *pe, const struct vgc_cpu_kernel_desc *part, uint64_t blocks,
                       const struct vgc_cpu_step *step)
{
    uint64_t rows = (blocks + ROW_BLOCKS - 1) / ROW_BLOCKS;
    struct cpu_grid grid = {.kernel = part,
                            .grid = {blocks < ROW_BLOCKS ? (uint32_t)blocks : ROW_BLOCKS, (uint32_t)rows, 1},
                            .block = {1, 1, 1},
                            .params = (const uint8_t *)step};
    if (rows > UINT32_MAX || !cpu_add_tail(pe->engine, pe->inner, &grid))
        cpu_fail_launch(pe, VGC_STATUS_RESOURCES_EXHAUSTED, "no memory for the steps of '%s'", part->name);
}

static int32_t run_plan(struct vgc_cpu_ctx *ctx, uint32_t first, uint32_t last, const uint64_t *table)
{
    (void)first, (void)last, (void)table;
    struct cpu_pe *pe = (struct cpu_pe *)ctx;
    const struct cpu_builtin *self = running(pe, PLAN);
    _Alignas(VGC_CPU_WORKSPACE) uint8_t small[VGC_CPU_SMALL];
    void *workspace = pe->inner->op->workspace != 0 ? workspace_of(pe) : small;
    struct vgc_cpu_step steps[VGC_CPU_STEPS];
    uint32_t count = pe->engine->builtins->plan(self->builtin, ctx->params, workspace, pe->engine->base.num_pes, steps);
    if (count == 0)
        return VGC_REGION_EXIT;
    if (count == 1 && steps[0].blocks == 1) {
        steps[0].run(&steps[0], 0);
        check_end(pe, workspace);
        return VGC_REGION_EXIT;
    }
    for (uint32_t i = 0; i < count; i++)
        run_behind(pe, &self->parts[STEP], steps[i].blocks, &steps[i]);
    run_behind(pe, &self->parts[END], 1, &steps[0]);
    return VGC_REGION_EXIT;
}

static int32_t run_step(struct vgc_cpu_ctx *ctx, uint32_t first, uint32_t last, const uint64_t *table)
{
    (void)first, (void)last, (void)table;
    const struct vgc_cpu_step *step = (const struct vgc_cpu_step *)(const void *)ctx->params;
    uint64_t block = ctx->block_idx[0] + (uint64_t)ctx->block_idx[1] * ctx->grid_dim[0];
    if (block < step->blocks)
        step->run(step, block);
    return VGC_REGION_EXIT;
}

static int32_t run_end(struct vgc_cpu_ctx *ctx, uint32_t first, uint32_t last, const uint64_t *table)
{
    (void)first, (void)last, (void)table;
    check_end((struct cpu_pe *)ctx, workspace_of((struct cpu_pe *)ctx));
    return VGC_REGION_EXIT;
}

/* Faults are reported as they are: a block has one thread. */
static const struct vgc_cpu_site SITES[NUM_PARTS] = {
    [PLAN] = {.resume = run_plan, .kind = VGC_SITE_ENTRY, .flags = VGC_SITE_KEEPS_POSITION},
    [STEP] = {.resume = run_step, .kind = VGC_SITE_ENTRY, .flags = VGC_SITE_KEEPS_POSITION},
    [END] = {.resume = run_end, .kind = VGC_SITE_ENTRY, .flags = VGC_SITE_KEEPS_POSITION},
};

uint64_t cpu_builtin_bytes(struct cpu_engine *engine, const struct vgc_op *op)
{
    return engine->builtins->workspace(op->kernel->builtin, op->params, engine->base.num_pes);
}

bool cpu_builtin_is_ready(struct cpu_engine *engine, const struct vgc_op *op)
{
    if (op->workspace != 0 && !cpu_guards_stay())
        return true;
    uint64_t size = cpu_builtin_bytes(engine, op);
    return size == 0 || cpu_enter_workspace(op, size);
}

const char *cpu_builtin_name_at(const struct cpu_engine *engine, uint64_t address)
{
    const struct cpu_builtin *one = engine->builtins != NULL ? engine->builtins->first : NULL;
    while (one != NULL && (uintptr_t)one->builtin->name != address)
        one = one->next;
    return one != NULL ? one->builtin->name : NULL;
}

/* ---- loading ------------------------------------------------------------------------------------------------ */

void *cpu_find_builtin(struct vgc_engine *base, const struct vgc_builtin *builtin)
{
    struct cpu_builtins *builtins = cpu_engine_of(base)->builtins;
    if (builtins == NULL || !builtins->usable(builtin))
        return NULL;
    struct cpu_builtin *one = calloc(1, sizeof(*one));
    if (one == NULL)
        return NULL;
    for (uint32_t part = 0; part < NUM_PARTS; part++)
        one->parts[part] = (struct vgc_cpu_kernel_desc){
            .name = builtin->name,
            .short_name = builtin->name,
            .sites = &SITES[part],
            .num_sites = 1,
            .param_bytes = part == PLAN ? builtin->param_bytes : (uint32_t)sizeof(struct vgc_cpu_step),
            .max_threads = 1,
            .cluster = {1, 1, 1}};
    one->builtin = builtin;
    one->next = builtins->first;
    builtins->first = one;
    return one;
}

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

static bool find_all(void *library, struct cpu_builtins *builtins)
{
    return find(library, "vgc_cpu_builtins_open", &builtins->open) &&
           find(library, "vgc_cpu_builtin_usable", &builtins->usable) &&
           find(library, "vgc_cpu_builtin_workspace", &builtins->workspace) &&
           find(library, "vgc_cpu_builtin_plan", &builtins->plan) &&
           find(library, "vgc_cpu_builtin_failed", &builtins->failed);
}

int vgc_cpu_builtins_load(struct vgc_engine *base, const char *library, const char *openblas, char *why)
{
    struct cpu_engine *engine = cpu_engine_of(base);
    struct cpu_builtins *builtins = calloc(1, sizeof(*builtins));
    void *loaded = builtins == NULL ? NULL : dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL || !find_all(loaded, builtins)) {
        const char *error = dlerror();
        snprintf(why, VGC_CPU_WHY, "%s: %s", library, error != NULL ? error : "no memory");
        free(builtins);
        return -1;
    }
    engine->builtins = builtins;
    if (openblas[0] == '\0')
        return 0;
    return builtins->open(openblas, why) == 0 ? 0 : -1;
}

void cpu_builtins_free(struct cpu_engine *engine)
{
    if (engine->builtins == NULL)
        return;
    for (struct cpu_builtin *one = engine->builtins->first, *next; one != NULL; one = next) {
        next = one->next;
        free(one);
    }
    free(engine->builtins);
}
