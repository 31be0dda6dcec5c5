#include "link.h"
#include "gcc_options.h"
#include "openmp.h"
#include "relocatable.h"

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

/// Static libraries of a link: those that are inputs, and those that -l names.
Words archives_of(const Options &options)
{
    Words archives;
    for (const Input &input : options.inputs)
        if (suffix_of(input.path) == ".a" && exists(input.path))
            archives.push_back(input.path);
    for (const std::string &word : options.libraries)
        if (const std::string archive = starts_with(word, "-l") ? archive_of(options, word.substr(2)) : "";
            !archive.empty())
            archives.push_back(archive);
    return archives;
}

/// Units of relocatable device code in static libraries. Device code may refer to those that no host code refers to,
/// which the host's linker would leave out.
std::set<std::string> archived_units(const Options &options)
{
    std::set<std::string> units;
    for (const std::string &archive : archives_of(options))
        units.merge(units_in(read_file(archive)));
    return units;
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
                      "-Wl,--export-dynamic-symbol=vgc_local_function*"});
    words.push_back("-Wl,-rpath," + folder);
    words.insert(words.end(), {"-lrt", "-lpthread", "-ldl"});
    return words;
}

void link_objects(const Options &options, const Toolkit &toolkit, const Words &objects, const std::string &output)
{
    const char *const library = options.cudart == "static" ? "/lib64/libcudart_static.a" : "/lib64/libcudart.so";
    if (options.cudart != "none" && !options.shell.is_dry && !exists(toolkit.top + library))
        fail("the toolkit has no CUDA runtime: " + toolkit.top + library + " is missing");
    const bool is_clangs = toolkit.cxx == toolkit.clangxx;
    LinkWords given = {is_clangs ? link_options_of_clang(options.link) : options.link, options.linker, objects,
                       options.libraries};
    take_clangs_openmp(given, archives_of(options), uses_openmp(options), toolkit);
    Words words = {toolkit.cxx};
    words.insert(words.end(), {"-o", output, "-Wl,--start-group"});
    words.insert(words.end(), given.options.begin(), given.options.end());
    for (const std::string &unit : archived_units(options))
        words.push_back("-Wl,-u," + unit);
    for (const std::string &word : given.linker)
        words.insert(words.end(), {"-Xlinker", word});
    words.insert(words.end(), given.inputs.begin(), given.inputs.end());
    words.insert(words.end(), given.libraries.begin(), given.libraries.end());
    const Words runtime = runtime_words(options, toolkit);
    words.insert(words.end(), runtime.begin(), runtime.end());
    words.push_back("-Wl,--end-group");
    try {
        options.shell.run(words);
    } catch (const Failure &) {
        if (uses_openmp(options) && !has_openmp(toolkit))
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
