#include "matrices.h"

SPARSE_ROWS(add_d, MatrixSum, add_rows<double>, work.rows)
