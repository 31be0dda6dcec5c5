/* Keys by which contexts open memory and events of others, and the contexts that have such memory open. */
#include "internal.h"

#include <sys/random.h>

/* Both halves are compared always: the time says nothing of how much of a key was right. */
static bool is_equal(const uint64_t *one, const uint64_t *other)
{
    return ((one[0] ^ other[0]) | (one[1] ^ other[1])) == 0;
}

static bool is_none(const uint64_t *key)
{
    return (key[0] | key[1]) == 0;
}

struct vgc_share *vgc_share_find(struct vgc_dp *dp, const uint64_t *key)
{
    if (is_none(key))
        return NULL;
    for (uint32_t i = 0; i < dp->num_shares; i++)
        if (is_equal(dp->shares[i].key, key))
            return &dp->shares[i];
    return NULL;
}

static bool is_free(const struct vgc_share *share)
{
    return share->address == 0 && share->event == 0;
}

struct vgc_share *vgc_share_new(struct vgc_dp *dp)
{
    struct vgc_share share = {0};
    uint32_t index = 0;
    while (index < dp->num_shares && !is_free(&dp->shares[index]))
        index++;
    if (index == VGC_MAX_SHARES || getrandom(share.key, sizeof(share.key), 0) != sizeof(share.key))
        return NULL;
    share.key[0] |= is_none(share.key);
    dp->shares[index] = share;
    dp->num_shares = index < dp->num_shares ? dp->num_shares : index + 1;
    return &dp->shares[index];
}

void vgc_share_end(struct vgc_dp *dp, struct vgc_share *share)
{
    *share = (struct vgc_share){0};
    while (dp->num_shares > 0 && is_free(&dp->shares[dp->num_shares - 1]))
        dp->num_shares--;
}

bool vgc_share_has_user(const struct vgc_share *share, uint32_t context)
{
    return share->users[(context - 1) / 64] >> ((context - 1) % 64) & 1;
}

void vgc_share_set_user(struct vgc_share *share, uint32_t context, bool is_user)
{
    uint64_t bit = UINT64_C(1) << ((context - 1) % 64);
    uint64_t *word = &share->users[(context - 1) / 64];
    *word = is_user ? *word | bit : *word & ~bit;
}

bool vgc_share_is_used(const struct vgc_share *share)
{
    uint64_t any = share->closing;
    for (uint32_t i = 0; i < VGC_MAX_CONTEXTS / 64; i++)
        any |= share->users[i];
    return any != 0;
}
