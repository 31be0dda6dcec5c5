#include "compile.h"
#include "blob.h"
#include "flatten.h"

#include <cstring>

namespace mynvcc
{
namespace
{

#if defined(__x86_64__)
const char HOST_TRIPLE[] = "x86_64-pc-linux-gnu";
#elif defined(__aarch64__)
const char HOST_TRIPLE[] = "aarch64-unknown-linux-gnu";
#endif

/// What nvcc lets host code do, and clang would not.
const Words LENIENCIES = {"-fno-strict-return", "-Wno-register", "-Wno-c++11-narrowing",
                          "-Wno-reserved-user-defined-literal"};

void append(Words &words, const Words &more)
{
    words.insert(words.end(), more.begin(), more.end());
}

std::string blob_text(const Options &options, const std::string &name, const std::string &text)
{
    std::string words;
    for (const Words *list : {&options.macros, &options.device})
        for (const std::string &word : *list)
            words += word + '\0';
    if (!options.standard.empty())
        words += "-std=" + options.standard + '\0';
    vgc_cuda_blob header = {};
    memcpy(header.magic, VGC_CUDA_BLOB_MAGIC, sizeof(header.magic));
    header.flags = options.is_relocatable ? VGC_CUDA_BLOB_RELOCATABLE : 0;
    header.name_len = static_cast<uint32_t>(name.size());
    header.options_len = static_cast<uint32_t>(words.size());
    header.text_len = text.size();
    return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + name + words + text;
}

} // namespace

Language language_of(const Input &input)
{
    if (!input.language.empty())
        return input.language == "cu" ? Language::cuda : input.language == "c" ? Language::c : Language::cxx;
    const std::string suffix = suffix_of(input.path);
    if (suffix == ".cu")
        return Language::cuda;
    if (suffix == ".c" || suffix == ".i")
        return Language::c;
    for (const char *cxx : {".cpp", ".cc", ".cxx", ".c++", ".C", ".CPP", ".ii"})
        if (suffix == cxx)
            return Language::cxx;
    if (suffix == ".s" || suffix == ".S")
        return Language::assembler;
    for (const char *device : {".ptx", ".cubin", ".fatbin", ".gpu"})
        if (suffix == device)
            fail("'" + input.path + "': device code alone cannot be compiled or linked; give its source");
    return Language::linked;
}

/// What is the same for the host half and for the preprocessing of the device half.
Words Compiler::cuda_command() const
{
    Words words = {toolkit.clangxx, "-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib"};
    // with the triple of a GPU, clang's builtins would clash with the headers' functions
    append(words, {"-Wno-unknown-cuda-version", "-Xclang", "-aux-triple", "-Xclang", HOST_TRIPLE, "-Xclang",
                   "-target-sdk-version=11.0", "-Xclang", "-fcuda-allow-variadic-functions"});
    append(words, {"-D__CUDACC__=1", "-isystem", toolkit.top + "/include", "-include", "cuda_runtime.h"});
    if (options.is_relocatable)
        words.push_back("-D__CUDACC_RDC__=1");
    const std::string standard = options.standard.empty() ? "gnu++17" : options.standard;
    words.push_back("-std=" + (standard == "c++03" ? "gnu++11" : standard)); // the headers need C++11
    append(words, options.macros);
    append(words, options.includes);
    return words;
}

Words Compiler::command(const Input &input) const
{
    Words words;
    switch (language_of(input)) {
    case Language::cuda:
        words = cuda_command();
        append(words, {"-D__VGC_HOST_HALF__=1"});
        append(words, LENIENCIES);
        break;
    case Language::cxx:
        words = {toolkit.cxx, "-x", "c++", "-std=" + (options.standard.empty() ? "gnu++17" : options.standard)};
        break;
    case Language::c:
        words = {toolkit.cc, "-x", "c"};
        break;
    default:
        words = {toolkit.cc};
    }
    if (language_of(input) != Language::cuda) {
        append(words, options.macros);
        append(words, options.includes);
        append(words, {"-isystem", toolkit.top + "/include"});
    }
    append(words, options.host);
    return words;
}

std::string Compiler::blob_of(const Input &input) const
{
    const std::string stem = stem_of(input.path);
    const std::string rewritten = work.file(stem + ".rewritten.ii"), blob = work.file(stem + ".vgcblob");
    Words words = cuda_command();
    append(words, {"-w", "-Xclang", "-fcuda-is-device", "-U__CUDA_ARCH__", "-D__CUDA_ARCH__=800", "-E",
                   "-frewrite-includes", input.path});
    options.shell.run_into(rewritten, words);
    if (!options.shell.is_dry)
        write_file(blob, blob_text(options, input.path, flatten(read_file(rewritten), toolkit.top + "/include")));
    return blob;
}

Words Compiler::dependency_words(const std::string &output) const
{
    Words words = options.dependencies;
    bool names_target = words.empty(), names_file = words.empty();
    for (const std::string &word : words) {
        names_target |= word == "-MT";
        names_file |= word == "-MF";
    }
    if (!names_target)
        append(words, {"-MT", output});
    if (!names_file) {
        const std::string suffix = suffix_of(output);
        append(words, {"-MF", output.substr(0, output.size() - suffix.size()) + ".d"});
    }
    return words;
}

void Compiler::make_object(const Input &input, const std::string &output) const
{
    Words words = command(input);
    if (language_of(input) == Language::cuda)
        append(words, {"-Xclang", "-fcuda-include-gpubinary", "-Xclang", blob_of(input)});
    append(words, dependency_words(output));
    append(words, {"-c", input.path, "-o", output});
    options.shell.run(words);
}

void Compiler::make_device_code(const Input &input, const std::string &output) const
{
    if (language_of(input) != Language::cuda)
        fail("'" + input.path + "' is no CUDA source");
    const std::string blob = blob_of(input);
    if (!options.shell.is_dry)
        write_file(output, read_file(blob));
}

void Compiler::preprocess(const Input &input, const std::string &output) const
{
    Words words = command(input);
    append(words, {"-E", input.path});
    if (!output.empty())
        append(words, {"-o", output});
    options.shell.run(words);
}

void Compiler::print_dependencies(const Input &input, const std::string &output) const
{
    Words words = command(input);
    append(words, options.dependencies);
    append(words, {options.omits_system_headers ? "-MM" : "-M", input.path});
    if (!output.empty())
        append(words, {"-o", output});
    options.shell.run(words);
}

} // namespace mynvcc
