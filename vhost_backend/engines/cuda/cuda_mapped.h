/* Device memory at addresses chosen by the engine: `memory: mapped`.
 *
 *   mapped.c   the range of addresses, and the functions for the engine
 *   spans.c    choice of addresses in the range
 *   pieces.c   physical memory
 *
 * Terms: a *granule* is the driver's unit of physical memory, 2 MiB; the range is divided into granules. A *span* is an
 * allocation's part of the range, in units of CUDA_ALIGN. A *piece* is a physical allocation, mapped at one or more
 * granules. Pieces without a span are *kept* mapped until there are too many of them. */
#ifndef VGC_CUDA_MAPPED_H
#define VGC_CUDA_MAPPED_H

#include "cuda_engine.h"

enum { CUDA_SPANS = 65536 + 1024 }; /* more than the data plane's allocations */

struct cuda_span {
    uint64_t address;
    uint64_t size;
};

struct cuda_spans {
    uint64_t base; /* of the range */
    uint64_t size;
    uint64_t granule;
    struct cuda_span *given; /* array of CUDA_SPANS, sorted by address */
    uint32_t count;
};

/* A granule's name is 1 + its index; 0 means no granule, so that tables begin as zeroes. */
struct cuda_granule {
    drv_physical physical; /* of the piece that begins here */
    uint64_t used;         /* bytes of that piece in spans */
    uint32_t length;       /* granules of that piece */
    uint32_t piece;        /* first granule of the piece of this granule; 0: nothing is mapped here */
    uint32_t older;        /* neighbours in the list of kept pieces, by last use */
    uint32_t newer;
    bool is_new; /* the piece that begins here was not zeroed yet; no span uses it */
};

struct cuda_pieces {
    uint64_t base; /* of the range */
    uint64_t granule;
    uint64_t num_granules;
    struct cuda_granule *granules;
    uint64_t bound; /* most granules that are ever mapped */
    uint64_t held;  /* granules that are mapped */
    uint64_t keep;  /* most granules that are kept when nothing runs */
    uint64_t kept;
    uint32_t oldest; /* ends of the list of kept pieces */
    uint32_t newest;
};

struct cuda_mapped {
    struct cuda_spans spans;
    struct cuda_pieces pieces;
    uint64_t size;  /* of the range; 0: not reserved */
    uint64_t bound; /* bound in granules while no programs are loaded */
};

static inline struct drv_physical_props cuda_physical_props(const struct cuda_engine *engine)
{
    return (struct drv_physical_props){
        .allocation_type = DRV_ALLOCATION_PINNED,
        .location_type = DRV_LOCATION_DEVICE,
        .location_id = engine->setup.device,
    };
}

/* ---- spans.c ---- */
bool cuda_spans_open(struct cuda_spans *spans, uint64_t base, uint64_t size, uint64_t granule);
void cuda_spans_close(struct cuda_spans *spans);
/* Takes a span of `size` bytes, a multiple of CUDA_ALIGN, at an address of its choice; 0: no room. */
uint64_t cuda_spans_take(struct cuda_spans *spans, uint64_t size);
/* Takes the span at `address`: 0; -EINVAL: it is not in the range; -EEXIST: a part of it is taken; or -ENOMEM. */
int cuda_spans_take_at(struct cuda_spans *spans, uint64_t address, uint64_t size);
/* Frees the span that begins at `address`; returns its size, 0 if no span begins there. */
uint64_t cuda_spans_give(struct cuda_spans *spans, uint64_t address);

/* ---- pieces.c ---- */
bool cuda_pieces_open(struct cuda_pieces *pieces, uint64_t base, uint64_t size, uint64_t granule);
/* Unmaps all pieces, which must all be kept ones. */
void cuda_pieces_close(struct cuda_engine *engine, struct cuda_pieces *pieces);
/* Maps memory for a new span; what is new from the driver is zeroed before later operations. */
drv_result cuda_pieces_use(struct cuda_engine *engine, struct cuda_pieces *pieces, uint64_t address, uint64_t size);
/* Releases memory of a span that ends. */
void cuda_pieces_leave(struct cuda_pieces *pieces, uint64_t address, uint64_t size);
/* Returns kept pieces beyond `keep` to the GPU, the longest unused first. */
drv_result cuda_pieces_trim(struct cuda_engine *engine, struct cuda_pieces *pieces);
/* Returns all kept pieces to the GPU. */
drv_result cuda_pieces_drop_kept(struct cuda_engine *engine, struct cuda_pieces *pieces);
/* Changes the bound, in granules. OUT_OF_MEMORY: more than that is in use. */
drv_result cuda_pieces_bind(struct cuda_engine *engine, struct cuda_pieces *pieces, uint64_t bound);

#endif
