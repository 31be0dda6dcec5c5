#include "product.h"

#include "../../vgc_cpu_abi.h"

#include "llvm/IR/Module.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const unsigned DEEP = 64; // of longer blocks, side by side in vectors, the selection of instructions takes seconds

void keep_loop(llvm::BranchInst &branch)
{
    llvm::LLVMContext &context = branch.getContext();
    const auto text = [&](const char *words) { return llvm::MDString::get(context, words); };
    auto *no = llvm::ConstantAsMetadata::get(llvm::ConstantInt::getFalse(context));
    llvm::MDNode *loop =
        llvm::MDNode::getDistinct(context, {nullptr, llvm::MDNode::get(context, text("llvm.loop.unroll.disable")),
                                            llvm::MDNode::get(context, {text("llvm.loop.vectorize.enable"), no})});
    loop->replaceOperandWith(0, loop);
    branch.setMetadata(llvm::LLVMContext::MD_loop, loop);
}

/// Builds the function: elements of all lanes to matrices, rows of sums, elements of all lanes back.
class WarpProduct
{
  public:
    WarpProduct(llvm::Function &function, const Product &product)
        : function_(function), p_(product), b_(llvm::BasicBlock::Create(function.getContext(), "entry", &function))
    {
        number_ = p_.result.is_float() ? (p_.left.bits == 64 ? b_.getDoubleTy() : b_.getFloatTy())
                                       : static_cast<llvm::Type *>(b_.getIntNTy(product.saturates ? 64 : 32));
    }

    void build()
    {
        left_ = matrix(p_.rows * p_.depth, "a");
        right_ = matrix(p_.depth * p_.columns, "b");
        sums_ = matrix(p_.rows * p_.columns, "c");
        repeat(VGC_CPU_WARP, [&](Value *lane) {
            find_lane(lane);
            unpack();
        });
        repeat(p_.rows, [&](Value *row) { multiply(row); });
        repeat(VGC_CPU_WARP, [&](Value *lane) {
            find_lane(lane);
            pack();
        });
        b_.CreateRetVoid();
    }

  private:
    Value *matrix(unsigned elements, const char *name)
    {
        llvm::AllocaInst *alloca = b_.CreateAlloca(llvm::ArrayType::get(number_, elements), nullptr, name);
        alloca->setAlignment(llvm::Align(64));
        return alloca;
    }

    template <class Body> void repeat(unsigned count, Body body)
    {
        llvm::BasicBlock *before = b_.GetInsertBlock();
        llvm::BasicBlock *loop = llvm::BasicBlock::Create(b_.getContext(), "loop", &function_);
        llvm::BasicBlock *after = llvm::BasicBlock::Create(b_.getContext(), "after", &function_);
        b_.CreateBr(loop);
        b_.SetInsertPoint(loop);
        llvm::PHINode *index = b_.CreatePHI(b_.getInt32Ty(), 2);
        body(index);
        Value *next = b_.CreateNUWAdd(index, b_.getInt32(1));
        index->addIncoming(b_.getInt32(0), before);
        index->addIncoming(next, loop);
        llvm::BranchInst *again = b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt32(count)), loop, after);
        if (p_.depth > DEEP)
            keep_loop(*again);
        b_.SetInsertPoint(after);
    }

    void find_lane(Value *lane)
    {
        group_ = b_.CreateLShr(lane, 2);
        within_ = b_.CreateAnd(lane, 3);
        room_ = b_.CreateInBoundsGEP(b_.getInt8Ty(), function_.getArg(0),
                                     b_.CreateZExt(b_.CreateMul(lane, b_.getInt32(VGC_CPU_ROOM)), b_.getInt64Ty()));
        taken_ = 0;
    }

    Value *next_register(unsigned bits)
    {
        Value *place = b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), room_, taken_);
        taken_ += bits / 8;
        return place;
    }

    Value *load_register(unsigned bits)
    {
        return b_.CreateAlignedLoad(b_.getIntNTy(bits), next_register(bits), llvm::Align(4));
    }

    Value *element(Value *matrix, Value *row, unsigned width, Value *column)
    {
        Value *index = b_.CreateAdd(b_.CreateMul(row, b_.getInt32(width)), column);
        return b_.CreateInBoundsGEP(number_, matrix, b_.CreateZExt(index, b_.getInt64Ty()));
    }

    Value *row_of(unsigned half)
    {
        return b_.CreateAdd(group_, b_.getInt32(8 * half));
    }

    Value *element_of(Value *word, unsigned number, Type type)
    {
        Value *bits = b_.CreateTrunc(b_.CreateLShr(word, number * p_.bits), b_.getIntNTy(p_.bits));
        if (p_.tf32)
            bits = b_.CreateAnd(bits, 0xffffe000);
        return type.is_float() ? widen(b_, bits, type)
                               : extend(b_, bits, number_->getIntegerBitWidth(), type.is_signed());
    }

    void unpack()
    {
        const unsigned step = p_.per_register();
        auto depth_of = [&](unsigned n, unsigned e) {
            return b_.CreateAdd(b_.CreateMul(within_, b_.getInt32(step)), b_.getInt32(n * 4 * step + e));
        };
        for (unsigned n = 0; n < p_.along_depth(); n++)
            for (unsigned half = 0; half < p_.halves(); half++) {
                Value *word = load_register(p_.register_bits());
                for (unsigned e = 0; e < step; e++)
                    b_.CreateStore(element_of(word, e, p_.left),
                                   element(left_, row_of(half), p_.depth, depth_of(n, e)));
            }
        for (unsigned n = 0; n < p_.along_depth(); n++) {
            Value *word = load_register(p_.register_bits());
            for (unsigned e = 0; e < step; e++)
                b_.CreateStore(element_of(word, e, p_.right), element(right_, depth_of(n, e), p_.columns, group_));
        }
        for_sums([&](Value *place, unsigned count, Value *const *elements) {
            Value *word = b_.CreateAlignedLoad(b_.getIntNTy(p_.sum_bits()), place, llvm::Align(4));
            for (unsigned n = 0; n < count; n++) {
                Value *bits = b_.CreateTrunc(b_.CreateLShr(word, n * p_.result.bits), b_.getIntNTy(p_.result.bits));
                Value *number = p_.result.is_float() ? widen(b_, bits, p_.result) : b_.CreateSExt(bits, number_);
                b_.CreateStore(number, elements[n]);
            }
        });
    }

    void pack()
    {
        taken_ = (p_.left_registers() + p_.right_registers()) * p_.register_bits() / 8;
        for_sums([&](Value *place, unsigned count, Value *const *elements) {
            llvm::Type *type = b_.getIntNTy(p_.sum_bits());
            Value *word = nullptr;
            for (unsigned n = 0; n < count; n++) {
                Value *sum = b_.CreateLoad(number_, elements[n]);
                Value *bits = p_.result.is_float() ? narrow(b_, sum, p_.result) : whole_sum(sum);
                bits = b_.CreateZExt(bits, type);
                word = n == 0 ? bits : b_.CreateOr(word, b_.CreateShl(bits, n * p_.result.bits));
            }
            b_.CreateAlignedStore(word, place, llvm::Align(4));
        });
    }

    Value *whole_sum(Value *sum)
    {
        if (!p_.saturates)
            return sum;
        sum = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, sum, b_.getInt64(INT32_MAX));
        sum = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, sum, b_.getInt64(INT32_MIN));
        return b_.CreateTrunc(sum, b_.getInt32Ty());
    }

    /// Calls `use` for each of the lane's registers of C: its place, and the elements of the matrix that it has.
    template <class Use> void for_sums(Use use)
    {
        for (unsigned half = 0; half < p_.halves(); half++) {
            Value *elements[2];
            for (unsigned n = 0; n < 2; n++) {
                Value *column = b_.CreateAdd(b_.CreateShl(within_, 1), b_.getInt32(n));
                elements[n] = element(sums_, row_of(half), p_.columns, column);
            }
            if (p_.packs_sums()) {
                use(next_register(32), 2, elements);
                continue;
            }
            for (Value *const &element : elements)
                use(next_register(p_.sum_bits()), 1, &element);
        }
    }

    void multiply(Value *row)
    {
        auto *vector = llvm::FixedVectorType::get(number_, p_.columns);
        const llvm::Align aligned(64 / 2);
        Value *place = element(sums_, row, p_.columns, b_.getInt32(0));
        Value *sum = b_.CreateAlignedLoad(vector, place, aligned);
        for (unsigned k = 0; k < p_.depth; k++) {
            Value *left = b_.CreateLoad(number_, element(left_, row, p_.depth, b_.getInt32(k)));
            Value *right =
                b_.CreateAlignedLoad(vector, b_.CreateConstInBoundsGEP1_64(number_, right_, k * p_.columns), aligned);
            left = b_.CreateVectorSplat(p_.columns, left);
            sum = number_->isFloatingPointTy()
                      ? b_.CreateIntrinsic(llvm::Intrinsic::fma, {vector}, {left, right, sum})
                      : b_.CreateAdd(sum, p_.exclusive ? b_.CreateXor(left, right) : b_.CreateMul(left, right));
        }
        b_.CreateAlignedStore(sum, place, aligned);
    }

    llvm::Function &function_;
    const Product &p_;
    Builder b_;
    llvm::Type *number_;
    Value *left_ = nullptr, *right_ = nullptr, *sums_ = nullptr;
    Value *group_ = nullptr, *within_ = nullptr, *room_ = nullptr;
    uint64_t taken_ = 0;
};

std::string name_of(const Product &p)
{
    std::string name = "vgc.product";
    for (const unsigned part : {p.rows, p.depth, unsigned(p.left.kind), p.bits, unsigned(p.right.kind),
                                unsigned(p.result.kind), p.result.bits, unsigned(p.saturates), unsigned(p.exclusive)})
        name += "." + std::to_string(part);
    return name;
}

} // namespace

llvm::Function *warp_product(llvm::Function &caller, const Product &product)
{
    llvm::Module &module = *caller.getParent();
    const std::string name = name_of(product);
    if (llvm::Function *made = module.getFunction(name))
        return made;
    llvm::LLVMContext &context = module.getContext();
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {llvm::PointerType::get(context, 0)}, false);
    llvm::Function *function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
    for (const char *kind : {"target-cpu", "target-features", "tune-cpu", "no-trapping-math"})
        if (const llvm::Attribute attribute = caller.getFnAttribute(kind); attribute.isValid())
            function->addFnAttr(attribute);
    function->addFnAttr("min-legal-vector-width", "512");
    function->addFnAttr(llvm::Attribute::NoUnwind);
    WarpProduct(*function, product).build();
    return function;
}

} // namespace vgc::ptx
