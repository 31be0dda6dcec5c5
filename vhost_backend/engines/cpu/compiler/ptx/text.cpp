#include "text.h"

#include "../compiler.h"

namespace vgc::ptx
{
namespace
{

// Characters of an error that are shown at its begin and, with what is allowed, at its end: words of a text have any
// length.
const size_t SHOWN = 1500;

std::string shortened(std::string message)
{
    if (message.size() > 2 * SHOWN)
        message.replace(SHOWN, message.size() - 2 * SHOWN, " [...] ");
    return message;
}

} // namespace

void Text::fail(Position at, const llvm::Twine &message) const
{
    vgc::fail(place(at) + shortened(message.str()) + remark());
}

} // namespace vgc::ptx
