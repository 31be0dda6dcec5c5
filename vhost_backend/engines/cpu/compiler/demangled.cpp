#include "demangled.h"

#include "llvm/Demangle/Demangle.h"

namespace vgc
{

std::string demangled(llvm::StringRef name)
{
    return name.size() > MAX_DEMANGLED ? name.str() : llvm::demangle(name);
}

} // namespace vgc
