#include "sampling.h"

#include "math.h"

#include <cstddef>

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// Fetches of textures with channels of 32 bits that are computed in place, as loops are faster without calls: the
/// arithmetic that CUDA C has in kernels/cpu/include/vgc_texture.h (tests compare the bits), which PTX cannot include.
class HotFetch
{
  public:
    HotFetch(Instruction &i, Value *object, const Fetch &fetch)
        : i_(i), b_(i.b), object_(object), fetch_(fetch), axes_(unsigned(fetch.shape))
    {
    }
    /// True if there is a way to compute some of such fetches in place.
    static bool fits(const Fetch &fetch)
    {
        const bool is_flat = fetch.shape != VGC_SAMPLE_CUBE && fetch.layer == nullptr;
        return fetch.how == VGC_SAMPLE_FETCH || (fetch.how == VGC_SAMPLE_PLAIN && is_flat);
    }
    /// Computes the channels in blocks of their own for the descriptors that it is possible for, and leads to `found`
    /// then; the running block is that of the others at the end.
    void emit(llvm::BasicBlock *found, llvm::PHINode *texel, bool gives_floats)
    {
        if (fetch_.how == VGC_SAMPLE_FETCH)
            return branch(VGC_SAMPLE_OTHER, found, texel, [&] { return by_index(); });
        branch(VGC_SAMPLE_NEAREST, found, texel, [&] { return nearest(); });
        if (fetch_.shape == VGC_SAMPLE_2D && gives_floats)
            branch(VGC_SAMPLE_LINEAR, found, texel, [&] { return linear(); });
    }

  private:
    /// Both indices along an axis, and the weight of the second.
    struct Pair {
        Value *low, *high, *weight;
    };

    template <class Compute>
    void branch(unsigned sample, llvm::BasicBlock *found, llvm::PHINode *texel, Compute compute)
    {
        llvm::BasicBlock *hot = i_.low.new_block("ptx.texel"), *other = i_.low.new_block("ptx.sample");
        b_.CreateCondBr(is_raw(sample), hot, other);
        b_.SetInsertPoint(hot);
        Value *channels = compute();
        texel->addIncoming(channels, b_.GetInsertBlock());
        b_.CreateBr(found);
        b_.SetInsertPoint(other);
    }

    /// True if texels are numbers of 32 bits, and are sampled in this way (VGC_SAMPLE_OTHER: in any way).
    Value *is_raw(unsigned sample)
    {
        const uint64_t key = VGC_TEXTURE_MAGIC | uint64_t(sample) << 40 | 32ull << 56;
        const uint64_t sizes = 0xffull << 32, kinds = 0xffull << 48;
        const uint64_t ways = sample == VGC_SAMPLE_OTHER ? 0xffull << 40 : 0;
        Value *begin = field(b_.getInt64Ty(), 0);
        Value *fits = b_.CreateICmpEQ(b_.CreateAnd(begin, ~(sizes | kinds | ways)), b_.getInt64(key));
        Value *size = b_.CreateAnd(begin, sizes);
        if (sample == VGC_SAMPLE_LINEAR)
            return b_.CreateAnd(fits, b_.CreateICmpEQ(size, b_.getInt64(4ull << 32)));
        return b_.CreateAnd(fits, b_.CreateICmpNE(size, b_.getInt64(0)));
    }
    Value *field(llvm::Type *type, size_t offset)
    {
        return b_.CreateAlignedLoad(type, descriptor_field(i_, object_, offset), llvm::Align(4));
    }
    Value *size(unsigned axis)
    {
        return field(b_.getInt32Ty(), offsetof(vgc_texture, width) + 4 * axis);
    }
    Value *scaled(unsigned axis)
    {
        return b_.CreateFMul(fetch_.at[axis], field(b_.getFloatTy(), offsetof(vgc_texture, scale) + 4 * axis));
    }
    Value *real(double number)
    {
        return llvm::ConstantFP::get(b_.getFloatTy(), number);
    }
    Value *between(Value *value, double least, double most)
    {
        value = b_.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, value, real(least));
        return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minnum, value, real(most));
    }
    Value *whole(Value *value)
    {
        return b_.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {b_.getInt32Ty(), b_.getFloatTy()}, {value});
    }
    Value *clamped(Value *index, Value *size)
    {
        Value *most = b_.CreateSelect(b_.CreateICmpSLT(index, size), index, b_.CreateSub(size, b_.getInt32(1)));
        return b_.CreateSelect(b_.CreateICmpSLT(index, b_.getInt32(0)), b_.getInt32(0), most);
    }
    /// Bytes of a texel.
    Value *texel_bytes()
    {
        return b_.CreateZExt(field(b_.getInt8Ty(), offsetof(vgc_texture, raw)), b_.getInt64Ty());
    }
    Value *place_of(Value *const index[3], Value *size)
    {
        Value *place = field(b_.getInt64Ty(), offsetof(vgc_texture, data));
        auto add = [&](unsigned axis, Value *step) {
            if (index[axis] != nullptr)
                place = b_.CreateAdd(place, b_.CreateMul(b_.CreateZExt(index[axis], b_.getInt64Ty()), step));
        };
        add(0, size);
        add(1, field(b_.getInt64Ty(), offsetof(vgc_texture, pitch)));
        add(2, field(b_.getInt64Ty(), offsetof(vgc_texture, slice)));
        return place;
    }
    Value *load(llvm::Type *type, Value *place)
    {
        return b_.CreateAlignedLoad(type, b_.CreateIntToPtr(place, b_.getPtrTy()), llvm::Align(4));
    }
    /// Channels of a texel; 0 for those that the texture has not, in whose place the first is read.
    Value *channels(Value *const index[3])
    {
        Value *size = texel_bytes(), *place = place_of(index, size), *zero = b_.getInt64(0);
        Value *all = llvm::Constant::getNullValue(llvm::FixedVectorType::get(b_.getInt32Ty(), 4));
        for (unsigned n = 0; n < 4; n++) {
            Value *is_there = b_.CreateICmpUGT(size, b_.getInt64(4 * n));
            Value *offset = b_.CreateSelect(is_there, b_.getInt64(4 * n), zero);
            Value *channel = load(b_.getInt32Ty(), b_.CreateAdd(place, offset));
            all = b_.CreateInsertElement(all, b_.CreateSelect(is_there, channel, b_.getInt32(0)), uint64_t(n));
        }
        return all;
    }

    Value *by_index()
    {
        llvm::BasicBlock *inside = i_.low.new_block("ptx.inside"), *after = i_.low.new_block("ptx.fetched");
        llvm::BasicBlock *before = b_.GetInsertBlock();
        b_.CreateCondBr(b_.CreateICmpULT(fetch_.layer, size(0)), inside, after);
        b_.SetInsertPoint(inside);
        Value *const index[3] = {fetch_.layer};
        Value *loaded = channels(index);
        b_.CreateBr(after);
        b_.SetInsertPoint(after);
        llvm::PHINode *texel = b_.CreatePHI(loaded->getType(), 2);
        texel->addIncoming(llvm::Constant::getNullValue(loaded->getType()), before);
        texel->addIncoming(loaded, inside);
        return texel;
    }
    Value *nearest()
    {
        Value *index[3] = {};
        for (unsigned axis = 0; axis < axes_; axis++)
            index[axis] = clamped(whole(between(scaled(axis), 0, 2e9)), size(axis));
        return channels(index);
    }

    Pair pair(unsigned axis)
    {
        Value *from = between(b_.CreateFSub(scaled(axis), real(0.5)), -1, 2e9), *extent = size(axis);
        Value *floor = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, from), *first = whole(floor);
        Value *weight = b_.CreateFMul(b_.CreateFSub(from, floor), real(256));
        weight = b_.CreateFMul(b_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, weight), real(1.0 / 256));
        return {clamped(first, extent), clamped(b_.CreateAdd(first, b_.getInt32(1)), extent), weight};
    }
    Value *mixed(Value *low, Value *high, Value *weight)
    {
        Value *rest = b_.CreateFSub(real(1), weight);
        return b_.CreateFAdd(b_.CreateFMul(rest, low), b_.CreateFMul(weight, high));
    }
    Value *linear()
    {
        const llvm::IRBuilderBase::FastMathFlagGuard flags(b_);
        b_.setFastMathFlags(contracting());
        const Pair x = pair(0), y = pair(1);
        auto row = [&](Value *index) {
            Value *const low[3] = {x.low, index}, *const high[3] = {x.high, index};
            return mixed(load(b_.getFloatTy(), place_of(low, b_.getInt64(4))),
                         load(b_.getFloatTy(), place_of(high, b_.getInt64(4))), x.weight);
        };
        Value *first = row(y.low), *value = mixed(first, row(y.high), y.weight);
        return b_.CreateInsertElement(llvm::Constant::getNullValue(llvm::FixedVectorType::get(b_.getInt32Ty(), 4)),
                                      b_.CreateBitCast(value, b_.getInt32Ty()), uint64_t(0));
    }
    static llvm::FastMathFlags contracting()
    {
        llvm::FastMathFlags flags;
        flags.setAllowContract();
        return flags;
    }

    Instruction &i_;
    Builder &b_;
    Value *object_;
    const Fetch &fetch_;
    unsigned axes_;
};

/// Fetch by the runtime (vhost_backend/engines/cpu/texture.c).
Value *sample_anything(Instruction &i, Value *object, const Fetch &fetch)
{
    Builder &b = i.b;
    Value *sample = i.low.local(llvm::ArrayType::get(b.getInt32Ty(), sizeof(vgc_sample) / 4));
    auto put = [&](Value *value, size_t offset) {
        if (value != nullptr)
            b.CreateAlignedStore(value, b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), sample, offset), llvm::Align(4));
    };
    put(b.getInt32(unsigned(fetch.shape)), offsetof(vgc_sample, shape));
    put(b.getInt32(unsigned(fetch.how)), offsetof(vgc_sample, how));
    put(fetch.layer, offsetof(vgc_sample, layer));
    put(fetch.detail, offsetof(vgc_sample, detail));
    for (unsigned axis = 0; axis < 3; axis++) {
        put(fetch.at[axis], offsetof(vgc_sample, at) + 4 * axis);
        put(fetch.dx[axis], offsetof(vgc_sample, dx) + 4 * axis);
        put(fetch.dy[axis], offsetof(vgc_sample, dy) + 4 * axis);
    }
    llvm::Type *pair = llvm::FixedVectorType::get(b.getFloatTy(), 2);
    auto *call = llvm::cast<llvm::CallInst>(
        i.low.call_builtin("__vgc_texture_sample", llvm::StructType::get(pair, pair), {object, sample}));
    call->setOnlyReadsMemory();
    call->addFnAttr(llvm::Attribute::WillReturn);
    const int all[] = {0, 1, 2, 3};
    Value *channels = b.CreateShuffleVector(b.CreateExtractValue(call, 0), b.CreateExtractValue(call, 1), all);
    return b.CreateBitCast(channels, llvm::FixedVectorType::get(b.getInt32Ty(), 4));
}

} // namespace

Value *object_of(Instruction &i, const Operand &operand, size_t parts)
{
    if (operand.kind != Operand::ADDRESS || operand.offset != 0)
        i.low.fail(operand.at, "expected a texture or surface object in brackets");
    if (operand.parts.size() > parts)
        i.low.fail(operand.at, "samplers apart from textures are not supported");
    if (operand.parts.size() < parts)
        i.low.fail(operand.at, "expected coordinates after the object");
    if (i.low.width_of(operand.parts[0]) != 64)
        i.low.fail(operand.parts[0].at, "expected a register of 64 bits with a texture or surface object");
    return i.low.bits(operand.parts[0], 64);
}

Value *descriptor_field(Instruction &i, Value *object, size_t offset)
{
    return i.b.CreateIntToPtr(i.b.CreateAdd(object, i.b.getInt64(offset)), i.b.getPtrTy());
}

Value *sample_texture(Instruction &i, Value *object, const Fetch &fetch, bool gives_floats)
{
    if (!HotFetch::fits(fetch))
        return sample_anything(i, object, fetch);
    Builder &b = i.b;
    llvm::BasicBlock *found = i.low.new_block("ptx.found");
    llvm::PHINode *channels = llvm::PHINode::Create(llvm::FixedVectorType::get(b.getInt32Ty(), 4), 3, "", found);
    HotFetch(i, object, fetch).emit(found, channels, gives_floats);
    channels->addIncoming(sample_anything(i, object, fetch), b.GetInsertBlock());
    b.CreateBr(found);
    b.SetInsertPoint(found);
    return channels;
}

} // namespace vgc::ptx
