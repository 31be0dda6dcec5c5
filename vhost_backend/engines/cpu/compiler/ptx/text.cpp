#include "text.h"

#include "../compiler.h"

namespace vgc::ptx
{

void Text::fail(Position at, const llvm::Twine &message) const
{
    vgc::fail(place(at) + message);
}

} // namespace vgc::ptx
