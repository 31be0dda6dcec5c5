// Places in the source, for the table of lines in the image (../lines.c reads it, and so do debuggers).
//
// A region has copies of a kernel's code, whose places are of the kernel's function: LLVM wants them in a function of
// their own. Names of files come from the guest, which may write any with #line, or are the host's.
#include "lines.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/Support/Path.h"

namespace vgc
{
namespace
{

/// Bytes of a file's name that the table keeps: its end.
const size_t MAX_NAME = 120;

/// The name without what could confuse a terminal.
std::string printable(llvm::StringRef name)
{
    std::string text = name.take_back(MAX_NAME).str();
    for (char &letter : text)
        if (letter < ' ' || letter > '~')
            letter = '?';
    return text;
}

class Lines
{
  public:
    Lines(llvm::Module &module, const Options &options) : module_(module), options_(options), builder_(module)
    {
        if (llvm::NamedMDNode *units = module.getNamedMetadata("llvm.dbg.cu"))
            units->eraseFromParent();
        for (llvm::GlobalVariable &variable : module.globals())
            variable.eraseMetadata(llvm::LLVMContext::MD_dbg);
        llvm::DIFile *file = builder_.createFile(printable(llvm::sys::path::filename(options.input)), "");
        builder_.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus_14, file, "vgc-cpucc", true, "", 0, "",
                                   llvm::DICompileUnit::LineTablesOnly);
        type_ = builder_.createSubroutineType(builder_.getOrCreateTypeArray({}));
        if (module.getModuleFlag("Debug Info Version") == nullptr)
            module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
    }

    void settle(llvm::Function &function)
    {
        scopes_.clear();
        subprogram_ = nullptr;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (const llvm::DebugLoc &at = instruction.getDebugLoc()) {
                open(function, *at);
                instruction.setDebugLoc(settled(at));
            }
        function.setSubprogram(subprogram_);
        for (llvm::Instruction &instruction : llvm::instructions(function)) {
            if (subprogram_ != nullptr && llvm::isa<llvm::CallBase>(instruction) && !instruction.getDebugLoc())
                instruction.setDebugLoc(llvm::DILocation::get(module_.getContext(), 0, 0, subprogram_)); // LLVM's rule
            llvm::updateLoopMetadataDebugLocations(instruction, [](llvm::Metadata *entry) {
                return llvm::isa<llvm::DILocation>(entry) ? nullptr : entry;
            });
        }
    }

    void finish()
    {
        builder_.finalize();
    }

  private:
    /// True for files in the folders of headers, whose names are of the host.
    bool is_header(const llvm::DIFile *source)
    {
        const auto [known, is_new] = headers_.try_emplace(source, false);
        if (!is_new)
            return known->second;
        llvm::SmallString<256> path = source->getFilename();
        if (!llvm::sys::path::is_absolute(path)) { // clang splits paths anywhere
            path = source->getDirectory();
            llvm::sys::path::append(path, source->getFilename());
        }
        for (const auto *folders : {&options_.include_dirs, &options_.system_dirs})
            for (const std::string &folder : *folders)
                known->second |= path.starts_with(folder) || path.starts_with(options_.known_as(folder));
        return known->second |= path.starts_with(options_.llvm) || path.starts_with(options_.known_as(options_.llvm));
    }

    llvm::DIFile *file_of(const llvm::DIFile *source)
    {
        llvm::DIFile *&file = files_[source];
        if (file == nullptr) {
            const llvm::StringRef name = source->getFilename();
            file = builder_.createFile(printable(is_header(source) ? llvm::sys::path::filename(name) : name), "");
        }
        return file;
    }

    void open(llvm::Function &function, const llvm::DILocation &first)
    {
        if (subprogram_ != nullptr)
            return;
        const llvm::DISubprogram *source = first.getInlinedAtScope()->getSubprogram();
        subprogram_ = builder_.createFunction(
            file_of(source->getFile()), source->getName(), function.getName(), file_of(source->getFile()),
            source->getLine(), type_, source->getLine(), llvm::DINode::FlagZero,
            llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagLocalToUnit);
    }

    /// The innermost place in the program's own source, else the outermost.
    llvm::DILocation *settled(const llvm::DILocation *at)
    {
        while (is_header(at->getFile()) && at->getInlinedAt() != nullptr)
            at = at->getInlinedAt();
        llvm::DIFile *file = file_of(at->getFile());
        llvm::DIScope *&scope = scopes_[file];
        if (scope == nullptr)
            scope = file == subprogram_->getFile() ? static_cast<llvm::DIScope *>(subprogram_)
                                                   : builder_.createLexicalBlockFile(subprogram_, file);
        return llvm::DILocation::get(module_.getContext(), at->getLine(), at->getColumn(), scope);
    }

    llvm::Module &module_;
    const Options &options_;
    llvm::DIBuilder builder_;
    llvm::DISubroutineType *type_;
    llvm::DenseMap<const llvm::DIFile *, llvm::DIFile *> files_; // by the source's
    llvm::DenseMap<const llvm::DIFile *, bool> headers_;
    llvm::DISubprogram *subprogram_ = nullptr; // of the function at hand
    llvm::DenseMap<const llvm::DIFile *, llvm::DIScope *> scopes_;
};

} // namespace

void drop_variables(llvm::Module &module)
{
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
            instruction.dropDbgRecords();
            if (llvm::isa<llvm::DbgInfoIntrinsic>(instruction))
                instruction.eraseFromParent();
        }
}

void keep_places(llvm::PassInstrumentationCallbacks &callbacks)
{
    using Places = llvm::DenseMap<const llvm::Instruction *, llvm::DebugLoc>;
    static const char PASS[] = "SimplifyCFGPass";
    const auto places = std::make_shared<Places>();
    auto function_of = [](llvm::StringRef pass, const llvm::Any &ir) -> llvm::Function * {
        const auto *function = llvm::any_cast<const llvm::Function *>(&ir);
        return pass != PASS || function == nullptr ? nullptr : const_cast<llvm::Function *>(*function);
    };
    callbacks.registerBeforeNonSkippedPassCallback([=](llvm::StringRef pass, llvm::Any ir) {
        llvm::Function *function = function_of(pass, ir);
        if (function == nullptr)
            return;
        places->clear();
        for (const llvm::Instruction &instruction : llvm::instructions(function))
            if (instruction.getDebugLoc())
                (*places)[&instruction] = instruction.getDebugLoc();
    });
    callbacks.registerAfterPassCallback([=](llvm::StringRef pass, llvm::Any ir, const llvm::PreservedAnalyses &) {
        llvm::Function *function = function_of(pass, ir);
        if (function == nullptr)
            return;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (const auto known = places->find(&instruction); !instruction.getDebugLoc() && known != places->end())
                instruction.setDebugLoc(known->second);
    });
}

void settle_lines(llvm::Module &module, const Options &options)
{
    Lines lines(module, options);
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            lines.settle(function);
        else
            function.setSubprogram(nullptr);
    lines.finish();
}

} // namespace vgc
