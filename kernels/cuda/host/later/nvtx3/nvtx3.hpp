/* See there; for hosts whose toolkit lacks the header. */
#pragma once
#include "../../../../cpu/include/nvtx3/nvtx3.hpp"
