/* Functions of the host by name, for the toolkit's libraries: cuBLAS and cuDNN have the host's do what they can. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

struct named {
    struct named *next;
    struct rt_function *function;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct named *all; /* they stay: there are as many as names are asked for */

/* The function, which launches take in place of a stub; NULL: no memory. */
static struct rt_function *function_of(const char *name)
{
    struct named *one = all;
    while (one != NULL && strcmp(one->function->name, name) != 0)
        one = one->next;
    if (one != NULL)
        return one->function;
    struct rt_function *function = rt_register_kernel(NULL, name);
    one = function != NULL ? malloc(sizeof(*one)) : NULL;
    if (one == NULL)
        return NULL;
    *one = (struct named){all, function};
    all = one;
    return function;
}

/* Finds a function that the current device's host has by this name; it is launched as a kernel of one thread. The error
 * of a name that it does not have is cudaErrorSymbolNotFound, and no last error. */
cudaError_t __cudaVgcFunction(const char *name, const void **function);

RT_API cudaError_t __cudaVgcFunction(const char *name, const void **function)
{
    struct rt_device *device;
    struct vgc_function *loaded;
    cudaError_t error = rt_current(&device);
    if (error != cudaSuccess)
        return error;
    (void)pthread_mutex_lock(&mutex);
    struct rt_function *found = function_of(name);
    (void)pthread_mutex_unlock(&mutex);
    if (found == NULL)
        return cudaErrorMemoryAllocation;
    *function = found;
    return rt_load_function(device, found, &loaded);
}
