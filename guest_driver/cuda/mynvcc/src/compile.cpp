#include "compile.h"
#include "architectures.h"
#include "blob.h"
#include "brackets.h"
#include "check.h"
#include "device_launches.h"
#include "flatten.h"
#include "gcc_options.h"
#include "local_code.h"
#include "prepared.h"
#include "relocatable.h"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <unistd.h>

namespace mynvcc
{
namespace
{

#if defined(__x86_64__)
const char HOST_TRIPLE[] = "x86_64-pc-linux-gnu";
#elif defined(__aarch64__)
const char HOST_TRIPLE[] = "aarch64-unknown-linux-gnu";
#endif

/// What nvcc lets host code do, and clang would not. CPU checks of kernels count on overflows that wrap.
const Words LENIENCIES = {"-fno-strict-return",     "-fwrapv",
                          "-Wno-register",          "-Wno-c++11-narrowing",
                          "-Wno-invalid-constexpr", "-Wno-error=reserved-user-defined-literal"};

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
    if (text.find("__vgc_either__") != std::string::npos)
        words += std::string("-D__vgc_either__=") + '\0'; // it is for the guest's compiler
    vgc_cuda_blob header = {};
    memcpy(header.magic, VGC_CUDA_BLOB_MAGIC, sizeof(header.magic));
    header.flags = options.is_relocatable ? VGC_CUDA_BLOB_RELOCATABLE : 0;
    header.name_len = static_cast<uint32_t>(name.size());
    header.options_len = static_cast<uint32_t>(words.size());
    header.text_len = text.size();
    return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + name + words + text;
}

/// The container as a text, for programs that handle PTX as one.
std::string as_text(const std::string &blob)
{
    vgc_cuda_blob header;
    memcpy(&header, blob.data(), sizeof(header));
    const size_t options = sizeof(header) + header.name_len, text = options + header.options_len;
    std::string lines;
    for (size_t at = options; at < text; at++) {
        const char c = blob[at];
        lines += c == '\0' ? "\n" : c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
    }
    const auto count = std::count(blob.begin() + options, blob.begin() + text, '\0');
    return VGC_CUDA_TEXT_HEAD + std::to_string(count) + "\n" + lines + blob.substr(text);
}

std::string first_error(const std::string &messages)
{
    for (const std::string &line : split(messages, '\n'))
        if (line.find("error: ") != std::string::npos)
            return line;
    return "the compiler has failed";
}

bool is_for_linker(const std::string &path)
{
    static const Words suffixes = {".o", ".a", ".so", ".obj", ".lib"};
    const bool has_version = base_name(path).find(".so.") != std::string::npos;
    return has_version || std::find(suffixes.begin(), suffixes.end(), suffix_of(path)) != suffixes.end();
}

} // namespace

Language language_of(const Input &input)
{
    static const std::map<std::string, Language> suffixes = {
        {".cu", Language::cuda}, {".c", Language::c},     {".i", Language::c},         {".cpp", Language::cxx},
        {".cc", Language::cxx},  {".cxx", Language::cxx}, {".c++", Language::cxx},     {".C", Language::cxx},
        {".CPP", Language::cxx}, {".ii", Language::cxx},  {".s", Language::assembler}, {".S", Language::assembler},
    };
    if (is_for_linker(input.path))
        return Language::linked;
    if (!input.language.empty())
        return input.language == "cu" ? Language::cuda : input.language == "c" ? Language::c : Language::cxx;
    const std::string suffix = suffix_of(input.path);
    if (const auto found = suffixes.find(suffix); found != suffixes.end())
        return found->second;
    for (const char *device : {".ptx", ".cubin", ".fatbin", ".gpu"})
        if (suffix == device)
            fail("'" + input.path + "': device code alone cannot be compiled or linked; give its source");
    fail("Don't know what to do with '" + input.path + "'");
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
    append(words, toolkit.folder_options(options.includes));
    return words;
}

/// Says where a header comes from that the source includes and that clang did not find, if it is a library's.
void Compiler::explain_missing_headers(const Input &input) const
{
    const std::string list = work.file(stem_of(input.path) + ".headers.d");
    Words words = cuda_command();
    append(words, {"-w", "-M", "-MG", input.path, "-o", list});
    try {
        options.shell.run(words);
    } catch (const Failure &) {
        return; // for another reason, which clang has said
    }
    for (const std::string &line : split(read_file(list), '\n'))
        for (const std::string &name : split(line, ' '))
            if (is_library_name(name))
                fail(name + ": not found; " + CCCL_HINT);
}

Words Compiler::command(const Input &input) const
{
    Words words;
    switch (language_of(input)) {
    case Language::cuda:
        words = cuda_command();
        append(words, {"-D__VGC_HOST_HALF__=1"});
        append(words, LENIENCIES);
        if (options.is_relocatable) // static kernels keep their names
            append(words, {"-fgpu-rdc", "-fuse-cuid=none"});
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
        Words folders = options.includes;
        append(folders, {"-isystem", toolkit.top + "/include"});
        append(words, toolkit.folder_options(folders));
    }
    const bool is_clang = words.front() == toolkit.clangxx || words.front() == toolkit.clang;
    append(words, is_clang ? without_gcc_options(options.host) : options.host);
    return words;
}

/// Clang knows managed variables in HIP alone, which otherwise is CUDA under other names: host code reaches such a
/// variable through a pointer that the runtime sets.
Words Compiler::managed_command(const Input &input) const
{
    Words words = command(input);
    for (std::string &word : words)
        if (word == "cuda")
            word = "hip";
    append(words, {"-fhip-new-launch-api", "-U__HIP__", "-U__HIPCC__", "-D__CUDA__=1", "-D__VGC_MANAGED__=1"});
    return words;
}

std::string Compiler::blob_of(const Input &input) const
{
    const std::string stem = stem_of(input.path);
    const std::string rewritten = work.file(stem + ".rewritten.ii"), blob = work.file(stem + ".vgcblob");
    Words words = cuda_command();
    append(words,
           {"-w", "-Wno-error=reserved-user-defined-literal", "-D__VGC_FLATTEN__=1", "-Xclang", "-fcuda-is-device",
            "-U__CUDA_ARCH__", "-D__CUDA_ARCH__=800", "-E", "-frewrite-includes", input.path});
    options.shell.note("device code of " + input.path + " --arch " + noted_architecture(options));
    if (!options.shell.is_dry && !exists(input.path))
        fail(input.path + ": No such file or directory");
    try {
        options.shell.run_into(rewritten, words);
    } catch (const Failure &) {
        explain_missing_headers(input);
        throw;
    }
    if (options.shell.is_dry)
        return blob;
    const std::string content = blob_text(options, input.path, flatten(read_text(rewritten), toolkit.top + "/include"));
    write_file(blob, content);
    if (options.is_checked)
        check_device_code(toolkit.top, content);
    return blob;
}

/// Builds a shared library with CPU versions of the kernels that are marked or chosen, by compiling the device code for
/// the processor of the guest. "" if no kernel has one.
std::string Compiler::local_library(const Input &input) const
{
    const std::string stem = stem_of(input.path), text = work.file(stem + ".local.ll");
    const bool contracts =
        std::find(options.device.begin(), options.device.end(), "-fmad=false") == options.device.end();
    const Words code = {"-O2", "-g0", "-fPIC", "-march=x86-64-v3",
                        contracts ? "-ffp-contract=fast" : "-ffp-contract=off"};
    Words words = command(input);
    append(words, code);
    append(words,
           {"-Xclang", "-fcuda-is-device", "-U__CUDA_ARCH__", "-D__CUDA_ARCH__=800", "-D__VGC_LOCAL__=1", "-w", "-g",
            "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names", "-S", "-emit-llvm", input.path, "-o", text});
    Shell shell = options.shell;
    shell.errors = work.file(stem + ".local.messages");
    try {
        shell.run(words);
    } catch (const Failure &failure) {
        throw Failure{first_error(read_file(shell.errors)), failure.status};
    }
    if (options.shell.is_dry)
        return "";
    const LocalCode local = take_local_code(read_file(text), options.either);
    for (const std::string &warning : local.warnings)
        warn(input.path + ": " + warning);
    if (local.is_empty)
        return "";
    const std::string library = work.file(stem + ".local.so"), include = toolkit.top + "/include";
    const std::string module = work.file(stem + ".kept.ll"), table = work.file(stem + ".table.c");
    write_file(module, local.text);
    write_file(table, local.table);
    words = {toolkit.clangxx, "-shared", "-w", "-o", library, "-I" + include};
    append(words, code);
    append(words, {"-x", "ir", module, "-x", "c", table, include + "/vgc_local_support.c", "-Wl,-Bsymbolic,-S", "-lm"});
    options.shell.run(words);
    return library;
}

/// Adds CPU versions of kernels to a file's container. What the guest's compiler refuses stays with the device alone.
void Compiler::add_local_code(const Input &input, const std::string &blob) const
{
    std::string content = options.shell.is_dry ? "" : read_file(blob);
    if (options.either.empty() && content.find("__vgc_either__") == std::string::npos)
        return;
#if defined(__x86_64__)
    if (options.is_relocatable) {
        warn(input.path + ": kernels of relocatable device code get no CPU versions");
        return;
    }
    std::string library;
    try {
        library = local_library(input);
    } catch (const Failure &failure) {
        warn(input.path + ": its kernels get no CPU versions: " +
             (failure.message.empty() ? "their library could not be linked" : failure.message));
    }
    if (library.empty())
        return;
    const std::string code = read_file(library);
    const uint64_t len = code.size();
    vgc_cuda_blob header;
    memcpy(&header, content.data(), sizeof(header));
    header.flags |= VGC_CUDA_BLOB_LOCAL;
    content.replace(0, sizeof(header), reinterpret_cast<const char *>(&header), sizeof(header));
    content.resize((content.size() + 7) / 8 * 8);
    content += std::string(reinterpret_cast<const char *>(&len), sizeof(len)) + code;
    write_file(blob, content);
#else
    warn(input.path + ": kernels get CPU versions on x86-64 alone");
#endif
}

Words Compiler::dependency_words(const Input &input, const std::string &output, const std::string &target) const
{
    Words words = options.dependencies;
    bool names_target = words.empty(), names_file = words.empty();
    for (const std::string &word : words) {
        names_target |= word == "-MT";
        names_file |= word == "-MF";
    }
    if (!names_target)
        append(words, {"-MT", target});
    if (!names_file) {
        const std::string suffix = suffix_of(output);
        const std::string beside = output.substr(0, output.size() - suffix.size());
        append(words, {"-MF", (target == output ? beside : stem_of(input.path)) + ".d"});
    }
    return words;
}

/// Compiles a host half whose launches clang would not parse: from one text, in which the headers are and which clang
/// can parse.
void Compiler::make_joined_object(const Input &input, const Words &base, const Words &more, const std::string &output,
                                  const std::string &target) const
{
    const std::string text = work.file(stem_of(input.path) + ".host.cu");
    Words words = base;
    append(words, dependency_words(input, output, target));
    append(words, {"-E", "-frewrite-includes", input.path});
    options.shell.run_into(text, words);
    write_file(text, with_launching_lambdas(in_clangs_syntax(read_file(text))));
    words.clear();
    for (size_t i = 0; i < base.size(); i++)
        if (base[i] == "-include")
            i++; // it is in the text
        else
            words.push_back(base[i]);
    append(words, more);
    append(words, {"-c", text, "-o", output});
    options.shell.run(words);
}

/// Compiles a host half with a precompiled header. False if that fails: with one, some clangs refuse what they take
/// otherwise (clang 14 in C++20), so that errors are told by a compilation without.
bool Compiler::make_prepared_object(const Words &base, const Words &last) const
{
    Words words = options.shell.is_dry ? base : with_prepared_header(base, toolkit);
    if (words == base)
        return false;
    append(words, {"-fno-crash-diagnostics"});
    if (isatty(STDERR_FILENO))
        words.push_back("-fcolor-diagnostics");
    append(words, last);
    Shell shell = options.shell;
    shell.errors = work.file("messages");
    try {
        shell.run(words);
    } catch (const Failure &) {
        return false;
    }
    std::cerr << read_file(shell.errors);
    return true;
}

void Compiler::make_object(const Input &input, const std::string &output, const std::string &target) const
{
    const bool is_cuda = language_of(input) == Language::cuda;
    const std::string blob = is_cuda ? blob_of(input) : "";
    const std::string text = is_cuda ? read_file(options.shell.is_dry ? input.path : blob) : "";
    if (is_cuda)
        add_local_code(input, blob);
    const bool is_managed = text.find("__managed__") != std::string::npos;
    Words base = is_managed ? managed_command(input) : command(input);
    if (is_cuda && text.find("#include <cuda/") != std::string::npos)
        base.push_back("-D__VGC_SHARED_CLASSES__=1"); // vgc_builtins.h
    const Words more = is_cuda ? Words{"-Xclang", "-fcuda-include-gpubinary", "-Xclang", blob} : Words{};
    if (is_cuda && !options.shell.is_dry && (has_nvccs_syntax(text) || launches_in_device_code(text))) {
        make_joined_object(input, base, more, output, target);
    } else {
        Words last = more;
        append(last, dependency_words(input, output, target));
        append(last, {"-c", input.path, "-o", output});
        if (!is_cuda || !make_prepared_object(base, last)) {
            Words words = base;
            append(words, last);
            options.shell.run(words);
        }
    }
    if (is_cuda && options.is_relocatable && !options.shell.is_dry && output != "/dev/null")
        make_linkable(output, input.path, blob_text(options, "", ""));
}

void Compiler::make_device_code(const Input &input, const std::string &output) const
{
    if (language_of(input) != Language::cuda)
        fail("'" + input.path + "' is no CUDA source");
    const std::string blob = blob_of(input);
    if (!options.shell.is_dry)
        write_file(output, options.device_suffix == ".ptx" ? as_text(read_file(blob)) : read_file(blob));
}

void Compiler::make_host_code(const Input &input, const std::string &output) const
{
    if (language_of(input) != Language::cuda)
        fail("'" + input.path + "' is no CUDA source");
    preprocess(input, output);
    if (!options.shell.is_dry)
        write_file(output,
                   "static_assert(sizeof(char) == 2, \"mynvcc -cuda has written this to be read: compile its source "
                   "with mynvcc -c\");\n" +
                       read_file(output));
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
