// All shared variables of a block are parts of one memory, so nothing but these marks tells a store to one from a load
// of another: for LLVM by its alias scopes, for the lanes of a warp by the scope's variable.
#include "apart.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Metadata.h"

namespace vgc
{
namespace
{

const size_t MAX_VARIABLES = 64; // each access names all others
const char DOMAIN[] = "shared variables";

/// Adds the loads and stores whose address is computed from `address` alone.
void collect_accesses(llvm::Value *address, llvm::SetVector<llvm::Instruction *> &accesses)
{
    llvm::SmallVector<llvm::Value *, 16> places = {address};
    while (!places.empty()) {
        llvm::Value *place = places.pop_back_val();
        for (llvm::User *user : place->users())
            if (auto *step = llvm::dyn_cast<llvm::GetElementPtrInst>(user))
                places.push_back(step);
            else if (llvm::getLoadStorePointerOperand(user) == place)
                accesses.insert(llvm::cast<llvm::Instruction>(user));
    }
}

/// Adds scopes to those that an access already has.
void add_scopes(llvm::Instruction &access, unsigned kind, llvm::ArrayRef<llvm::Metadata *> scopes)
{
    llvm::MDNode *all =
        llvm::MDNode::concatenate(access.getMetadata(kind), llvm::MDNode::get(access.getContext(), scopes));
    access.setMetadata(kind, all);
}

/// The shared variable that an access was marked with; null for others.
const llvm::Metadata *variable_of(const llvm::Instruction &access)
{
    const llvm::MDNode *scopes = access.getMetadata(llvm::LLVMContext::MD_alias_scope);
    if (scopes == nullptr)
        return nullptr;
    for (const llvm::MDOperand &scope : scopes->operands()) {
        const llvm::MDNode *domain = llvm::AliasScopeNode(llvm::cast<llvm::MDNode>(scope)).getDomain();
        const auto *name =
            domain->getNumOperands() < 2 ? nullptr : llvm::dyn_cast<llvm::MDString>(domain->getOperand(1));
        if (name != nullptr && name->getString() == DOMAIN)
            return scope;
    }
    return nullptr;
}

} // namespace

void mark_apart(llvm::Function &function, llvm::ArrayRef<std::vector<llvm::CallInst *>> variables)
{
    if (variables.size() < 2 || variables.size() > MAX_VARIABLES)
        return;
    llvm::MDBuilder metadata(function.getContext());
    llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain(DOMAIN);
    std::vector<llvm::Metadata *> scopes(variables.size());
    for (llvm::Metadata *&scope : scopes)
        scope = metadata.createAnonymousAliasScope(domain);
    for (size_t i = 0; i < variables.size(); i++) {
        llvm::SetVector<llvm::Instruction *> accesses;
        for (llvm::CallInst *address : variables[i])
            collect_accesses(address, accesses);
        std::vector<llvm::Metadata *> others = scopes;
        others.erase(others.begin() + ptrdiff_t(i));
        for (llvm::Instruction *access : accesses) {
            add_scopes(*access, llvm::LLVMContext::MD_alias_scope, scopes[i]);
            add_scopes(*access, llvm::LLVMContext::MD_noalias, others);
        }
    }
}

void find_first_loads(const llvm::BasicBlock &block, llvm::DenseSet<const llvm::LoadInst *> &loads)
{
    llvm::SmallPtrSet<const llvm::Metadata *, 8> written;
    for (const llvm::Instruction &instruction : block) {
        if (const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction)) {
            const llvm::Metadata *variable = variable_of(*load);
            if (written.empty() || (variable != nullptr && !written.contains(variable)))
                loads.insert(load);
        }
        if (!instruction.mayWriteToMemory())
            continue;
        const llvm::Metadata *variable = variable_of(instruction);
        if (variable == nullptr)
            return; // anything
        written.insert(variable);
    }
}

} // namespace vgc
