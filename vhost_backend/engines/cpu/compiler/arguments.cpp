#include "arguments.h"
#include "compiler.h"
#include "crash.h"
#include "options.h"
#include "ptx/constraints.h"
#include "shared_variables.h"
#include "source.h"

#include <unistd.h>

#include "clang/Basic/TargetInfo.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Lex/Preprocessor.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/TargetParser/Host.h"

namespace vgc
{
namespace
{

using Words = std::vector<std::string>;

/// Adds the folders of headers: device headers lie over those of the host's libraries; clang's own stand before the C
/// ones.
void add_folders(const Options &options, Words &words)
{
    for (const Words *folders : {&options.guest_headers.folders, &options.program_dirs})
        for (const std::string &folder : *folders)
            words.insert(words.end(), {"-I", folder});
    for (const Words *folders : {&options.include_dirs, &options.system_dirs})
        for (const std::string &folder : *folders)
            words.insert(words.end(), {"-isystem", options.known_as(folder)});
    const std::string own = options.known_as(options.llvm) + "/lib/clang/19";
    words.insert(words.end(), {"-nostdsysteminc", "-nobuiltininc", "-resource-dir", own, "-internal-isystem",
                               own + "/include/cuda_wrappers"});
}

/// Adds the headers that are included before the source.
void add_headers(const Options &options, llvm::StringRef text, Words &words)
{
    words.insert(words.end(), {"-include", "cuda_runtime.h"});
    if (wants_hosts_names(options, text))
        words.insert(words.end(), {"-include", "vgc_hosted.h"});
    if (!may_name_api(text))
        words.push_back("-D__VGC_NO_API__=1");
    if (text.contains("__vgc_configure("))
        words.insert(words.end(), {"-D__VGC_LAUNCHES__=1", "-fgpu-exclude-wrong-side-overloads"});
    if (uses_textures(options, text))
        words.insert(words.end(), {"-include", "vgc_texture.h", "-include", "vgc_surface.h"});
}

/// Arguments of `clang -cc1`: CUDA, parsed as device code of the processor at hand.
Words clang_arguments(const Options &options, llvm::StringRef text)
{
    Words words = {"-triple", TRIPLE, "-aux-triple", "nvptx64-nvidia-cuda", "-emit-llvm-only", "-disable-llvm-passes"};
    words.insert(words.end(), {"-main-file-name", llvm::sys::path::filename(options.input).str()});
    words.insert(words.end(), {"-std=gnu++17", "-fcuda-is-device", "-fcuda-allow-variadic-functions",
                               "-target-sdk-version=11.0", "-fdeprecated-macro", "-fgnuc-version=4.2.1",
                               "-fskip-odr-check-in-gmf", "-fexceptions", "-fcxx-exceptions", "-ferror-limit", "19"});
    words.insert(words.end(), {"-O2", "-mrelocation-model", "pic", "-pic-level", "2", "-mframe-pointer=none",
                               "-fhalf-no-semantic-interposition", "-mconstructor-aliases", "-funwind-tables=2",
                               "-debug-info-kind=standalone", "-dwarf-version=4"}); // the version that ../lines.c reads
    // what nvcc's programs rely on: values that are not returned, pointers that are cast to those of other types
    words.insert(words.end(), {"-fno-strict-return", "-relaxed-aliasing"});
    words.insert(words.end(), {"-ffp-contract=fast", "-fno-rounding-math", "-fno-strict-float-cast-overflow",
                               "-fcheck-new", "-vectorize-loops", "-vectorize-slp"});
    // clang 19 warns of the features that it finds itself on processors with AVX10
    words.insert(words.end(),
                 {"-Wno-unknown-cuda-version", "-Wno-invalid-feature-combination", "-Wno-register",
                  "-Wno-c++11-narrowing", "-Wno-invalid-constexpr", "-Wno-error=reserved-user-defined-literal"});
    words.insert(words.end(), {"-U", "__CUDA_ARCH__", "-D", "__CUDA_ARCH__=800", "-D", "__CUDACC__=1", "-D",
                               "__VGC_CPU__=1", "-D", "__GCC_HAVE_DWARF2_CFI_ASM=1"});
    add_folders(options, words);
    add_headers(options, text, words);
    if (!options.cuid.empty())
        words.insert(words.end(), {"-fgpu-rdc", "-cuid=" + options.cuid});
    words.insert(words.end(), options.clang.begin(), options.clang.end());
    words.insert(words.end(), {"-x", "cuda", options.input});
    return words;
}

/// Processor that sources are parsed for where the host's can do as much.
const char COMMON_PROCESSOR[] = "x86-64-v3";

void set_hosts_processor(clang::TargetOptions &target)
{
    target.CPU = llvm::sys::getHostCPUName().str();
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
        target.FeaturesAsWritten.push_back((feature.second ? "+" : "-") + feature.first().str());
}

/// Value of the attribute of functions that has a processor's features.
std::string features_of(const clang::TargetInfo &target)
{
    std::vector<std::string> features = target.getTargetOpts().Features;
    llvm::sort(features);
    return llvm::join(features, ",");
}

/// File system in which the folders of headers have the names that they are known as.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> renamed_folders(const Options &options)
{
    llvm::json::Array roots;
    for (const auto &[folder, name] : options.names) {
        llvm::SmallString<256> path(folder);
        if (llvm::sys::fs::make_absolute(path))
            fail("cannot find " + folder);
        if (path != name)
            roots.push_back(llvm::json::Object{
                {"type", "directory-remap"}, {"name", name}, {"external-contents", path.str().str()}});
    }
    if (roots.empty())
        return llvm::vfs::getRealFileSystem();
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(
        llvm::json::Object{{"version", 0}, {"use-external-names", false}, {"roots", std::move(roots)}});
    auto renamed = llvm::vfs::RedirectingFileSystem::create(llvm::MemoryBuffer::getMemBufferCopy(text), nullptr, "",
                                                            nullptr, llvm::vfs::getRealFileSystem());
    if (renamed == nullptr)
        fail("--known-as needs the absolute path of a folder");
    return renamed.release();
}

/// File system in which the guest's headers lie over the host's files.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> with_guest_headers(const Options &options)
{
    if (options.guest_headers.files.empty())
        return renamed_folders(options);
    auto headers = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
    for (const GuestHeader &file : options.guest_headers.files)
        if (!headers->addFile(file.path, 0, llvm::MemoryBuffer::getMemBufferCopy(file.text, file.path)))
            fail("two headers of the source have the path " + file.path + ", or it is a folder's, too");
    auto all = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(renamed_folders(options));
    all->pushOverlay(headers);
    return all;
}

} // namespace

void set_up(clang::CompilerInstance &compiler, const Options &options, llvm::StringRef text)
{
    const Words words = clang_arguments(options, text);
    std::vector<const char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(word.c_str());
    compiler.createDiagnostics();
    if (!clang::CompilerInvocation::CreateFromArgs(compiler.getInvocation(), arguments, compiler.getDiagnostics()))
        _exit(1); // clang has printed the reason
    if (has_common_processor() || !options.make_preludes.empty())
        compiler.getTargetOpts().CPU = COMMON_PROCESSOR;
    else
        set_hosts_processor(compiler.getTargetOpts());
    compiler.createDiagnostics();
    compiler.createFileManager(with_guest_headers(options));
}

void watch_tokens(clang::Preprocessor &preprocessor)
{
    preprocessor.setTokenWatcher([&preprocessor, translate = ptx::constraints_translator(preprocessor),
                                  alignment = SharedAlignment()](const clang::Token &token) mutable {
        auto &parsed = const_cast<clang::Token &>(token); // clang reads this object after the call
        translate(parsed);
        alignment.take(parsed);
        forget_device_of_shared(preprocessor, parsed);
        if (token.isNot(clang::tok::eof))
            note_token(preprocessor.getSourceManager(), token.getLocation());
    });
}

bool has_common_processor()
{
    const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    return llvm::all_of(std::initializer_list<llvm::StringRef>{"avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt",
                                                               "movbe", "popcnt", "sahf", "sse4.2", "xsave"},
                        [&](llvm::StringRef name) { return features.lookup(name); });
}

void take_processor(llvm::Module &module, clang::CompilerInstance &compiler)
{
    if (!has_common_processor())
        return;
    auto wanted = std::make_shared<clang::TargetOptions>();
    wanted->Triple = TRIPLE;
    set_hosts_processor(*wanted);
    const std::unique_ptr<clang::TargetInfo> host(
        clang::TargetInfo::CreateTargetInfo(compiler.getDiagnostics(), wanted));
    const std::string common = features_of(compiler.getTarget());
    llvm::AttrBuilder attributes(module.getContext());
    attributes.addAttribute("target-cpu", wanted->CPU);
    attributes.addAttribute("target-features", features_of(*host));
    for (llvm::Function &function : module)
        if (function.getFnAttribute("target-features").getValueAsString() == common)
            function.addFnAttrs(attributes);
}

} // namespace vgc
