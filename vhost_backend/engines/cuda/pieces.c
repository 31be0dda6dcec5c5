/* Physical memory of spans: created and mapped for new spans, kept for later ones when spans end.
 *
 * A span's first and last granule, which neighbours may share, are pieces of their own; the granules between are pieces
 * of up to MAX_PIECE. A piece of several granules is therefore used completely by a single span, or by none, and
 * fragmentation holds back no more than granules that are partly in use.
 *
 * These calls are not ordered by streams. cuMemUnmap and cuMemSetAccess are documented to wait for running work in most
 * cases; therefore pieces are kept, and trimmed only while nothing runs. A kernel that uses freed memory accesses a
 * kept piece, or faults, in its own context.
 *
 * NVIDIA does not document the contents of new memory, so new pieces are zeroed as a whole (zero.c). Kept pieces are
 * not: a worker belongs to one VM, and keeps no pieces for others. A piece stays mapped while it may still be zeroed.
 */
#include "cuda_mapped.h"

#include <sys/mman.h>

enum { MAX_PIECE = 128 }; /* in granules, so that 100 GiB take 400 calls instead of 51,200 */

bool cuda_pieces_open(struct cuda_pieces *pieces, uint64_t base, uint64_t size, uint64_t granule)
{
    uint64_t count = size / granule;
    void *table = mmap(NULL, count * sizeof(*pieces->granules), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return false;
    *pieces = (struct cuda_pieces){.base = base, .granule = granule, .num_granules = count, .granules = table};
    return true;
}

static struct cuda_granule *granule_of(const struct cuda_pieces *pieces, uint32_t name)
{
    return &pieces->granules[name - 1];
}

static uint64_t address_of(const struct cuda_pieces *pieces, uint32_t name)
{
    return pieces->base + (uint64_t)(name - 1) * pieces->granule;
}

static uint32_t name_at(const struct cuda_pieces *pieces, uint64_t address)
{
    return (uint32_t)((address - pieces->base) / pieces->granule) + 1;
}

/* ---- kept pieces -------------------------------------------------------------------------------------------- */

static void keep(struct cuda_pieces *pieces, uint32_t name)
{
    struct cuda_granule *piece = granule_of(pieces, name);
    piece->older = pieces->newest;
    piece->newer = 0;
    if (pieces->newest != 0)
        granule_of(pieces, pieces->newest)->newer = name;
    else
        pieces->oldest = name;
    pieces->newest = name;
    pieces->kept += piece->length;
}

static void unkeep(struct cuda_pieces *pieces, uint32_t name)
{
    const struct cuda_granule *piece = granule_of(pieces, name);
    if (piece->older != 0)
        granule_of(pieces, piece->older)->newer = piece->newer;
    else
        pieces->oldest = piece->newer;
    if (piece->newer != 0)
        granule_of(pieces, piece->newer)->older = piece->older;
    else
        pieces->newest = piece->older;
    pieces->kept -= piece->length;
}

/* ---- pieces ------------------------------------------------------------------------------------------------- */

/* Returns a kept piece to the GPU. It stays if it cannot be unmapped, or is still being zeroed. */
static drv_result drop(struct cuda_engine *engine, struct cuda_pieces *pieces, uint32_t name)
{
    struct cuda_granule *piece = granule_of(pieces, name);
    uint32_t length = piece->length;
    drv_result error = cuda_zero_await(engine);
    if (error == DRV_SUCCESS)
        error = engine->driver.cuMemUnmap(address_of(pieces, name), length * pieces->granule);
    if (error != DRV_SUCCESS)
        return error;
    unkeep(pieces, name);
    error = engine->driver.cuMemRelease(piece->physical);
    pieces->held -= length;
    for (uint32_t i = 0; i < length; i++)
        piece[i] = (struct cuda_granule){0};
    return error;
}

static drv_result create(struct cuda_engine *engine, uint64_t size, drv_physical *physical)
{
    struct drv_physical_props props = cuda_physical_props(engine);
    return engine->driver.cuMemCreate(physical, size, (const struct CUmemAllocationProp_st *)(const void *)&props, 0);
}

static drv_result allow(const struct cuda_engine *engine, drv_address address, uint64_t size)
{
    struct drv_access access = {DRV_LOCATION_DEVICE, engine->setup.device, DRV_ACCESS_READ_WRITE};
    return engine->driver.cuMemSetAccess(address, size, (const struct CUmemAccessDesc_st *)(const void *)&access, 1);
}

static drv_result map(const struct cuda_engine *engine, drv_address address, uint64_t size, drv_physical physical)
{
    drv_result error = engine->driver.cuMemMap(address, size, 0, physical, 0);
    if (error != DRV_SUCCESS)
        return error;
    error = allow(engine, address, size);
    if (error != DRV_SUCCESS)
        engine->driver.cuMemUnmap(address, size);
    return error;
}

/* Makes a piece, kept until a span uses it. */
static drv_result add(struct cuda_engine *engine, struct cuda_pieces *pieces, uint32_t name, uint32_t length)
{
    drv_physical physical = 0;
    uint64_t size = length * pieces->granule;
    drv_result error = create(engine, size, &physical);
    if (error != DRV_SUCCESS)
        return error;
    error = map(engine, address_of(pieces, name), size, physical);
    if (error != DRV_SUCCESS) {
        engine->driver.cuMemRelease(physical);
        return error;
    }
    struct cuda_granule *piece = granule_of(pieces, name);
    piece->physical = physical;
    piece->length = length;
    piece->is_new = true;
    for (uint32_t i = 0; i < length; i++)
        piece[i].piece = name;
    pieces->held += length;
    keep(pieces, name);
    return DRV_SUCCESS;
}

/* ---- the pieces of a span ----------------------------------------------------------------------------------- */

struct part {
    uint64_t address;
    uint64_t end;
    uint32_t first; /* granule */
    uint32_t last;
};

static struct part part_of(const struct cuda_pieces *pieces, uint64_t address, uint64_t size)
{
    return (struct part){address, address + size, name_at(pieces, address), name_at(pieces, address + size - 1)};
}

static bool is_whole(const struct cuda_pieces *pieces, const struct part *part, uint32_t name, uint32_t length)
{
    uint64_t begin = address_of(pieces, name);
    return begin >= part->address && begin + length * pieces->granule <= part->end;
}

/* Number of bytes that span and piece have in common. */
static uint64_t shared_bytes(const struct cuda_pieces *pieces, const struct part *part, uint32_t name)
{
    uint64_t begin = address_of(pieces, name);
    uint64_t end = begin + granule_of(pieces, name)->length * pieces->granule;
    return (end < part->end ? end : part->end) - (begin > part->address ? begin : part->address);
}

static uint32_t behind(const struct cuda_pieces *pieces, uint32_t name)
{
    return name + granule_of(pieces, name)->length;
}

/* Uses pieces that are mapped within a new span. Kept pieces that reach beyond it are dropped, as a piece of several
 * granules belongs to one span. Others are marked as used at once, so that they are not dropped. *missing: granules
 * without a piece. */
static drv_result use_mapped(struct cuda_engine *engine, struct cuda_pieces *pieces, const struct part *part,
                             uint64_t *missing)
{
    *missing = 0;
    for (uint32_t name = part->first; name <= part->last; name++) {
        uint32_t piece = granule_of(pieces, name)->piece;
        uint32_t length = piece == 0 ? 0 : granule_of(pieces, piece)->length;
        if (length < 2 || is_whole(pieces, part, piece, length))
            continue;
        drv_result error = drop(engine, pieces, piece);
        if (error != DRV_SUCCESS)
            return error;
    }
    for (uint32_t name = part->first; name <= part->last;) {
        struct cuda_granule *piece = granule_of(pieces, name);
        if (piece->piece == 0) {
            name++, ++*missing;
            continue;
        }
        if (piece->used == 0)
            unkeep(pieces, name);
        piece->used += shared_bytes(pieces, part, name);
        name = behind(pieces, name);
    }
    return DRV_SUCCESS;
}

/* Number of granules of a new piece that begins at `name`. */
static uint32_t next_length(const struct cuda_pieces *pieces, const struct part *part, uint32_t name)
{
    uint32_t length = 1;
    if (!is_whole(pieces, part, name, 1))
        return 1;
    while (length < MAX_PIECE && name + length <= part->last && granule_of(pieces, name + length)->piece == 0 &&
           is_whole(pieces, part, name + length, 1))
        length++;
    return length;
}

static drv_result drop_kept(struct cuda_engine *engine, struct cuda_pieces *pieces, uint64_t most_held,
                            uint64_t most_kept)
{
    drv_result error = DRV_SUCCESS;
    while (error == DRV_SUCCESS && pieces->oldest != 0 && (pieces->held > most_held || pieces->kept > most_kept))
        error = drop(engine, pieces, pieces->oldest);
    return error;
}

/* Makes a piece; if other processes have taken the GPU's memory, returns kept pieces first and tries again. */
static drv_result add_or_drop(struct cuda_engine *engine, struct cuda_pieces *pieces, uint32_t name, uint32_t length)
{
    drv_result error = add(engine, pieces, name, length);
    if (error != DRV_ERROR_OUT_OF_MEMORY || pieces->oldest == 0)
        return error;
    error = drop_kept(engine, pieces, 0, 0);
    return error == DRV_SUCCESS ? add(engine, pieces, name, length) : error;
}

static drv_result use_new(struct cuda_engine *engine, struct cuda_pieces *pieces, const struct part *part)
{
    for (uint32_t name = part->first; name <= part->last; name++) {
        if (granule_of(pieces, name)->piece != 0)
            continue;
        drv_result error = add_or_drop(engine, pieces, name, next_length(pieces, part, name));
        if (error != DRV_SUCCESS)
            return error;
        unkeep(pieces, name);
        granule_of(pieces, name)->used = shared_bytes(pieces, part, name);
    }
    return DRV_SUCCESS;
}

/* First granule from `name` on whose piece is new, or is not; a granule behind the span if the span has no such one. */
static uint32_t find(const struct cuda_pieces *pieces, const struct part *part, uint32_t name, bool is_new)
{
    while (name <= part->last && granule_of(pieces, name)->is_new != is_new)
        name = behind(pieces, name);
    return name;
}

/* Zeroes the new pieces of a span, adjacent ones by a single fill. If that fails, they are zeroed at their next use. */
static drv_result zero_new(struct cuda_engine *engine, const struct cuda_pieces *pieces, const struct part *part)
{
    uint32_t first = find(pieces, part, part->first, true);
    if (first > part->last)
        return DRV_SUCCESS;
    for (uint32_t begin = first, end; begin <= part->last; begin = find(pieces, part, end, true)) {
        end = find(pieces, part, begin, false);
        drv_result error = cuda_zero(engine, address_of(pieces, begin), (end - begin) * pieces->granule);
        if (error != DRV_SUCCESS)
            return error;
    }
    drv_result error = cuda_zero_publish(engine);
    if (error != DRV_SUCCESS)
        return error;
    for (uint32_t name = first; name <= part->last; name = behind(pieces, name))
        granule_of(pieces, name)->is_new = false;
    return DRV_SUCCESS;
}

drv_result cuda_pieces_use(struct cuda_engine *engine, struct cuda_pieces *pieces, uint64_t address, uint64_t size)
{
    uint64_t missing;
    struct part part = part_of(pieces, address, size);
    drv_result error = use_mapped(engine, pieces, &part, &missing);
    if (error != DRV_SUCCESS)
        return error;
    if (missing > pieces->bound)
        error = DRV_ERROR_OUT_OF_MEMORY;
    else
        error = drop_kept(engine, pieces, pieces->bound - missing, UINT64_MAX);
    if (error == DRV_SUCCESS && pieces->held > pieces->bound - missing)
        error = DRV_ERROR_OUT_OF_MEMORY;
    if (error == DRV_SUCCESS)
        error = use_new(engine, pieces, &part);
    if (error == DRV_SUCCESS)
        error = zero_new(engine, pieces, &part);
    if (error != DRV_SUCCESS)
        cuda_pieces_leave(pieces, address, size);
    return error;
}

void cuda_pieces_leave(struct cuda_pieces *pieces, uint64_t address, uint64_t size)
{
    struct part part = part_of(pieces, address, size);
    for (uint32_t name = part.first; name <= part.last;) {
        struct cuda_granule *piece = granule_of(pieces, name);
        if (piece->piece == 0) { /* cuda_pieces_use() has failed for this granule */
            name++;
            continue;
        }
        piece->used -= shared_bytes(pieces, &part, name);
        if (piece->used == 0)
            keep(pieces, name);
        name = behind(pieces, name);
    }
}

drv_result cuda_pieces_trim(struct cuda_engine *engine, struct cuda_pieces *pieces)
{
    return drop_kept(engine, pieces, UINT64_MAX, pieces->keep);
}

drv_result cuda_pieces_drop_kept(struct cuda_engine *engine, struct cuda_pieces *pieces)
{
    return drop_kept(engine, pieces, 0, 0);
}

drv_result cuda_pieces_bind(struct cuda_engine *engine, struct cuda_pieces *pieces, uint64_t bound)
{
    drv_result error = drop_kept(engine, pieces, bound, UINT64_MAX);
    if (error == DRV_SUCCESS && pieces->held > bound)
        error = DRV_ERROR_OUT_OF_MEMORY;
    if (error == DRV_SUCCESS)
        pieces->bound = bound;
    return error;
}

void cuda_pieces_close(struct cuda_engine *engine, struct cuda_pieces *pieces)
{
    if (pieces->granules == NULL)
        return;
    drop_kept(engine, pieces, 0, 0);
    munmap(pieces->granules, pieces->num_granules * sizeof(*pieces->granules));
    *pieces = (struct cuda_pieces){0};
}
