/* memcpy and memset are NVRTC's own. */
#pragma once
#include <stddef.h>
