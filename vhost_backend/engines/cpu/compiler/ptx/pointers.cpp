// A register with an address is an integer, of which a load or store makes a pointer. LLVM neither knows what such a
// pointer points into nor vectorises loops over it. So each integer that is an address, or an offset in shared memory,
// gets a twin: a pointer, computed by the same steps from the pointer that the integer was made of.
#include "pointers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Analysis/InstructionSimplify.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

namespace vgc::ptx
{
namespace
{

using llvm::Instruction;
using llvm::Value;

/// What an integer is, in the order in which more is learnt of it.
enum class Sort {
    UNKNOWN, // nothing learnt yet
    LOOSE,   // may be an address: from memory, a parameter or a call
    ADDRESS, // made of a pointer
    OFFSET,  // of a place in shared memory
    LOW,     // the low half of an address
    NUMBER,
};

const size_t MAX_STEPS = 256; // of an address in one round of a loop

bool is_shared_base(const Value *value)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(value);
    return call != nullptr && call->getCalledFunction() != nullptr &&
           call->getCalledFunction()->getName() == "__vgc_shared";
}

/// True for the integer that is the address of shared memory.
bool is_shared_address(const Value *value)
{
    const auto *cast = llvm::dyn_cast<llvm::PtrToIntOperator>(value);
    return cast != nullptr && is_shared_base(cast->getPointerOperand());
}

/// The low half of an address of which `local_pointer` (lowering.cpp) made a pointer; null for other pointers.
Value *low_half(const llvm::GetElementPtrInst &place)
{
    using namespace llvm::PatternMatch;
    Value *low = nullptr, *base = const_cast<Value *>(place.getPointerOperand());
    if (place.getNumIndices() == 1)
        match(place.getOperand(1), m_SExt(m_Sub(m_Value(low), m_Trunc(m_PtrToInt(m_Specific(base))))));
    return low;
}

/// True for integers of the size of an address or an offset.
bool is_word(const Value *value)
{
    return value->getType()->isIntegerTy(64) || value->getType()->isIntegerTy(32);
}

bool has_address(Sort sort)
{
    return sort == Sort::ADDRESS || sort == Sort::OFFSET || sort == Sort::LOW;
}

class Pointers
{
  public:
    explicit Pointers(llvm::Function &function) : function_(function)
    {
    }
    void run()
    {
        sort_all();
        for (llvm::BasicBlock *block : llvm::ReversePostOrderTraversal<llvm::Function *>(&function_))
            for (Instruction &instruction : llvm::make_early_inc_range(*block))
                add_twin(instruction);
        for (auto &[phi, twin] : phis_)
            for (unsigned i = 0; i < phi->getNumIncomingValues(); i++)
                twin->addIncoming(
                    twin_before(phi->getIncomingValue(i), sort_of(phi), phi->getIncomingBlock(i)->getTerminator()),
                    phi->getIncomingBlock(i));
        use_twins();
        drop_unused();
        load_pointers();
    }

  private:
    Sort sort_of(const Value *value) const;
    Sort sum(const Instruction &instruction) const;
    Sort difference(const Instruction &instruction) const;
    Sort meet(Sort left, Sort right) const;
    Sort learn(const Instruction &instruction) const;
    void sort_all();
    void add_twin(Instruction &instruction);
    Value *make_twin(Instruction &instruction, Sort sort);
    Value *make_stepping(llvm::PHINode &phi, Sort sort);
    Value *base_of(const Instruction &step) const;
    std::vector<Instruction *> steps_to(Value *value, const llvm::PHINode &phi) const;
    Value *twin_of(Value *value) const;
    Value *twin_before(Value *value, Sort sort, Instruction *place);
    Value *twin_of_place(const llvm::GetElementPtrInst &place) const;
    void use_twins();
    void drop_unused();
    void load_pointers();

    llvm::Function &function_;
    llvm::DenseMap<const Value *, Sort> sorts_;
    llvm::DenseMap<const Value *, Value *> twins_;
    std::vector<std::pair<llvm::PHINode *, llvm::PHINode *>> phis_;
    std::vector<llvm::WeakTrackingVH> made_, replaced_;
};

Sort Pointers::sort_of(const Value *value) const
{
    if (llvm::isa<llvm::PtrToIntOperator>(value))
        return value->getType()->isIntegerTy(64) ? Sort::ADDRESS : Sort::NUMBER;
    if (llvm::isa<llvm::Argument>(value))
        return value->getType()->isIntegerTy(64) ? Sort::LOOSE : Sort::NUMBER;
    if (!llvm::isa<Instruction>(value) || !is_word(value))
        return Sort::NUMBER;
    const auto found = sorts_.find(value);
    return found == sorts_.end() ? Sort::UNKNOWN : found->second;
}

Sort Pointers::sum(const Instruction &instruction) const
{
    const Value *left = instruction.getOperand(0), *right = instruction.getOperand(1);
    const Sort a = sort_of(left), b = sort_of(right);
    if (a == Sort::UNKNOWN || b == Sort::UNKNOWN)
        return Sort::UNKNOWN;
    if ((a == Sort::OFFSET && is_shared_address(right)) || (b == Sort::OFFSET && is_shared_address(left)))
        return Sort::ADDRESS;
    if (has_address(a) || has_address(b))
        return has_address(a) && has_address(b) ? Sort::NUMBER : has_address(a) ? a : b;
    return (a == Sort::LOOSE) != (b == Sort::LOOSE) ? Sort::LOOSE : Sort::NUMBER;
}

Sort Pointers::difference(const Instruction &instruction) const
{
    const Sort a = sort_of(instruction.getOperand(0)), b = sort_of(instruction.getOperand(1));
    if (a == Sort::UNKNOWN || b == Sort::UNKNOWN)
        return Sort::UNKNOWN;
    if (is_shared_address(instruction.getOperand(1)))
        return a == Sort::ADDRESS || a == Sort::LOOSE ? Sort::OFFSET : Sort::NUMBER;
    return has_address(b) ? Sort::NUMBER : a;
}

/// Sort of a value that is one or the other.
Sort Pointers::meet(Sort left, Sort right) const
{
    if (left == Sort::UNKNOWN || right == Sort::UNKNOWN || left == right)
        return left == Sort::UNKNOWN ? right : left;
    const auto [less, more] = std::minmax(left, right);
    return less == Sort::LOOSE && more == Sort::ADDRESS ? Sort::ADDRESS : Sort::NUMBER;
}

Sort Pointers::learn(const Instruction &instruction) const
{
    switch (instruction.getOpcode()) {
    case Instruction::Add:
        return sum(instruction);
    case Instruction::Sub:
        return difference(instruction);
    case Instruction::PHI: {
        Sort sort = Sort::UNKNOWN;
        for (const Value *value : llvm::cast<llvm::PHINode>(instruction).incoming_values())
            sort = meet(sort, sort_of(value));
        return sort;
    }
    case Instruction::Select:
        return meet(sort_of(instruction.getOperand(1)), sort_of(instruction.getOperand(2)));
    case Instruction::Trunc:
    case Instruction::SExt:
    case Instruction::ZExt: {
        const Sort sort = sort_of(instruction.getOperand(0));
        if (sort == Sort::ADDRESS && instruction.getType()->isIntegerTy(32))
            return Sort::LOW;
        return sort == Sort::OFFSET || sort == Sort::UNKNOWN ? sort : Sort::NUMBER;
    }
    case Instruction::Load:
    case Instruction::Call:
        return instruction.getType()->isIntegerTy(64) ? Sort::LOOSE : Sort::NUMBER;
    default:
        return Sort::NUMBER;
    }
}

/// Finds the sorts of all integers. A value's only grows, so that this ends.
void Pointers::sort_all()
{
    std::vector<Instruction *> work;
    for (Instruction &instruction : llvm::instructions(function_))
        if (is_word(&instruction))
            work.push_back(&instruction);
    std::reverse(work.begin(), work.end());
    while (!work.empty()) {
        Instruction *instruction = work.back();
        work.pop_back();
        const Sort before = sort_of(instruction);
        const Sort learnt = learn(*instruction);
        if (llvm::isa<llvm::PtrToIntInst>(instruction) || learnt <= before)
            continue;
        sorts_[instruction] = learnt;
        for (llvm::User *user : instruction->users())
            if (auto *dependent = llvm::cast<Instruction>(user); is_word(dependent))
                work.push_back(dependent);
    }
}

Value *Pointers::twin_of(Value *value) const
{
    if (auto *cast = llvm::dyn_cast<llvm::PtrToIntOperator>(value))
        return cast->getPointerOperand();
    const auto found = twins_.find(value);
    return found == twins_.end() ? nullptr : found->second;
}

/// Twin of a value, or else a pointer made of it at `place`: of an offset in shared memory or of an address.
Value *Pointers::twin_before(Value *value, Sort sort, Instruction *place)
{
    Value *twin = twin_of(value);
    if (twin != nullptr && (sort == Sort::OFFSET) == (sort_of(value) == Sort::OFFSET))
        return twin;
    llvm::IRBuilder<> b(place);
    if (sort != Sort::OFFSET)
        return b.CreateIntToPtr(value, b.getPtrTy());
    llvm::FunctionCallee base = function_.getParent()->getOrInsertFunction("__vgc_shared", b.getPtrTy());
    return b.CreateGEP(b.getInt8Ty(), b.CreateCall(base), b.CreateSExt(value, b.getInt64Ty()));
}

/// The operand of a sum or difference that is the address; null for others, and if both are.
Value *Pointers::base_of(const Instruction &step) const
{
    const bool adds = step.getOpcode() == Instruction::Add;
    if (!adds && step.getOpcode() != Instruction::Sub)
        return nullptr;
    Value *left = step.getOperand(0), *right = step.getOperand(1);
    if (sort_of(right) == Sort::NUMBER)
        return left;
    return adds && sort_of(left) == Sort::NUMBER ? right : nullptr;
}

/// Sums and differences that make `value` of `phi`, first to last; empty if it is not made so.
std::vector<Instruction *> Pointers::steps_to(Value *value, const llvm::PHINode &phi) const
{
    std::vector<Instruction *> steps;
    while (value != &phi) {
        auto *step = llvm::dyn_cast<Instruction>(value);
        value = step == nullptr ? nullptr : base_of(*step);
        if (value == nullptr || steps.size() == MAX_STEPS)
            return {};
        steps.push_back(step);
    }
    std::reverse(steps.begin(), steps.end());
    return steps;
}

/// Twin of an address that a loop moves on: the address before the loop plus a number, which is the same for all
/// threads if their steps are, so that the loop may run for many threads at once.
Value *Pointers::make_stepping(llvm::PHINode &phi, Sort sort)
{
    if (phi.getNumIncomingValues() != 2)
        return nullptr;
    const bool second = !steps_to(phi.getIncomingValue(1), phi).empty();
    const std::vector<Instruction *> steps = steps_to(phi.getIncomingValue(second), phi);
    if (steps.empty())
        return nullptr;
    llvm::IRBuilder<> b(&phi);
    llvm::PHINode *moved = b.CreatePHI(b.getInt64Ty(), 2);
    Value *total = moved;
    for (Instruction *step : steps) {
        const bool adds = step->getOpcode() == Instruction::Add;
        const Value *base = base_of(*step);
        Value *distance = step->getOperand(0) == base ? step->getOperand(1) : step->getOperand(0);
        b.SetInsertPoint(step);
        distance = b.CreateSExt(distance, b.getInt64Ty());
        total = adds ? b.CreateAdd(total, distance) : b.CreateSub(total, distance);
    }
    moved->addIncoming(b.getInt64(0), phi.getIncomingBlock(!second));
    moved->addIncoming(total, phi.getIncomingBlock(second));
    Value *begin = twin_before(phi.getIncomingValue(!second), sort, phi.getIncomingBlock(!second)->getTerminator());
    b.SetInsertPoint(phi.getParent()->getFirstInsertionPt());
    return b.CreateGEP(b.getInt8Ty(), begin, moved);
}

Value *Pointers::make_twin(Instruction &instruction, Sort sort)
{
    llvm::IRBuilder<> b(&instruction);
    Value *left = instruction.getNumOperands() > 0 ? instruction.getOperand(0) : nullptr;
    Value *right = instruction.getNumOperands() > 1 ? instruction.getOperand(1) : nullptr;
    switch (instruction.getOpcode()) {
    case Instruction::Add: {
        if (is_shared_address(right) && sort_of(left) == Sort::OFFSET)
            return twin_before(left, Sort::OFFSET, &instruction);
        if (is_shared_address(left) && sort_of(right) == Sort::OFFSET)
            return twin_before(right, Sort::OFFSET, &instruction);
        if (sort_of(right) == sort && (sort_of(left) != sort || twin_of(left) == nullptr))
            std::swap(left, right);
        return b.CreateGEP(b.getInt8Ty(), twin_before(left, sort, &instruction), b.CreateSExt(right, b.getInt64Ty()));
    }
    case Instruction::Sub:
        if (is_shared_address(right))
            return twin_before(left, Sort::ADDRESS, &instruction);
        return b.CreateGEP(b.getInt8Ty(), twin_before(left, sort, &instruction),
                           b.CreateSExt(b.CreateNeg(right), b.getInt64Ty()));
    case Instruction::PHI:
        if (Value *twin = make_stepping(llvm::cast<llvm::PHINode>(instruction), sort))
            return twin;
        phis_.push_back({llvm::cast<llvm::PHINode>(&instruction),
                         b.CreatePHI(b.getPtrTy(), llvm::cast<llvm::PHINode>(instruction).getNumIncomingValues())});
        return phis_.back().second;
    case Instruction::Select:
        return b.CreateSelect(left, twin_before(right, sort, &instruction),
                              twin_before(instruction.getOperand(2), sort, &instruction));
    case Instruction::Trunc:
    case Instruction::SExt:
    case Instruction::ZExt:
        return twin_before(left, sort, &instruction);
    default:
        b.SetInsertPoint(instruction.getNextNode());
        return b.CreateIntToPtr(&instruction, b.getPtrTy());
    }
}

void Pointers::add_twin(Instruction &instruction)
{
    const auto found = sorts_.find(&instruction);
    if (found == sorts_.end() || found->second == Sort::UNKNOWN || found->second == Sort::NUMBER)
        return;
    Value *twin = twins_[&instruction] = make_twin(instruction, found->second);
    made_.push_back(twin);
}

/// Twin of the offset or low half of an address that a pointer is made of; null for other pointers.
Value *Pointers::twin_of_place(const llvm::GetElementPtrInst &place) const
{
    if (Value *low = low_half(place))
        return sort_of(low) == Sort::LOW ? twin_of(low) : nullptr;
    if (place.getNumIndices() != 1 || !is_shared_base(place.getPointerOperand()))
        return nullptr;
    return sort_of(place.getOperand(1)) == Sort::OFFSET ? twin_of(place.getOperand(1)) : nullptr;
}

/// Replaces pointers that are made of integers by these integers' twins.
void Pointers::use_twins()
{
    for (Instruction &instruction : llvm::make_early_inc_range(llvm::instructions(function_))) {
        Value *twin = nullptr;
        if (auto *cast = llvm::dyn_cast<llvm::IntToPtrInst>(&instruction)) {
            if (sort_of(cast->getOperand(0)) != Sort::OFFSET)
                twin = twin_of(cast->getOperand(0));
        } else if (auto *place = llvm::dyn_cast<llvm::GetElementPtrInst>(&instruction)) {
            twin = twin_of_place(*place);
        }
        if (twin == nullptr || twin == &instruction)
            continue;
        instruction.replaceAllUsesWith(twin);
        replaced_.push_back(&instruction);
    }
}

void Pointers::drop_unused()
{
    for (const auto *unused : {&replaced_, &made_})
        for (const llvm::WeakTrackingVH &handle : llvm::reverse(*unused))
            if (auto *instruction = llvm::dyn_cast_or_null<Instruction>(handle))
                llvm::RecursivelyDeleteTriviallyDeadInstructions(instruction);
}

/// Loads pointers as pointers: LLVM would make integers of the steps from a pointer that is made of an integer.
void Pointers::load_pointers()
{
    for (llvm::WeakTrackingVH &twin : made_) {
        auto *cast = llvm::dyn_cast_or_null<llvm::IntToPtrInst>(twin);
        auto *load = cast == nullptr ? nullptr : llvm::dyn_cast<llvm::LoadInst>(cast->getOperand(0));
        if (load == nullptr || !load->isSimple())
            continue;
        llvm::IRBuilder<> b(load);
        llvm::LoadInst *pointer = b.CreateAlignedLoad(b.getPtrTy(), load->getPointerOperand(), load->getAlign());
        pointer->copyMetadata(*load);
        cast->replaceAllUsesWith(pointer);
        cast->eraseFromParent();
        load->replaceAllUsesWith(b.CreatePtrToInt(pointer, load->getType()));
        load->eraseFromParent();
    }
}

/// Makes values of registers.
void promote(llvm::Function &function)
{
    std::vector<llvm::AllocaInst *> registers;
    for (Instruction &instruction : function.getEntryBlock())
        if (auto *alloca = llvm::dyn_cast<llvm::AllocaInst>(&instruction);
            alloca != nullptr && llvm::isAllocaPromotable(alloca))
            registers.push_back(alloca);
    llvm::DominatorTree tree(function);
    llvm::PromoteMemToReg(registers, tree);
}

/// A simpler value that is the same; null if none is known. Compilers write sums of numbers with no bit in common as
/// `or`. LLVM has no value for a division by zero and its like, which `define_results` gives one.
Value *simpler(Instruction &instruction, const llvm::SimplifyQuery &query)
{
    Value *known = llvm::simplifyInstruction(&instruction, query);
    if (known != nullptr && !llvm::isa<llvm::UndefValue>(known))
        return known;
    if (instruction.getOpcode() == Instruction::Or && instruction.getType()->isIntegerTy() &&
        llvm::haveNoCommonBitsSet(instruction.getOperand(0), instruction.getOperand(1), query))
        return llvm::BinaryOperator::CreateNUWAdd(instruction.getOperand(0), instruction.getOperand(1), "",
                                                  instruction.getIterator());
    return nullptr;
}

/// Takes steps out that change nothing, such as shifts by 0, which lowering leaves.
void simplify(llvm::Function &function)
{
    const llvm::SimplifyQuery query(function.getParent()->getDataLayout());
    std::vector<llvm::WeakTrackingVH> dead;
    for (llvm::BasicBlock *block : llvm::ReversePostOrderTraversal<llvm::Function *>(&function))
        for (Instruction &instruction : *block)
            if (Value *value = simpler(instruction, query.getWithInstruction(&instruction))) {
                instruction.replaceAllUsesWith(value);
                dead.push_back(&instruction);
            }
    for (llvm::WeakTrackingVH &handle : dead)
        if (auto *instruction = llvm::dyn_cast_or_null<Instruction>(handle))
            llvm::RecursivelyDeleteTriviallyDeadInstructions(instruction);
}

} // namespace

void recover_pointers(llvm::Function &function)
{
    llvm::removeUnreachableBlocks(function);
    promote(function);
    simplify(function);
    Pointers(function).run();
}

} // namespace vgc::ptx
