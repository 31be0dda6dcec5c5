// expf() and exp2f() as arithmetic that vectorises: LLVM calls the C library's functions for each element of a vector.
//
// In doubles, 2^t = 2^k * 2^r with k the integer nearest to t and |r| <= 1/2: a polynomial, whose error is less than
// 5.1e-9, and k added to the exponent. The result is rounded once, to float, so it is wrong by at most 0.59 units in
// the last place. Rounding makes zeroes, denormal numbers and infinities.
#include "exponentials.h"

#include "compiler.h"

#include <cmath>

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

namespace vgc
{
namespace
{

const double LOG2_E = 0x1.71547652b82fep+0;
const double LEAST_NORMAL = -126, LEAST_INFINITE = 128; // exponents whose powers are normal floats, and infinite
const double LEAST = -160, MOST = 160;                  // exponents beyond which floats are 0 and infinite
// of (2^r - 1) / r, interpolated at Chebyshev's nodes, from the highest power down
const double COEFFICIENTS[] = {0x1.4413a4c407edfp-13, 0x1.5f08b78b6c3d6p-10, 0x1.3b2a52efd050cp-7,
                               0x1.c6af6ca08d20dp-5,  0x1.ebfbe00e6a914p-3,  0x1.62e4302fd9e1ap-1};

/// 2^t for exponents that floats of the type of `t` have for normal numbers.
llvm::Value *power_within(llvm::IRBuilder<> &builder, llvm::Value *t)
{
    llvm::Type *type = t->getType(), *bits = builder.getIntNTy(type->getScalarSizeInBits());
    const int mantissa = type->getFPMantissaWidth() - 1;
    auto number = [&](double value) { return llvm::ConstantFP::get(type, value); };
    auto fused = [&](llvm::Value *a, llvm::Value *b, llvm::Value *c) {
        return builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {type}, {a, b, c});
    };
    // a number plus this is rounded to an integer, which is in the lowest bits
    llvm::Value *integers = number(std::ldexp(1.5, mantissa)), *integer = builder.CreateFAdd(t, integers);
    llvm::Value *r = builder.CreateFSub(t, builder.CreateFSub(integer, integers));
    llvm::Value *sum = number(COEFFICIENTS[0]);
    for (size_t i = 1; i < std::size(COEFFICIENTS); i++)
        sum = fused(sum, r, number(COEFFICIENTS[i]));
    llvm::Value *power = builder.CreateBitCast(fused(sum, r, number(1)), bits);
    llvm::Value *exponent = builder.CreateShl(builder.CreateBitCast(integer, bits), uint64_t(mantissa));
    return builder.CreateBitCast(builder.CreateAdd(power, exponent), type);
}

llvm::Value *power_of_two(llvm::IRBuilder<> &builder, llvm::Value *exponent)
{
    auto number = [&](double value) { return llvm::ConstantFP::get(builder.getDoubleTy(), value); };
    // the comparisons are false for not-a-number, which stays
    llvm::Value *t = builder.CreateSelect(builder.CreateFCmpOLT(exponent, number(LEAST)), number(LEAST), exponent);
    t = builder.CreateSelect(builder.CreateFCmpOGT(t, number(MOST)), number(MOST), t);
    return power_within(builder, t);
}

} // namespace

llvm::Value *normal_power_of_two(llvm::IRBuilder<> &builder, llvm::Value *t)
{
    llvm::Type *f32 = builder.getFloatTy();
    auto number = [&](double value) { return llvm::ConstantFP::get(f32, value); };
    llvm::Value *power = power_within(builder, t);
    power = builder.CreateSelect(builder.CreateFCmpOLT(t, number(LEAST_NORMAL)), number(0), power);
    // infinite, or not a number
    llvm::Value *beyond = builder.CreateFAdd(t, llvm::ConstantFP::getInfinity(f32));
    return builder.CreateSelect(builder.CreateFCmpUGE(t, number(LEAST_INFINITE)), beyond, power);
}

void expand_exponentials(llvm::Module &module)
{
    std::vector<llvm::IntrinsicInst *> calls;
    for (llvm::Function &function : module)
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (auto *call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
                call != nullptr && call->getType()->isFloatTy() &&
                (call->getIntrinsicID() == llvm::Intrinsic::exp || call->getIntrinsicID() == llvm::Intrinsic::exp2))
                calls.push_back(call);
    for (llvm::IntrinsicInst *call : calls) {
        llvm::IRBuilder<> builder(call);
        llvm::Value *exponent = builder.CreateFPExt(call->getArgOperand(0), builder.getDoubleTy());
        if (call->getIntrinsicID() == llvm::Intrinsic::exp)
            exponent = builder.CreateFMul(exponent, llvm::ConstantFP::get(builder.getDoubleTy(), LOG2_E));
        call->replaceAllUsesWith(builder.CreateFPTrunc(power_of_two(builder, exponent), call->getType()));
        call->eraseFromParent();
    }
}

} // namespace vgc
