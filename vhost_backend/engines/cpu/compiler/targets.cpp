// What lld and clang name of LLVM, and a compiler for x86 does not have: the code generators of other processors, which
// lld would initialise for link-time optimisation, and Polly. None of it becomes part of the program.
#include "llvm/Passes/PassPlugin.h"

// x86 is there: these names are for definitions that nothing uses.
#define LLVMInitializeX86TargetInfo vgc_unused_target_info
#define LLVMInitializeX86Target vgc_unused_target
#define LLVMInitializeX86TargetMC vgc_unused_target_mc
#define LLVMInitializeX86AsmPrinter vgc_unused_printer
#define LLVMInitializeX86AsmParser vgc_unused_parser

extern "C" {
#define LLVM_TARGET(name)                                                                                              \
    void LLVMInitialize##name##TargetInfo()                                                                            \
    {                                                                                                                  \
    }                                                                                                                  \
    void LLVMInitialize##name##Target()                                                                                \
    {                                                                                                                  \
    }                                                                                                                  \
    void LLVMInitialize##name##TargetMC()                                                                              \
    {                                                                                                                  \
    }
#include "llvm/Config/Targets.def"
#define LLVM_ASM_PRINTER(name)                                                                                         \
    void LLVMInitialize##name##AsmPrinter()                                                                            \
    {                                                                                                                  \
    }
#include "llvm/Config/AsmPrinters.def"
#define LLVM_ASM_PARSER(name)                                                                                          \
    void LLVMInitialize##name##AsmParser()                                                                             \
    {                                                                                                                  \
    }
#include "llvm/Config/AsmParsers.def"
}

llvm::PassPluginLibraryInfo getPollyPluginInfo()
{
    return {};
}
