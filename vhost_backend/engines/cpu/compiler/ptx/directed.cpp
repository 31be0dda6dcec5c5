// fma.rm, .rp and .rz of f32. In general they take some 30 instructions of doubles. Where the addend is a constant that
// is larger than the product, as in the whole part of a number, which compilers get so for expf(), six of floats do:
// the sum to the nearest is less than twice the addend and more than half of it, so their difference is exact, and the
// sign of what is left of the product is that of the error.
#include "directed.h"

#include <limits>
#include <vector>

#include "llvm/IR/Module.h"

namespace vgc::ptx
{
namespace
{

using llvm::CmpInst;
using llvm::Value;

const unsigned MAX_DEPTH = 4;
const double LEAST = 1; // of constants: no error of such a product is too small for a float

const std::pair<Rounding, const char *> NAMES[] = {
    {Rounding::DOWN, "__vgc_fma_rm"}, {Rounding::UP, "__vgc_fma_rp"}, {Rounding::ZERO, "__vgc_fma_rz"}};

/// Values that a float may have.
struct Range {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    bool may_be_nan = true;

    static Range all()
    {
        return {};
    }

    Range joined(const Range &other) const
    {
        return {std::min(low, other.low), std::max(high, other.high), may_be_nan || other.may_be_nan};
    }

    /// Those that compare so with a constant.
    Range where(CmpInst::Predicate predicate, double constant) const
    {
        Range range = *this;
        if (CmpInst::isOrdered(predicate))
            range.may_be_nan = false;
        switch (predicate) {
        case CmpInst::FCMP_OGT:
        case CmpInst::FCMP_OGE:
        case CmpInst::FCMP_UGT:
        case CmpInst::FCMP_UGE:
            range.low = std::max(low, constant);
            break;
        case CmpInst::FCMP_OLT:
        case CmpInst::FCMP_OLE:
        case CmpInst::FCMP_ULT:
        case CmpInst::FCMP_ULE:
            range.high = std::min(high, constant);
            break;
        default:
            break;
        }
        return range;
    }
};

Range range_of(const Value *value, unsigned depth)
{
    if (const auto *constant = llvm::dyn_cast<llvm::ConstantFP>(value)) {
        const double number = constant->getValueAPF().convertToDouble();
        return constant->isNaN() ? Range::all() : Range{number, number, false};
    }
    const auto *select = llvm::dyn_cast<llvm::SelectInst>(value);
    if (select == nullptr || depth == MAX_DEPTH)
        return Range::all();
    const auto *compare = llvm::dyn_cast<llvm::FCmpInst>(select->getCondition());
    const auto *bound = compare == nullptr ? nullptr : llvm::dyn_cast<llvm::ConstantFP>(compare->getOperand(1));
    const auto arm = [&](const Value *chosen, bool holds) {
        const Range range = range_of(chosen, depth + 1);
        if (bound == nullptr || bound->isNaN() || chosen != compare->getOperand(0))
            return range;
        const CmpInst::Predicate predicate = holds ? compare->getPredicate() : compare->getInversePredicate();
        return range.where(predicate, bound->getValueAPF().convertToDouble());
    };
    return arm(select->getTrueValue(), true).joined(arm(select->getFalseValue(), false));
}

double size_of(const Range &range)
{
    return range.may_be_nan ? std::numeric_limits<double>::infinity()
                            : std::max(std::abs(range.low), std::abs(range.high));
}

/// True if the addend is a constant, and the product at most half as large.
bool is_led_by_addend(const llvm::CallInst &call)
{
    const auto *factor = llvm::dyn_cast<llvm::ConstantFP>(call.getArgOperand(1));
    const auto *addend = llvm::dyn_cast<llvm::ConstantFP>(call.getArgOperand(2));
    if (factor == nullptr || addend == nullptr || !factor->getValueAPF().isFinite() ||
        !addend->getValueAPF().isFinite())
        return false;
    const double scale = std::abs(factor->getValueAPF().convertToDouble());
    const double least = std::abs(addend->getValueAPF().convertToDouble());
    return scale >= LEAST && least >= LEAST && size_of(range_of(call.getArgOperand(0), 0)) * scale <= least / 2;
}

Value *fused(Builder &b, Value *left, Value *right, Value *addend)
{
    return b.CreateIntrinsic(llvm::Intrinsic::fma, {left->getType()}, {left, right, addend});
}

Value *led_by_addend(Builder &b, llvm::CallInst &call, Rounding rounding)
{
    Value *left = call.getArgOperand(0), *right = call.getArgOperand(1), *addend = call.getArgOperand(2);
    Value *nearest = fused(b, left, right, addend), *part = b.CreateFSub(nearest, addend);
    return move(b, {nearest, fused(b, left, right, b.CreateFNeg(part))}, rounding);
}

} // namespace

Value *directed_fma(Builder &b, Value *left, Value *right, Value *addend, Rounding rounding)
{
    if (llvm::isa<llvm::Constant>(left))
        std::swap(left, right);
    const auto *name = llvm::find_if(NAMES, [&](const auto &one) { return one.first == rounding; });
    llvm::Type *type = left->getType();
    llvm::Module &module = *b.GetInsertBlock()->getModule();
    llvm::FunctionCallee callee = module.getOrInsertFunction(name->second, type, type, type, type);
    auto *function = llvm::cast<llvm::Function>(callee.getCallee());
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
    function->setWillReturn();
    function->addFnAttr(llvm::Attribute::Speculatable);
    return b.CreateCall(callee, {left, right, addend});
}

void lower_directed(llvm::Module &module)
{
    for (const auto &[rounding, name] : NAMES) {
        llvm::Function *function = module.getFunction(name);
        if (function == nullptr)
            continue;
        for (llvm::User *user : llvm::make_early_inc_range(function->users())) {
            auto &call = *llvm::cast<llvm::CallInst>(user);
            if (llvm::isa<llvm::Constant>(call.getArgOperand(0))) {
                Value *first = call.getArgOperand(0);
                call.setArgOperand(0, call.getArgOperand(1));
                call.setArgOperand(1, first);
            }
            Builder b(&call);
            Value *sum = is_led_by_addend(call)
                             ? led_by_addend(b, call, rounding)
                             : fma(b, call.getArgOperand(0), call.getArgOperand(1), call.getArgOperand(2), rounding);
            call.replaceAllUsesWith(sum);
            call.eraseFromParent();
        }
        function->eraseFromParent();
    }
}

} // namespace vgc::ptx
