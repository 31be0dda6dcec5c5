// Video instructions on the bytes or half-words of a register: vadd4, vabsdiff2 and the like.
#include "forms.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const unsigned WIDE = 40; // bits in which no operation overflows

Value *operate(Builder &b, llvm::StringRef name, Value *left, Value *right)
{
    if (name == "vadd")
        return b.CreateAdd(left, right);
    if (name == "vsub")
        return b.CreateSub(left, right);
    if (name == "vavrg") { // half of the sum, rounded away from 0
        Value *sum = b.CreateAdd(left, right);
        Value *positive = b.CreateICmpSGE(sum, number_like(sum, 0));
        return b.CreateAShr(b.CreateAdd(sum, b.CreateZExt(positive, sum->getType())), 1);
    }
    if (name == "vmin")
        return minimum(b, left, right, true);
    if (name == "vmax")
        return maximum(b, left, right, true);
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, b.CreateSub(left, right), b.getFalse());
}

void lower_video(Instruction &i)
{
    Builder &b = i.b;
    const llvm::StringRef name = i.mnemonic().drop_back();
    const unsigned lanes = i.mnemonic().back() == '4' ? 4 : 2, bits = 32 / lanes;
    const Type to = i.need_type(), left = i.need_type(), right = i.need_type();
    const bool sat = i.take("sat"), sums = i.take("add");
    if (to.bits != 32 || left.bits != 32 || right.bits != 32)
        i.refuse();
    Value *a = i.in(1, left), *c = i.in(2, right), *third = i.in(3, to);
    auto lane = [&](Value *from, unsigned n, bool is_signed) {
        return extend(b, b.CreateTrunc(b.CreateLShr(from, n * bits), b.getIntNTy(bits)), WIDE, is_signed);
    };
    Value *result = sums ? third : b.getInt32(0);
    for (unsigned n = 0; n < lanes; n++) {
        Value *value = operate(b, name, lane(a, n, left.is_signed()), lane(c, n, right.is_signed()));
        if (sums) {
            result = b.CreateAdd(result, b.CreateTrunc(value, b.getInt32Ty()));
            continue;
        }
        value = sat ? clamp(b, value, true, bits, to.is_signed()) : b.CreateTrunc(value, b.getIntNTy(bits));
        result = b.CreateOr(result, b.CreateShl(b.CreateZExt(value, b.getInt32Ty()), n * bits));
    }
    i.low.write(i.operand(0), result, to);
}

} // namespace

llvm::ArrayRef<Form> video_forms()
{
    static const Form forms[] = {
        {"vadd4", 4, 4, lower_video}, {"vsub4", 4, 4, lower_video}, {"vavrg4", 4, 4, lower_video},
        {"vmin4", 4, 4, lower_video}, {"vmax4", 4, 4, lower_video}, {"vabsdiff4", 4, 4, lower_video},
        {"vadd2", 4, 4, lower_video}, {"vsub2", 4, 4, lower_video}, {"vavrg2", 4, 4, lower_video},
        {"vmin2", 4, 4, lower_video}, {"vmax2", 4, 4, lower_video}, {"vabsdiff2", 4, 4, lower_video},
    };
    return forms;
}

} // namespace vgc::ptx
