/* Types of numbers and versions that CUDA's libraries share: the runtime's headers have them, too. */
#pragma once
#include <driver_types.h>
