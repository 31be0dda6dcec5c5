/* Profiles: while a PE works on a launch of a program that was compiled with --profile, a thread of the worker
 * interrupts it each millisecond, and the handler counts the instruction that it was at. When the launch has ended, its
 * output gets a line of text for each line of the source, the one with most samples first.
 *
 * The sandbox has no timers of threads and no performance counters; signals to its own threads it has. */
#define _GNU_SOURCE
#include "cpu_profile.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SCANNED_WORDS = 512, PROBES = 32, PRINTED_LINES = 32 };

/* Samples of a launch by line; engine's lock. */
struct cpu_profile {
    uint64_t total;
    uint64_t elsewhere; /* in the runtime, or where no line is known */
    uint32_t count;
    struct {
        const char *file;
        uint32_t line;
        uint64_t samples;
    } lines[CPU_PROFILED_LINES];
};

/* ---- taking samples ----------------------------------------------------------------------------------------- */

static bool is_code(const struct cpu_samples *samples, uint64_t address)
{
    return address >= samples->first_code && address < samples->last_code;
}

/* The instruction of the program that the PE is at, or in a call of; 0: none. Functions of the runtime keep no chain of
 * frames: the first word on the stack that is an address of code is where they return to. Sanitizers would mind that it
 * looks between the variables of other functions. */
__attribute__((no_sanitize("address"))) static uint64_t program_counter(const struct cpu_pe *pe,
                                                                        const ucontext_t *context)
{
    uint64_t counter = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    if (is_code(pe->samples, counter))
        return counter;
    uint64_t stack = ((uint64_t)context->uc_mcontext.gregs[REG_RSP] + 7) & ~UINT64_C(7);
    uint64_t low = (uint64_t)(uintptr_t)pe->stack_low, high = low + CPU_STACK_BYTES;
    for (uint32_t i = 0; i < SCANNED_WORDS && stack >= low && stack + sizeof(uint64_t) <= high; i++) {
        typedef const volatile uint64_t __attribute__((may_alias)) any_word;
        uint64_t word = *(any_word *)(uintptr_t)stack;
        if (is_code(pe->samples, word))
            return word - 1; /* of the call */
        stack += sizeof(uint64_t);
    }
    return 0;
}

static void count(struct cpu_samples *samples, uint64_t address)
{
    uint64_t hash = address * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t slot = (uint32_t)(hash + i) & (CPU_SAMPLED_PLACES - 1);
        if (samples->places[slot].count != 0 && samples->places[slot].address != address)
            continue;
        samples->places[slot].address = address;
        samples->places[slot].count++;
        return;
    }
    samples->lost++;
}

static void on_sample(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    struct cpu_pe *pe = cpu_current_pe();
    if (pe == NULL || !atomic_load_explicit(&pe->is_sampled, memory_order_acquire))
        return;
    uint64_t address = program_counter(pe, context);
    pe->samples->taken++;
    if (address != 0)
        count(pe->samples, address);
    else
        pe->samples->elsewhere++;
}

/* ---- the sampler's thread ----------------------------------------------------------------------------------- */

static void *sampler_main(void *argument)
{
    struct cpu_engine *engine = argument;
    struct cpu_sampler *sampler = &engine->sampler;
    pthread_setname_np(pthread_self(), "vgc-sampler");
    pthread_mutex_lock(&sampler->lock);
    while (!sampler->closing) {
        if (sampler->sampled_pes == 0) {
            pthread_cond_wait(&sampler->work, &sampler->lock);
            continue;
        }
        for (uint32_t i = 0; i < engine->base.num_pes; i++)
            if (atomic_load_explicit(&engine->pes[i].is_sampled, memory_order_relaxed))
                pthread_kill(engine->pes[i].thread, SIGPROF);
        pthread_mutex_unlock(&sampler->lock);
        nanosleep(&(struct timespec){.tv_nsec = CPU_SAMPLE_NS}, NULL);
        pthread_mutex_lock(&sampler->lock);
    }
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

/* Sampler's lock held. */
static bool start_sampler(struct cpu_engine *engine)
{
    struct cpu_sampler *sampler = &engine->sampler;
    struct sigaction action = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    sigset_t blocked, before;
    if (sampler->is_started || sampler->closing)
        return !sampler->closing;
    if (sigaction(SIGPROF, &action, NULL) != 0)
        return false;
    sigfillset(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    sampler->is_started = pthread_create(&sampler->thread, NULL, sampler_main, engine) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return sampler->is_started;
}

void cpu_sampler_stop(struct cpu_engine *engine)
{
    struct cpu_sampler *sampler = &engine->sampler;
    pthread_mutex_lock(&sampler->lock);
    sampler->closing = true;
    pthread_cond_signal(&sampler->work);
    pthread_mutex_unlock(&sampler->lock);
    if (sampler->is_started)
        pthread_join(sampler->thread, NULL);
}

/* ---- a PE's launch ------------------------------------------------------------------------------------------ */

void cpu_profile_begin(struct cpu_pe *pe, const struct cpu_launch *launch)
{
    struct cpu_engine *engine = pe->engine;
    struct cpu_elf elf;
    if ((launch->kernel->flags & VGC_CPU_KERNEL_PROFILE) == 0)
        return;
    if (pe->samples == NULL)
        pe->samples = calloc(1, sizeof(*pe->samples));
    if (pe->samples == NULL || !cpu_find_image(engine, (uint64_t)(uintptr_t)launch->kernel, false, &elf))
        return;
    if (pe->samples->taken != 0)
        memset(pe->samples, 0, sizeof(*pe->samples));
    if (!cpu_code_range(&elf, &pe->samples->first_code, &pe->samples->last_code))
        return;
    pthread_mutex_lock(&engine->sampler.lock);
    if (start_sampler(engine)) {
        engine->sampler.sampled_pes++;
        atomic_store_explicit(&pe->is_sampled, true, memory_order_release);
        pthread_cond_signal(&engine->sampler.work);
    }
    pthread_mutex_unlock(&engine->sampler.lock);
}

static void add_line(struct cpu_profile *profile, const struct cpu_code *code)
{
    uint32_t i = 0;
    while (code->file != NULL && i < profile->count &&
           (profile->lines[i].line != code->line || strcmp(profile->lines[i].file, code->file) != 0))
        i++;
    if (code->file == NULL || i == CPU_PROFILED_LINES) {
        profile->elsewhere += code->samples;
        return;
    }
    if (i == profile->count) {
        profile->lines[i].file = code->file;
        profile->lines[i].line = code->line;
        profile->lines[i].samples = 0;
        profile->count++;
    }
    profile->lines[i].samples += code->samples;
}

static int by_address(const void *left, const void *right)
{
    const struct cpu_code *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* Instructions that samples were taken at, with their lines; NULL without memory. */
static struct cpu_code *codes_of(const struct cpu_samples *samples, const struct cpu_elf *elf, uint32_t *count)
{
    struct cpu_code *codes = calloc(CPU_SAMPLED_PLACES, sizeof(*codes));
    *count = 0;
    for (uint32_t i = 0; codes != NULL && i < CPU_SAMPLED_PLACES; i++)
        if (samples->places[i].count != 0) {
            codes[*count].address = samples->places[i].address - (uint64_t)(uintptr_t)elf->base;
            codes[(*count)++].samples = samples->places[i].count;
        }
    if (codes != NULL) {
        qsort(codes, *count, sizeof(*codes), by_address);
        cpu_find_lines(elf, codes, *count);
    }
    return codes;
}

void cpu_profile_end(struct cpu_pe *pe, struct cpu_launch *launch)
{
    struct cpu_engine *engine = pe->engine;
    struct cpu_elf elf;
    uint32_t num_codes = 0;
    if (!atomic_load_explicit(&pe->is_sampled, memory_order_relaxed))
        return;
    pthread_mutex_lock(&engine->sampler.lock);
    atomic_store(&pe->is_sampled, false); /* the handler of a signal that is under way counts nothing any more */
    engine->sampler.sampled_pes--;
    pthread_mutex_unlock(&engine->sampler.lock);
    const struct cpu_samples *samples = pe->samples;
    struct cpu_code *codes = NULL;
    if (samples->taken != 0 && cpu_find_image(engine, (uint64_t)(uintptr_t)launch->kernel, false, &elf))
        codes = codes_of(samples, &elf, &num_codes);
    pthread_mutex_lock(&engine->lock);
    if (launch->profile == NULL)
        launch->profile = calloc(1, sizeof(*launch->profile));
    struct cpu_profile *profile = launch->profile;
    if (profile != NULL) {
        profile->elsewhere += samples->elsewhere + samples->lost;
        profile->total += samples->elsewhere + samples->lost;
        for (uint32_t i = 0; codes != NULL && i < num_codes; i++) {
            add_line(profile, &codes[i]);
            profile->total += codes[i].samples;
        }
    }
    pthread_mutex_unlock(&engine->lock);
    free(codes);
}

/* ---- the launch's text -------------------------------------------------------------------------------------- */

/* The line with most samples among those that were not printed yet; NULL without any. */
static int most_of(const struct cpu_profile *profile)
{
    int most = -1;
    for (uint32_t i = 0; i < profile->count; i++)
        if (profile->lines[i].samples != 0 && (most < 0 || profile->lines[i].samples > profile->lines[most].samples))
            most = (int)i;
    return most;
}

static void print_profile(struct cpu_engine *engine, struct cpu_launch *launch)
{
    struct cpu_profile *profile = launch->profile;
    char text[512], kernel[256], file[CPU_PLACE_TEXT];
    uint32_t context = launch->op->context;
    cpu_copy_name(kernel, sizeof(kernel),
                  ((const struct vgc_cpu_kernel_desc *)launch->op->kernel->engine_private)->name);
    const struct cpu_output *output = &engine->outputs[context];
    if (output->len != 0 && output->text[output->len - 1] != '\n')
        cpu_append_output(engine, context, "\n", 1);
    int printed = 0, most;
    for (; printed < PRINTED_LINES && (most = most_of(profile)) >= 0; printed++) {
        cpu_copy_name(file, sizeof(file), profile->lines[most].file);
        snprintf(text, sizeof(text), "profile: %s:%u: %" PRIu64 " of %" PRIu64 " samples in kernel '%s'\n", file,
                 profile->lines[most].line, profile->lines[most].samples, profile->total, kernel);
        profile->lines[most].samples = 0;
        cpu_append_output(engine, context, text, (int)strlen(text));
    }
    uint64_t rest = profile->elsewhere;
    for (uint32_t i = 0; i < profile->count; i++)
        rest += profile->lines[i].samples;
    if (rest == 0 && profile->total != 0)
        return;
    snprintf(text, sizeof(text), "profile: %s: %" PRIu64 " of %" PRIu64 " samples in kernel '%s'\n",
             profile->total == 0 ? "the kernel was too short" : "other code", rest, profile->total, kernel);
    cpu_append_output(engine, context, text, (int)strlen(text));
}

void cpu_profile_print(struct cpu_engine *engine, struct cpu_launch *launch)
{
    if (launch->profile == NULL)
        return;
    print_profile(engine, launch);
    free(launch->profile);
    launch->profile = NULL;
}
