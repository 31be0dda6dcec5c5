#include "toolkit.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace mynvcc
{
namespace
{

/// Versions that are tested, from the best; then any.
const char *const CLANGS[] = {"clang++-19", "clang++-18", "clang++-17", "clang++-16",
                              "clang++-15", "clang++-14", "clang++"};

/// The C compiler that belongs to a C++ compiler: clang-19 to clang++-19, gcc to g++, cc to c++.
std::string c_compiler_of(const std::string &compiler)
{
    std::string name = base_name(compiler);
    for (const auto &[cxx, c] : {std::pair("clang++", "clang"), std::pair("g++", "gcc"), std::pair("c++", "cc")})
        if (const size_t at = name.find(cxx); at != std::string::npos) {
            const std::string other = name.replace(at, std::string(cxx).size(), c);
            return compiler.find('/') == std::string::npos ? other : folder_of(compiler) + "/" + other;
        }
    return compiler;
}

std::string find_clang()
{
    if (const char *wanted = getenv("MYNVCC_CLANG"); wanted != nullptr && *wanted != 0)
        return wanted;
    for (const char *name : CLANGS)
        if (!find_program(name).empty())
            return name;
    fail("no clang++ on the PATH; on Debian and Ubuntu: apt-get install clang");
}

/// The program that -ccbin means: a folder means the g++ in it, and gcc and clang mean their C++ compilers.
std::string host_compiler_of(const std::string &value)
{
    if (std::filesystem::is_directory(value))
        return value + (exists(value + "/clang++") && !exists(value + "/g++") ? "/clang++" : "/g++");
    const std::string name = base_name(value), folder = value.substr(0, value.size() - name.size());
    for (const auto &[c, cxx] : {std::pair("clang", "clang++"), std::pair("gcc", "g++")})
        if (starts_with(name, c) && !starts_with(name, cxx))
            return folder + cxx + name.substr(std::string(c).size());
    return name == "cc" ? folder + "c++" : value;
}

/// The libraries' folders under what Python installs packages in: wheels since CUDA 13, and earlier ones.
Words folders_of_wheels(const std::string &packages)
{
    Words folders;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator(packages + "/nvidia", error))
        if (starts_with(entry.path().filename().string(), "cu1"))
            folders.push_back(entry.path().string() + "/include/cccl");
    std::sort(folders.rbegin(), folders.rend());
    folders.push_back(packages + "/nvidia/cuda_cccl/include");
    return folders;
}

/// Where Python's packages may be, the user's own first.
Words folders_of_packages()
{
    Words folders;
    for (const char *variable : {"VIRTUAL_ENV", "HOME", ""}) {
        const char *const value = *variable != 0 ? getenv(variable) : "/usr";
        if (value == nullptr || *value == 0)
            continue;
        const bool is_home = std::string(variable) == "HOME";
        for (const char *lib : {"/local/lib", "/lib"}) {
            const std::string base = value + std::string(is_home ? "/.local/lib" : lib);
            std::error_code error;
            for (const auto &entry : std::filesystem::directory_iterator(base, error))
                if (starts_with(entry.path().filename().string(), "python3"))
                    for (const char *packages : {"/site-packages", "/dist-packages"})
                        folders.push_back(entry.path().string() + packages);
        }
    }
    return folders;
}

/// Those of the toolkit come first, then Python's; a distribution's are where clang looks anyway.
std::string find_cccl(const std::string &top)
{
    Words folders = {top + "/include/cccl"};
    for (const std::string &packages : folders_of_packages())
        for (const std::string &folder : folders_of_wheels(packages))
            folders.push_back(folder);
    for (const std::string &folder : folders)
        if (exists(folder + "/thrust/version.h"))
            return folder;
    return "";
}

} // namespace

const char CCCL_HINT[] = "pip install nvidia-cuda-cccl";

Words Toolkit::folder_options(const Words &includes) const
{
    const std::string names = top + "/include/vgc_cccl";
    const bool has_own = std::any_of(includes.begin(), includes.end(), [](const std::string &word) {
        const std::string folder = starts_with(word, "-I") ? word.substr(2) : word;
        return exists(folder + "/cub/version.cuh") || exists(folder + "/thrust/version.h");
    });
    Words words;
    if (has_own)
        words.push_back("-I" + names);
    words.insert(words.end(), includes.begin(), includes.end());
    if (!cccl.empty() && !has_own)
        words.insert(words.end(), {"-isystem", names});
    if (!cccl.empty())
        words.insert(words.end(), {"-isystem", cccl});
    return words;
}

std::string find_top()
{
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        fail("cannot find my own folder: " + error.message());
    return program.parent_path().parent_path().string();
}

void check_host_compiler(const Toolkit &toolkit)
{
    if (find_program(toolkit.cxx).empty())
        fail("Failed to preprocess host compiler properties: " + toolkit.cxx + ": No such file or directory");
}

Toolkit find_toolkit(const std::string &host_compiler)
{
    Toolkit toolkit;
    toolkit.top = find_top();
    const std::string host = host_compiler.empty() ? "" : host_compiler_of(host_compiler);
    toolkit.clangxx = host.find("clang") != std::string::npos ? host : find_clang();
    toolkit.clang = c_compiler_of(toolkit.clangxx);
    toolkit.cxx = host.empty() ? toolkit.clangxx : host;
    toolkit.cc = c_compiler_of(toolkit.cxx);
    toolkit.cccl = find_cccl(toolkit.top);
    return toolkit;
}

} // namespace mynvcc
