#include "relocatable.h"

#include <filesystem>

namespace mynvcc
{
namespace
{

const char REGISTRATION[] = "__cudaRegisterLinkedBinary__nv_", OURS[] = "__vgc_register_relocatable";
const char WRAPPER[] = "__fatbinwrap__nv_";
static_assert(sizeof(OURS) <= sizeof(REGISTRATION), "a name in a table of strings can only become shorter");

/// FNV-1a, in hexadecimal digits.
std::string digits_of(const std::string &text, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (unsigned char c : text)
        hash = (hash ^ c) * 0x100000001b3;
    std::string digits;
    for (; digits.size() < count; hash = hash >> 4 | hash << 60)
        digits += "0123456789abcdef"[hash & 15];
    return digits;
}

} // namespace

void make_linkable(const std::string &object, const std::string &source, const std::string &macros)
{
    std::string bytes = read_file(object);
    const std::string where = std::filesystem::absolute(source).lexically_normal().string();
    for (size_t at = bytes.find(REGISTRATION); at != std::string::npos; at = bytes.find(REGISTRATION, at + 1))
        bytes.replace(at, sizeof(OURS), OURS, sizeof(OURS));
    for (size_t at = bytes.find(WRAPPER); at != std::string::npos; at = bytes.find(WRAPPER, at + 1)) {
        const size_t begin = at + sizeof(WRAPPER) - 1, count = bytes.find('\0', begin) - begin;
        bytes.replace(begin, count, digits_of(where + '\0' + macros, count));
    }
    write_file(object, bytes);
}

std::set<std::string> units_in(const std::string &bytes)
{
    std::set<std::string> names;
    for (size_t at = bytes.find(WRAPPER); at != std::string::npos; at = bytes.find(WRAPPER, at + 1))
        names.insert(bytes.substr(at, bytes.find('\0', at) - at));
    return names;
}

} // namespace mynvcc
