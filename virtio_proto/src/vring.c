/* Split virtqueues; vgc_vring.h documents the functions.
 *
 * Memory order. An index (avail.idx, used.idx) is published with a release store and read with an acquire
 * load: it carries the ring entries and descriptors behind it. Notification suppression needs more: "I
 * published, then looked whether you sleep" against "I said I sleep, then looked whether you published" holds
 * only with a full fence between the store and the load on both sides. No other barriers are needed.
 *
 * Trust. All ring words that the other side can write are read once, through the load helpers below; decisions use
 * the local copy. This side keeps its own state in private memory and never reads it back from shared memory.
 */
#include "vgc_vring.h"

#include "vgc_endian.h"

#include <errno.h>
#include <stdatomic.h>

enum { AVAIL_FLAG_NO_INTERRUPT = 1, USED_FLAG_NO_NOTIFY = 1 };
enum { WORD_FLAGS = 0, WORD_IDX = 1, WORD_RING = 2 }; /* 16-bit words of avail and used */

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- shared words ----------------------------------------------------------------------------- */

/* Rings are little-endian [virtio 1.3 §2.7]: these convert what they load and store. */
static inline uint16_t load_acquire(const uint16_t *word)
{
    return vgc_le16(atomic_load_explicit((const _Atomic uint16_t *)word, memory_order_acquire));
}

static inline uint16_t load_relaxed(const uint16_t *word)
{
    return vgc_le16(atomic_load_explicit((const _Atomic uint16_t *)word, memory_order_relaxed));
}

static inline void store_release(uint16_t *word, uint16_t value)
{
    atomic_store_explicit((_Atomic uint16_t *)word, vgc_le16(value), memory_order_release);
}

static inline void store_relaxed(uint16_t *word, uint16_t value)
{
    atomic_store_explicit((_Atomic uint16_t *)word, vgc_le16(value), memory_order_relaxed);
}

static inline void full_fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* Descriptors are read as two volatile 64-bit words, since an indirect table may lie at any address. */
struct packed_word {
    uint64_t value;
} __attribute__((packed, may_alias));

static inline struct vgc_desc desc_load(const struct vgc_desc *table, uint32_t index)
{
    const volatile struct packed_word *words = (const volatile struct packed_word *)table + 2 * (size_t)index;
    uint64_t addr = vgc_le64(words[0].value);
    uint64_t rest = vgc_le64(words[1].value);
    return (struct vgc_desc){addr, (uint32_t)rest, (uint16_t)(rest >> 32), (uint16_t)(rest >> 48)};
}

static inline void desc_store(struct vgc_desc *table, uint32_t index, struct vgc_desc desc)
{
    struct packed_word *words = (struct packed_word *)table + 2 * (size_t)index;
    words[0].value = vgc_le64(desc.addr);
    words[1].value = vgc_le64(desc.len | (uint64_t)desc.flags << 32 | (uint64_t)desc.next << 48);
}

static inline _Atomic uint32_t *used_elem(const struct vgc_ring *ring, uint16_t index)
{
    return (_Atomic uint32_t *)(ring->used + WORD_RING) + 2 * (index & (ring->num - 1u));
}

static inline uint16_t *avail_entry(const struct vgc_ring *ring, uint16_t index)
{
    return ring->avail + WORD_RING + (index & (ring->num - 1u));
}

static inline uint16_t *used_event(const struct vgc_ring *ring)
{
    return ring->avail + WORD_RING + ring->num;
}

static inline uint16_t *avail_event(const struct vgc_ring *ring)
{
    return ring->used + WORD_RING + 4 * ring->num;
}

/* True if the index passed `event` on its way from `old` to `new` [virtio 1.3 §2.7.7.1]. */
static inline bool passed(uint16_t event, uint16_t new, uint16_t old)
{
    return (uint16_t)(new - event - 1) < (uint16_t)(new - old);
}

static bool num_is_valid(uint16_t num)
{
    return num != 0 && num <= VGC_MAX_QUEUE_SIZE && (num & (num - 1)) == 0;
}

/* ---- memory that the device may touch --------------------------------------------------------- */

static inline uint8_t *region_at(const struct vgc_mem_region *region, uint64_t offset, uint64_t len)
{
    if (LIKELY(offset < region->size && len != 0 && len <= region->size - offset))
        return region->host + offset;
    return NULL;
}

uint8_t *vgc_mem_at_gpa(const struct vgc_mem *mem, uint64_t gpa, uint64_t len)
{
    for (uint32_t i = 0; i < mem->count; i++) {
        uint8_t *host = region_at(&mem->regions[i], gpa - mem->regions[i].gpa, len);
        if (LIKELY(host != NULL))
            return host;
    }
    return NULL;
}

uint8_t *vgc_mem_at_uva(const struct vgc_mem *mem, uint64_t uva, uint64_t len)
{
    for (uint32_t i = 0; i < mem->count; i++) {
        uint8_t *host = region_at(&mem->regions[i], uva - mem->regions[i].uva, len);
        if (host != NULL)
            return host;
    }
    return NULL;
}

/* ---- device side: placement ------------------------------------------------------------------- */

struct part {
    uint64_t uva;
    size_t size;
    size_t align;
    uint8_t *host;
};

static int place(struct part *part, const struct vgc_mem *mem)
{
    part->host = vgc_mem_at_uva(mem, part->uva, part->size);
    if (part->host == NULL)
        return -EFAULT;
    return part->uva % part->align || (uintptr_t)part->host % part->align ? -EBADMSG : 0;
}

static bool overlap(const struct part *a, const struct part *b)
{
    return a->uva < b->uva + b->size && b->uva < a->uva + a->size;
}

int vgc_vq_device_init(struct vgc_vq_device *vq, const struct vgc_mem *mem, uint16_t num, uint64_t desc_uva,
                       uint64_t avail_uva, uint64_t used_uva, uint16_t base, bool event_idx, bool indirect)
{
    if (!num_is_valid(num))
        return -EINVAL;
    struct part desc = {desc_uva, VGC_DESC_BYTES(num), VGC_DESC_ALIGN, NULL};
    struct part avail = {avail_uva, VGC_AVAIL_BYTES(num), VGC_AVAIL_ALIGN, NULL};
    struct part used = {used_uva, VGC_USED_BYTES(num), VGC_USED_ALIGN, NULL};
    struct part *const parts[] = {&desc, &avail, &used};
    for (size_t i = 0; i < 3; i++) {
        int error = place(parts[i], mem);
        if (error)
            return error;
    }
    if (overlap(&desc, &avail) || overlap(&desc, &used) || overlap(&avail, &used))
        return -EBADMSG;
    *vq = (struct vgc_vq_device){
        .ring = {(struct vgc_desc *)(void *)desc.host, (uint16_t *)(void *)avail.host, (uint16_t *)(void *)used.host,
                 num},
        .event_idx = event_idx,
        .indirect = indirect,
        .last_avail = base,
        .avail_seen = base,
    };
    vq->used_idx = vq->signalled_used = load_acquire(vq->ring.used + WORD_IDX);
    return 0;
}

/* ---- device side: popping --------------------------------------------------------------------- */

static inline bool is_inflight(const struct vgc_vq_device *vq, uint16_t head)
{
    return vq->inflight[head / 64] >> (head % 64) & 1;
}

/* Appends the buffer of one descriptor. */
static inline bool chain_append(struct vgc_chain *chain, const struct vgc_mem *mem, struct vgc_desc desc)
{
    uint32_t count = (uint32_t)chain->num_readable + chain->num_writable;
    uint8_t *base = vgc_mem_at_gpa(mem, desc.addr, desc.len);
    if (UNLIKELY(base == NULL || count == VGC_MAX_CHAIN))
        return false;
    if (desc.flags & VGC_DESC_F_WRITE) {
        chain->num_writable++;
        chain->writable_len += desc.len;
    } else {
        if (UNLIKELY(chain->num_writable != 0))
            return false; /* [virtio 1.3 §2.7.4.2] readable ones first */
        chain->num_readable++;
        chain->readable_len += desc.len;
    }
    chain->spans[count] = (struct vgc_span){base, desc.len};
    return true;
}

/* Descriptor table that is being walked: the ring's, or an indirect one. */
struct table {
    const struct vgc_desc *desc;
    uint32_t size; /* entries */
    bool nested;
};

/* Enters an indirect table. [virtio 1.3 §2.7.5.3]: the WRITE flag of the descriptor that refers to it is ignored. */
static bool table_enter(struct table *table, const struct vgc_mem *mem, struct vgc_desc desc, bool allowed)
{
    if (!allowed || table->nested || (desc.flags & VGC_DESC_F_NEXT))
        return false;
    uint32_t size = desc.len / sizeof(struct vgc_desc);
    if (desc.len % sizeof(struct vgc_desc) != 0 || size > VGC_MAX_CHAIN)
        return false;
    const uint8_t *host = vgc_mem_at_gpa(mem, desc.addr, desc.len);
    *table = (struct table){(const struct vgc_desc *)(const void *)host, size, true};
    return host != NULL;
}

/* Walks a chain. It ends even if the chain loops: every step appends one of at most VGC_MAX_CHAIN buffers, or enters
 * the only indirect table. */
static int walk(const struct vgc_vq_device *vq, const struct vgc_mem *mem, struct vgc_chain *chain)
{
    struct table table = {vq->ring.desc, vq->ring.num, false};
    uint32_t index = chain->head;

    chain->num_readable = chain->num_writable = 0;
    chain->readable_len = chain->writable_len = 0;
    for (;;) {
        if (UNLIKELY(index >= table.size))
            return -EBADMSG;
        struct vgc_desc desc = desc_load(table.desc, index);
        if (desc.flags & VGC_DESC_F_INDIRECT) {
            if (!table_enter(&table, mem, desc, vq->indirect))
                return -EBADMSG;
            index = 0;
            continue;
        }
        if (!chain_append(chain, mem, desc))
            return -EBADMSG;
        if (!(desc.flags & VGC_DESC_F_NEXT))
            break;
        index = desc.next;
    }
    /* [virtio 1.3 §2.7.5.2] */
    return chain->readable_len + chain->writable_len <= UINT64_C(1) << 32 ? 1 : -EBADMSG;
}

/* Reads avail.idx. 1: chains are available; 0: none; -EIO: an impossible index. */
static int refill(struct vgc_vq_device *vq)
{
    uint16_t idx = load_acquire(vq->ring.avail + WORD_IDX);
    if ((uint16_t)(idx - vq->last_avail) > vq->ring.num)
        return -EIO;
    vq->avail_seen = idx;
    return idx != vq->last_avail;
}

int vgc_vq_pop(struct vgc_vq_device *vq, const struct vgc_mem *mem, struct vgc_chain *chain)
{
    if (vq->avail_seen == vq->last_avail) {
        int found = refill(vq);
        if (found <= 0)
            return found;
    }
    uint16_t head = load_relaxed(avail_entry(&vq->ring, vq->last_avail));
    if (UNLIKELY(head >= vq->ring.num || is_inflight(vq, head)))
        return -EIO;
    vq->last_avail++;
    return vgc_vq_rewalk(vq, mem, head, chain);
}

int vgc_vq_rewalk(struct vgc_vq_device *vq, const struct vgc_mem *mem, uint16_t head, struct vgc_chain *chain)
{
    if (UNLIKELY(head >= vq->ring.num))
        return -EIO;
    vq->inflight[head / 64] |= UINT64_C(1) << (head % 64);
    chain->head = head;
    return walk(vq, mem, chain);
}

bool vgc_vq_has_avail(const struct vgc_vq_device *vq)
{
    return vq->avail_seen != vq->last_avail || load_relaxed(vq->ring.avail + WORD_IDX) != vq->last_avail;
}

/* ---- device side: pushing and notifications --------------------------------------------------- */

int vgc_vq_push(struct vgc_vq_device *vq, uint16_t head, uint32_t len)
{
    if (UNLIKELY(head >= vq->ring.num || !is_inflight(vq, head)))
        return -EINVAL;
    vq->inflight[head / 64] &= ~(UINT64_C(1) << (head % 64));
    _Atomic uint32_t *elem = used_elem(&vq->ring, vq->used_idx);
    atomic_store_explicit(&elem[0], vgc_le32(head), memory_order_relaxed);
    atomic_store_explicit(&elem[1], vgc_le32(len), memory_order_relaxed);
    store_release(vq->ring.used + WORD_IDX, ++vq->used_idx);
    return 0;
}

bool vgc_vq_should_call(struct vgc_vq_device *vq)
{
    uint16_t old = vq->signalled_used;
    bool first = !vq->signalled_valid;
    if (vq->used_idx == old)
        return false;
    vq->signalled_used = vq->used_idx;
    vq->signalled_valid = true;
    full_fence();
    if (!vq->event_idx)
        return !(load_relaxed(vq->ring.avail + WORD_FLAGS) & AVAIL_FLAG_NO_INTERRUPT);
    /* What an earlier instance told the driver is unknown: the first decision is always a call. */
    return first || passed(load_relaxed(used_event(&vq->ring)), vq->used_idx, old);
}

bool vgc_vq_enable_kick(struct vgc_vq_device *vq)
{
    if (vq->event_idx)
        store_relaxed(avail_event(&vq->ring), vq->last_avail);
    else
        store_relaxed(vq->ring.used + WORD_FLAGS, 0);
    full_fence();
    return vgc_vq_has_avail(vq);
}

void vgc_vq_disable_kick(struct vgc_vq_device *vq)
{
    if (vq->event_idx) /* an index just passed: the driver reaches it again only after 65535 chains */
        store_relaxed(avail_event(&vq->ring), (uint16_t)(vq->last_avail - 1));
    else
        store_relaxed(vq->ring.used + WORD_FLAGS, USED_FLAG_NO_NOTIFY);
}

/* ---- driver side ------------------------------------------------------------------------------ */

/* Resets the driver's state: all descriptors free, indices at `idx`, calls enabled. */
static void driver_reset(struct vgc_vq_driver *vq, struct vgc_ring ring, bool event_idx, uint16_t idx)
{
    *vq = (struct vgc_vq_driver){
        .ring = ring,
        .event_idx = event_idx,
        .num_free = ring.num,
        .avail_idx = idx,
        .last_used = idx,
        .kicked_idx = idx,
    };
    for (uint16_t i = 0; i < ring.num; i++)
        vq->next[i] = (uint16_t)(i + 1);
    store_relaxed(ring.avail + WORD_FLAGS, 0);
    store_relaxed(used_event(&ring), idx);
}

int vgc_vq_driver_init(struct vgc_vq_driver *vq, struct vgc_ring ring, bool event_idx)
{
    if (!num_is_valid(ring.num))
        return -EINVAL;
    driver_reset(vq, ring, event_idx, 0);
    return 0;
}

int vgc_vq_driver_attach(struct vgc_vq_driver *vq, struct vgc_ring ring, bool event_idx)
{
    if (!num_is_valid(ring.num))
        return -EINVAL;
    uint16_t idx = load_relaxed(ring.avail + WORD_IDX);
    if (load_acquire(ring.used + WORD_IDX) != idx)
        return -EBUSY;
    driver_reset(vq, ring, event_idx, idx);
    return 0;
}

static inline uint16_t sg_flags(uint32_t index, uint32_t n_readable, uint32_t count)
{
    unsigned write = index >= n_readable ? VGC_DESC_F_WRITE : 0;
    unsigned next = index + 1 < count ? VGC_DESC_F_NEXT : 0;
    return (uint16_t)(write | next);
}

/* Fills descriptors from the head of the free list on, in the list's order. */
static void fill_direct(struct vgc_vq_driver *vq, const struct vgc_sg *sg, uint32_t n_readable, uint32_t count)
{
    uint16_t at = vq->free_head;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t next = vq->next[at];
        uint16_t flags = sg_flags(i, n_readable, count);
        desc_store(vq->ring.desc, at,
                   (struct vgc_desc){sg[i].gpa, sg[i].len, flags, flags & VGC_DESC_F_NEXT ? next : 0});
        at = next;
    }
    vq->free_head = at;
}

static void fill_indirect(struct vgc_vq_driver *vq, const struct vgc_sg *sg, uint32_t n_readable, uint32_t count,
                          struct vgc_desc *table, uint64_t table_gpa)
{
    for (uint32_t i = 0; i < count; i++)
        desc_store(table, i,
                   (struct vgc_desc){sg[i].gpa, sg[i].len, sg_flags(i, n_readable, count),
                                     i + 1 < count ? (uint16_t)(i + 1) : 0});
    uint16_t at = vq->free_head;
    desc_store(vq->ring.desc, at,
               (struct vgc_desc){table_gpa, count * (uint32_t)sizeof(*table), VGC_DESC_F_INDIRECT, 0});
    vq->free_head = vq->next[at];
}

int vgc_vq_add(struct vgc_vq_driver *vq, const struct vgc_sg *sg, uint16_t n_readable, uint16_t n_writable,
               struct vgc_desc *table, uint64_t table_gpa, void *token)
{
    uint32_t count = (uint32_t)n_readable + n_writable;
    uint32_t needed = table != NULL ? 1 : count;
    if (count == 0 || count > VGC_MAX_CHAIN || needed > vq->ring.num)
        return -EINVAL;
    if (needed > vq->num_free)
        return -ENOSPC;
    uint16_t head = vq->free_head;
    if (table != NULL)
        fill_indirect(vq, sg, n_readable, count, table, table_gpa);
    else
        fill_direct(vq, sg, n_readable, count);
    vq->num_free = (uint16_t)(vq->num_free - needed);
    vq->chain_len[head] = (uint16_t)needed;
    vq->token[head] = token;
    store_relaxed(avail_entry(&vq->ring, vq->avail_idx), head);
    store_release(vq->ring.avail + WORD_IDX, ++vq->avail_idx);
    return head;
}

bool vgc_vq_should_kick(struct vgc_vq_driver *vq)
{
    uint16_t old = vq->kicked_idx;
    if (vq->avail_idx == old)
        return false;
    vq->kicked_idx = vq->avail_idx;
    full_fence();
    if (!vq->event_idx)
        return !(load_relaxed(vq->ring.used + WORD_FLAGS) & USED_FLAG_NO_NOTIFY);
    return passed(load_relaxed(avail_event(&vq->ring)), vq->avail_idx, old);
}

/* Puts the chain's descriptors, which are still linked in the private list, in front of the free ones. */
static void free_chain(struct vgc_vq_driver *vq, uint16_t head)
{
    uint16_t last = head;
    for (uint16_t i = 1; i < vq->chain_len[head]; i++)
        last = vq->next[last];
    vq->next[last] = vq->free_head;
    vq->free_head = head;
    vq->num_free = (uint16_t)(vq->num_free + vq->chain_len[head]);
    vq->chain_len[head] = 0;
}

int vgc_vq_take(struct vgc_vq_driver *vq, void **token, uint32_t *len)
{
    uint16_t idx = load_acquire(vq->ring.used + WORD_IDX);
    if (idx == vq->last_used)
        return 0;
    _Atomic uint32_t *elem = used_elem(&vq->ring, vq->last_used);
    uint32_t head = vgc_le32(atomic_load_explicit(&elem[0], memory_order_relaxed));
    if (UNLIKELY(head >= vq->ring.num || vq->chain_len[head] == 0))
        return -EIO;
    *len = vgc_le32(atomic_load_explicit(&elem[1], memory_order_relaxed));
    *token = vq->token[head];
    free_chain(vq, (uint16_t)head);
    __atomic_store_n(&vq->last_used, (uint16_t)(vq->last_used + 1), __ATOMIC_RELAXED); /* for those who only look */
    return 1;
}

bool vgc_vq_enable_call(struct vgc_vq_driver *vq)
{
    if (vq->event_idx)
        store_relaxed(used_event(&vq->ring), vq->last_used);
    else
        store_relaxed(vq->ring.avail + WORD_FLAGS, 0);
    full_fence();
    return load_relaxed(vq->ring.used + WORD_IDX) != vq->last_used;
}

void vgc_vq_disable_call(struct vgc_vq_driver *vq)
{
    if (vq->event_idx)
        store_relaxed(used_event(&vq->ring), (uint16_t)(vq->last_used - 1));
    else
        store_relaxed(vq->ring.avail + WORD_FLAGS, AVAIL_FLAG_NO_INTERRUPT);
}
