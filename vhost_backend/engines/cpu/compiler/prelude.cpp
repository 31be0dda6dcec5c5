// Preludes: the headers before a source are the same for all sources of a kind. clang takes a prelude for them only if
// the language, the processor and the macros are those that it was made with. Options -D and -U change nothing in
// headers that do not have the name: all names that clang met while it read them are listed beside each prelude
// (.names). A third file (.made) has the folders of headers, and digests of all that the prelude was made from, which
// toolchain.py compares before it offers the prelude.
//
// Preludes of CCCL also have headers that the source itself includes, and put them before all else. One is taken for
// sources that include a header which includes all of these, and that define no name before it which they have.
#include "prelude.h"
#include "arguments.h"
#include "compiler.h"
#include "crash.h"
#include "options.h"
#include "source.h"
#include "work.h"

#include <set>

#include <unistd.h>

#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendActions.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "clang/Serialization/ASTReader.h"
#include "clang/Serialization/InMemoryModuleCache.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

/// Where a kind of sources finds headers: among ours and clang's, the host's, or CCCL's, which the source includes.
enum class Offer { OWN, HOST, CCCL };

/// Kind of source: the name of its prelude, a text of the kind, and which headers it is offered. A prelude with CCCL
/// has those that the text includes; each of the `entries` includes all of these, too.
struct Kind {
    llvm::StringRef name;
    llvm::StringRef text;
    Offer offer;
    std::vector<llvm::StringRef> entries = {};
};

const std::vector<Kind> &kinds()
{
    static const std::vector<Kind> all = {
        {"kernel", "", Offer::OWN},
        {"api", "cuda", Offer::OWN},
        {"program", "cuda", Offer::HOST},
        {"hosted", "std::", Offer::HOST},
        {"cub", "#include <cub/cub.cuh>\n", Offer::CCCL, {"cub/cub.cuh"}},
        {"thrust",
         "#include <thrust/scan.h>\n",
         Offer::CCCL,
         {"thrust/copy.h", "thrust/count.h", "thrust/device_vector.h", "thrust/extrema.h", "thrust/host_vector.h",
          "thrust/inner_product.h", "thrust/reduce.h", "thrust/remove.h", "thrust/scan.h", "thrust/sort.h",
          "thrust/transform_reduce.h", "thrust/transform_scan.h", "thrust/unique.h"}},
    };
    return all;
}

const char INPUT[] = "/vgc/prelude.cu"; // the name that guests see in errors in headers that it includes
const char DEFAULT_STANDARD[] = "gnu++17";
/// Standards that preludes are made for: the one without an option, and the one that most programs ask for.
const llvm::StringRef STANDARDS[] = {DEFAULT_STANDARD, "c++17"};

/// The standard that a source is parsed with.
llvm::StringRef standard_of(const Options &options)
{
    llvm::StringRef standard = DEFAULT_STANDARD;
    for (llvm::StringRef option : options.clang)
        if (option.consume_front("-std="))
            standard = option;
    return standard;
}

/// Name of the files of a prelude, but for their suffixes.
std::string file_name(const Kind &kind, llvm::StringRef standard)
{
    return (kind.name + (standard == DEFAULT_STANDARD ? "" : "-" + standard)).str();
}

bool is_cccl(const Options &options, const std::string &folder)
{
    const llvm::StringRef name = llvm::sys::path::filename(options.known_as(folder));
    return name == "cccl" || name == "vgc_cccl";
}

bool has_cccl(const Options &options)
{
    return llvm::any_of(options.system_dirs, [&](const std::string &folder) { return is_cccl(options, folder); });
}

std::string beside(llvm::StringRef prelude, llvm::StringRef suffix)
{
    llvm::SmallString<256> path(prelude);
    llvm::sys::path::replace_extension(path, suffix);
    return path.str().str();
}

/// Folders of headers in the order of the search, by the names that clang knows, without those of CCCL: other programs
/// do not have these.
std::vector<std::string> folders_of(const Options &options)
{
    std::vector<std::string> folders;
    for (const auto *list : {&options.include_dirs, &options.system_dirs})
        for (const std::string &folder : *list)
            if (!is_cccl(options, folder))
                folders.push_back(options.known_as(folder));
    return folders;
}

std::string digest_of(llvm::StringRef text)
{
    return llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)), true);
}

std::string digest_of_file(llvm::vfs::FileSystem &files, const llvm::Twine &path)
{
    const auto buffer = files.getBufferForFile(path, -1, false);
    if (!buffer)
        fail("cannot read " + path + ": " + buffer.getError().message());
    return digest_of((*buffer)->getBuffer());
}

void write_text(const std::string &path, llvm::StringRef text)
{
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (error)
        fail("cannot write " + path + ": " + error.message());
    out << text;
}

/// Parses the headers, writes what clang has made of them, and notes names and files.
class Preparation : public clang::GeneratePCHAction
{
  public:
    std::string names, files;

  private:
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance &compiler,
                                                          llvm::StringRef file) override
    {
        watch_tokens(compiler.getPreprocessor());
        return GeneratePCHAction::CreateASTConsumer(compiler, file);
    }

    void EndSourceFileAction() override
    {
        clang::CompilerInstance &compiler = getCompilerInstance();
        std::set<std::string> sorted;
        for (const auto &entry : compiler.getPreprocessor().getIdentifierTable())
            sorted.insert(entry.getKey().str());
        names = llvm::join(sorted, "\n") + "\n";
        sorted.clear();
        const clang::SourceManager &sources = compiler.getSourceManager();
        for (auto file = sources.fileinfo_begin(); file != sources.fileinfo_end(); ++file)
            if (const llvm::StringRef path = file->first.getName(); llvm::sys::path::is_absolute(path) && path != INPUT)
                sorted.insert("file " + digest_of_file(compiler.getVirtualFileSystem(), path) + " " + path.str());
        files = llvm::join(sorted, "\n") + "\n";
        GeneratePCHAction::EndSourceFileAction();
        forget_token();
    }
};

/// Offers the headers of the host that guests' programs get (host_headers.py), or clang's own alone.
void offer_headers(Options &options, bool has_host)
{
    for (const std::string &listed : host_headers(options)) {
        llvm::SmallString<256> folder;
        if (llvm::sys::fs::real_path(listed, folder) || folder.starts_with("/usr/local/"))
            continue;
        llvm::StringRef rest = folder;
        const bool own = rest.consume_front(options.llvm + "/");
        if ((!own && !has_host) || llvm::is_contained(options.system_dirs, folder.str()))
            continue;
        options.system_dirs.push_back(folder.str().str());
        options.names[options.system_dirs.back()] =
            own ? options.known_as(options.llvm) + "/" + rest.str() : options.host_root + rest.str();
    }
}

void make_prelude(Options options, const Kind &kind, llvm::StringRef standard)
{
    options.input = INPUT;
    if (standard != DEFAULT_STANDARD)
        options.clang.push_back(("-std=" + standard).str());
    offer_headers(options, kind.offer != Offer::OWN);
    const std::string path = options.make_preludes + "/" + file_name(kind, standard) + ".pch";
    clang::CompilerInstance compiler;
    set_up(compiler, options, kind.text);
    const llvm::StringRef content = kind.offer == Offer::CCCL ? kind.text : "";
    compiler.getPreprocessorOpts().addRemappedFile(
        options.input, llvm::MemoryBuffer::getMemBufferCopy(content, options.input).release());
    compiler.getFrontendOpts().OutputFile = path;
    compiler.getFrontendOpts().IncludeTimestamps = false;
    Preparation preparation;
    if (!compiler.ExecuteAction(preparation))
        _exit(1); // clang has printed the reason
    write_text(beside(path, "names"), preparation.names);
    std::string folders;
    for (const std::string &folder : folders_of(options))
        folders += "folder " + folder + "\n";
    llvm::vfs::FileSystem &disk = *llvm::vfs::getRealFileSystem();
    write_text(beside(path, "made"), "compiler " + digest_of_file(disk, "/proc/self/exe") + "\nprelude " +
                                         digest_of_file(disk, path) + "\nnames " + digest_of(preparation.names) + "\n" +
                                         folders + preparation.files);
}

/// Name in an option -DNAME, -DNAME=VALUE or -UNAME; empty for other options.
llvm::StringRef macro_of(llvm::StringRef option)
{
    if (!option.consume_front("-D") && !option.consume_front("-U"))
        return "";
    return option.take_until([](char c) { return c == '=' || c == '('; });
}

using Macros = std::set<llvm::StringRef>;

/// Adds the names that the guest's options define or undefine; false if there is an option that headers may see
/// otherwise.
bool add_macros(const Options &options, Macros &macros)
{
    for (llvm::StringRef option : options.clang) {
        if (option == "-w" || option.starts_with("-std="))
            continue;
        const llvm::StringRef macro = macro_of(option);
        if (macro.empty())
            return false;
        macros.insert(macro);
    }
    return true;
}

/// True if no name in the list is one of `macros`: headers mean the same with them as without.
bool keeps_meaning(const Macros &macros, const std::string &names)
{
    if (macros.empty())
        return true;
    const auto list = llvm::MemoryBuffer::getFile(names);
    if (!list)
        return false;
    for (llvm::StringRef rest = (*list)->getBuffer(); !rest.empty();) {
        llvm::StringRef name;
        std::tie(name, rest) = rest.split('\n');
        if (macros.contains(name))
            return false;
    }
    return true;
}

/// Name of the preprocessor's directive in a line, and what follows it.
std::pair<llvm::StringRef, llvm::StringRef> directive(llvm::StringRef line)
{
    line = line.ltrim();
    if (!line.consume_front("#"))
        return {};
    line = line.ltrim();
    const llvm::StringRef name = line.take_while(llvm::isAlpha);
    return {name, line.drop_front(name.size()).ltrim()};
}

/// True if the source includes one of a prelude's entries, on no condition. Adds the names that it defines or undefines
/// before.
bool includes_entry(const Kind &kind, llvm::StringRef text, Macros &macros)
{
    for (int depth = 0; !text.empty();) {
        llvm::StringRef line;
        std::tie(line, text) = text.split('\n');
        const auto [name, rest] = directive(line);
        if (depth == 0 && llvm::is_contained(kind.entries, included(line)))
            return true;
        if (name.starts_with("if"))
            depth++;
        else if (name == "endif")
            depth--;
        else if (name == "define" || name == "undef")
            macros.insert(rest.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; }));
        else if (name == "pragma" && rest.starts_with("push_macro"))
            return false;
    }
    return false;
}

/// True if one of the program's own folders, which are searched first, has a header of this name.
bool is_hidden(const Options &options, llvm::StringRef header, const std::vector<std::string> &folders)
{
    for (const std::string &folder : folders) {
        llvm::StringRef name = header;
        if (!name.consume_front(folder + "/"))
            continue;
        for (const std::string &own : options.program_dirs)
            if (llvm::sys::fs::exists(own + "/" + name))
                return true;
        for (const std::string &own : options.guest_headers.folders)
            if (options.guest_headers.has((own + "/" + name).str()))
                return true;
    }
    return false;
}

/// True if headers are found where they were when the prelude was made.
bool has_same_headers(const Options &options, const std::string &made)
{
    const auto list = llvm::MemoryBuffer::getFile(made);
    if (!list)
        return false;
    std::vector<std::string> folders;
    for (llvm::StringRef rest = (*list)->getBuffer(); !rest.empty();) {
        llvm::StringRef line;
        std::tie(line, rest) = rest.split('\n');
        if (line.consume_front("folder "))
            folders.push_back(line.str());
        else if (line.starts_with("file ") && is_hidden(options, line.rsplit(' ').second, folders))
            return false;
    }
    return folders == folders_of(options);
}

/// True if a source of the kind has the headers of `text` before it.
bool is_kind(const Kind &kind, const Options &options, llvm::StringRef text, Macros &macros)
{
    if (may_name_api(text) != may_name_api(kind.text) ||
        wants_hosts_names(options, text) != wants_hosts_names(options, kind.text))
        return false;
    const bool is_whole = options.guest_headers.files.empty(); // no header stands between the source and CCCL's
    return kind.offer != Offer::CCCL || (is_whole && has_cccl(options) && includes_entry(kind, text, macros));
}

/// True if the prelude can stand for the headers before this source.
bool serves(const std::string &path, const Options &options, llvm::StringRef text)
{
    const llvm::StringRef standard = standard_of(options);
    for (const Kind &kind : kinds()) {
        Macros macros;
        if (file_name(kind, standard) == llvm::sys::path::stem(path) && add_macros(options, macros) &&
            is_kind(kind, options, text, macros))
            return has_same_headers(options, beside(path, "made")) && keeps_meaning(macros, beside(path, "names"));
    }
    return false;
}

} // namespace

void make_preludes(const Options &options)
{
    for (const llvm::StringRef standard : STANDARDS)
        for (const Kind &kind : kinds())
            if ((kind.offer == Offer::CCCL) == has_cccl(options))
                make_prelude(options, kind, standard);
}

std::string find_prelude(clang::CompilerInstance &compiler, const Options &options, llvm::StringRef text)
{
    if (!has_common_processor() || text.contains("__vgc_configure("))
        return "";
    for (const std::string &path : options.preludes)
        if (serves(path, options, text) &&
            clang::ASTReader::isAcceptableASTFile(path, compiler.getFileManager(), compiler.getModuleCache(),
                                                  compiler.getPCHContainerReader(), compiler.getLangOpts(),
                                                  compiler.getTargetOpts(), compiler.getPreprocessorOpts(), "")) {
            note_prelude(llvm::sys::path::stem(path));
            return path;
        }
    return "";
}

} // namespace vgc
