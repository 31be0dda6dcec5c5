#include "matrices.h"

SPARSE_ROWS(add_c, MatrixSum, add_rows<ComplexSingle>, work.rows)
