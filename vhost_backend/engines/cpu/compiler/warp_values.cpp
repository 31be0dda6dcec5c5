#include "warp_values.h"

#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/PatternMatch.h"

namespace vgc
{
namespace
{

using namespace llvm::PatternMatch;
using Found = std::optional<LaneValue>;

const unsigned DEEPEST = 64; // expressions that are followed

Found number(int64_t value)
{
    return LaneValue{value, {}};
}

Found term(const llvm::Value *value)
{
    return LaneValue{0, {{value, 1}}};
}

Found sum(const Found &left, const Found &right, int64_t factor)
{
    if (!left || !right)
        return {};
    LaneValue result = *left;
    result.number = int64_t(uint64_t(result.number) + uint64_t(factor) * uint64_t(right->number));
    for (const auto &[value, times] : right->terms) {
        int64_t &total = result.terms[value];
        total = int64_t(uint64_t(total) + uint64_t(factor) * uint64_t(times));
        if (total == 0)
            result.terms.erase(value);
    }
    return result;
}

bool is_number(const Found &value)
{
    return value && value->terms.empty();
}

/// The constant of an integer type.
llvm::Constant *constant(const Found &value, llvm::Type *type)
{
    return llvm::ConstantInt::get(type, uint64_t(value->number), true);
}

Found from_constant(const llvm::Constant *folded)
{
    const auto *integer = llvm::dyn_cast_or_null<llvm::ConstantInt>(folded);
    if (integer == nullptr || integer->getBitWidth() > 64)
        return {};
    return number(integer->getSExtValue());
}

const llvm::Function *position_function(const llvm::Value *value)
{
    const auto *call = llvm::dyn_cast<llvm::CallInst>(value);
    return call != nullptr && (is_position_call(*call) || is_shared_object(call)) ? call->getCalledFunction() : nullptr;
}

bool differs_by_thread(llvm::StringRef name)
{
    return name.starts_with("__vgc_tid_") || name == "__vgc_linear_tid" || name == "__vgc_laneid" ||
           name == "__vgc_warpid" || name.starts_with("__vgc_lanemask_");
}

} // namespace

bool WarpValues::is_common(const llvm::Value *value, unsigned depth) const
{
    if (llvm::isa<llvm::Constant, llvm::Argument>(value))
        return true;
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || depth > 16)
        return false;
    if (const llvm::Function *position = position_function(instruction))
        return !differs_by_thread(position->getName());
    const auto *load = llvm::dyn_cast<llvm::LoadInst>(instruction);
    if (load != nullptr
            ? !load->isSimple()
            : llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction) || instruction->mayReadOrWriteMemory() ||
                  (llvm::isa<llvm::CallInst>(instruction) && !llvm::isa<llvm::IntrinsicInst>(instruction)))
        return false;
    for (const llvm::Value *operand : instruction->operands())
        if (!llvm::isa<llvm::Function>(operand) && !is_common(operand, depth + 1))
            return false;
    return true;
}

Found WarpValues::at(const llvm::Value *value, const llvm::BasicBlock *at)
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    const llvm::Loop *loop = instruction == nullptr ? nullptr : loops_.getLoopFor(instruction->getParent());
    if (loop != nullptr && !loop->contains(at)) // the last iteration's, which is not known
        return {};
    return find(value);
}

Found WarpValues::find(const llvm::Value *value)
{
    if (const auto *integer = llvm::dyn_cast<llvm::ConstantInt>(value))
        return from_constant(integer);
    if (llvm::isa<llvm::Argument, llvm::GlobalVariable>(value))
        return term(value);
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (instruction == nullptr || depth_ > DEEPEST)
        return {};
    if (const auto known = known_.find(value); known != known_.end())
        return known->second;
    known_[value] = {}; // for values that depend on themselves
    depth_++;
    Found found = find(*instruction);
    depth_--;
    const bool stays = second_ == nullptr || !second_->contains(instruction);
    if (!found && stays && (value->getType()->isIntegerTy() || value->getType()->isPointerTy()) && is_common(value))
        found = term(value);
    known_[value] = found;
    return found;
}

Found WarpValues::find(const llvm::Instruction &instruction)
{
    const llvm::BasicBlock *block = instruction.getParent();
    auto operand = [&](unsigned index) { return at(instruction.getOperand(index), block); };
    if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction); call != nullptr && position_function(call))
        return position(*call);
    if (const auto *phi_node = llvm::dyn_cast<llvm::PHINode>(&instruction))
        return phi(*phi_node);
    if (const auto *operation = llvm::dyn_cast<llvm::BinaryOperator>(&instruction))
        return arithmetic(*operation);
    if (const auto *address = llvm::dyn_cast<llvm::GEPOperator>(&instruction))
        return element(*address, block);
    if (const auto *cast = llvm::dyn_cast<llvm::CastInst>(&instruction)) {
        const Found value = operand(0);
        if (is_number(value) && cast->isIntegerCast())
            return from_constant(llvm::ConstantFoldCastInstruction(cast->getOpcode(), constant(value, cast->getSrcTy()),
                                                                   cast->getDestTy()));
        const bool keeps = llvm::isa<llvm::SExtInst, llvm::ZExtInst>(cast); // an index does not wrap around
        return keeps ? value : Found{};
    }
    if (const auto *select = llvm::dyn_cast<llvm::SelectInst>(&instruction)) {
        const Truth which = truth(select->getCondition(), block);
        return which == Truth::YES ? operand(1) : which == Truth::NO ? operand(2) : Found{};
    }
    if (const auto *minmax = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&instruction)) {
        const Found left = operand(0), right = operand(1);
        if (!is_number(left) || !is_number(right))
            return {};
        const auto *holds = llvm::ConstantFoldCompareInstruction(
            minmax->getPredicate(), constant(left, minmax->getType()), constant(right, minmax->getType()));
        return holds == nullptr ? Found{} : holds->isOneValue() ? left : right;
    }
    return llvm::isa<llvm::FreezeInst>(instruction) ? operand(0) : Found{};
}

Found WarpValues::position(const llvm::CallInst &call) const
{
    const llvm::StringRef name = call.getCalledFunction()->getName();
    const uint32_t bit = uint32_t(1) << lane_;
    if (name == "__vgc_tid_x" || name == "__vgc_linear_tid" || name == "__vgc_laneid")
        return number(lane_);
    if (name == "__vgc_tid_y" || name == "__vgc_tid_z" || name == "__vgc_warpid")
        return number(0);
    if (name == "__vgc_lanemask_eq")
        return number(int32_t(bit));
    if (name == "__vgc_lanemask_lt")
        return number(int32_t(bit - 1));
    return differs_by_thread(name) ? Found{} : term(call.getCalledFunction());
}

Found WarpValues::phi(const llvm::PHINode &phi)
{
    const llvm::Loop *loop = loops_.getLoopFor(phi.getParent());
    if (loop == nullptr || loop->getHeader() != phi.getParent())
        return {};
    const llvm::BasicBlock *before = loop->getLoopPredecessor(), *latch = loop->getLoopLatch();
    if (before == nullptr || latch == nullptr)
        return {};
    if (loop == second_)
        return first_->at(phi.getIncomingValueForBlock(latch), latch);
    return at(phi.getIncomingValueForBlock(before), before);
}

Found WarpValues::arithmetic(const llvm::BinaryOperator &operation)
{
    const llvm::BasicBlock *block = operation.getParent();
    const Found left = at(operation.getOperand(0), block), right = at(operation.getOperand(1), block);
    if (!left || !right)
        return {};
    if (is_number(left) && is_number(right))
        return from_constant(llvm::ConstantFoldBinaryInstruction(
            operation.getOpcode(), constant(left, operation.getType()), constant(right, operation.getType())));
    switch (operation.getOpcode()) {
    case llvm::Instruction::Add:
        return sum(left, right, 1);
    case llvm::Instruction::Sub:
        return sum(left, right, -1);
    case llvm::Instruction::Or:
        return match(&operation, m_DisjointOr(m_Value(), m_Value())) ? sum(left, right, 1) : Found{};
    case llvm::Instruction::Mul:
        if (is_number(left))
            return sum(number(0), right, left->number);
        return is_number(right) ? sum(number(0), left, right->number) : Found{};
    case llvm::Instruction::Shl:
        if (!is_number(right) || right->number < 0 || right->number > 62)
            return {};
        return sum(number(0), left, int64_t(1) << right->number);
    default:
        return {};
    }
}

Found WarpValues::element(const llvm::GEPOperator &address, const llvm::BasicBlock *at_block)
{
    const llvm::DataLayout &layout = at_block->getModule()->getDataLayout();
    llvm::MapVector<llvm::Value *, llvm::APInt> indices;
    llvm::APInt offset(64, 0);
    if (!address.collectOffset(layout, 64, indices, offset))
        return {};
    Found result = sum(at(address.getPointerOperand(), at_block), number(offset.getSExtValue()), 1);
    for (const auto &[index, size] : indices)
        result = sum(result, at(index, at_block), size.getSExtValue());
    return result;
}

Truth WarpValues::truth(const llvm::Value *condition, const llvm::BasicBlock *at_block)
{
    const llvm::Value *left = nullptr, *right = nullptr;
    if (match(condition, m_Not(m_Value(left)))) {
        const Truth opposite = truth(left, at_block);
        return opposite == Truth::YES ? Truth::NO : opposite == Truth::NO ? Truth::YES : opposite;
    }
    const bool is_and = match(condition, m_LogicalAnd(m_Value(left), m_Value(right)));
    if (is_and || match(condition, m_LogicalOr(m_Value(left), m_Value(right)))) {
        const Truth decides = is_and ? Truth::NO : Truth::YES, other = is_and ? Truth::YES : Truth::NO;
        const Truth one = truth(left, at_block), two = truth(right, at_block);
        if (one == decides || two == decides)
            return decides;
        return one == other ? two : two == other ? one : one == two ? one : Truth::UNKNOWN;
    }
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(condition);
    const llvm::Loop *loop = instruction == nullptr ? nullptr : loops_.getLoopFor(instruction->getParent());
    if (loop != nullptr && !loop->contains(at_block))
        return Truth::UNKNOWN;
    const auto *compare = llvm::dyn_cast<llvm::ICmpInst>(condition);
    const Truth found = compare == nullptr ? Truth::UNKNOWN : comparison(*compare);
    if (found != Truth::UNKNOWN)
        return found;
    if (const auto *integer = llvm::dyn_cast<llvm::ConstantInt>(condition))
        return integer->isZero() ? Truth::NO : Truth::YES;
    return is_common(condition) ? Truth::LIKELY : Truth::UNKNOWN;
}

Truth WarpValues::comparison(const llvm::ICmpInst &compare)
{
    const llvm::BasicBlock *block = compare.getParent();
    llvm::Type *type = compare.getOperand(0)->getType();
    if (!type->isIntegerTy())
        return Truth::UNKNOWN;
    const Found left = at(compare.getOperand(0), block), right = at(compare.getOperand(1), block);
    const Found difference = sum(left, right, -1);
    if (!difference)
        return Truth::UNKNOWN;
    if (!is_number(difference)) { // a bound that the code does not tell: it is rarely met exactly
        if (is_common(&compare))
            return Truth::LIKELY;
        return compare.getPredicate() == llvm::CmpInst::ICMP_EQ ? Truth::NO : Truth::LIKELY;
    }
    const bool numbers = is_number(left);
    const llvm::CmpInst::Predicate predicate = numbers ? compare.getPredicate() : compare.getSignedPredicate();
    const auto *holds = llvm::ConstantFoldCompareInstruction(predicate, constant(numbers ? left : difference, type),
                                                             constant(numbers ? right : number(0), type));
    return holds == nullptr ? Truth::UNKNOWN : holds->isOneValue() ? Truth::YES : Truth::NO;
}

} // namespace vgc
