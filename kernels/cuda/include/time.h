/* clock and clock_t are NVRTC's own. */
#pragma once
