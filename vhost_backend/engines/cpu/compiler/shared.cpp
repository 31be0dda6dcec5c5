// __shared__ variables: offsets in the block's shared memory, per kernel.
#include "apart.h"
#include "compiler.h"
#include "demangled.h"
#include "shared_variables.h"

#include <set>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/Support/Alignment.h"

namespace vgc
{
namespace
{

bool is_dynamic(const llvm::GlobalVariable &variable)
{
    const auto *array = llvm::dyn_cast<llvm::ArrayType>(variable.getValueType());
    return variable.isDeclaration() && variable.getSection() == SHARED_SECTION && array != nullptr &&
           array->getNumElements() == 0;
}

bool is_static(const llvm::GlobalVariable &variable)
{
    return variable.hasInitializer() && llvm::isa<llvm::UndefValue>(variable.getInitializer());
}

void promise_constant(llvm::Function &function)
{
    function.setDoesNotAccessMemory();
    function.setDoesNotThrow();
    function.setWillReturn();
}

/// Declares a function that always returns the same address to a thread.
llvm::Function *declare_address(llvm::Module &module, llvm::StringRef name)
{
    auto *type = llvm::FunctionType::get(llvm::PointerType::get(module.getContext(), 0), false);
    auto *function = llvm::cast<llvm::Function>(module.getOrInsertFunction(name, type).getCallee());
    promise_constant(*function);
    return function;
}

/// Declares the function whose calls stand for a variable. Each variable has its own, without arguments: the optimiser
/// merges calls of one function whose arguments differ.
llvm::Function *declare_access(llvm::Module &module, const llvm::GlobalVariable &variable, uint64_t size)
{
    auto *type = llvm::FunctionType::get(llvm::PointerType::get(module.getContext(), 0), false);
    auto *function =
        llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, variable.getName() + ".shared", module);
    promise_constant(*function);
    function->addFnAttr(SHARED_VARIABLE, std::to_string(size)); // 0: dynamic
    return function;
}

/// Adds the constants with an initialiser that contains `value` (clang makes them for local arrays and structs).
void collect_holders(llvm::Constant &value, llvm::SetVector<llvm::GlobalVariable *> &holders)
{
    for (llvm::User *user : value.users())
        if (auto *holder = llvm::dyn_cast<llvm::GlobalVariable>(user)) {
            if (holder->isConstant() && holder->hasLocalLinkage())
                holders.insert(holder);
        } else if (llvm::isa<llvm::ConstantExpr, llvm::ConstantAggregate>(user)) {
            collect_holders(*llvm::cast<llvm::Constant>(user), holders);
        }
}

/// Makes a constant a local variable of each function that uses it, filled at the function's begin.
void make_local(llvm::GlobalVariable &holder)
{
    llvm::convertUsersOfConstantsToInstructions({&holder});
    llvm::DenseMap<llvm::Function *, llvm::AllocaInst *> locals;
    for (llvm::Use &use : llvm::make_early_inc_range(holder.uses())) {
        auto *user = llvm::dyn_cast<llvm::Instruction>(use.getUser());
        if (user == nullptr)
            return; // in the initialiser of another variable
        llvm::AllocaInst *&local = locals[user->getFunction()];
        if (local == nullptr) {
            llvm::IRBuilder<> builder(&*user->getFunction()->getEntryBlock().getFirstInsertionPt());
            local = builder.CreateAlloca(holder.getValueType());
            local->setAlignment(holder.getAlign().valueOrOne());
            builder.CreateAlignedStore(holder.getInitializer(), local, local->getAlign());
        }
        use.set(local);
    }
    holder.eraseFromParent();
}

/// Replaces the variable's address by a call of `access` at the begin of each function that uses it.
void replace_uses(llvm::GlobalVariable &variable, llvm::Function &access)
{
    llvm::convertUsersOfConstantsToInstructions({&variable});
    llvm::DenseMap<llvm::Function *, llvm::Value *> addresses;
    for (llvm::Use &use : llvm::make_early_inc_range(variable.uses())) {
        auto *user = llvm::dyn_cast<llvm::Instruction>(use.getUser());
        if (user == nullptr)
            fail("the address of shared variable '" + demangled(variable.getName()) + "' is used in an initialiser");
        llvm::Value *&address = addresses[user->getFunction()];
        if (address == nullptr) {
            llvm::IRBuilder<> builder(&*user->getFunction()->getEntryBlock().getFirstInsertionPt());
            address = builder.CreateCall(&access);
        }
        use.set(address);
    }
}

} // namespace

SharedMemory::SharedMemory(llvm::Module &module) : module_(module)
{
    std::vector<llvm::GlobalVariable *> found;
    llvm::SetVector<llvm::GlobalVariable *> holders;
    for (llvm::GlobalVariable &variable : module.globals())
        if (is_static(variable) || is_dynamic(variable)) {
            found.push_back(&variable);
            collect_holders(variable, holders);
        }
    for (llvm::GlobalVariable *holder : holders)
        make_local(*holder);
    const llvm::DataLayout &layout = module.getDataLayout();
    for (llvm::GlobalVariable *variable : found) {
        const uint64_t size = layout.getTypeAllocSize(variable->getValueType());
        const uint64_t align = layout.getPreferredAlign(variable).value();
        llvm::Function *access = declare_access(module, *variable, size);
        variables_.push_back({access, size, std::max<uint64_t>(align, 16), 0, is_dynamic(*variable)});
        replace_uses(*variable, *access);
        variable->eraseFromParent();
    }
}

/// Calls that stand for variables, by the function that they are in, and the variables' indices.
SharedMemory::Uses SharedMemory::collect_uses() const
{
    Uses uses;
    for (uint32_t index = 0; index < variables_.size(); index++)
        if (llvm::Value *access = variables_[index].access)
            for (llvm::User *user : access->users()) {
                auto *call = llvm::cast<llvm::CallInst>(user);
                uses[call->getFunction()][index].push_back(call);
            }
    return uses;
}

/// Gives a variable the next offset from `end` on.
void SharedMemory::put(uint32_t index, uint64_t &end)
{
    Variable &variable = variables_[index];
    if (variable.dynamic)
        return;
    variable.offset = llvm::alignTo(end, variable.align);
    end = variable.offset + variable.size;
}

/// Tells accesses to a kernel's variables apart; those of dynamic ones are all to the same memory.
void SharedMemory::mark(llvm::Function &kernel, const std::map<uint32_t, std::vector<llvm::CallInst *>> &calls) const
{
    std::vector<std::vector<llvm::CallInst *>> variables;
    std::vector<llvm::CallInst *> dynamic;
    for (const auto &[index, of_variable] : calls)
        if (variables_[index].dynamic)
            llvm::append_range(dynamic, of_variable);
        else
            variables.push_back(of_variable);
    if (!dynamic.empty())
        variables.push_back(dynamic);
    mark_apart(kernel, variables);
}

void SharedMemory::replace(const std::map<uint32_t, std::vector<llvm::CallInst *>> &calls)
{
    llvm::Function *base = declare_address(module_, "__vgc_shared");
    llvm::Function *dynamic = declare_address(module_, "__vgc_dynamic_shared");
    for (const auto &[index, of_variable] : calls)
        for (llvm::CallInst *call : of_variable) {
            llvm::IRBuilder<> builder(call);
            const Variable &variable = variables_[index];
            llvm::Value *address = builder.CreateCall(variable.dynamic ? dynamic : base);
            if (!variable.dynamic)
                address = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), address, variable.offset);
            call->replaceAllUsesWith(address);
            call->eraseFromParent();
        }
}

void SharedMemory::place(Program &program)
{
    mark_block_atomics(module_);
    llvm::SmallPtrSet<const llvm::Function *, 16> kernels;
    for (const Kernel &kernel : program.kernels)
        kernels.insert(kernel.function);
    Uses uses = collect_uses();
    // Variables of functions that were not inlined have the same offset in all kernels, below the kernels' own.
    uint64_t common = 0;
    std::set<uint32_t> placed;
    for (const auto &[function, calls] : uses)
        if (!kernels.contains(function))
            for (const auto &[index, of_variable] : calls)
                if (placed.insert(index).second)
                    put(index, common);
    for (Kernel &kernel : program.kernels) {
        uint64_t end = common;
        for (const auto &[index, of_variable] : uses[kernel.function])
            if (!placed.contains(index))
                put(index, end);
        if (end > VGC_CPU_MAX_SHARED)
            fail("kernel '" + kernel.name + "' uses " + llvm::Twine(end) + " bytes of static shared memory, at most " +
                 llvm::Twine(int(VGC_CPU_MAX_SHARED)) + " are possible");
        kernel.shared_bytes = uint32_t(end);
        mark(*kernel.function, uses[kernel.function]);
        replace(uses[kernel.function]);
    }
    for (const auto &[function, calls] : uses)
        if (!kernels.contains(function))
            replace(calls);
    for (const Variable &variable : variables_)
        if (llvm::Value *access = variable.access)
            llvm::cast<llvm::Function>(access)->eraseFromParent();
    variables_.clear();
}

} // namespace vgc
