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

llvm::DISubprogram *Places::add(llvm::Function &ir, const Function &function, llvm::StringRef name)
{
    llvm::DISubprogram *places =
        builder_.createFunction(file_, name, function.name, file_, function.at.line, type_, function.at.line,
                                llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
    ir.setSubprogram(places);
    return places;
}

} // namespace vgc::ptx
