#include "forms.h"

namespace vgc::ptx
{

llvm::ArrayRef<Form> matrix_forms()
{
    return {};
}

llvm::ArrayRef<Form> video_forms()
{
    return {};
}

} // namespace vgc::ptx
