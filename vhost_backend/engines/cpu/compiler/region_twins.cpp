// Unrolled loops with waits, and instances of one template, make many regions of the same code: they differ in which
// arrays of the frame they use and in the sites that they reach. Optimisation and code generation of a region take
// several milliseconds, so such twins share one function, which gets a table of constants from the runtime.
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

/// Sites whose regions have the same code.
class Twins
{
  public:
    explicit Twins(Kernel::Site &first)
    {
        add(first);
    }
    bool is_one(const llvm::Function &region) const
    {
        return Comparison().same(*sites_.front()->resume, region);
    }
    void add(Kernel::Site &site)
    {
        sites_.push_back(&site);
        constants_.emplace_back();
        for (const llvm::Use *use : own_constants(*site.resume))
            constants_.back().push_back(llvm::cast<llvm::ConstantInt>(use->get())->getZExtValue());
    }
    /// Leaves the first site's region alone, which reads what differs from the site's table.
    void merge() const
    {
        if (sites_.size() == 1)
            return;
        llvm::Function &shared = *sites_.front()->resume;
        const std::vector<size_t> different = read_table(shared);
        for (size_t i = 0; i < sites_.size(); i++) {
            if (i != 0)
                sites_[i]->resume->eraseFromParent();
            sites_[i]->resume = &shared;
            if (!different.empty())
                sites_[i]->table = table(*shared.getParent(), constants_[i], different);
        }
    }

  private:
    /// Returns which constants differ, in the order of the table.
    std::vector<size_t> read_table(llvm::Function &shared) const
    {
        llvm::IRBuilder<> builder(&*shared.getEntryBlock().getFirstInsertionPt());
        llvm::Argument *table = shared.getArg(unsigned(shared.arg_size()) - 1);
        const std::vector<llvm::Use *> uses = own_constants(shared);
        std::vector<size_t> different;
        for (size_t i = 0; i < uses.size(); i++) {
            if (llvm::all_of(constants_, [&](const auto &own) { return own[i] == constants_.front()[i]; }))
                continue;
            llvm::Value *address = builder.CreateConstInBoundsGEP1_64(builder.getInt64Ty(), table, different.size());
            llvm::LoadInst *load = builder.CreateLoad(builder.getInt64Ty(), address);
            load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(shared.getContext(), {}));
            uses[i]->set(builder.CreateTrunc(load, uses[i]->get()->getType()));
            different.push_back(i);
        }
        return different;
    }

    static llvm::Constant *table(llvm::Module &module, llvm::ArrayRef<uint64_t> constants,
                                 llvm::ArrayRef<size_t> different)
    {
        llvm::SmallVector<uint64_t, 8> values;
        for (const size_t i : different)
            values.push_back(constants[i]);
        llvm::Constant *array = llvm::ConstantDataArray::get(module.getContext(), values);
        return new llvm::GlobalVariable(module, array->getType(), true, llvm::GlobalValue::PrivateLinkage, array);
    }

    std::vector<Kernel::Site *> sites_;
    std::vector<std::vector<uint64_t>> constants_;
};

} // namespace

void mark_own_constants(llvm::Instruction &instruction)
{
    instruction.setMetadata(OWN_CONSTANTS, llvm::MDNode::get(instruction.getContext(), {}));
}

void merge_twins(Program &program)
{
    std::vector<Twins> all;
    std::map<uint64_t, std::vector<size_t>> by_hash;
    for (Kernel &kernel : program.kernels)
        for (Kernel::Site &site : kernel.sites) {
            std::vector<size_t> &candidates = by_hash[hash_of(*site.resume)];
            const auto found = llvm::find_if(candidates, [&](size_t i) { return all[i].is_one(*site.resume); });
            if (found != candidates.end()) {
                all[*found].add(site);
                continue;
            }
            candidates.push_back(all.size());
            all.emplace_back(site);
        }
    for (const Twins &twins : all)
        twins.merge();
}

} // namespace vgc
