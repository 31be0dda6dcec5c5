#include "arguments.h"
#include "compiler.h"
#include "crash.h"
#include "options.h"
#include "prelude.h"
#include "source.h"

#include <unistd.h>

#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "llvm/Support/MemoryBuffer.h"

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
        watch_tokens(compiler.getPreprocessor());
        watch_macros(compiler.getPreprocessor());
        generator_ = clang::CreateLLVMCodeGen(compiler.getDiagnostics(), file, &compiler.getVirtualFileSystem(),
                                              compiler.getHeaderSearchOpts(), compiler.getPreprocessorOpts(),
                                              compiler.getCodeGenOpts(), context_);
        return std::unique_ptr<clang::ASTConsumer>(generator_);
    }
    /// Comes before the generator, which belongs to clang, is deleted.
    void EndSourceFileAction() override
    {
        module_.reset(generator_->ReleaseModule());
        forget_token();
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

} // namespace

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &options, std::string text)
{
    replace_gccs_packs(text);
    take_nvccs_syntax(text);
    part_linkage(text);
    if (launches_in_device_code(text))
        text = rewrite_launches(text);

    clang::CompilerInstance compiler;
    set_up(compiler, options, text);
    compiler.getPreprocessorOpts().ImplicitPCHInclude = find_prelude(compiler, options, text);
    compiler.getPreprocessorOpts().addRemappedFile(
        options.input, llvm::MemoryBuffer::getMemBufferCopy(input_text(options, text), options.input).release());
    Emission emission(context);
    context.setDiscardValueNames(true);
    if (!compiler.ExecuteAction(emission)) {
        advise_on_libraries(options, text);
        _exit(1);
    }
    context.setDiscardValueNames(false);
    std::unique_ptr<llvm::Module> module = emission.take_module();
    take_processor(*module, compiler);
    return module;
}

} // namespace vgc
