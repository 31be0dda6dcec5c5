/* Headers of the host that nvcc includes before every source. The compiler does so if the source may need them. */
#pragma once
#include <math.h>
#include <new>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utility>
