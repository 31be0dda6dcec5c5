#include "places.h"

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/IR/Module.h"

namespace vgc::ptx
{

Places::Places(llvm::Module &module, llvm::StringRef file)
    : builder_(module), file_(builder_.createFile(file, "")),
      type_(builder_.createSubroutineType(builder_.getOrCreateTypeArray({})))
{
    builder_.createCompileUnit(llvm::dwarf::DW_LANG_C_plus_plus_14, file_, "vgc-cpucc", true, "", 0, "",
                               llvm::DICompileUnit::LineTablesOnly);
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}

/// Scope of the function's code from a file; null if the module does not name the file.
llvm::DIScope *Places::scope_of(llvm::DISubprogram *subprogram, const Module &module, uint64_t file)
{
    const auto named = module.files.find(file);
    return named == module.files.end()
               ? nullptr
               : builder_.createLexicalBlockFile(subprogram, builder_.createFile(named->second, ""));
}

Lowering::Locate Places::add(llvm::Function &ir, const Function &function, llvm::StringRef name, const Module &module)
{
    llvm::DISubprogram *places =
        builder_.createFunction(file_, name, function.name, file_, function.at.line, type_, function.at.line,
                                llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
    ir.setSubprogram(places);
    return
        [this, places, &module, source = static_cast<llvm::DILocation *>(nullptr)](const Statement &statement) mutable {
            llvm::LLVMContext &context = places->getContext();
            if (statement.kind == Statement::SOURCE) {
                llvm::DIScope *scope = scope_of(places, module, statement.file);
                source = scope == nullptr
                             ? nullptr
                             : llvm::DILocation::get(context, statement.place.line, statement.place.column, scope);
            }
            return source != nullptr ? source
                                     : llvm::DILocation::get(context, statement.at.line, statement.at.column, places);
        };
}

} // namespace vgc::ptx
