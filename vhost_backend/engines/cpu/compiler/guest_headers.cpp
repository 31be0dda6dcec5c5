#include "guest_headers.h"
#include "compiler.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace vgc
{
namespace
{

constexpr llvm::StringLiteral HEAD = "//# vgc headers ";
constexpr unsigned MAX_FOLDERS = 256, MAX_FILES = 16384;
constexpr size_t MAX_PATH = 1024;

llvm::StringRef take_line(llvm::StringRef &rest)
{
    if (!rest.contains('\n'))
        fail("the list of the source's headers ends in the middle of a line");
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    return line;
}

/// Refuses what is no plain absolute path: each file has one name, and none lies elsewhere than its name says.
std::string checked_path(llvm::StringRef path)
{
    llvm::SmallVector<llvm::StringRef> parts;
    path.drop_front(path.starts_with("/")).split(parts, '/');
    const bool is_plain =
        path.starts_with("/") && path.size() <= MAX_PATH &&
        llvm::none_of(path, [](unsigned char c) { return c < ' ' || c == 127 || c == '"' || c == '\\'; }) &&
        llvm::none_of(parts, [](llvm::StringRef part) { return part.empty() || part == "." || part == ".."; });
    if (!is_plain)
        fail("a header or folder of the source is called '" + path.take_front(MAX_PATH) +
             "' (allowed: absolute paths of up to " + llvm::Twine(MAX_PATH) +
             " bytes without '.', '..', control characters, quotes and backslashes)");
    return path.str();
}

GuestHeader take_file(llvm::StringRef &rest)
{
    uint64_t size = 0;
    llvm::StringRef line = take_line(rest);
    if (line.consumeInteger(10, size) || !line.consume_front(" "))
        fail("a header of the source lacks its size (allowed: SIZE PATH)");
    const std::string path = checked_path(line);
    if (size > rest.size())
        fail("the header " + path + " ends early: " + llvm::Twine(size) + " bytes announced, " +
             llvm::Twine(rest.size()) + " there");
    GuestHeader file{path, rest.take_front(size).str()};
    rest = rest.drop_front(size);
    return file;
}

} // namespace

bool GuestHeaders::has(const std::string &path) const
{
    return llvm::any_of(files, [&](const GuestHeader &file) { return file.path == path; });
}

GuestHeaders take_guest_headers(std::string &source)
{
    GuestHeaders headers;
    llvm::StringRef rest = source;
    if (!rest.consume_front(HEAD))
        return headers;
    unsigned folders = 0, files = 0;
    llvm::StringRef counts = take_line(rest);
    if (counts.consumeInteger(10, folders) || !counts.consume_front(" ") || counts.consumeInteger(10, files) ||
        !counts.empty() || folders > MAX_FOLDERS || files > MAX_FILES)
        fail("the list of the source's headers has no numbers that are allowed (allowed: up to " +
             llvm::Twine(MAX_FOLDERS) + " folders, up to " + llvm::Twine(MAX_FILES) + " files)");
    for (unsigned i = 0; i < folders; i++)
        headers.folders.push_back(checked_path(take_line(rest)));
    for (unsigned i = 0; i < files; i++)
        headers.files.push_back(take_file(rest));
    source = rest.str();
    return headers;
}

} // namespace vgc
