// Unrolled loops with waits, and instances of one template, make many regions of the same code: they differ in which
// arrays of the frame they use and in the sites that they reach. Optimisation and code generation of a region take
// several milliseconds, so such twins share one function. Each region is then a call of it with a table of constants.
#include "region_twins.h"

#include <map>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"

namespace vgc
{
namespace
{

constexpr char OWN_CONSTANTS[] = "vgc.own";

bool is_own_constant(const llvm::Use &use)
{
    return llvm::isa<llvm::ConstantInt>(use.get()) &&
           llvm::cast<llvm::Instruction>(use.getUser())->getMetadata(OWN_CONSTANTS) != nullptr;
}

/// Whether two functions do the same but for their own constants: pairs all their values and metadata.
class Comparison
{
  public:
    bool same(const llvm::Function &left, const llvm::Function &right)
    {
        if (left.getFunctionType() != right.getFunctionType() || left.getAttributes() != right.getAttributes() ||
            left.size() != right.size())
            return false;
        for (unsigned i = 0; i < left.arg_size(); i++)
            pair_of_[left.getArg(i)] = right.getArg(i);
        for (auto [a, b] : llvm::zip(left, right)) {
            if (a.size() != b.size())
                return false;
            pair_of_[&a] = &b;
            for (auto [x, y] : llvm::zip(a, b))
                pair_of_[&x] = &y;
        }
        for (auto [x, y] : llvm::zip(llvm::instructions(left), llvm::instructions(right)))
            if (!same_instruction(x, y))
                return false;
        return true;
    }

  private:
    bool same_instruction(const llvm::Instruction &left, const llvm::Instruction &right)
    {
        if (!left.isSameOperationAs(&right) ||
            left.getRawSubclassOptionalData() != right.getRawSubclassOptionalData() || !same_metadata(left, right))
            return false;
        for (unsigned i = 0; i < left.getNumOperands(); i++)
            if (!(is_own_constant(left.getOperandUse(i)) && is_own_constant(right.getOperandUse(i))) &&
                !same_value(left.getOperand(i), right.getOperand(i)))
                return false;
        if (const auto *phi = llvm::dyn_cast<llvm::PHINode>(&left))
            for (unsigned i = 0; i < phi->getNumIncomingValues(); i++)
                if (!same_value(phi->getIncomingBlock(i), llvm::cast<llvm::PHINode>(right).getIncomingBlock(i)))
                    return false;
        return true;
    }

    bool same_value(const llvm::Value *left, const llvm::Value *right)
    {
        if (const auto found = pair_of_.find(left); found != pair_of_.end())
            return found->second == right;
        const auto *a = llvm::dyn_cast<llvm::MetadataAsValue>(left);
        const auto *b = llvm::dyn_cast<llvm::MetadataAsValue>(right);
        return left == right || (a != nullptr && b != nullptr && same_node(a->getMetadata(), b->getMetadata()));
    }

    bool same_metadata(const llvm::Instruction &left, const llvm::Instruction &right)
    {
        llvm::SmallVector<std::pair<unsigned, llvm::MDNode *>, 4> a, b;
        left.getAllMetadata(a);
        right.getAllMetadata(b);
        if (a.size() != b.size())
            return false;
        for (auto [x, y] : llvm::zip(a, b))
            if (x.first != y.first || !same_node(x.second, y.second))
                return false;
        return true;
    }

    /// Scopes, access groups and loops are distinct nodes: it counts which of them are the same within a function.
    bool same_node(const llvm::Metadata *left, const llvm::Metadata *right)
    {
        const auto *a = llvm::dyn_cast_or_null<llvm::MDNode>(left);
        const auto *b = llvm::dyn_cast_or_null<llvm::MDNode>(right);
        if (a == nullptr || b == nullptr)
            return left == right;
        const auto *place = llvm::dyn_cast<llvm::DILocation>(a);
        const auto *other = llvm::dyn_cast<llvm::DILocation>(b);
        if (a->getMetadataID() != b->getMetadataID() ||
            (place != nullptr && (place->getLine() != other->getLine() || place->getColumn() != other->getColumn())))
            return false;
        const auto [there, is_new] = node_pair_of_.try_emplace(a, b);
        const auto [back, is_new_too] = node_pair_of_back_.try_emplace(b, a);
        if (!is_new || !is_new_too)
            return there->second == b && back->second == a;
        if (a->getNumOperands() != b->getNumOperands())
            return false;
        for (unsigned i = 0; i < a->getNumOperands(); i++)
            if (!same_node(a->getOperand(i), b->getOperand(i)))
                return false;
        return true;
    }

    llvm::DenseMap<const llvm::Value *, const llvm::Value *> pair_of_;
    llvm::DenseMap<const llvm::MDNode *, const llvm::MDNode *> node_pair_of_, node_pair_of_back_;
};

/// Equal for twins.
uint64_t hash_of(const llvm::Function &function)
{
    llvm::hash_code hash = llvm::hash_value(function.size());
    for (const llvm::Instruction &instruction : llvm::instructions(function)) {
        hash = llvm::hash_combine(hash, instruction.getOpcode(), instruction.getType(), instruction.getNumOperands());
        for (const llvm::Use &operand : instruction.operands())
            if (llvm::isa<llvm::Constant>(operand.get()) && !is_own_constant(operand))
                hash = llvm::hash_combine(hash, operand.get());
    }
    return hash;
}

std::vector<llvm::Use *> own_constants(llvm::Function &function)
{
    std::vector<llvm::Use *> found;
    for (llvm::Instruction &instruction : llvm::instructions(function))
        for (llvm::Use &operand : instruction.operands())
            if (is_own_constant(operand))
                found.push_back(&operand);
    return found;
}

/// Regions with the same code.
class Twins
{
  public:
    explicit Twins(llvm::Function &first)
    {
        add(first);
    }
    bool is_one(const llvm::Function &region) const
    {
        return Comparison().same(*regions_.front(), region);
    }
    void add(llvm::Function &region)
    {
        regions_.push_back(&region);
        constants_.emplace_back();
        for (const llvm::Use *use : own_constants(region))
            constants_.back().push_back(llvm::cast<llvm::ConstantInt>(use->get())->getZExtValue());
    }
    void merge() const
    {
        if (regions_.size() == 1)
            return;
        llvm::Function &shared = make_shared(*regions_.front());
        read_table(shared);
        for (size_t i = 0; i < regions_.size(); i++)
            make_call(*regions_[i], shared, constants_[i]);
    }

  private:
    /// Moves the body of a region to a function that takes a table as well.
    static llvm::Function &make_shared(llvm::Function &region)
    {
        llvm::SmallVector<llvm::Type *, 4> types(region.getFunctionType()->params());
        types.push_back(llvm::PointerType::get(region.getContext(), 0));
        llvm::Function *shared =
            llvm::Function::Create(llvm::FunctionType::get(region.getReturnType(), types, false),
                                   llvm::GlobalValue::InternalLinkage, region.getName() + ".twins", region.getParent());
        shared->copyAttributesFrom(&region);
        shared->addFnAttr(llvm::Attribute::NoInline);
        shared->addFnAttr(llvm::Attribute::NoDuplicate); // else constant tables invite the optimiser to specialise it
        shared->splice(shared->end(), &region);
        for (unsigned i = 0; i < region.arg_size(); i++)
            region.getArg(i)->replaceAllUsesWith(shared->getArg(i));
        return *shared;
    }

    void read_table(llvm::Function &shared) const
    {
        llvm::IRBuilder<> builder(&*shared.getEntryBlock().getFirstInsertionPt());
        llvm::Argument *table = shared.getArg(unsigned(shared.arg_size()) - 1);
        const std::vector<llvm::Use *> uses = own_constants(shared);
        for (size_t i = 0; i < uses.size(); i++) {
            if (llvm::all_of(constants_, [&](const auto &own) { return own[i] == constants_.front()[i]; }))
                continue;
            llvm::Value *address = builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), table, i);
            llvm::LoadInst *load = builder.CreateLoad(builder.getInt64Ty(), address);
            load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(shared.getContext(), {}));
            uses[i]->set(builder.CreateTrunc(load, uses[i]->get()->getType()));
        }
    }

    static void make_call(llvm::Function &region, llvm::Function &shared, llvm::ArrayRef<uint64_t> constants)
    {
        region.deleteBody(); // makes it a declaration, with external linkage
        region.setLinkage(llvm::GlobalValue::InternalLinkage);
        llvm::Constant *values = llvm::ConstantDataArray::get(region.getContext(), constants);
        auto *table = new llvm::GlobalVariable(*region.getParent(), values->getType(), true,
                                               llvm::GlobalValue::PrivateLinkage, values);
        llvm::IRBuilder<> builder(llvm::BasicBlock::Create(region.getContext(), "", &region));
        llvm::SmallVector<llvm::Value *, 4> arguments;
        for (llvm::Argument &argument : region.args())
            arguments.push_back(&argument);
        arguments.push_back(table);
        llvm::CallInst *call = builder.CreateCall(&shared, arguments);
        call->setTailCall();
        builder.CreateRet(call);
    }

    std::vector<llvm::Function *> regions_;
    std::vector<std::vector<uint64_t>> constants_;
};

} // namespace

void mark_own_constants(llvm::Instruction &instruction)
{
    instruction.setMetadata(OWN_CONSTANTS, llvm::MDNode::get(instruction.getContext(), {}));
}

void merge_twins(const Program &program)
{
    std::vector<Twins> all;
    std::map<uint64_t, std::vector<size_t>> by_hash;
    for (const Kernel &kernel : program.kernels)
        for (const Kernel::Site &site : kernel.sites) {
            std::vector<size_t> &candidates = by_hash[hash_of(*site.resume)];
            const auto found = llvm::find_if(candidates, [&](size_t i) { return all[i].is_one(*site.resume); });
            if (found != candidates.end()) {
                all[*found].add(*site.resume);
                continue;
            }
            candidates.push_back(all.size());
            all.emplace_back(*site.resume);
        }
    for (const Twins &twins : all)
        twins.merge();
}

} // namespace vgc
