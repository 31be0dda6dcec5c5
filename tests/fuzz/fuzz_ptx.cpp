// Parsers of inline PTX and of PTX modules: any text gives a tree, or an error with a place in the text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ptx/dialect.h"
#include "ptx/module_parser.h"
#include "ptx/parser.h"

namespace
{

template <class Tree> void check(const std::variant<Tree, vgc::ptx::Problem> &parsed, size_t size)
{
    if (const auto *problem = std::get_if<vgc::ptx::Problem>(&parsed))
        if (problem->text.empty() || problem->at.line == 0 || problem->at.column == 0 || problem->at.line > size + 1)
            abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    (void)vgc::ptx::is_ptx(text);
    (void)vgc::ptx::is_blank(text);
    check(vgc::ptx::parse(text), size);
    check(vgc::ptx::parse_module(text), size);
    return 0;
}
