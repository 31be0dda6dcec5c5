// The carry flag CC.CF. Programs write one asm statement, or a function, for each instruction of a chain. So the flag
// is a builtin until functions are inlined, and then a variable of each function that is left.
#include "carry.h"

#include <map>
#include <vector>

#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

namespace vgc::ptx
{
namespace
{

const char READER[] = "__vgc_carry", WRITER[] = "__vgc_set_carry";

llvm::FunctionCallee builtin(llvm::Module &module, const char *name, llvm::FunctionType *type)
{
    llvm::FunctionCallee callee = module.getOrInsertFunction(name, type);
    auto *function = llvm::cast<llvm::Function>(callee.getCallee());
    function->setDoesNotThrow();
    function->setWillReturn();
    function->setOnlyAccessesInaccessibleMemory();
    return callee;
}

std::vector<llvm::CallInst *> calls_of(llvm::Module &module, const char *name)
{
    std::vector<llvm::CallInst *> calls;
    if (const llvm::Function *function = module.getFunction(name))
        for (const llvm::User *user : function->users())
            calls.push_back(llvm::cast<llvm::CallInst>(const_cast<llvm::User *>(user)));
    return calls;
}

} // namespace

llvm::FunctionCallee carry_reader(llvm::Module &module)
{
    return builtin(module, READER, llvm::FunctionType::get(llvm::Type::getInt1Ty(module.getContext()), false));
}

llvm::FunctionCallee carry_writer(llvm::Module &module)
{
    llvm::Type *flag = llvm::Type::getInt1Ty(module.getContext());
    return builtin(module, WRITER, llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), {flag}, false));
}

void place_carry_flags(llvm::Module &module)
{
    std::map<llvm::Function *, llvm::AllocaInst *> flags;
    auto flag_of = [&](llvm::Function &function) {
        llvm::AllocaInst *&flag = flags[&function];
        if (flag == nullptr) {
            llvm::IRBuilder<> entry(&function.getEntryBlock(), function.getEntryBlock().begin());
            flag = entry.CreateAlloca(entry.getInt1Ty());
            entry.CreateStore(entry.getFalse(), flag);
        }
        return flag;
    };
    for (llvm::CallInst *call : calls_of(module, READER)) {
        llvm::IRBuilder<> builder(call);
        call->replaceAllUsesWith(builder.CreateLoad(builder.getInt1Ty(), flag_of(*call->getFunction())));
        call->eraseFromParent();
    }
    for (llvm::CallInst *call : calls_of(module, WRITER)) {
        llvm::IRBuilder<>(call).CreateStore(call->getArgOperand(0), flag_of(*call->getFunction()));
        call->eraseFromParent();
    }
    for (const auto &[function, flag] : flags) {
        llvm::DominatorTree tree(*function);
        llvm::PromoteMemToReg({flag}, tree);
    }
}

} // namespace vgc::ptx
