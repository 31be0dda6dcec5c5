#include "matrices.h"

SPARSE_ROWS(add_z, MatrixSum, add_rows<ComplexDouble>, work.rows)
