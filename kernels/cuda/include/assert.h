/* No guard: each inclusion follows the NDEBUG of its place. */
#undef assert
#ifdef NDEBUG
#define assert(expression) ((void)0)
#else
#define assert(expression)                                                                                             \
    ((expression) ? (void)0 : __assertfail(#expression, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
