#include "compiler.h"
#include "options.h"
#include "ptx/constraints.h"
#include "shared_variables.h"
#include "source.h"

#include <unistd.h>

#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"

namespace vgc
{
namespace
{

/// Parses a source and emits its module.
class Emission : public clang::ASTFrontendAction
{
  public:
    explicit Emission(llvm::LLVMContext &context) : context_(context)
    {
    }
    std::unique_ptr<llvm::Module> take_module()
    {
        return std::move(module_);
    }

  private:
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance &compiler,
                                                          llvm::StringRef file) override
    {
        compiler.getPreprocessor().setTokenWatcher([translate = ptx::constraints_translator(compiler.getPreprocessor()),
                                                    alignment = SharedAlignment()](const clang::Token &token) mutable {
            auto &parsed = const_cast<clang::Token &>(token); // clang reads this object after the call
            translate(parsed);
            alignment.take(parsed);
        });
        generator_ = clang::CreateLLVMCodeGen(compiler.getDiagnostics(), file, &compiler.getVirtualFileSystem(),
                                              compiler.getHeaderSearchOpts(), compiler.getPreprocessorOpts(),
                                              compiler.getCodeGenOpts(), context_);
        return std::unique_ptr<clang::ASTConsumer>(generator_);
    }
    /// Comes before the generator, which belongs to clang, is deleted.
    void EndSourceFileAction() override
    {
        module_.reset(generator_->ReleaseModule());
    }

    llvm::LLVMContext &context_;
    clang::CodeGenerator *generator_ = nullptr;
    std::unique_ptr<llvm::Module> module_;
};

/// What clang parses: `text`, and instances of the templates of --name-expression, which are host variables with their
/// addresses. Text with a library in it is a system header, as the library is elsewhere.
std::string input_text(const Options &options, const std::string &text)
{
    std::string input;
    if (has_libraries_text(text)) // clang's attribute __malloc__ has no arguments
        input = "#define __malloc__(...)\n# 1 \"" + options.input + "\" 3\n";
    input += text;
    if (!options.name_expressions.empty())
        input += "\n#line 1 \"name-expression\"\n";
    int index = 0;
    for (const std::string &expression : options.name_expressions)
        input += "static const auto __vgc_name_expression_" + std::to_string(index++) + " = &" + expression + ";\n";
    return input;
}

using Words = std::vector<std::string>;

/// Adds the folders of headers: device headers lie over those of the host's libraries; clang's own stand before the C
/// ones.
void add_folders(const Options &options, Words &words)
{
    for (const std::string &folder : options.program_dirs)
        words.insert(words.end(), {"-I", folder});
    for (const Words *folders : {&options.include_dirs, &options.system_dirs})
        for (const std::string &folder : *folders)
            words.insert(words.end(), {"-isystem", folder});
    const std::string own = options.llvm + "/lib/clang/19";
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
                               "-debug-info-kind=standalone", "-debugger-tuning=gdb"});
    words.insert(words.end(), {"-fno-strict-return", "-ffp-contract=fast", "-fno-rounding-math",
                               "-fno-strict-float-cast-overflow", "-fcheck-new", "-vectorize-loops", "-vectorize-slp"});
    // clang 19 warns of the features that it finds itself on processors with AVX10
    words.insert(words.end(), {"-Wno-unknown-cuda-version", "-Wno-invalid-feature-combination", "-Wno-register",
                               "-Wno-c++11-narrowing", "-Wno-error=reserved-user-defined-literal"});
    words.insert(words.end(), {"-U", "__CUDA_ARCH__", "-D", "__CUDA_ARCH__=800", "-D", "__CUDACC__=1", "-D",
                               "__VGC_CPU__=1", "-D", "__GCC_HAVE_DWARF2_CFI_ASM=1"});
    add_folders(options, words);
    add_headers(options, text, words);
    words.insert(words.end(), options.clang.begin(), options.clang.end());
    words.insert(words.end(), {"-x", "cuda", options.input});
    return words;
}

void set_processor(clang::TargetOptions &target)
{
    target.CPU = llvm::sys::getHostCPUName().str();
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
        target.FeaturesAsWritten.push_back((feature.second ? "+" : "-") + feature.first().str());
}

} // namespace

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &options)
{
    std::string text = read_source(options);
    replace_gccs_packs(text);
    join_launch_brackets(text);
    if (launches_in_device_code(text))
        text = rewrite_launches(text);
    const Words words = clang_arguments(options, text);
    std::vector<const char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(word.c_str());

    clang::CompilerInstance compiler;
    compiler.createDiagnostics();
    if (!clang::CompilerInvocation::CreateFromArgs(compiler.getInvocation(), arguments, compiler.getDiagnostics()))
        _exit(1); // clang has printed the reason, here and below
    set_processor(compiler.getTargetOpts());
    compiler.getPreprocessorOpts().addRemappedFile(
        options.input, llvm::MemoryBuffer::getMemBufferCopy(input_text(options, text), options.input).release());
    compiler.createDiagnostics();
    Emission emission(context);
    context.setDiscardValueNames(true);
    if (!compiler.ExecuteAction(emission)) {
        advise_on_libraries(options, text);
        _exit(1);
    }
    context.setDiscardValueNames(false);
    return emission.take_module();
}

} // namespace vgc
