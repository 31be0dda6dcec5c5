#include "types.h"

#include "llvm/ADT/StringSwitch.h"

namespace vgc::ptx
{
namespace
{

Type::Kind kind_of(char letter)
{
    switch (letter) {
    case 'u':
        return Type::UNSIGNED;
    case 's':
        return Type::SIGNED;
    case 'f':
        return Type::FLOAT;
    default:
        return Type::BITS;
    }
}

/// bf16 from f32: the upper half, rounded.
llvm::Value *narrow_to_bfloat(llvm::IRBuilder<> &builder, llvm::Value *value)
{
    llvm::Type *words = value->getType()->getWithNewType(builder.getInt32Ty());
    auto number = [&](uint32_t bits) { return llvm::ConstantInt::get(words, bits); };
    llvm::Value *bits = builder.CreateBitCast(value, words);
    llvm::Value *odd = builder.CreateAnd(builder.CreateLShr(bits, 16), number(1));
    llvm::Value *rounded = builder.CreateAdd(builder.CreateAdd(bits, odd), number(0x7fff));
    llvm::Value *nan = builder.CreateFCmpUNO(value, value);
    rounded = builder.CreateSelect(nan, number(0x7fff0000), rounded);
    return builder.CreateTrunc(builder.CreateLShr(rounded, 16), words->getWithNewBitWidth(16));
}

} // namespace

std::optional<Type> type_named(llvm::StringRef name)
{
    if (name == "pred")
        return Type{Type::PREDICATE, 1, 1};
    if (name == "bf16")
        return Type{Type::BFLOAT, 16, 1};
    if (name == "bf16x2")
        return Type{Type::BFLOAT, 16, 2};
    if (name == "f16x2" || name == "u16x2" || name == "s16x2")
        return Type{kind_of(name[0]), 16, 2};
    if (name == "f32x2")
        return Type{Type::FLOAT, 32, 2};
    const unsigned bits = llvm::StringSwitch<unsigned>(name.empty() ? name : name.drop_front())
                              .Case("8", 8)
                              .Case("16", 16)
                              .Case("32", 32)
                              .Case("64", 64)
                              .Case("128", 128)
                              .Default(0);
    if (bits == 0 || !llvm::StringRef("busf").contains(name[0]) || (name[0] == 'f' && (bits < 16 || bits > 64)) ||
        (name[0] != 'b' && bits > 64))
        return std::nullopt;
    return Type{kind_of(name[0]), bits, 1};
}

llvm::Value *widen(llvm::IRBuilder<> &builder, llvm::Value *bits, Type lane)
{
    llvm::Type *type = bits->getType();
    llvm::Type *single = type->getWithNewType(builder.getFloatTy());
    if (lane.kind == Type::BFLOAT)
        return builder.CreateBitCast(builder.CreateShl(builder.CreateZExt(bits, type->getWithNewBitWidth(32)), 16),
                                     single);
    if (lane.bits == 16)
        return builder.CreateFPExt(builder.CreateBitCast(bits, type->getWithNewType(builder.getHalfTy())), single);
    return builder.CreateBitCast(bits, lane.bits == 64 ? type->getWithNewType(builder.getDoubleTy()) : single);
}

llvm::Value *narrow(llvm::IRBuilder<> &builder, llvm::Value *value, Type lane)
{
    if (lane.kind == Type::BFLOAT)
        return narrow_to_bfloat(builder, value);
    if (lane.bits == 16)
        value = builder.CreateFPTrunc(value, value->getType()->getWithNewType(builder.getHalfTy()));
    return builder.CreateBitCast(value, value->getType()->getWithNewType(builder.getIntNTy(lane.bits)));
}

} // namespace vgc::ptx
