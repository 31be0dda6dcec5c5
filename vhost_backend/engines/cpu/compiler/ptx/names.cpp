#include "names.h"

#include "../demangled.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Demangle/Demangle.h"

namespace vgc::ptx
{
namespace
{

constexpr char TAKEN_PREFIX[] = "ptx.";

} // namespace

std::string ir_name(const std::string &name)
{
    static const char *const TAKEN[] = {
#define VGC_CPU_SYMBOL(symbol) #symbol,
#include "../../vgc_cpu_symbols.h"
#undef VGC_CPU_SYMBOL
    };
    const bool is_taken = llvm::StringRef(name).starts_with("__") || llvm::is_contained(TAKEN, llvm::StringRef(name));
    return is_taken ? TAKEN_PREFIX + name : name;
}

std::string given_name(llvm::StringRef ir_name)
{
    ir_name.consume_front(TAKEN_PREFIX);
    return ir_name.str();
}

std::string short_name(const std::string &name)
{
    llvm::ItaniumPartialDemangler demangler;
    if (name.size() > MAX_DEMANGLED || demangler.partialDemangle(name.c_str()) || !demangler.isFunction())
        return name;
    size_t size = 0;
    char *const base = demangler.getFunctionBaseName(nullptr, &size);
    const std::string found = base == nullptr ? name : base;
    free(base);
    return llvm::StringRef(found).take_until([](char c) { return c == '<'; }).str();
}

} // namespace vgc::ptx
