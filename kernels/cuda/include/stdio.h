/* printf is NVRTC's own. */
#pragma once
#include <stddef.h>
