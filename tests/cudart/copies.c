/* Copies rows and slices between memory of the host, device memory and arrays, in every direction and with every
 * function, and compares all bytes of all places with a model that the processor keeps. */
#include "checks.h"

enum kind { HOST, DEVICE, ARRAY, KINDS };
enum { TEXEL = 4 };

/* Memory in rows, or an array, with `model` as what it should hold, in rows without gaps. */
struct place {
    enum kind kind;
    size_t width, height, depth; /* bytes, rows, slices */
    size_t pitch;
    unsigned char *memory;
    cudaArray_t array;
    unsigned char *model; /* padding of memory included */
};

struct box {
    size_t width, height, depth;
    size_t to[3];
    size_t from[3];
};

static uint32_t state = 1;

static unsigned char next_byte(void)
{
    state = state * 1664525 + 1013904223;
    return (unsigned char)(state >> 24);
}

static size_t bytes_of(const struct place *place)
{
    return place->pitch * place->height * place->depth;
}

static size_t offset_of(const struct place *place, size_t x, size_t y, size_t z)
{
    return (z * place->height + y) * place->pitch + x;
}

static struct cudaExtent whole(const struct place *place)
{
    return (struct cudaExtent){place->width / TEXEL, place->height, place->depth};
}

/* Between the array and `bytes`, in rows without gaps. */
static void move_whole(struct place *place, unsigned char *bytes, bool in)
{
    struct cudaPitchedPtr rows = {bytes, place->width, place->width, place->height};
    struct cudaMemcpy3DParms copy = {.extent = whole(place)};
    copy.kind = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
    if (in) {
        copy.srcPtr = rows;
        copy.dstArray = place->array;
    } else {
        copy.srcArray = place->array;
        copy.dstPtr = rows;
    }
    OK(cudaMemcpy3D(&copy));
}

static struct place make(enum kind kind, size_t width, size_t height, size_t depth)
{
    struct place place = {.kind = kind, .width = width, .height = height, .depth = depth, .pitch = width};
    if (kind == HOST) {
        place.pitch = width + 7;
        place.memory = malloc(bytes_of(&place));
    } else if (kind == DEVICE) {
        struct cudaPitchedPtr made;
        OK(cudaMalloc3D(&made, (struct cudaExtent){width, height, depth}));
        place.pitch = made.pitch;
        place.memory = made.ptr;
    } else {
        struct cudaChannelFormatDesc format = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
        OK(cudaMalloc3DArray(&place.array, &format, (struct cudaExtent){width / TEXEL, height, depth > 1 ? depth : 0},
                             0));
    }
    place.model = malloc(bytes_of(&place));
    for (size_t i = 0; i < bytes_of(&place); i++)
        place.model[i] = next_byte();
    if (kind == HOST)
        memcpy(place.memory, place.model, bytes_of(&place));
    else if (kind == DEVICE)
        OK(cudaMemcpy(place.memory, place.model, bytes_of(&place), cudaMemcpyHostToDevice));
    else
        move_whole(&place, place.model, true);
    return place;
}

static void verify(struct place *place, const char *what, int line)
{
    unsigned char *found = malloc(bytes_of(place));
    if (place->kind == HOST)
        memcpy(found, place->memory, bytes_of(place));
    else if (place->kind == DEVICE)
        OK(cudaMemcpy(found, place->memory, bytes_of(place), cudaMemcpyDeviceToHost));
    else
        move_whole(place, found, false);
    for (size_t i = 0; i < bytes_of(place); i++) {
        if (found[i] != place->model[i]) {
            printf("line %d, %s: byte %zu of row %zu is %u, not %u\n", line, what, i % place->pitch, i / place->pitch,
                   found[i], place->model[i]);
            exit(1);
        }
    }
    free(found);
}

static void discard(struct place *place)
{
    if (place->kind == HOST)
        free(place->memory);
    else if (place->kind == DEVICE)
        OK(cudaFree(place->memory));
    else
        OK(cudaFreeArray(place->array));
    free(place->model);
}

/* ---- the functions -------------------------------------------------------------------------- */

static enum cudaMemcpyKind direction(const struct place *to, const struct place *from)
{
    return (enum cudaMemcpyKind)((from->kind != HOST ? 2 : 0) + (to->kind != HOST ? 1 : 0));
}

static unsigned char *at(const struct place *place, const size_t position[3])
{
    return place->memory + offset_of(place, position[0], position[1], position[2]);
}

static struct cudaPos pos(const struct place *place, const size_t position[3])
{
    size_t unit = place->kind == ARRAY ? TEXEL : 1;
    return (struct cudaPos){position[0] / unit, position[1], position[2]};
}

static void copy_3d(struct place *to, struct place *from, const struct box *box, enum cudaMemcpyKind kind,
                    cudaStream_t stream)
{
    bool arrays = to->kind == ARRAY || from->kind == ARRAY;
    struct cudaMemcpy3DParms copy = {
        .srcPos = pos(from, box->from),
        .dstPos = pos(to, box->to),
        .extent = {arrays ? box->width / TEXEL : box->width, box->height, box->depth},
        .kind = kind,
    };
    copy.srcArray = from->array;
    copy.dstArray = to->array;
    if (from->kind != ARRAY)
        copy.srcPtr = (struct cudaPitchedPtr){from->memory, from->pitch, from->width, from->height};
    if (to->kind != ARRAY)
        copy.dstPtr = (struct cudaPitchedPtr){to->memory, to->pitch, to->width, to->height};
    OK(stream == NULL ? cudaMemcpy3D(&copy) : cudaMemcpy3DAsync(&copy, stream));
}

static void copy_2d(struct place *to, struct place *from, const struct box *box, enum cudaMemcpyKind kind,
                    cudaStream_t stream)
{
    const size_t *t = box->to;
    const size_t *f = box->from;
    size_t w = box->width;
    size_t h = box->height;
    if (to->kind == ARRAY && from->kind == ARRAY)
        OK(cudaMemcpy2DArrayToArray(to->array, t[0], t[1], from->array, f[0], f[1], w, h, kind));
    else if (to->kind == ARRAY && stream == NULL)
        OK(cudaMemcpy2DToArray(to->array, t[0], t[1], at(from, f), from->pitch, w, h, kind));
    else if (to->kind == ARRAY)
        OK(cudaMemcpy2DToArrayAsync(to->array, t[0], t[1], at(from, f), from->pitch, w, h, kind, stream));
    else if (from->kind == ARRAY && stream == NULL)
        OK(cudaMemcpy2DFromArray(at(to, t), to->pitch, from->array, f[0], f[1], w, h, kind));
    else if (from->kind == ARRAY)
        OK(cudaMemcpy2DFromArrayAsync(at(to, t), to->pitch, from->array, f[0], f[1], w, h, kind, stream));
    else if (stream == NULL)
        OK(cudaMemcpy2D(at(to, t), to->pitch, at(from, f), from->pitch, w, h, kind));
    else
        OK(cudaMemcpy2DAsync(at(to, t), to->pitch, at(from, f), from->pitch, w, h, kind, stream));
}

static void model_box(struct place *to, const struct place *from, const struct box *box)
{
    for (size_t z = 0; z < box->depth; z++)
        for (size_t y = 0; y < box->height; y++)
            memcpy(to->model + offset_of(to, box->to[0], box->to[1] + y, box->to[2] + z),
                   from->model + offset_of(from, box->from[0], box->from[1] + y, box->from[2] + z), box->width);
}

/* ---- boxes in every direction --------------------------------------------------------------- */

static void copy_boxes(struct place *to, struct place *from, const struct box *boxes, size_t count, cudaStream_t stream)
{
    static const char *const NAMES[] = {"host", "device", "array"};
    char what[64];
    for (size_t i = 0; i < count; i++) {
        for (int form = 0; form < 6; form++) {
            enum cudaMemcpyKind kind = form % 3 == 2 ? cudaMemcpyDefault : direction(to, from);
            cudaStream_t in = form % 3 == 1 ? stream : NULL;
            bool is_deep = boxes[i].depth > 1 || (to->kind == ARRAY && boxes[i].to[2] > 0) ||
                           (from->kind == ARRAY && boxes[i].from[2] > 0);
            if (form < 3 && is_deep) /* functions for rows know one slice */
                continue;
            snprintf(what, sizeof(what), "box %zu, form %d, %s to %s", i, form, NAMES[from->kind], NAMES[to->kind]);
            for (size_t k = 0; k < bytes_of(from); k++) /* other bytes than those of the last form */
                from->model[k] ^= 0x55;
            if (from->kind == HOST)
                memcpy(from->memory, from->model, bytes_of(from));
            else if (from->kind == DEVICE)
                OK(cudaMemcpy(from->memory, from->model, bytes_of(from), cudaMemcpyHostToDevice));
            else
                move_whole(from, from->model, true);
            (form < 3 ? copy_2d : copy_3d)(to, from, &boxes[i], kind, in);
            model_box(to, from, &boxes[i]);
            OK(cudaStreamSynchronize(in));
            verify(to, what, __LINE__);
            verify(from, what, __LINE__);
        }
    }
}

static void every_direction(size_t width, size_t height, size_t depth, const struct box *boxes, size_t count)
{
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    for (int to = 0; to < KINDS; to++) {
        for (int from = 0; from < KINDS; from++) {
            struct place t = make(to, width, height, depth);
            struct place f = make(from, width, height, depth);
            copy_boxes(&t, &f, boxes, count, stream);
            discard(&t);
            discard(&f);
        }
    }
    OK(cudaStreamDestroy(stream));
}

static void small_boxes(void)
{
    static const struct box BOXES[] = {
        {4, 1, 1, {0, 0, 0}, {0, 0, 0}},  {92, 7, 3, {0, 0, 0}, {0, 0, 0}}, {40, 3, 2, {52, 4, 1}, {12, 1, 0}},
        {92, 2, 1, {0, 5, 2}, {0, 0, 1}}, {8, 7, 3, {84, 0, 0}, {4, 0, 0}}, {92, 7, 1, {0, 0, 1}, {0, 0, 2}},
        {4, 1, 3, {88, 6, 0}, {0, 0, 0}}, {0, 3, 1, {0, 0, 0}, {0, 0, 0}},  {4, 0, 1, {0, 0, 0}, {0, 0, 0}},
    };
    every_direction(92, 7, 3, BOXES, sizeof(BOXES) / sizeof(BOXES[0]));
}

/* Larger than the pieces that go through the region. */
static void large_boxes(void)
{
    static const struct box ROWS[] = {{3996, 700, 1, {0, 1, 0}, {4, 0, 0}}};
    static const struct box LONG[] = {{(1 << 20) + 400, 2, 1, {400, 0, 0}, {0, 0, 0}}};
    every_direction(4000, 701, 1, ROWS, 1);
    for (int to = HOST; to <= DEVICE; to++) {
        for (int from = HOST; from <= DEVICE; from++) {
            struct place t = make(to, (1 << 20) + 800, 2, 1);
            struct place f = make(from, (1 << 20) + 800, 2, 1);
            copy_boxes(&t, &f, LONG, 1, NULL);
            discard(&t);
            discard(&f);
        }
    }
}

/* ---- bytes that run on from row to row ------------------------------------------------------ */

struct line {
    size_t to_x, to_y, from_x, from_y, bytes;
};

static void copy_lines(void)
{
    static const struct line LINES[] = {{0, 0, 0, 0, 92},  {0, 1, 0, 2, 92 * 3}, {8, 1, 0, 0, 300},
                                        {88, 0, 4, 3, 20}, {4, 0, 4, 0, 636},    {0, 0, 0, 0, 92 * 7},
                                        {88, 6, 0, 0, 4},  {0, 0, 88, 6, 4},     {12, 3, 40, 2, 0}};
    struct place a = make(ARRAY, 92, 7, 1);
    struct place b = make(ARRAY, 92, 7, 1);
    unsigned char bytes[92 * 7];
    unsigned char *device;
    OK(cudaMalloc((void **)&device, sizeof(bytes)));
    for (size_t i = 0; i < sizeof(LINES) / sizeof(LINES[0]); i++) {
        const struct line *l = &LINES[i];
        size_t to = l->to_y * 92 + l->to_x;
        size_t from = l->from_y * 92 + l->from_x;
        for (size_t k = 0; k < l->bytes; k++)
            bytes[k] = next_byte();
        OK(cudaMemcpyToArray(a.array, l->to_x, l->to_y, bytes, l->bytes, cudaMemcpyHostToDevice));
        memcpy(a.model + to, bytes, l->bytes);
        verify(&a, "cudaMemcpyToArray", __LINE__);
        OK(cudaMemcpyArrayToArray(b.array, l->from_x, l->from_y, a.array, l->to_x, l->to_y, l->bytes,
                                  cudaMemcpyDeviceToDevice));
        memcpy(b.model + from, a.model + to, l->bytes);
        verify(&b, "cudaMemcpyArrayToArray", __LINE__);
        OK(cudaMemcpyFromArray(device, b.array, l->from_x, l->from_y, l->bytes, cudaMemcpyDeviceToDevice));
        memset(bytes, 0, sizeof(bytes));
        OK(cudaMemcpyFromArray(bytes, b.array, l->from_x, l->from_y, l->bytes, cudaMemcpyDeviceToHost));
        CHECK(memcmp(bytes, b.model + from, l->bytes) == 0);
        OK(cudaMemcpyToArrayAsync(a.array, l->from_x, l->from_y, device, l->bytes, cudaMemcpyDefault, NULL));
        memcpy(a.model + from, bytes, l->bytes);
        verify(&a, "cudaMemcpyToArrayAsync", __LINE__);
        memset(bytes, 0, sizeof(bytes));
        OK(cudaMemcpyFromArrayAsync(bytes, a.array, l->from_x, l->from_y, l->bytes, cudaMemcpyDefault, NULL));
        OK(cudaDeviceSynchronize());
        CHECK(memcmp(bytes, a.model + from, l->bytes) == 0);
    }
    OK(cudaFree(device));
    discard(&a);
    discard(&b);
}

/* ---- fills ---------------------------------------------------------------------------------- */

static void model_fill(struct place *place, const size_t first[3], struct cudaExtent extent, int value)
{
    for (size_t z = 0; z < extent.depth; z++)
        for (size_t y = 0; y < extent.height; y++)
            memset(place->model + offset_of(place, first[0], first[1] + y, first[2] + z), value, extent.width);
}

static void fill_boxes(void)
{
    static const struct box BOXES[] = {
        {1, 1, 1, {0, 0, 0}, {0}},   {77, 9, 5, {0, 0, 0}, {0}}, {3, 8, 4, {70, 1, 1}, {0}}, {77, 1, 5, {0, 3, 0}, {0}},
        {512, 9, 5, {0, 0, 0}, {0}}, {13, 5, 1, {9, 2, 3}, {0}}, {0, 5, 1, {9, 2, 3}, {0}},
    };
    struct place place = make(DEVICE, 77, 9, 5);
    CHECK(place.pitch == 512);
    for (size_t i = 0; i < sizeof(BOXES) / sizeof(BOXES[0]); i++) {
        const struct box *box = &BOXES[i];
        struct cudaExtent extent = {box->width, box->height, box->depth};
        struct cudaPitchedPtr rows = {at(&place, box->to), place.pitch, place.width, place.height};
        OK(cudaMemset3D(rows, 0x100 + (int)i, extent));
        model_fill(&place, box->to, extent, (int)i);
        verify(&place, "cudaMemset3D", __LINE__);
        OK(cudaMemset3DAsync(rows, 40 + (int)i, extent, cudaStreamPerThread));
        model_fill(&place, box->to, extent, 40 + (int)i);
        OK(cudaStreamSynchronize(cudaStreamPerThread));
        verify(&place, "cudaMemset3DAsync", __LINE__);
        extent.depth = 1;
        OK(cudaMemset2D(rows.ptr, place.pitch, 80 + (int)i, box->width, box->height));
        model_fill(&place, box->to, extent, 80 + (int)i);
        verify(&place, "cudaMemset2D", __LINE__);
    }
    discard(&place);
}

/* ---- order ---------------------------------------------------------------------------------- */

/* Copies of a stream follow one another though nobody waits between them. */
static void copies_in_order(void)
{
    struct place to = make(DEVICE, 100, 50, 1);
    struct place from = make(HOST, 100, 50, 1);
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < 100; i++) {
        memset(from.memory, i, bytes_of(&from)); /* may change at once: the last copy has it */
        OK(cudaMemcpy2DAsync(to.memory, to.pitch, from.memory, from.pitch, 100, 50, cudaMemcpyHostToDevice, stream));
    }
    OK(cudaMemset2DAsync(to.memory, to.pitch, 255, 50, 50, stream));
    OK(cudaStreamSynchronize(stream));
    const size_t first[3] = {0, 0, 0};
    model_fill(&to, first, (struct cudaExtent){100, 50, 1}, 99);
    model_fill(&to, first, (struct cudaExtent){50, 50, 1}, 255);
    verify(&to, "order", __LINE__);
    OK(cudaStreamDestroy(stream));
    discard(&to);
    discard(&from);
}

int main(void)
{
    small_boxes();
    large_boxes();
    copy_lines();
    fill_boxes();
    copies_in_order();
    puts("all copies are right");
    return 0;
}
