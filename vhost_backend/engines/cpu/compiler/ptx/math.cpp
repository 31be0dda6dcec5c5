#include "math.h"

namespace vgc::ptx
{

llvm::Value *number_like(llvm::Value *like, uint64_t number)
{
    return llvm::ConstantInt::get(like->getType(), number);
}

llvm::Value *shift_left(Builder &b, llvm::Value *value, llvm::Value *amount)
{
    const unsigned bits = value->getType()->getIntegerBitWidth();
    llvm::Value *inside = b.CreateICmpULT(amount, number_like(amount, bits));
    llvm::Value *safe = b.CreateSelect(inside, amount, number_like(amount, 0));
    llvm::Value *shifted = b.CreateShl(value, b.CreateZExtOrTrunc(safe, value->getType()));
    return b.CreateSelect(inside, shifted, number_like(value, 0));
}

llvm::Value *shift_right(Builder &b, llvm::Value *value, llvm::Value *amount, bool is_signed)
{
    const unsigned bits = value->getType()->getIntegerBitWidth();
    llvm::Value *inside = b.CreateICmpULT(amount, number_like(amount, bits));
    llvm::Value *safe = b.CreateSelect(inside, amount, number_like(amount, is_signed ? bits - 1 : 0));
    safe = b.CreateZExtOrTrunc(safe, value->getType());
    if (is_signed)
        return b.CreateAShr(value, safe);
    return b.CreateSelect(inside, b.CreateLShr(value, safe), number_like(value, 0));
}

llvm::Value *low_mask(Builder &b, llvm::Type *type, llvm::Value *count)
{
    return b.CreateNot(shift_left(b, llvm::ConstantInt::getAllOnesValue(type), count));
}

llvm::Value *minimum(Builder &b, llvm::Value *left, llvm::Value *right, bool is_signed)
{
    return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, left, right);
}

llvm::Value *maximum(Builder &b, llvm::Value *left, llvm::Value *right, bool is_signed)
{
    return b.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, left, right);
}

llvm::Value *extend(Builder &b, llvm::Value *value, unsigned wide, bool is_signed)
{
    return b.CreateIntCast(value, b.getIntNTy(wide), is_signed);
}

llvm::Value *clamp(Builder &b, llvm::Value *value, bool is_signed, unsigned bits, bool to_signed)
{
    const unsigned have = value->getType()->getIntegerBitWidth();
    const unsigned wide = std::max(have, bits) + 2; // holds either range with a sign
    llvm::Value *number = extend(b, value, wide, is_signed);
    const llvm::APInt low = to_signed ? llvm::APInt::getSignedMinValue(bits).sext(wide) : llvm::APInt(wide, 0);
    const llvm::APInt high =
        to_signed ? llvm::APInt::getSignedMaxValue(bits).sext(wide) : llvm::APInt::getMaxValue(bits).zext(wide);
    number = maximum(b, number, llvm::ConstantInt::get(number->getType(), low), true);
    number = minimum(b, number, llvm::ConstantInt::get(number->getType(), high), true);
    return b.CreateTrunc(number, b.getIntNTy(bits));
}

} // namespace vgc::ptx
