#include "matrices.h"

SPARSE_ROWS(add_s, MatrixSum, add_rows<float>, work.rows)
