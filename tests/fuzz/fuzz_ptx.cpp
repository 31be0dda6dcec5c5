// Parser of inline PTX: any text gives statements, or an error with a place in the text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ptx/dialect.h"
#include "ptx/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    (void)vgc::ptx::is_ptx(text);
    (void)vgc::ptx::is_blank(text);
    const auto parsed = vgc::ptx::parse(text);
    if (const auto *problem = std::get_if<vgc::ptx::Problem>(&parsed))
        if (problem->text.empty() || problem->at.line == 0 || problem->at.column == 0 || problem->at.line > size + 1)
            abort();
    return 0;
}
