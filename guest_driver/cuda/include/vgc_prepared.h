/* Text that mynvcc precompiles for host code (prepared.cpp). */
#include <cuda_runtime.h>
