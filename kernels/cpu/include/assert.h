/* assert(), as NDEBUG is where this is included. Instead of the host's header, which would declare for host code alone what
 * vgc_libc.h declares for both in programs with -DNDEBUG. */
#if defined(__CUDACC__) && !defined(__VGC_HOST_HALF__)
#undef assert
#ifdef NDEBUG
#define assert(expression) ((void)0)
#else
#define assert(expression) (static_cast<bool>(expression) ? (void)0 : __assert_fail(#expression, __FILE__, __LINE__, __PRETTY_FUNCTION__))
#endif
#else /* the guest's own */
#include_next <assert.h>
#endif
