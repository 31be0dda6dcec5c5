#include "sampling.h"

#include "math.h"

#include <cstddef>

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// Fetches of textures with one channel of 32 bits that are computed in place, as loops are faster without calls.
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
    /// Computes the texel's bits in blocks of their own for the descriptors that it is possible for, and leads to
    /// `found` then; the running block is that of the others at the end.
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
        Value *bits = compute();
        texel->addIncoming(bits, b_.GetInsertBlock());
        b_.CreateBr(found);
        b_.SetInsertPoint(other);
    }

    /// True if texels are one number of 32 bits, and are sampled in this way (VGC_SAMPLE_OTHER: in any way).
    Value *is_raw(unsigned sample)
    {
        const uint64_t key = VGC_TEXTURE_MAGIC | 4ull << 32 | uint64_t(sample) << 40 | 32ull << 56;
        const uint64_t kinds = 0xffull << 48, ways = sample == VGC_SAMPLE_OTHER ? 0xffull << 40 : 0;
        Value *begin = field(b_.getInt64Ty(), 0);
        return b_.CreateICmpEQ(b_.CreateAnd(begin, ~(kinds | ways)), b_.getInt64(key));
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
    Value *load(llvm::Type *type, Value *const index[3])
    {
        Value *place = field(b_.getInt64Ty(), offsetof(vgc_texture, data));
        auto add = [&](unsigned axis, Value *step) {
            if (index[axis] != nullptr)
                place = b_.CreateAdd(place, b_.CreateMul(b_.CreateZExt(index[axis], b_.getInt64Ty()), step));
        };
        add(0, b_.getInt64(4));
        add(1, field(b_.getInt64Ty(), offsetof(vgc_texture, pitch)));
        add(2, field(b_.getInt64Ty(), offsetof(vgc_texture, slice)));
        return b_.CreateAlignedLoad(type, b_.CreateIntToPtr(place, b_.getPtrTy()), llvm::Align(4));
    }

    Value *by_index()
    {
        llvm::BasicBlock *inside = i_.low.new_block("ptx.inside"), *after = i_.low.new_block("ptx.fetched");
        llvm::BasicBlock *before = b_.GetInsertBlock();
        b_.CreateCondBr(b_.CreateICmpULT(fetch_.layer, size(0)), inside, after);
        b_.SetInsertPoint(inside);
        Value *const index[3] = {fetch_.layer};
        Value *loaded = load(b_.getInt32Ty(), index);
        b_.CreateBr(after);
        b_.SetInsertPoint(after);
        llvm::PHINode *texel = b_.CreatePHI(b_.getInt32Ty(), 2);
        texel->addIncoming(b_.getInt32(0), before);
        texel->addIncoming(loaded, inside);
        return texel;
    }
    Value *nearest()
    {
        Value *index[3] = {};
        for (unsigned axis = 0; axis < axes_; axis++)
            index[axis] = clamped(whole(between(scaled(axis), 0, 2e9)), size(axis));
        return load(b_.getInt32Ty(), index);
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
            return mixed(load(b_.getFloatTy(), low), load(b_.getFloatTy(), high), x.weight);
        };
        Value *first = row(y.low);
        return b_.CreateBitCast(mixed(first, row(y.high), y.weight), b_.getInt32Ty());
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
    llvm::BasicBlock *found = i.low.new_block("ptx.found"), *after = i.low.new_block("ptx.sampled");
    llvm::Type *type = llvm::FixedVectorType::get(b.getInt32Ty(), 4);
    llvm::PHINode *texel = llvm::PHINode::Create(b.getInt32Ty(), 2, "", found);
    HotFetch(i, object, fetch).emit(found, texel, gives_floats);
    Value *sampled = sample_anything(i, object, fetch);
    llvm::BasicBlock *other = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(found);
    Value *alone = b.CreateInsertElement(llvm::Constant::getNullValue(type), texel, uint64_t(0));
    b.CreateBr(after);
    b.SetInsertPoint(after);
    llvm::PHINode *channels = b.CreatePHI(type, 2);
    channels->addIncoming(sampled, other);
    channels->addIncoming(alone, found);
    return channels;
}

} // namespace vgc::ptx
