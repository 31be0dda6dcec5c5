/* The name that cusparse.h had beside it in early releases, which programs still use. */
#pragma once
#include "cusparse.h"
