#include "link.h"
#include "gcc_options.h"
#include "relocatable.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace mynvcc
{
namespace
{

/// The static library that the linker takes for -l, in the folders of -L; "" if it takes another file.
std::string archive_of(const Options &options, const std::string &library)
{
    for (const std::string &word : options.libraries) {
        const std::string path = word.substr(2) + "/lib" + library;
        if (!starts_with(word, "-L"))
            continue;
        if (exists(path + ".so"))
            return "";
        if (exists(path + ".a"))
            return path + ".a";
    }
    return "";
}

/// Units of relocatable device code in static libraries. Device code may refer to those that no host code refers to,
/// which the host's linker would leave out.
std::set<std::string> archived_units(const Options &options)
{
    Words archives;
    for (const Input &input : options.inputs)
        if (suffix_of(input.path) == ".a" && exists(input.path))
            archives.push_back(input.path);
    for (const std::string &word : options.libraries)
        if (starts_with(word, "-l"))
            archives.push_back(archive_of(options, word.substr(2)));
    std::set<std::string> units;
    for (const std::string &archive : archives)
        if (!archive.empty())
            units.merge(units_in(read_file(archive)));
    return units;
}

bool uses_openmp(const Options &options)
{
    return std::any_of(options.link.begin(), options.link.end(),
                       [](const std::string &word) { return starts_with(word, "-fopenmp"); });
}

/// Where clang has its OpenMP runtime; others are found as any library.
std::string openmp_folder(const Toolkit &toolkit)
{
    std::error_code error;
    const std::string clang = std::filesystem::canonical(find_program(toolkit.clangxx), error);
    return folder_of(folder_of(clang)) + "/lib";
}

/// Options of the link as the linking compiler takes them. What clang has compiled needs clang's OpenMP runtime, which
/// serves gcc's code, too.
Words link_options(const Options &options, const Toolkit &toolkit)
{
    if (toolkit.cxx == toolkit.clangxx)
        return link_options_of_clang(options.link);
    if (!uses_openmp(options))
        return options.link;
    const std::string folder = openmp_folder(toolkit);
    Words words = {"-L" + folder, "-Wl,-rpath," + folder, "-lomp"};
    for (const std::string &word : options.link)
        if (!starts_with(word, "-fopenmp"))
            words.push_back(word);
    return words;
}

} // namespace

Words runtime_words(const Options &options, const Toolkit &toolkit)
{
    const std::string folder = toolkit.top + "/lib64";
    Words words = {"-L" + folder};
    if (options.cudart == "shared")
        words.push_back("-lcudart");
    else if (options.cudart == "static")
        // Libraries that need a libcudart.so find the program's copy, also those that it opens later.
        words.insert(words.end(),
                     {"-lcudart_static", "-Wl,--export-dynamic-symbol=cuda*", "-Wl,--export-dynamic-symbol=__cuda*",
                      "-Wl,--export-dynamic-symbol=__hip*", "-Wl,--export-dynamic-symbol=hipLaunchKernel",
                      "-Wl,--export-dynamic-symbol=vgc_local_*"});
    words.push_back("-Wl,-rpath," + folder);
    words.insert(words.end(), {"-lrt", "-lpthread", "-ldl"});
    return words;
}

void link_objects(const Options &options, const Toolkit &toolkit, const Words &objects, const std::string &output)
{
    const char *const library = options.cudart == "static" ? "/lib64/libcudart_static.a" : "/lib64/libcudart.so";
    if (options.cudart != "none" && !options.shell.is_dry && !exists(toolkit.top + library))
        fail("the toolkit has no CUDA runtime: " + toolkit.top + library + " is missing");
    Words words = {toolkit.cxx};
    const Words given = link_options(options, toolkit);
    words.insert(words.end(), {"-o", output, "-Wl,--start-group"});
    words.insert(words.end(), given.begin(), given.end());
    for (const std::string &unit : archived_units(options))
        words.push_back("-Wl,-u," + unit);
    for (const std::string &word : options.linker)
        words.insert(words.end(), {"-Xlinker", word});
    words.insert(words.end(), objects.begin(), objects.end());
    words.insert(words.end(), options.libraries.begin(), options.libraries.end());
    const Words runtime = runtime_words(options, toolkit);
    words.insert(words.end(), runtime.begin(), runtime.end());
    words.push_back("-Wl,--end-group");
    try {
        options.shell.run(words);
    } catch (const Failure &) {
        if (uses_openmp(options) && !exists(openmp_folder(toolkit) + "/libomp.so"))
            fail("-fopenmp: clang's OpenMP library is missing; apt-get install libomp-dev");
        throw;
    }
}

void archive_objects(const Options &options, const Words &objects, const std::string &output)
{
    Words words = {"ar", "qcs"};
    words.insert(words.end(), options.archiver.begin(), options.archiver.end());
    words.push_back(output);
    words.insert(words.end(), objects.begin(), objects.end());
    if (!options.shell.is_dry)
        unlink(output.c_str());
    options.shell.run(words);
}

void make_device_link(const Options &options, const Toolkit &toolkit, const WorkFolder &work, const std::string &output)
{
    const std::string source = work.file("device_link.c");
    std::string declarations = "typedef int vgc_device_link;\n", references;
    for (const std::string &unit : archived_units(options)) {
        declarations += "extern __attribute__((visibility(\"hidden\"))) const char " + unit + "[];\n";
        references += unit + ", ";
    }
    if (!references.empty())
        declarations += "static const void *const units[] __attribute__((used)) = {" + references + "};\n";
    if (!options.shell.is_dry)
        write_file(source, declarations);
    options.shell.run({toolkit.cc, "-fPIC", "-c", source, "-o", output});
}

} // namespace mynvcc
