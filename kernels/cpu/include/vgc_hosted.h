/* Headers of the host that nvcc includes before every source. The compiler does so if the source may need them; in the
 * guest's host half, cuda_runtime.h includes this. */
#pragma once
#include <cstdio>
#include <cstring>
#include <ctime>
#include <math.h>
#include <new>
#include <stdlib.h>
#include <utility>
