/* cuRAND's device functions. */
#pragma once
#include "vgc_rand_poisson.h"
