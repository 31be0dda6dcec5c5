#include "relocatable.h"

#include <cstring>
#include <elf.h>
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

template <class T> T read_at(const std::string &bytes, size_t at)
{
    T value = {};
    if (at > bytes.size() || bytes.size() - at < sizeof(T))
        fail("the compiler has written a broken object");
    memcpy(&value, &bytes[at], sizeof(T));
    return value;
}

/// Hides the names of units: a shared library that has a static library's unit would else keep the host's linker from
/// taking the unit for the program, whose device code cannot refer to that of the shared library.
void hide_units(std::string &bytes)
{
    if (!starts_with(bytes, ELFMAG) || bytes.size() <= EI_CLASS || bytes[EI_CLASS] != ELFCLASS64)
        return; // of -flto, whose names the linker sees only then
    const auto header = read_at<Elf64_Ehdr>(bytes, 0);
    const auto section = [&](size_t i) { return read_at<Elf64_Shdr>(bytes, header.e_shoff + i * sizeof(Elf64_Shdr)); };
    const size_t sections = header.e_shnum != 0 ? header.e_shnum : section(0).sh_size;
    for (size_t i = 0; i < sections; i++) {
        const Elf64_Shdr table = section(i);
        if (table.sh_type != SHT_SYMTAB)
            continue;
        const size_t names = section(table.sh_link).sh_offset;
        for (size_t at = table.sh_offset; at < table.sh_offset + table.sh_size; at += sizeof(Elf64_Sym)) {
            const auto symbol = read_at<Elf64_Sym>(bytes, at);
            if (bytes.compare(names + symbol.st_name, sizeof(WRAPPER) - 1, WRAPPER) == 0)
                bytes[at + offsetof(Elf64_Sym, st_other)] = STV_HIDDEN;
        }
    }
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
    hide_units(bytes);
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
