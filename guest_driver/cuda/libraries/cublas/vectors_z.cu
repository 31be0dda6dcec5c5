#include "vectors.h"

BLAS_BOTH_WIDTHS(BLAS_VECTORS, Z, z, Dz, cuDoubleComplex, double)
BLAS_BOTH_WIDTHS(BLAS_DOT, Zdotu, false, cuDoubleComplex)
BLAS_BOTH_WIDTHS(BLAS_DOT, Zdotc, true, cuDoubleComplex)
BLAS_BOTH_WIDTHS(BLAS_SCAL, Zdscal, cuDoubleComplex, double)
BLAS_BOTH_WIDTHS(BLAS_ROT, Zrot, cuDoubleComplex, double, cuDoubleComplex)
BLAS_BOTH_WIDTHS(BLAS_ROT, Zdrot, cuDoubleComplex, double, double)
