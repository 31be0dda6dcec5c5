#include "prepared.h"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mynvcc
{
namespace
{

/// Options whose headers are made at the installation: without optimisation, and as Makefiles and CMake ask for it.
const Words USUAL[] = {{}, {"-O2"}, {"-O3"}, {"-O3", "-DNDEBUG"}};

/// Most that a user's folder has of them, about 5 MiB each.
const size_t MOST_KEPT = 16;

/// Names of headers below cuda_runtime.h that a program might have, too, in a folder of -I that comes before.
const char *const SHADOWED[] = {"assert.h", "features.h", "limits.h", "math.h",   "new",    "stddef.h",
                                "stdint.h", "stdio.h",    "stdlib.h", "string.h", "time.h", "utility",
                                "cmath",    "cstdio",     "cstdlib",  "cstring",  "ctime",  "type_traits"};

/// Folder of the user's precompiled headers; "" where mynvcc may not write.
std::string cache_folder()
{
    const char *const own = getenv("MYNVCC_CACHE"), *const usual = getenv("XDG_CACHE_HOME"),
                      *const home = getenv("HOME");
    std::string folder;
    if (own != nullptr)
        folder = own;
    else if (usual != nullptr && *usual != 0)
        folder = std::string(usual) + "/mynvcc";
    else if (home != nullptr && *home != 0)
        folder = std::string(home) + "/.cache/mynvcc";
    std::error_code error;
    if (folder.empty() || folder[0] != '/' || (!std::filesystem::create_directories(folder, error) && error) ||
        access(folder.c_str(), W_OK) != 0)
        return "";
    return folder;
}

/// A file as it was when something was made of it; "" if it is missing.
std::string identity_of(const std::string &path)
{
    struct stat status;
    if (stat(path.c_str(), &status) != 0)
        return "";
    return path + " " + std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
           std::to_string(status.st_mtim.tv_nsec) + "\n";
}

/// True for macros of the command line that headers of the system and of CUDA ask for.
bool is_asked_for(const std::string &macro)
{
    return starts_with(macro, "-U") || starts_with(macro, "-D_") || starts_with(macro, "-DNDEBUG") ||
           starts_with(macro, "-DCU") || starts_with(macro, "-DTHRUST_");
}

/// A command without what makes no difference to the precompiled header: folders of the program's headers, its own
/// macros, and cuda_runtime.h, in whose place it stands. `shadowed`: one of these folders has a header of the system's.
Words words_of_header(const Words &command, const Toolkit &toolkit, bool &shadowed)
{
    Words words;
    for (size_t at = 0; at < command.size(); at++) {
        const std::string &word = command[at];
        std::string folder = starts_with(word, "-I") ? word.substr(2) : "";
        if (word == "-isystem" || word == "-include")
            at++;
        if (word == "-isystem" && command[at] == toolkit.top + "/include")
            words.insert(words.end(), {word, command[at]});
        else if (word == "-isystem" && command[at] != toolkit.cccl)
            folder = command[at];
        for (const char *name : SHADOWED)
            shadowed |= !folder.empty() && exists(folder + "/" + name);
        if (!starts_with(word, "-I") && word != "-isystem" && word != "-include" &&
            (!starts_with(word, "-D") || is_asked_for(word)))
            words.push_back(word);
    }
    return words;
}

/// The files that a rule of make names, as they are now.
std::string identities_in(const std::string &rule)
{
    std::string text;
    for (const std::string &line : split(read_file(rule), '\n'))
        for (const std::string &word : split(line, ' '))
            if (word.size() > 1 && word.back() != ':')
                text += identity_of(word);
    return text;
}

/// True if the list of a precompiled header begins with `key` and names files that are as they were.
bool is_valid(const std::string &list, const std::string &key)
{
    if (!exists(list))
        return false;
    const std::string text = read_file(list);
    if (text.compare(0, key.size(), key) != 0)
        return false;
    for (const std::string &line : split(text.substr(key.size()), '\n')) {
        const size_t end = line.rfind(' ', line.rfind(' ') - 1);
        if (!line.empty() && identity_of(line.substr(0, end)) != line + "\n")
            return false;
    }
    return true;
}

/// Removes the oldest.
void keep_few(const std::string &folder)
{
    using Entry = std::filesystem::directory_entry;
    std::vector<Entry> entries;
    for (const Entry &entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".pch")
            entries.push_back(entry);
    std::sort(entries.begin(), entries.end(),
              [](const Entry &a, const Entry &b) { return a.last_write_time() > b.last_write_time(); });
    for (size_t at = MOST_KEPT; at < entries.size(); at++)
        for (const char *suffix : {".list", ".pch"})
            std::filesystem::remove(std::filesystem::path(entries[at].path()).replace_extension(suffix));
}

/// Makes a precompiled header under a name of its own, then gives it its name; a process that reads the old one goes on
/// doing so.
void make(Words words, const Toolkit &toolkit, const std::string &stem, const std::string &key)
{
    const std::string own = stem + "." + std::to_string(getpid());
    words.insert(words.end(), {"-w", "-Xclang", "-emit-pch", "-MD", "-MF", own + ".d", "-c",
                               toolkit.top + "/include/vgc_prepared.h", "-o", own + ".pch"});
    Shell shell;
    shell.errors = "/dev/null";
    shell.run(words);
    write_file(own + ".list", key + identities_in(own + ".d"));
    unlink((own + ".d").c_str());
    std::filesystem::remove(stem + ".list");
    std::filesystem::rename(own + ".pch", stem + ".pch");
    std::filesystem::rename(own + ".list", stem + ".list");
    keep_few(folder_of(stem));
}

/// Waits until no other process makes the same one.
class Lock
{
  public:
    explicit Lock(const std::string &path) : file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666))
    {
        if (file >= 0)
            flock(file, LOCK_EX);
    }
    ~Lock()
    {
        if (file >= 0)
            close(file);
    }
    Lock(const Lock &) = delete;
    Lock &operator=(const Lock &) = delete;

  private:
    int file;
};

/// Folder of headers that were made at the installation, for all users.
std::string installed_folder(const std::string &top)
{
    return top + "/prepared";
}

} // namespace

void prepare_headers()
{
    const std::string top = find_top(), folder = installed_folder(top);
    std::error_code error;
    if (!std::filesystem::create_directories(folder, error) && error)
        fail("Could not make the folder '" + folder + "': " + error.message());
    setenv("MYNVCC_CACHE", folder.c_str(), 1);
    const WorkFolder work("");
    const std::string source = work.file("empty.cu");
    write_file(source, "\n");
    for (const Words &usual : USUAL) {
        Words words = {top + "/bin/mynvcc", "-c", source, "-o", work.file("empty.o")};
        words.insert(words.end(), usual.begin(), usual.end());
        Shell().run(words);
    }
    if (std::filesystem::is_empty(folder))
        fail("No header was precompiled into '" + folder + "'");
    std::filesystem::remove(folder + "/lock");
}

Words with_prepared_header(const Words &command, const Toolkit &toolkit)
{
    const std::string folder = cache_folder();
    bool shadowed = false;
    const Words words = words_of_header(command, toolkit, shadowed);
    if (shadowed)
        return command;
    const std::string compiler = find_program(toolkit.clangxx);
    std::error_code error;
    std::string key =
        identity_of(std::filesystem::canonical(compiler.empty() ? toolkit.clangxx : compiler, error).string());
    for (const std::string &word : words)
        key += word + '\n';
    key += "\n";
    const std::string name = "/" + std::to_string(std::hash<std::string>()(key));
    std::string stem = installed_folder(toolkit.top) + name;
    if (!is_valid(stem + ".list", key) || !exists(stem + ".pch")) {
        if (folder.empty())
            return command;
        stem = folder + name;
        try {
            const Lock lock(folder + "/lock");
            if (!is_valid(stem + ".list", key) || !exists(stem + ".pch"))
                make(words, toolkit, stem, key);
        } catch (const std::exception &) {
            return command; // a full disk, say
        } catch (const Failure &) {
            return command; // clang will say it again
        }
    }
    Words result;
    for (size_t at = 0; at < command.size(); at++)
        if (command[at] == "-include" && command[at + 1] == "cuda_runtime.h") {
            result.insert(result.end(), {"-include-pch", stem + ".pch"});
            at++;
        } else {
            result.push_back(command[at]);
        }
    return result;
}

} // namespace mynvcc
