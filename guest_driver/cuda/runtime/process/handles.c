/* Memory of what programs have handles of. A program may use a handle after it has destroyed it, or destroy it twice:
 * its memory is used again for handles of the same size only, the longest unused first, so that what lies there can be
 * looked at, and is no other's. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

enum { MOST_SIZES = 16 };

struct unused {
    uint64_t magic; /* 0: no handle's */
    struct unused *next;
};

static struct {
    size_t size;
    struct unused *first;
    struct unused *last;
} lists[MOST_SIZES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Index of the list of the handles of this size; with the lock. MOST_SIZES: all lists are taken. */
static int list_of(size_t size)
{
    int i = 0;
    while (i < MOST_SIZES && lists[i].size != size && lists[i].size != 0)
        i++;
    if (i < MOST_SIZES)
        lists[i].size = size;
    return i;
}

void *rt_handle_new(size_t size)
{
    struct unused *found = NULL;
    (void)pthread_mutex_lock(&lock);
    int list = list_of(size);
    if (list < MOST_SIZES && lists[list].first != NULL) {
        found = lists[list].first;
        lists[list].first = found->next;
    }
    (void)pthread_mutex_unlock(&lock);
    return found != NULL ? memset(found, 0, size) : calloc(1, size);
}

bool rt_handle_end(uint64_t *magic)
{
    return __atomic_exchange_n(magic, 0, __ATOMIC_ACQ_REL) != 0;
}

void rt_handle_free(void *handle, size_t size)
{
    struct unused *unused = memset(handle, 0, size);
    (void)pthread_mutex_lock(&lock);
    int list = list_of(size);
    if (list < MOST_SIZES) { /* else it is never used again */
        if (lists[list].first == NULL)
            lists[list].first = unused;
        else
            lists[list].last->next = unused;
        lists[list].last = unused;
    }
    (void)pthread_mutex_unlock(&lock);
}
