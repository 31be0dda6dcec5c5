// __shared__ variables: offsets in the block's shared memory, per kernel.
#include "compiler.h"

#include <set>

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Support/Alignment.h"

namespace vgc
{
namespace
{

bool is_dynamic(const llvm::GlobalVariable &variable)
{
    const auto *array = llvm::dyn_cast<llvm::ArrayType>(variable.getValueType());
    return variable.isDeclaration() && array != nullptr && array->getNumElements() == 0;
}

bool is_static(const llvm::GlobalVariable &variable)
{
    return variable.hasInitializer() && llvm::isa<llvm::UndefValue>(variable.getInitializer());
}

/// Declares a function that always returns the same value to a thread.
llvm::Function *declare_constant(llvm::Module &module, llvm::StringRef name, llvm::FunctionType *type)
{
    auto *function = llvm::cast<llvm::Function>(module.getOrInsertFunction(name, type).getCallee());
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
    function->setWillReturn();
    return function;
}

void replace_uses(llvm::GlobalVariable &variable, llvm::Function &access, uint32_t index)
{
    llvm::convertUsersOfConstantsToInstructions({&variable});
    std::vector<llvm::Use *> uses;
    for (llvm::Use &use : variable.uses())
        uses.push_back(&use);
    for (llvm::Use *use : uses) {
        auto *user = llvm::dyn_cast<llvm::Instruction>(use->getUser());
        if (user == nullptr)
            fail("the address of shared variable '" + variable.getName() + "' is used in an initialiser");
        llvm::Instruction *before = user;
        if (auto *phi = llvm::dyn_cast<llvm::PHINode>(user))
            before = phi->getIncomingBlock(*use)->getTerminator();
        llvm::IRBuilder<> builder(before);
        use->set(builder.CreateCall(&access, builder.getInt32(index)));
    }
}

uint32_t index_of(const llvm::CallInst &call)
{
    return uint32_t(llvm::cast<llvm::ConstantInt>(call.getArgOperand(0))->getZExtValue());
}

} // namespace

SharedMemory::SharedMemory(llvm::Module &module) : module_(module)
{
    llvm::LLVMContext &context = module.getContext();
    llvm::Function *access = declare_constant(
        module, "__vgc_shared_var",
        llvm::FunctionType::get(llvm::PointerType::get(context, 0), {llvm::Type::getInt32Ty(context)}, false));
    std::vector<llvm::GlobalVariable *> found;
    for (llvm::GlobalVariable &variable : module.globals())
        if (is_static(variable) || is_dynamic(variable))
            found.push_back(&variable);
    const llvm::DataLayout &layout = module.getDataLayout();
    for (llvm::GlobalVariable *variable : found) {
        const uint64_t size = layout.getTypeAllocSize(variable->getValueType());
        const uint64_t align = layout.getPreferredAlign(variable).value();
        variables_.push_back(
            {variable->getName().str(), size, std::max<uint64_t>(align, 16), 0, is_dynamic(*variable)});
        replace_uses(*variable, *access, uint32_t(variables_.size() - 1));
        variable->eraseFromParent();
    }
}

void SharedMemory::place(Program &program)
{
    llvm::Function *access = module_.getFunction("__vgc_shared_var");
    if (access == nullptr) // no uses are left
        return;
    mark_block_atomics(module_);
    llvm::SmallPtrSet<const llvm::Function *, 16> kernels;
    for (const Kernel &kernel : program.kernels)
        kernels.insert(kernel.function);
    llvm::MapVector<llvm::Function *, std::set<uint32_t>> used;
    auto calls_in = [&](const llvm::Function *function) {
        std::vector<llvm::CallInst *> calls;
        for (llvm::User *user : access->users())
            if (auto *call = llvm::cast<llvm::CallInst>(user); function == nullptr || call->getFunction() == function)
                calls.push_back(call);
        return calls;
    };
    for (llvm::CallInst *call : calls_in(nullptr))
        used[call->getFunction()].insert(index_of(*call));
    // Variables of functions that were not inlined have the same offset in all kernels, below the kernels' own.
    uint64_t common = 0;
    std::set<uint32_t> placed;
    auto put = [&](uint32_t index, uint64_t &end) {
        Variable &variable = variables_[index];
        if (variable.dynamic)
            return;
        variable.offset = llvm::alignTo(end, variable.align);
        end = variable.offset + variable.size;
    };
    for (auto &[function, indices] : used)
        if (!kernels.contains(function))
            for (const uint32_t index : indices)
                if (placed.insert(index).second)
                    put(index, common);
    llvm::Type *pointer = llvm::PointerType::get(module_.getContext(), 0);
    llvm::FunctionType *type = llvm::FunctionType::get(pointer, false);
    llvm::Function *base = declare_constant(module_, "__vgc_shared", type);
    llvm::Function *dynamic = declare_constant(module_, "__vgc_dynamic_shared", type);
    auto replace = [&](llvm::CallInst *call) {
        llvm::IRBuilder<> builder(call);
        const Variable &variable = variables_[index_of(*call)];
        llvm::Value *address =
            variable.dynamic
                ? static_cast<llvm::Value *>(builder.CreateCall(dynamic))
                : builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), builder.CreateCall(base), variable.offset);
        call->replaceAllUsesWith(address);
        call->eraseFromParent();
    };
    for (Kernel &kernel : program.kernels) {
        uint64_t end = common;
        for (const uint32_t index : used[kernel.function])
            if (!placed.contains(index))
                put(index, end);
        kernel.shared_bytes = uint32_t(llvm::alignTo(end, 16));
        if (end > VGC_CPU_MAX_SHARED)
            fail("kernel '" + kernel.name + "' uses " + llvm::Twine(end) + " bytes of static shared memory, at most " +
                 llvm::Twine(int(VGC_CPU_MAX_SHARED)) + " are possible");
        for (llvm::CallInst *call : calls_in(kernel.function))
            replace(call);
    }
    for (llvm::CallInst *call : calls_in(nullptr))
        replace(call);
    access->eraseFromParent();
}

} // namespace vgc
