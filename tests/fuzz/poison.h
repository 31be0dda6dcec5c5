/* Memory that must not be accessed: AddressSanitizer watches it; without that, nobody does. */
#ifndef VGC_FUZZ_POISON_H
#define VGC_FUZZ_POISON_H

#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#endif
