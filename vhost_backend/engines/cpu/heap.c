/* The heap of malloc(), free(), new and delete in kernels. It is a variable of the image, so that it is charged,
 * migrated and unloaded with its program, and begins with zeroes, which is an empty heap.
 *
 * The heap is cut into pages. A block of more than half a page is a run of pages; smaller ones are powers of two, of
 * which a page has those of one size. Each PE takes blocks from pages of its shard; a block goes back to its page, and
 * a page without blocks to the heap. Kernels can overwrite everything here: an index is checked before it is used, and
 * a broken list ends early, which costs the kernel its own memory.
 */
#include "cpu_engine.h"

#include <sched.h>
#include <string.h>

enum {
    PAGE = 4096,
    LEAST_SHIFT = 4,    /* 16 bytes */
    LARGEST_SHIFT = 11, /* half a page */
    CLASSES = LARGEST_SHIFT - LEAST_SHIFT + 1,
    SHARDS = 16,
    SPINS = 64,
};

enum page_kind { PAGE_FREE = 0, PAGE_OF_BLOCKS = 1, PAGE_RUN = 2, PAGE_WITHIN = 3 };

/* Entry of a page in the heap's table. Links are page numbers + 1; 0: none. */
struct page {
    uint8_t kind; /* enum page_kind */
    uint8_t class;
    uint8_t shard;
    uint8_t listed;  /* in its shard's list, as it has free blocks */
    uint16_t used;   /* blocks */
    uint16_t fresh;  /* blocks that were never given */
    uint32_t first;  /* offset of the first free block in the page, + 1 */
    uint32_t before; /* in the shard's list */
    uint32_t next;
    uint32_t run;                               /* RUN: pages */
    uint64_t given[(PAGE >> LEAST_SHIFT) / 64]; /* BLOCKS: bit i: a block that was given begins at 2^LEAST_SHIFT i */
};

struct shard {
    atomic_uint lock;
    uint32_t lists[CLASSES]; /* pages with free blocks */
};

struct heap {
    atomic_uint lock; /* of the pages that are not given to shards */
    uint32_t hint;    /* where the search for free pages begins */
    struct shard shards[SHARDS];
    struct page pages[];
};

/* A heap as its program describes it. */
struct view {
    struct heap *heap;
    uint8_t *base; /* of the first page */
    uint32_t num_pages;
};

static struct view view_of(void *heap, uint64_t bytes)
{
    uint64_t pages = (bytes - sizeof(struct heap) - PAGE) / (PAGE + sizeof(struct page));
    uintptr_t end = (uintptr_t)heap + sizeof(struct heap) + pages * sizeof(struct page);
    return (struct view){heap, (uint8_t *)((end + PAGE - 1) & ~(uintptr_t)(PAGE - 1)),
                         pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX - 1};
}

static void take(atomic_uint *lock)
{
    while (atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0)
        for (int spins = 0; atomic_load_explicit(lock, memory_order_relaxed) != 0; spins++)
            if (spins < SPINS)
                __builtin_ia32_pause();
            else
                sched_yield();
}

static void give(atomic_uint *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

/* ---- pages -------------------------------------------------------------------------------------------------- */

/* Finds `count` free pages in a row within [from, to), the first at a multiple of `align`; `to` without such pages. */
static uint32_t find_run(const struct view *view, uint32_t from, uint32_t to, uint32_t count, uint64_t align)
{
    uint32_t length = 0;
    for (uint32_t page = from; page < to; page++) {
        bool free = view->heap->pages[page].kind == PAGE_FREE;
        if (free && length == 0 && (uintptr_t)(view->base + (uint64_t)page * PAGE) % align != 0)
            continue;
        length = free ? length + 1 : 0;
        if (length == count)
            return page + 1 - count;
    }
    return to;
}

/* Takes a run of pages; UINT32_MAX without one. */
static uint32_t take_run(const struct view *view, uint64_t count, uint64_t align, enum page_kind kind)
{
    struct heap *heap = view->heap;
    if (count > view->num_pages)
        return UINT32_MAX;
    take(&heap->lock);
    uint32_t hint = heap->hint < view->num_pages ? heap->hint : 0;
    uint32_t end = view->num_pages;
    uint32_t first = find_run(view, hint, end, (uint32_t)count, align);
    if (first == end)
        first = find_run(view, 0, end, (uint32_t)count, align);
    if (first == end) {
        give(&heap->lock);
        return UINT32_MAX;
    }
    for (uint32_t i = 0; i < count; i++)
        heap->pages[first + i].kind = i == 0 ? kind : PAGE_WITHIN;
    heap->pages[first].run = (uint32_t)count;
    heap->hint = first + (uint32_t)count;
    give(&heap->lock);
    return first;
}

static void give_run(const struct view *view, uint32_t first)
{
    struct heap *heap = view->heap;
    take(&heap->lock);
    uint32_t count = heap->pages[first].run;
    for (uint32_t i = 0; i < count && i < view->num_pages - first; i++)
        heap->pages[first + i] = (struct page){.kind = PAGE_FREE};
    if (first < heap->hint)
        heap->hint = first;
    give(&heap->lock);
}

/* ---- blocks, with the shard's lock held ---------------------------------------------------------------------- */

static void list(const struct view *view, struct shard *shard, uint32_t number)
{
    struct page *page = &view->heap->pages[number];
    uint32_t *head = &shard->lists[page->class];
    page->before = 0;
    page->next = *head;
    if (*head != 0 && *head <= view->num_pages)
        view->heap->pages[*head - 1].before = number + 1;
    *head = number + 1;
    page->listed = 1;
}

static void unlist(const struct view *view, struct shard *shard, uint32_t number)
{
    struct page *page = &view->heap->pages[number];
    if (page->before != 0 && page->before <= view->num_pages)
        view->heap->pages[page->before - 1].next = page->next;
    else
        shard->lists[page->class] = page->next;
    if (page->next != 0 && page->next <= view->num_pages)
        view->heap->pages[page->next - 1].before = page->before;
    page->listed = 0;
}

/* Takes a block of a page that has free ones. */
static void *take_block(const struct view *view, struct shard *shard, uint32_t number)
{
    struct page *page = &view->heap->pages[number];
    uint8_t *base = view->base + (uint64_t)number * PAGE;
    uint32_t size = UINT32_C(1) << (page->class + LEAST_SHIFT), offset;
    if (page->first != 0 && page->first - 1 <= PAGE - size) {
        offset = page->first - 1;
        memcpy(&page->first, base + offset, sizeof(page->first));
    } else {
        page->first = 0;
        offset = page->fresh * size;
        page->fresh++;
    }
    page->used++;
    if (page->first == 0 && (page->fresh + 1u) * size > PAGE)
        unlist(view, shard, number);
    if (offset > PAGE - size)
        return NULL;
    page->given[offset >> LEAST_SHIFT >> 6] |= UINT64_C(1) << (offset >> LEAST_SHIFT & 63);
    return base + offset;
}

static void *allocate_small(const struct view *view, uint32_t class)
{
    uint32_t index = vgc_cpu_current->pe % SHARDS;
    struct shard *shard = &view->heap->shards[index];
    void *block = NULL;
    take(&shard->lock);
    uint32_t number = shard->lists[class] - 1;
    if (number >= view->num_pages || view->heap->pages[number].class != class) {
        number = take_run(view, 1, PAGE, PAGE_OF_BLOCKS);
        if (number != UINT32_MAX) {
            struct page *page = &view->heap->pages[number];
            page->class = (uint8_t)class;
            page->shard = (uint8_t)index;
            list(view, shard, number);
        }
    }
    if (number != UINT32_MAX)
        block = take_block(view, shard, number);
    give(&shard->lock);
    return block;
}

/* Takes a block that another PE's shard has left, when there are no pages. */
static void *allocate_elsewhere(const struct view *view, uint32_t class)
{
    void *block = NULL;
    for (uint32_t i = 0; i < SHARDS && block == NULL; i++) {
        struct shard *shard = &view->heap->shards[i];
        take(&shard->lock);
        uint32_t number = shard->lists[class] - 1;
        if (number < view->num_pages && view->heap->pages[number].class == class)
            block = take_block(view, shard, number);
        give(&shard->lock);
    }
    return block;
}

static __attribute__((noreturn)) void refuse(const void *memory)
{
    struct cpu_pe *pe = cpu_current_pe();
    char where[160];
    cpu_describe(pe, where, sizeof(where));
    cpu_fail_launch(pe, VGC_STATUS_FAULT, "free() of %p, which malloc() of this program has not given, in %s", memory,
                    where);
}

static void free_block(const struct view *view, uint32_t number, const uint8_t *memory)
{
    struct page *page = &view->heap->pages[number];
    uint32_t index = page->shard % SHARDS;
    struct shard *shard = &view->heap->shards[index];
    uint32_t offset = (uint32_t)(memory - view->base) % PAGE, class = page->class;
    if (class >= CLASSES || offset % (UINT32_C(1) << (class + LEAST_SHIFT)) != 0)
        refuse(memory);
    take(&shard->lock);
    uint64_t *given = &page->given[offset >> LEAST_SHIFT >> 6], bit = UINT64_C(1) << (offset >> LEAST_SHIFT & 63);
    bool known = page->kind == PAGE_OF_BLOCKS && page->used != 0 && (*given & bit) != 0;
    if (known) {
        *given &= ~bit;
        memcpy(view->base + (uint64_t)number * PAGE + offset, &page->first, sizeof(page->first));
        page->first = offset + 1;
        if (!page->listed)
            list(view, shard, number);
        if (--page->used == 0) {
            unlist(view, shard, number);
            give_run(view, number);
        }
    }
    give(&shard->lock);
    if (!known)
        refuse(memory);
}

/* ---- for kernels -------------------------------------------------------------------------------------------- */

void *__vgc_heap_allocate(void *heap, uint64_t heap_bytes, uint64_t bytes, uint64_t align)
{
    const struct view view = view_of(heap, heap_bytes);
    if (bytes == 0 || bytes > heap_bytes || align > heap_bytes || (align & (align - 1)) != 0)
        return NULL;
    uint64_t size = bytes > align ? bytes : align; /* blocks lie at multiples of their size */
    uint32_t class = 0;
    while (class < CLASSES && UINT64_C(1) << (class + LEAST_SHIFT) < size)
        class ++;
    if (class < CLASSES) {
        void *block = allocate_small(&view, class);
        return block != NULL ? block : allocate_elsewhere(&view, class);
    }
    uint32_t first = take_run(&view, (bytes + PAGE - 1) / PAGE, align > PAGE ? align : PAGE, PAGE_RUN);
    return first == UINT32_MAX ? NULL : view.base + (uint64_t)first * PAGE;
}

void __vgc_heap_release(void *heap, uint64_t heap_bytes, void *memory)
{
    const struct view view = view_of(heap, heap_bytes);
    uint64_t offset = (uint64_t)((uint8_t *)memory - view.base);
    if (memory == NULL)
        return;
    if (offset / PAGE >= view.num_pages)
        refuse(memory);
    uint32_t number = (uint32_t)(offset / PAGE);
    if (view.heap->pages[number].kind == PAGE_OF_BLOCKS)
        free_block(&view, number, memory);
    else if (view.heap->pages[number].kind == PAGE_RUN && offset % PAGE == 0)
        give_run(&view, number);
    else
        refuse(memory);
}
