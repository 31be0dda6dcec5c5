/* Functions of libcudart: cuDNN 9 is one library for several releases of CUDA, so it takes those of the runtime that
 * the process has. */
#include <dlfcn.h>
#include <pthread.h>

#include "dnn.h"

static const char *const RUNTIMES[] = {"libcudart.so.13", "libcudart.so.12"};
static struct dnn_runtime runtime;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool take(void *library)
{
    void *find = dlsym(library, "__cudaVgcFunction"), *launch = dlsym(library, "cudaLaunchKernel");
    if (find == NULL || launch == NULL)
        return false;
    *(void **)&runtime.find = find;
    *(void **)&runtime.launch = launch;
    return true;
}

static void look(void)
{
    if (take(RTLD_DEFAULT))
        return;
    for (size_t i = 0; i < sizeof(RUNTIMES) / sizeof(RUNTIMES[0]); i++) {
        void *library = dlopen(RUNTIMES[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library != NULL && take(library))
            return;
    }
}

const struct dnn_runtime *dnn_runtime(void)
{
    (void)pthread_once(&once, look);
    return runtime.find != NULL ? &runtime : NULL;
}
