/* Program of a guest that uses the calls of vgc.h whose numbers cross to the device, and checks each result: for
 * machines of either byte order. Buffers and packed parameters are little-endian, as kernels see them; all else is this
 * machine's.
 *
 * Prints one line for each part that is right. Exit status 1: a part is wrong, which the last line names.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgc.h"

enum { COUNT = 1000, BLOCK = 64, LARGE = 3 << 20 };

static const char SOURCE[] =
    "struct pair { int a; int b; };\n"
    "__device__ unsigned long long counter = 0x1122334455667788ull;\n"
    "extern \"C\" __global__ void saxpy(int n, float a, const float *x, float *y)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }\n"
    "extern \"C\" __global__ void types(char c, unsigned short s, long long l, double d, bool b, pair p, double *out)\n"
    "{ out[0] = c; out[1] = s; out[2] = l; out[3] = d; out[4] = b; out[5] = p.a; out[6] = p.b; }\n"
    "extern \"C\" __global__ void sums(int a, const int *x, int *y, int *z) { y[threadIdx.x] = x[threadIdx.x] + a; "
    "z[threadIdx.x] += a; }\n"
    "extern \"C\" __global__ void place(unsigned *out)\n"
    "{ if (threadIdx.x == 0 && threadIdx.y == 0) { out[0] = gridDim.x * 10000 + gridDim.y * 100 + gridDim.z;\n"
    "  out[1] = blockDim.x * 10000 + blockDim.y * 100 + blockDim.z; } }\n"
    "extern \"C\" __global__ void hello(int n) { printf(\"hello %d\\n\", n); }\n"
    "extern \"C\" __global__ void read(cudaTextureObject_t t, float *out)\n"
    "{ out[0] = tex2D<float>(t, 1.5f, 2.5f); out[1] = tex2D<float>(t, -3.0f, 0.5f); }\n";

static struct vgc_device *device;
static const struct vgc_geometry ONE = {.grid = {1, 1, 1}, .block = {1, 1, 1}};

static void must(int result, const char *what)
{
    if (result == VGC_OK)
        return;
    printf("%s: %s: %s\n", what, vgc_result_name(result), vgc_last_error());
    exit(1);
}

static void check(bool is_right, const char *what)
{
    if (is_right)
        return;
    printf("%s: wrong\n", what);
    exit(1);
}

static void done(const char *what)
{
    printf("%s\n", what);
}

/* ---- numbers as kernels see them ---------------------------------------------------------------- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return htole32(bits);
}

static float float_of(uint32_t bits)
{
    float value;
    bits = le32toh(bits);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static double double_of(uint64_t bits)
{
    double value;
    bits = le64toh(bits);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint64_t on_device(const void *bytes, uint64_t size)
{
    uint64_t address;
    must(vgc_alloc(device, size, &address), "alloc");
    must(vgc_copy_in(device, address, bytes, size, 0, NULL), "copy in");
    return address;
}

static struct vgc_function *function_of(struct vgc_program *program, const char *name)
{
    struct vgc_function *function;
    must(vgc_program_function(program, name, &function), name);
    return function;
}

/* ---- the parts ---------------------------------------------------------------------------------- */

static void look(void)
{
    struct vgc_info info;
    struct vgc_device_limits limits;
    struct vgc_device_usage usage;
    must(vgc_info(device, &info), "info");
    check(info.engine_kind == 1 && info.health == 1 && info.num_queues == 4 && info.num_pes == 2, "info");
    check(info.memory_bytes == 64 << 20 && info.max_contexts != 0 && info.max_contexts <= 256, "info");
    check(info.context != 0, "context");
    must(vgc_device_limits(device, &limits), "limits");
    check(limits.warp_threads == 32 && limits.compute_capability >= 50 && limits.compute_capability <= 200, "limits");
    uint64_t address = on_device("1234", 4);
    must(vgc_device_usage(device, &usage), "usage");
    check(usage.num_allocations == 1 && usage.num_contexts == 1 && usage.num_pes == 2, "usage");
    check(usage.memory_quota_bytes == 64 << 20 && usage.memory_used_bytes != 0 && usage.memory_used_bytes < 1 << 20,
          "usage");
    must(vgc_free(device, address), "free");
    done("info, limits, usage");
}

static void copies(void)
{
    uint8_t *out = malloc(LARGE), *back = calloc(1, LARGE), small[256];
    for (uint32_t i = 0; i < LARGE; i++)
        out[i] = (uint8_t)(i * 7 + i / 251);
    uint64_t address = on_device(out, LARGE);
    must(vgc_copy_out(device, small, address + 1000, sizeof(small), 0, NULL), "copy out");
    check(memcmp(small, out + 1000, sizeof(small)) == 0, "a small copy out");
    must(vgc_copy_out(device, back, address, LARGE, 0, NULL), "copy out");
    check(memcmp(back, out, LARGE) == 0, "a large copy out");
    must(vgc_fill(device, address, 0x1122334455667788, 8, 16, 0, NULL), "fill by 8");
    must(vgc_fill(device, address + 16, 0xa1b2c3d4, 4, 8, 0, NULL), "fill by 4");
    must(vgc_fill(device, address + 24, 0xabcd, 2, 4, 0, NULL), "fill by 2");
    must(vgc_copy_device(device, address + 64, address, 28, 0, NULL), "copy device");
    must(vgc_copy_out(device, small, address + 64, 28, 0, NULL), "copy out");
    static const uint8_t FILLED[28] = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x88, 0x77,
                                       0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xd4, 0xc3, 0xb2, 0xa1,
                                       0xd4, 0xc3, 0xb2, 0xa1, 0xcd, 0xab, 0xcd, 0xab};
    check(memcmp(small, FILLED, sizeof(FILLED)) == 0, "fills");
    void *shared;
    uint64_t reached;
    must(vgc_region_alloc(device, 4096, &shared), "region");
    must(vgc_copy_out(device, shared, address, 28, 0, NULL), "copy to the region");
    check(memcmp(shared, FILLED, sizeof(FILLED)) == 0, "a copy to the region");
    must(vgc_region_address(device, shared, &reached), "region address");
    vgc_region_free(device, shared);
    must(vgc_free(device, address), "free");
    free(out);
    free(back);
    done("copies, fills");
}

static void launches(struct vgc_program *program)
{
    uint32_t x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = bits_of((float)i);
        y[i] = bits_of(1);
    }
    uint64_t on_x = on_device(x, sizeof(x)), on_y = on_device(y, sizeof(y));
    int n = COUNT;
    float a = 2.5f;
    struct vgc_geometry geometry = {.grid = {(COUNT + BLOCK - 1) / BLOCK, 1, 1}, .block = {BLOCK, 1, 1}};
    must(vgc_launch(function_of(program, "saxpy"), &geometry, (void *[]){&n, &a, &on_x, &on_y}, 4, NULL), "saxpy");
    must(vgc_copy_out(device, y, on_y, sizeof(y), 0, NULL), "copy out");
    for (int i = 0; i < COUNT; i++)
        check(float_of(y[i]) == 1 + 2.5f * (float)i, "saxpy");

    char c = -5;
    unsigned short s = 0xfedc;
    long long l = -0x123456789abll;
    double d = 0.1;
    bool b = true;
    uint32_t pair[2] = {htole32(77), htole32(88)}; /* a struct is the program's bytes */
    uint64_t out[7];
    must(vgc_launch(function_of(program, "types"), &ONE, (void *[]){&c, &s, &l, &d, &b, pair, &on_y}, 7, NULL),
         "types");
    must(vgc_copy_out(device, out, on_y, sizeof(out), 0, NULL), "copy out");
    const double expected[7] = {-5, 0xfedc, -(double)0x123456789abll, 0.1, 1, 77, 88};
    for (int i = 0; i < 7; i++)
        check(double_of(out[i]) == expected[i], "types of parameters");

    uint64_t packed = htole64(on_y);
    struct vgc_geometry odd = {.grid = {2, 3, 4}, .block = {5, 6, 7}};
    uint32_t extents[2];
    must(vgc_launch_packed(function_of(program, "place"), &odd, &packed, sizeof(packed), NULL), "place");
    must(vgc_copy_out(device, extents, on_y, sizeof(extents), 0, NULL), "copy out");
    check(le32toh(extents[0]) == 20304 && le32toh(extents[1]) == 50607, "extents of grid and block");
    must(vgc_free(device, on_x), "free");
    must(vgc_free(device, on_y), "free");
    done("launches");
}

static void calls(void)
{
    uint32_t x[BLOCK], y[BLOCK], z[BLOCK], a = htole32(100);
    for (uint32_t i = 0; i < BLOCK; i++)
        x[i] = htole32(i), z[i] = htole32(i * i);
    const struct vgc_arg args[] = {{VGC_ARG_VALUE, 0, sizeof(a), &a},
                                   {VGC_ARG_IN, 0, sizeof(x), x},
                                   {VGC_ARG_OUT, 0, sizeof(y), y},
                                   {VGC_ARG_INOUT, 0, sizeof(z), z}};
    struct vgc_geometry geometry = {.grid = {1, 1, 1}, .block = {BLOCK, 1, 1}};
    must(vgc_call(device, "sums", &geometry, args, 4, NULL), "call");
    for (uint32_t i = 0; i < BLOCK; i++)
        check(le32toh(y[i]) == i + 100 && le32toh(z[i]) == i * i + 100, "call");
    check(vgc_call(device, "nothing", &geometry, args, 4, NULL) == VGC_NOT_FOUND, "a call of nothing");
    check(strstr(vgc_last_error(), "nothing") != NULL, "the host's words");
    done("calls");
}

static void prints(struct vgc_program *program)
{
    char text[64];
    uint64_t len, lost;
    int n = 42;
    must(vgc_launch(function_of(program, "hello"), &ONE, (void *[]){&n}, 1, NULL), "hello");
    check(vgc_output_waits(device), "output");
    must(vgc_output_read(device, text, sizeof(text), &len, &lost), "output");
    check(len == 9 && lost == 0 && memcmp(text, "hello 42\n", 9) == 0, "output");
    done("output");
}

static void globals(struct vgc_program *program)
{
    uint64_t address, size, value;
    must(vgc_program_global(program, "counter", &address, &size), "global");
    must(vgc_copy_out(device, &value, address, sizeof(value), 0, NULL), "copy out");
    check(size == 8 && le64toh(value) == 0x1122334455667788, "a variable of the program");
    done("variables");
}

static void graphs(struct vgc_program *program)
{
    uint32_t y[4] = {0};
    uint64_t on_y = on_device(y, sizeof(y)), on_z = on_device(y, sizeof(y));
    struct {
        uint32_t n, a;
        uint64_t x, y;
    } params = {htole32(4), bits_of(3), htole64(on_y), htole64(on_z)};
    static const uint32_t FIRST[] = {0}, BOTH[] = {0, 1};
    const struct vgc_node nodes[] = {
        {.kind = VGC_NODE_FILL, .unit = 4, .value = 0x40000000, .dst = on_y, .size = sizeof(y)}, /* 2.0 */
        {.kind = VGC_NODE_LAUNCH,
         .num_deps = 1,
         .deps = FIRST,
         .function = function_of(program, "saxpy"),
         .params = &params,
         .param_bytes = sizeof(params),
         .geometry = {.grid = {1, 1, 1}, .block = {BLOCK, 1, 1}}},
        {.kind = VGC_NODE_COPY, .num_deps = 2, .deps = BOTH, .dst = on_y, .src = on_z, .size = 8}};
    struct vgc_graph *graph;
    must(vgc_graph_create(device, nodes, 3, &graph), "graph");
    must(vgc_graph_launch(graph, 0, NULL), "graph launch");
    must(vgc_copy_out(device, y, on_y, sizeof(y), 0, NULL), "copy out");
    check(float_of(y[1]) == 6 && float_of(y[2]) == 2, "graph");
    must(vgc_graph_destroy(graph), "graph");
    must(vgc_free(device, on_y), "free");
    must(vgc_free(device, on_z), "free");
    done("graphs");
}

static void streams(void)
{
    uint32_t stream;
    struct vgc_event *start, *end;
    struct vgc_job *job;
    struct vgc_timing timing;
    int64_t elapsed_ns;
    must(vgc_stream_create(device, &stream), "stream");
    must(vgc_event_create(device, &start), "event");
    must(vgc_event_create(device, &end), "event");
    must(vgc_event_record(start, stream), "record");
    must(vgc_nop(device, stream, &job), "nop");
    must(vgc_job_wait(job, UINT64_MAX), "nop");
    must(vgc_job_timing(job, &timing), "timing");
    vgc_job_release(job);
    must(vgc_event_record(end, stream), "record");
    must(vgc_event_elapsed(start, end, &elapsed_ns), "elapsed");
    check(elapsed_ns >= 0 && elapsed_ns < INT64_C(1000000000000), "times of events");
    check(timing.exec_ns <= timing.total_ns, "times of a job");
    must(vgc_event_destroy(start), "event");
    must(vgc_event_destroy(end), "event");
    must(vgc_stream_destroy(device, stream), "stream");
    done("streams, events");
}

static void textures(struct vgc_program *program)
{
    uint32_t texels[4][8], out[2];
    struct vgc_array *array;
    for (int row = 0; row < 4; row++)
        for (int column = 0; column < 8; column++)
            texels[row][column] = bits_of((float)(row * 10 + column));
    const struct vgc_array_shape shape = {
        .width = 8, .height = 4, .levels = 1, .kind = VGC_CHANNEL_FLOAT, .bits = 32, .channels = 1};
    must(vgc_array_create(device, &shape, &array), "array");
    const struct vgc_side to = {.array = array}, from = {.host = texels, .pitch = 32};
    must(vgc_copy_box(device, &to, &from, 32, 4, 1, 0, NULL), "copy box");
    const struct vgc_texture_form form = {.array = array, .edges = {3, 3, 3}, .border = {7.25f, 0, 0, 0}};
    uint64_t texture, on_out = on_device(out, sizeof(out));
    must(vgc_texture_create(device, &form, &texture), "texture");
    must(vgc_launch(function_of(program, "read"), &ONE, (void *[]){&texture, &on_out}, 2, NULL), "read");
    must(vgc_copy_out(device, out, on_out, sizeof(out), 0, NULL), "copy out");
    check(float_of(out[0]) == 21, "a texel");
    check(float_of(out[1]) == 7.25f, "the border");
    must(vgc_object_destroy(device, texture), "texture");
    must(vgc_array_destroy(array), "array");
    must(vgc_free(device, on_out), "free");
    done("arrays, textures");
}

static void registered(void)
{
    static const char TWICE[] = "extern \"C\" __global__ void twice(int *x, short n) { *x *= n; }";
    struct vgc_program *program;
    struct vgc_function *function;
    struct vgc_listing *listing;
    struct vgc_param param;
    must(vgc_program_register(device, VGC_SOURCE_CUDA, TWICE, sizeof(TWICE) - 1, NULL, 0, false, &program), "register");
    must(vgc_function_find(device, "twice", &function), "find");
    must(vgc_function_param(function, 1, &param), "param");
    check(param.kind == VGC_PARAM_INTEGER && param.size == 2 && param.offset == 8, "a parameter's type");
    uint32_t x = htole32(21);
    short n = 2;
    uint64_t on_x = on_device(&x, sizeof(x));
    must(vgc_launch(function, &ONE, (void *[]){&on_x, &n}, 2, NULL), "twice");
    must(vgc_copy_out(device, &x, on_x, sizeof(x), 0, NULL), "copy out");
    check(le32toh(x) == 42, "a function of the VM");
    must(vgc_functions(device, &listing), "functions");
    bool is_listed = false;
    for (uint32_t i = 0; i < vgc_listing_size(listing); i++) {
        const struct vgc_listed *at = vgc_listing_at(listing, i);
        is_listed = is_listed || (strcmp(at->short_name, "twice") == 0 && at->num_params == 2 &&
                                  at->params[1].size == 2 && at->launches == 1);
    }
    check(is_listed, "list of functions");
    vgc_listing_free(listing);
    vgc_function_release(function);
    must(vgc_program_unload(program), "unload");
    must(vgc_unregister(device, "twice"), "unregister");
    must(vgc_free(device, on_x), "free");
    done("functions of the VM");
}

static void linked(void)
{
    static const char LEFT[] = "__device__ int three() { return 3; }";
    static const char RIGHT[] = "__device__ int three(); extern \"C\" __global__ void get(int *x) { *x = three(); }";
    const struct vgc_source_unit units[] = {{.name = "a.cu", .text = LEFT, .size = sizeof(LEFT) - 1},
                                            {.name = "b.cu", .text = RIGHT, .size = sizeof(RIGHT) - 1}};
    struct vgc_program *program;
    uint32_t x = 0;
    uint64_t on_x = on_device(&x, sizeof(x));
    must(vgc_program_link(device, units, 2, NULL, 0, &program), "link");
    must(vgc_launch(function_of(program, "get"), &ONE, (void *[]){&on_x}, 1, NULL), "get");
    must(vgc_copy_out(device, &x, on_x, sizeof(x), 0, NULL), "copy out");
    check(le32toh(x) == 3, "a program of two units");
    must(vgc_program_unload(program), "unload");
    must(vgc_free(device, on_x), "free");
    done("programs of several units");
}

static void sharing(void)
{
    struct vgc_key key;
    struct vgc_device *other;
    uint64_t address = on_device("shared!!", 8), opened, size;
    char text[8];
    must(vgc_memory_export(device, address, &key), "export");
    must(vgc_open(NULL, &other), "open");
    must(vgc_memory_open(other, &key, &opened, &size), "open memory");
    check(opened == address && size == 8, "shared memory");
    must(vgc_copy_out(other, text, opened, sizeof(text), 0, NULL), "copy out");
    check(memcmp(text, "shared!!", 8) == 0, "shared memory");
    must(vgc_memory_close(other, opened), "close memory");
    vgc_close(other);
    must(vgc_free(device, address), "free");
    done("shared memory");
}

static void marks(void)
{
    static struct vgc_marks marks;
    const struct vgc_mark_info mark = {
        .begin_ns = 1, .end_ns = 2, .kind = VGC_MARK_NESTED, .text = "work", .domain = "test"};
    check(vgc_marks_add(&marks, &mark), "marks");
    must(vgc_marks_send(device, &marks), "marks");
    must(vgc_synchronize(device), "marks");
    done("marks");
}

int main(void)
{
    struct vgc_program *program;
    must(vgc_open(NULL, &device), "open");
    look();
    copies();
    must(vgc_program_load(device, VGC_SOURCE_CUDA, SOURCE, sizeof(SOURCE) - 1, NULL, 0, &program), "compile");
    launches(program);
    calls();
    prints(program);
    globals(program);
    graphs(program);
    streams();
    textures(program);
    must(vgc_program_unload(program), "unload");
    registered();
    linked();
    sharing();
    marks();
    vgc_close(device);
    done("all right");
    return 0;
}
