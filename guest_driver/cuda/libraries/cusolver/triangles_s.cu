#include "triangles.h"

namespace solver
{
SOLVER_TRIANGLES(float)
}
