// -ftz=true: operations on floats take denormal operands for zeroes of the same sign and give such zeroes for denormal
// results; doubles keep theirs. The processor's own mode is for both, hence this is done operation by operation.
#include "compiler.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace vgc
{
namespace
{

using llvm::Instruction;
using llvm::Value;

const unsigned MAX_DEPTH = 6; // of phis and selects that are looked through

bool is_float(const llvm::Type *type)
{
    return type->getScalarType()->isFloatTy();
}

/// True for functions of the runtime, and intrinsics that compute.
bool is_function(const llvm::CallInst &call)
{
    const llvm::Function *callee = call.getCalledFunction();
    if (callee == nullptr || !callee->isDeclaration())
        return false;
    switch (callee->getIntrinsicID()) {
    case llvm::Intrinsic::not_intrinsic:
        return !callee->getName().starts_with("__vgc");
    case llvm::Intrinsic::fabs:
    case llvm::Intrinsic::copysign:
    case llvm::Intrinsic::is_fpclass:
    case llvm::Intrinsic::fptosi_sat:
    case llvm::Intrinsic::fptoui_sat:
        return false;
    default:
        return true;
    }
}

class Flusher
{
  public:
    explicit Flusher(llvm::Function &function) : function_(function)
    {
    }

    void run()
    {
        std::vector<Instruction *> found;
        for (Instruction &instruction : llvm::instructions(function_))
            if (instruction.getOpcode() == Instruction::FAdd || instruction.getOpcode() == Instruction::FSub)
                found.push_back(&instruction);
        for (Instruction *instruction : found)
            fuse(*instruction);
        found.clear();
        for (Instruction &instruction : llvm::instructions(function_))
            if (computes(instruction))
                found.push_back(&instruction);
        results_.insert(found.begin(), found.end());
        for (Instruction *instruction : found)
            flush_operands(*instruction);
        for (Instruction *instruction : found)
            flush_result(*instruction);
    }

  private:
    static bool computes(const Instruction &instruction)
    {
        switch (instruction.getOpcode()) {
        case Instruction::FAdd:
        case Instruction::FSub:
        case Instruction::FMul:
        case Instruction::FDiv:
        case Instruction::FRem:
        case Instruction::FCmp:
        case Instruction::FPExt:
        case Instruction::FPTrunc:
            return true;
        case Instruction::Call:
            return is_function(llvm::cast<llvm::CallInst>(instruction));
        default:
            return false;
        }
    }

    /// Makes a product and a sum that may be contracted one operation, as no flush may come between them.
    static void fuse(Instruction &sum)
    {
        const bool subtracts = sum.getOpcode() == Instruction::FSub;
        if (!sum.getType()->isFloatTy() || !sum.hasAllowContract())
            return;
        for (unsigned side = 0; side < 2; side++) {
            auto *product = llvm::dyn_cast<llvm::BinaryOperator>(sum.getOperand(side));
            if (product == nullptr || product->getOpcode() != Instruction::FMul || !product->hasOneUse() ||
                !product->hasAllowContract())
                continue;
            llvm::IRBuilder<> builder(&sum);
            builder.setFastMathFlags(sum.getFastMathFlags());
            Value *factor = product->getOperand(0), *other = sum.getOperand(1 - side);
            if (subtracts)
                (side == 0 ? other : factor) = builder.CreateFNeg(side == 0 ? other : factor);
            Value *fused =
                builder.CreateIntrinsic(llvm::Intrinsic::fma, {sum.getType()}, {factor, product->getOperand(1), other});
            sum.replaceAllUsesWith(fused);
            sum.eraseFromParent();
            product->eraseFromParent();
            return;
        }
    }

    /// True if no value of `value` is denormal.
    bool is_flushed(const Value *value, unsigned depth = 0) const
    {
        if (const auto *constant = llvm::dyn_cast<llvm::ConstantFP>(value))
            return !constant->getValueAPF().isDenormal();
        const auto *instruction = llvm::dyn_cast<Instruction>(value);
        if (instruction == nullptr || depth == MAX_DEPTH)
            return false;
        if (results_.contains(instruction) || flushes_.contains(instruction))
            return true;
        switch (instruction->getOpcode()) {
        case Instruction::SIToFP:
        case Instruction::UIToFP:
            return true;
        case Instruction::FNeg:
            return is_flushed(instruction->getOperand(0), depth + 1);
        case Instruction::Select:
            return is_flushed(instruction->getOperand(1), depth + 1) &&
                   is_flushed(instruction->getOperand(2), depth + 1);
        case Instruction::Call: {
            const auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(instruction);
            return intrinsic != nullptr && intrinsic->getIntrinsicID() == llvm::Intrinsic::fabs &&
                   is_flushed(intrinsic->getArgOperand(0), depth + 1);
        }
        default:
            return false;
        }
    }

    Value *flush(llvm::IRBuilder<> &builder, Value *value)
    {
        llvm::Type *type = value->getType();
        llvm::Type *bits = type->getWithNewType(builder.getInt32Ty());
        Value *all = builder.CreateBitCast(value, bits);
        Value *sign = builder.CreateAnd(all, llvm::ConstantInt::get(bits, 0x80000000));
        Value *exponent = builder.CreateAnd(all, llvm::ConstantInt::get(bits, 0x7f800000));
        Value *denormal = builder.CreateICmpEQ(exponent, llvm::Constant::getNullValue(bits));
        Value *flushed = builder.CreateBitCast(builder.CreateSelect(denormal, sign, all), type);
        flushes_.insert(flushed);
        return flushed;
    }

    void flush_operands(Instruction &instruction)
    {
        auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
        const unsigned count = call != nullptr ? call->arg_size() : instruction.getNumOperands();
        for (unsigned i = 0; i < count; i++) {
            Value *operand = instruction.getOperand(i);
            if (!is_float(operand->getType()) || is_flushed(operand))
                continue;
            Value *&flushed = operands_[{instruction.getParent(), operand}];
            if (flushed == nullptr) {
                llvm::IRBuilder<> builder(&instruction);
                flushed = flush(builder, operand);
            }
            instruction.setOperand(i, flushed);
        }
    }

    void flush_result(Instruction &instruction)
    {
        const auto *intrinsic = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
        if (!is_float(instruction.getType()) || instruction.getOpcode() == Instruction::FPExt ||
            (intrinsic != nullptr && intrinsic->getIntrinsicID() == llvm::Intrinsic::sqrt))
            return;
        llvm::SmallVector<llvm::Use *, 8> uses;
        for (llvm::Use &use : instruction.uses())
            uses.push_back(&use);
        llvm::IRBuilder<> builder(instruction.getNextNode());
        Value *flushed = flush(builder, &instruction);
        for (llvm::Use *use : uses)
            use->set(flushed);
    }

    llvm::Function &function_;
    llvm::DenseSet<const Value *> results_, flushes_;
    llvm::DenseMap<std::pair<llvm::BasicBlock *, Value *>, Value *> operands_;
};

} // namespace

void flush_denormals(llvm::Module &module)
{
    for (llvm::Function &function : module)
        if (!function.isDeclaration())
            Flusher(function).run();
}

} // namespace vgc
