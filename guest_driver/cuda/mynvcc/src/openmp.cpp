#include "openmp.h"

#include <algorithm>
#include <filesystem>

namespace mynvcc
{
namespace
{

/// -fopenmp-simd needs no library.
bool is_openmp_option(const std::string &word)
{
    return word == "-fopenmp" || starts_with(word, "-fopenmp=");
}

/// Where clang has its OpenMP library; others are found as any library.
std::string openmp_folder(const Toolkit &toolkit)
{
    std::error_code error;
    const std::string clang = std::filesystem::canonical(find_program(toolkit.clangxx), error);
    return folder_of(folder_of(clang)) + "/lib";
}

/// True for an option or a path that names gcc's OpenMP library.
bool is_gccs(const std::string &word)
{
    const bool is_name = starts_with(word, "-l:"), is_option = starts_with(word, "-") && !is_name;
    const std::string file = is_name ? word.substr(3) : base_name(word);
    return word == "-lgomp" || word == "--library=gomp" ||
           (!is_option && (file == "libgomp.a" || file == "libgomp.so" || starts_with(file, "libgomp.so.")));
}

/// The parts of a word that do not name gcc's OpenMP library; "" if none is left.
std::string without_gccs(const std::string &word)
{
    if (!starts_with(word, "-Wl,"))
        return is_gccs(word) ? "" : word;
    std::string kept;
    for (const std::string &part : split(word.substr(4), ','))
        if (!is_gccs(part))
            kept += "," + part;
    return kept.empty() ? "" : "-Wl" + kept;
}

/// Drops what names gcc's OpenMP library. False if nothing does.
bool drop_gccs(Words &words)
{
    Words kept;
    for (size_t i = 0; i < words.size(); i++) {
        if ((words[i] == "-l" || words[i] == "--library") && i + 1 < words.size() && words[i + 1] == "gomp")
            i++;
        else if (const std::string word = without_gccs(words[i]); word == words[i] || !word.empty())
            kept.push_back(word);
    }
    const bool has_dropped = kept != words;
    words = kept;
    return has_dropped;
}

bool calls_clangs(const std::string &path)
{
    return exists(path) && read_file(path).find("__kmpc_") != std::string::npos;
}

} // namespace

bool uses_openmp(const Options &options)
{
    return std::any_of(options.link.begin(), options.link.end(), is_openmp_option);
}

bool has_openmp(const Toolkit &toolkit)
{
    const std::string folder = openmp_folder(toolkit);
    return exists(folder + "/libomp.so") || exists(folder + "64/libomp.so");
}

void take_clangs_openmp(LinkWords &words, const Words &archives, bool is_openmp, const Toolkit &toolkit)
{
    const bool is_clangs_link = toolkit.cxx == toolkit.clangxx;
    LinkWords kept = words;
    const std::vector<Words *> all = {&kept.options, &kept.linker, &kept.inputs, &kept.libraries};
    const bool is_named = std::count_if(all.begin(), all.end(), [](Words *some) { return drop_gccs(*some); }) > 0;
    if (!is_openmp && !is_named)
        return;
    if (!is_openmp && !has_openmp(toolkit)) {
        for (const Words &paths : {kept.inputs, archives})
            for (const std::string &path : paths)
                if (calls_clangs(path))
                    fail("clang has compiled '" + path +
                         "' with OpenMP, and its library is missing; apt-get install libomp-dev");
        return;
    }
    words = kept;
    if (is_openmp && is_clangs_link)
        return; // clang names its library itself
    const auto options = std::remove_if(words.options.begin(), words.options.end(), is_openmp_option);
    words.options.erase(options, words.options.end());
    const std::string folder = openmp_folder(toolkit);
    words.libraries.insert(words.libraries.end(), {"-L" + folder, "-Wl,-rpath," + folder, "-lomp"});
}

} // namespace mynvcc
