#include "code_names.h"

#include "demangled.h"

namespace vgc
{
namespace
{

/// Longest name. Names are the guest's, and part of the image, which its quota is charged for.
const size_t MAX_NAME = 100;

std::string printable(std::string text)
{
    for (char &letter : text)
        if (letter < ' ' || letter > '~')
            letter = '?';
    if (text.size() > MAX_NAME)
        text = text.substr(0, MAX_NAME - 3) + "...";
    return text;
}

std::string readable(llvm::StringRef name)
{
    const auto [function, region] = name.rsplit(".region");
    const std::string suffix = region.empty() ? "" : (" [region " + region + "]").str();
    return printable(demangled(function)).substr(0, MAX_NAME - suffix.size()) + suffix;
}

} // namespace

void name_code(llvm::Module &module)
{
    for (llvm::Function &function : module)
        if (!function.isDeclaration() && function.hasLocalLinkage())
            function.setName(readable(function.getName()));
}

} // namespace vgc
