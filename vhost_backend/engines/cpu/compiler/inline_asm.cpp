// Inline assembly: reads of PTX special registers become calls; other PTX is refused, and jumps to addresses of labels;
// x86 passes through.
#include "compiler.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/Regex.h"

namespace vgc
{
namespace
{

/// Name of the builtin that returns a special register's value; empty if the register is not supported.
llvm::StringRef builtin_of(llvm::StringRef special)
{
    return llvm::StringSwitch<llvm::StringRef>(special)
        .Case("smid", "__vgc_smid")
        .Case("laneid", "__vgc_laneid")
        .Case("warpid", "__vgc_warpid")
        .Case("tid.x", "__vgc_tid_x")
        .Case("tid.y", "__vgc_tid_y")
        .Case("tid.z", "__vgc_tid_z")
        .Case("ntid.x", "__vgc_ntid_x")
        .Case("ntid.y", "__vgc_ntid_y")
        .Case("ntid.z", "__vgc_ntid_z")
        .Case("ctaid.x", "__vgc_ctaid_x")
        .Case("ctaid.y", "__vgc_ctaid_y")
        .Case("ctaid.z", "__vgc_ctaid_z")
        .Case("nctaid.x", "__vgc_nctaid_x")
        .Case("nctaid.y", "__vgc_nctaid_y")
        .Case("nctaid.z", "__vgc_nctaid_z")
        .Case("lanemask_eq", "__vgc_lanemask_eq")
        .Case("lanemask_lt", "__vgc_lanemask_lt")
        .Case("lanemask_le", "__vgc_lanemask_le")
        .Case("lanemask_gt", "__vgc_lanemask_gt")
        .Case("lanemask_ge", "__vgc_lanemask_ge")
        .Cases("clock", "clock64", "__vgc_clock")
        .Case("globaltimer", "__vgc_globaltimer")
        .Default("");
}

/// File and line of the instruction, or else of its function.
std::string where(const llvm::Instruction &instruction)
{
    auto text = [](const llvm::DIScope &scope, unsigned line) {
        return (scope.getFilename() + ":" + llvm::Twine(line) + ": ").str();
    };
    if (const llvm::DebugLoc &location = instruction.getDebugLoc())
        return text(*llvm::cast<llvm::DIScope>(location.getScope()), location.getLine());
    const llvm::DISubprogram *function = instruction.getFunction()->getSubprogram();
    return function == nullptr ? std::string() : text(*function, function->getLine());
}

bool looks_like_ptx(llvm::StringRef text)
{
    static llvm::Regex ptx(
        "(^|[ \t\n;{])[@%]?(!?p[0-9]* "
        ")?[a-z0-9]+(\\.[a-z0-9:]+)*\\.(pred|[usbf](8|16|32|64)|f16x2|bf16|sync|gpu|cta|sys)"
        "|membar\\.|fence\\.|bar\\.|%(tid|ntid|ctaid|nctaid|laneid|warpid|smid|lanemask|clock|globaltimer)");
    return ptx.match(text);
}

/// Emits a read of special register `name`.
llvm::Value *read_special(llvm::CallInst &call, llvm::StringRef name)
{
    llvm::Module &module = *call.getModule();
    llvm::IRBuilder<> builder(&call);
    const bool wide = name == "clock" || name == "clock64" || name == "globaltimer";
    llvm::Type *result = wide ? builder.getInt64Ty() : builder.getInt32Ty();
    llvm::FunctionCallee callee = module.getOrInsertFunction(builtin_of(name), result);
    return builder.CreateZExtOrTrunc(builder.CreateCall(callee), call.getType());
}

/// Replaces or keeps the inline assembly; fails the compilation if it is not supported.
void lower(llvm::CallInst &call)
{
    const auto *assembly = llvm::cast<llvm::InlineAsm>(call.getCalledOperand());
    const std::string text(assembly->getAsmString());
    static llvm::Regex read("^[ \t\n]*mov\\.[usb](32|64)[ \t]+\\$0,[ \t]*%([a-z0-9_.]+);?[ \t\n]*$");
    llvm::SmallVector<llvm::StringRef, 3> parts;
    if (read.match(text, &parts) && call.getType()->isIntegerTy() && !builtin_of(parts[2]).empty()) {
        call.replaceAllUsesWith(read_special(call, parts[2]));
        call.eraseFromParent();
    } else if (looks_like_ptx(text)) {
        fail(where(call) + "inline PTX \"" + text +
             "\" is not supported by the CPU engine (allowed: mov of %smid, %laneid, %warpid, %tid, %ntid, %ctaid, "
             "%nctaid, "
             "%lanemask_*, %clock, %clock64, %globaltimer)");
    }
}

/// Refuses jumps to addresses of labels: regions are copies of the code that the addresses are of.
void refuse_computed_jumps(const llvm::Instruction &instruction)
{
    if (llvm::isa<llvm::IndirectBrInst>(instruction))
        fail(where(instruction) + "computed goto is not supported");
    if (llvm::isa<llvm::CallBrInst>(instruction))
        fail(where(instruction) + "assembly that jumps to labels is not supported");
}

} // namespace

void lower_inline_asm(llvm::Module &module)
{
    std::vector<llvm::CallInst *> calls;
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function)) {
            refuse_computed_jumps(instruction);
            if (auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call != nullptr && call->isInlineAsm())
                calls.push_back(call);
        }
    for (llvm::CallInst *call : calls)
        lower(*call);
    if (!module.getModuleInlineAsm().empty())
        fail("assembly outside of functions is not allowed");
}

} // namespace vgc
