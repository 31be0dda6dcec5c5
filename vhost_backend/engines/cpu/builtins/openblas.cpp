// OpenBLAS, loaded at run time.
#include "openblas.h"

#include "vhost_backend/builtins/vgc_builtins.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <tuple>

namespace vgc
{
namespace
{
std::tuple<Blas<float>, Blas<double>> functions;
bool is_loaded = false;

template <class F> bool find(void *library, const char *name, F &function)
{
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
}

bool find_all(void *library)
{
    auto &[single, twice] = functions;
    return find(library, "scipy_cblas_saxpy64_", single.axpy) && find(library, "scipy_cblas_sdot64_", single.dot) &&
           find(library, "scipy_cblas_snrm264_", single.nrm2) && find(library, "scipy_cblas_sgemv64_", single.gemv) &&
           find(library, "scipy_cblas_sgemm64_", single.gemm) && find(library, "scipy_cblas_daxpy64_", twice.axpy) &&
           find(library, "scipy_cblas_ddot64_", twice.dot) && find(library, "scipy_cblas_dnrm264_", twice.nrm2) &&
           find(library, "scipy_cblas_dgemv64_", twice.gemv) && find(library, "scipy_cblas_dgemm64_", twice.gemm);
}
} // namespace

template <class T> const Blas<T> &blas()
{
    return std::get<Blas<T>>(functions);
}

template const Blas<float> &blas<float>();
template const Blas<double> &blas<double>();

bool has_openblas()
{
    return is_loaded;
}

int open_openblas(const char *path, char *why)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1); // it would start threads while it is loaded
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        snprintf(why, VGC_BUILTIN_WHY, "OpenBLAS cannot be loaded: %s", dlerror());
        return -ENOENT;
    }
    if (!find_all(library)) {
        snprintf(why, VGC_BUILTIN_WHY, "%s is not the OpenBLAS of the package scipy-openblas64", path);
        dlclose(library);
        return -ENOENT;
    }
    is_loaded = true;
    return 0;
}
} // namespace vgc
