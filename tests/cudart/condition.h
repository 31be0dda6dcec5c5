/* The check that programs in C make of all that has no result of its own. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
