// Rule: files of C use the libraries, whose headers are those of C, too.
// build: $CC -std=c99 -Wall -Werror -I$INCLUDE -c $SOURCE/parts/libraries.c -o libraries.o
// build: $NVCC $SOURCE/libraries_in_c.cu libraries.o -lcublas -lcufft -o libraries_in_c
#include "check.h"

extern "C" int norm_in_c(const float *numbers, int count, float *norm);
extern "C" int transform_in_c(int count, float *first_real);

int main()
{
    const float numbers[] = {3, 4, 12};
    float norm = 0, sum = 0;
    EXPECT_EQUAL(norm_in_c(numbers, 3, &norm), 0);
    EXPECT_EQUAL(norm, 13.0f);
    EXPECT_EQUAL(transform_in_c(16, &sum), 0);
    EXPECT_EQUAL(sum, 120.0f);
    return finish();
}
