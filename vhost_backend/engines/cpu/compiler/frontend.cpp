#include "arguments.h"
#include "compiler.h"
#include "crash.h"
#include "guest_headers.h"
#include "options.h"
#include "prelude.h"
#include "source.h"

#include <unistd.h>

#include "clang/AST/Mangle.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/FrontendAction.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "llvm/Support/MemoryBuffer.h"

namespace vgc
{
namespace
{

/// Host variable with the address of what a --name-expression names.
constexpr char NAMED[] = "__vgc_name_expression_";

/// Tells the guest what the linker calls that which its expressions name: a line of the log for each.
void print_lowered_names(clang::ASTContext &context, size_t count)
{
    clang::ASTNameGenerator names(context);
    for (size_t i = 0; i < count; i++) {
        const auto found = context.getTranslationUnitDecl()->lookup(&context.Idents.get(NAMED + std::to_string(i)));
        const auto *variable = found.empty() ? nullptr : llvm::dyn_cast<clang::VarDecl>(found.front());
        const clang::Expr *value = variable == nullptr ? nullptr : variable->getInit();
        while (value != nullptr && !llvm::isa<clang::DeclRefExpr>(value)) {
            value = value->IgnoreParenCasts();
            if (const auto *address = llvm::dyn_cast<clang::UnaryOperator>(value))
                value = address->getSubExpr();
            else if (!llvm::isa<clang::DeclRefExpr>(value))
                value = nullptr;
        }
        if (value != nullptr)
            llvm::errs() << "vgc: lowered name " << i << ": "
                         << names.getName(llvm::cast<clang::DeclRefExpr>(value)->getDecl()) << "\n";
    }
}

/// Parses a source and emits its module.
class Emission : public clang::ASTFrontendAction
{
  public:
    Emission(llvm::LLVMContext &context, const Options &options) : context_(context), options_(options)
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
        if (options_.lowered_names)
            print_lowered_names(getCompilerInstance().getASTContext(), options_.name_expressions.size());
        module_.reset(generator_->ReleaseModule());
        forget_token();
    }

    llvm::LLVMContext &context_;
    const Options &options_;
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
    for (const std::string &expression : options.name_expressions) {
        const llvm::StringRef name = llvm::StringRef(expression).ltrim(" \t\n&"); // &name is allowed, as for NVRTC
        const std::string address = (name.starts_with("(") ? "" : "&") + name.str();
        input += std::string("static const auto ") + NAMED + std::to_string(index++) + " = " + address + ";\n";
    }
    return input;
}

/// Brings a text of the source into forms that clang takes.
void adapt(std::string &text)
{
    replace_gccs_packs(text);
    take_nvccs_syntax(text);
    part_linkage(text);
    if (launches_in_device_code(text))
        text = rewrite_launches(text);
}

} // namespace

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &given, std::string text)
{
    Options options = given;
    options.guest_headers = take_guest_headers(text);
    adapt(text);
    std::string whole = text;
    for (GuestHeader &header : options.guest_headers.files) {
        adapt(header.text);
        whole += header.text;
    }

    clang::CompilerInstance compiler;
    set_up(compiler, options, whole);
    compiler.getPreprocessorOpts().ImplicitPCHInclude = find_prelude(compiler, options, whole);
    compiler.getPreprocessorOpts().addRemappedFile(
        options.input, llvm::MemoryBuffer::getMemBufferCopy(input_text(options, text), options.input).release());
    Emission emission(context, options);
    context.setDiscardValueNames(true);
    if (!compiler.ExecuteAction(emission)) {
        advise_on_libraries(options, whole);
        _exit(1);
    }
    context.setDiscardValueNames(false);
    std::unique_ptr<llvm::Module> module = emission.take_module();
    take_processor(*module, compiler);
    return module;
}

} // namespace vgc
