#include "product.h"

#include "../compiler.h"

#include "llvm/IR/Module.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

using Values = std::vector<Value *>;

/// Builds the function: vectors have an element for each lane, so that those of a register come from memory and go back
/// there at once. Lane 4 g + t has the sums of row g and columns 2 t and 2 t + 1; the elements of A that these need are
/// in the four lanes of its own g, and those of B in the lanes of the columns.
class WarpProduct
{
  public:
    WarpProduct(llvm::Function &function, const Product &product)
        : function_(function), p_(product), b_(llvm::BasicBlock::Create(function.getContext(), "entry", &function)),
          steps_(product.bits == 1 ? 1 : product.per_register())
    {
        llvm::Type *number = p_.left.bits == 64   ? b_.getDoubleTy()
                             : p_.left.is_float() ? b_.getFloatTy()
                                                  : static_cast<llvm::Type *>(b_.getInt32Ty());
        numbers_ = llvm::FixedVectorType::get(number, VGC_CPU_WARP);
    }

    void build()
    {
        const Values addends = load_sums();
        const Values zeroes(addends.size(), llvm::Constant::getNullValue(numbers_));
        Values sums = repeat(p_.along_depth(), saturates() ? zeroes : addends,
                             [&](Value *n, const Values &before) { return multiply(n, before); });
        for (size_t i = 0; saturates() && i < sums.size(); i++)
            sums[i] = b_.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, addends[i], sums[i]);
        store_sums(sums);
        b_.CreateRetVoid();
    }

  private:
    /// Loop of `count` rounds, each of which makes new values of those of the round before.
    template <class Body> Values repeat(unsigned count, const Values &begin, Body body)
    {
        llvm::BasicBlock *before = b_.GetInsertBlock();
        llvm::BasicBlock *loop = llvm::BasicBlock::Create(b_.getContext(), "loop", &function_);
        llvm::BasicBlock *after = llvm::BasicBlock::Create(b_.getContext(), "after", &function_);
        b_.CreateBr(loop);
        b_.SetInsertPoint(loop);
        llvm::PHINode *index = b_.CreatePHI(b_.getInt64Ty(), 2);
        Values carried;
        for (Value *value : begin) {
            llvm::PHINode *phi = b_.CreatePHI(value->getType(), 2);
            phi->addIncoming(value, before);
            carried.push_back(phi);
        }
        const Values results = body(index, carried);
        for (size_t i = 0; i < results.size(); i++)
            llvm::cast<llvm::PHINode>(carried[i])->addIncoming(results[i], loop);
        Value *next = b_.CreateNUWAdd(index, b_.getInt64(1));
        index->addIncoming(b_.getInt64(0), before);
        index->addIncoming(next, loop);
        b_.CreateCondBr(b_.CreateICmpULT(next, b_.getInt64(count)), loop, after);
        b_.SetInsertPoint(after);
        return results;
    }

    /// True if sums stop at the ends of integers: those of the products alone never reach them. Floats do not.
    bool saturates() const
    {
        return p_.saturates && !p_.result.is_float();
    }

    llvm::VectorType *lanes_of(unsigned bits)
    {
        return llvm::FixedVectorType::get(b_.getIntNTy(bits), VGC_CPU_WARP);
    }

    /// Place of a word of all lanes' rooms.
    Value *place(Value *word)
    {
        Value *stride = b_.CreateZExt(function_.getArg(1), b_.getInt64Ty());
        return b_.CreateInBoundsGEP(b_.getInt32Ty(), function_.getArg(0), b_.CreateMul(word, stride));
    }

    Value *load_word(Value *word)
    {
        return b_.CreateAlignedLoad(lanes_of(32), place(word), llvm::Align(VGC_CPU_ROOM_ALIGN));
    }

    /// Register of `bits` bits, 32 or 64, of each lane.
    Value *load_register(Value *word, unsigned bits)
    {
        Value *low = load_word(word);
        if (bits == 32)
            return low;
        Value *high = b_.CreateZExt(load_word(b_.CreateAdd(word, b_.getInt64(1))), lanes_of(64));
        return b_.CreateOr(b_.CreateZExt(low, lanes_of(64)), b_.CreateShl(high, 32));
    }

    void store_register(Value *bits, unsigned word)
    {
        const unsigned words = bits->getType()->getScalarSizeInBits() / 32;
        for (unsigned n = 0; n < words; n++)
            b_.CreateAlignedStore(b_.CreateTrunc(b_.CreateLShr(bits, 32 * n), lanes_of(32)),
                                  place(b_.getInt64(word + n)), llvm::Align(VGC_CPU_ROOM_ALIGN));
    }

    /// Register `number` of A, or of B behind those of A.
    Value *load_operand(Value *number)
    {
        return load_register(b_.CreateMul(number, b_.getInt64(p_.register_bits() / 32)), p_.register_bits());
    }

    /// Numbers of the elements in a register; single bits stay together.
    Values unpack(Value *bits, Type type)
    {
        if (p_.bits == 1)
            return {bits};
        if (p_.tf32)
            bits = b_.CreateAnd(bits, llvm::ConstantInt::get(bits->getType(), 0xffffe000));
        Values numbers;
        for (unsigned n = 0; n < steps_; n++) {
            Value *element = b_.CreateTrunc(b_.CreateLShr(bits, n * p_.bits), lanes_of(p_.bits));
            numbers.push_back(type.is_float() ? widen(b_, element, type)
                                              : b_.CreateIntCast(element, numbers_, type.is_signed()));
        }
        return numbers;
    }

    /// For each lane, the number of A that lane `within` of its four has.
    Value *spread_row(Value *numbers, unsigned within)
    {
        int from[VGC_CPU_WARP];
        for (int lane = 0; lane < VGC_CPU_WARP; lane++)
            from[lane] = (lane & ~3) + int(within);
        return b_.CreateShuffleVector(numbers, from);
    }

    /// Numbers of B, which lane 4 column + within has, in the order 8 within + 4 (column % 2) + column / 2.
    Value *transpose(Value *numbers)
    {
        int from[VGC_CPU_WARP];
        for (int at = 0; at < VGC_CPU_WARP; at++)
            from[at] = 4 * (at % 4 * 2 + at / 4 % 2) + at / 8;
        return b_.CreateShuffleVector(numbers, from);
    }

    /// For each lane, the number of B of one of its two columns, of those that transpose() has made.
    Value *spread_columns(Value *transposed, unsigned within, unsigned odd)
    {
        int from[VGC_CPU_WARP];
        for (int lane = 0; lane < VGC_CPU_WARP; lane++)
            from[lane] = int(8 * within + 4 * odd) + lane % 4;
        return b_.CreateShuffleVector(transposed, from);
    }

    Value *add_product(Value *sum, Value *left, Value *right)
    {
        if (numbers_->isFPOrFPVectorTy())
            return b_.CreateIntrinsic(llvm::Intrinsic::fma, {numbers_}, {left, right, sum});
        if (p_.bits > 1)
            return b_.CreateAdd(sum, b_.CreateMul(left, right));
        Value *bits = p_.exclusive ? b_.CreateXor(left, right) : b_.CreateAnd(left, right);
        return b_.CreateAdd(sum, b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits));
    }

    /// Adds the products of a register of each row and column: four lanes have elements of a row, one after the other.
    Values multiply(Value *n, Values sums)
    {
        std::vector<Values> rows;
        for (unsigned half = 0; half < p_.halves(); half++) {
            Value *number = b_.CreateAdd(b_.CreateMul(n, b_.getInt64(p_.halves())), b_.getInt64(half));
            rows.push_back(unpack(load_operand(number), p_.left));
        }
        Values columns = unpack(load_operand(b_.CreateAdd(n, b_.getInt64(p_.left_registers()))), p_.right);
        for (Value *&numbers : columns)
            numbers = transpose(numbers);
        for (unsigned k = 0; k < 4 * steps_; k++) {
            const unsigned within = k / steps_, step = k % steps_;
            Value *right[2];
            for (unsigned odd = 0; odd < 2; odd++)
                right[odd] = spread_columns(columns[step], within, odd);
            for (unsigned half = 0; half < p_.halves(); half++) {
                Value *left = spread_row(rows[half][step], within);
                for (unsigned odd = 0; odd < 2; odd++)
                    sums[2 * half + odd] = add_product(sums[2 * half + odd], left, right[odd]);
            }
        }
        return sums;
    }

    unsigned word_of_sums(unsigned number) const
    {
        const unsigned operands = p_.left_registers() + p_.right_registers();
        return operands * p_.register_bits() / 32 + number * p_.sum_bits() / 32;
    }

    Values load_sums()
    {
        Values sums;
        const unsigned packed = p_.packs_sums() ? 2 : 1;
        for (unsigned n = 0; n < p_.sum_registers(); n++) {
            Value *bits = load_register(b_.getInt64(word_of_sums(n)), p_.sum_bits());
            for (unsigned e = 0; e < packed; e++) {
                Value *sum = b_.CreateTrunc(b_.CreateLShr(bits, e * p_.result.bits), lanes_of(p_.result.bits));
                sums.push_back(p_.result.is_float() ? widen(b_, sum, p_.result) : sum);
            }
        }
        return sums;
    }

    void store_sums(const Values &sums)
    {
        const unsigned packed = p_.packs_sums() ? 2 : 1;
        for (unsigned n = 0; n < p_.sum_registers(); n++) {
            Value *bits = llvm::Constant::getNullValue(lanes_of(p_.sum_bits()));
            for (unsigned e = 0; e < packed; e++) {
                Value *sum = sums[n * packed + e];
                sum = p_.result.is_float() ? narrow(b_, sum, p_.result) : sum;
                bits = b_.CreateOr(bits, b_.CreateShl(b_.CreateZExt(sum, bits->getType()), e * p_.result.bits));
            }
            store_register(bits, word_of_sums(n));
        }
    }

    llvm::Function &function_;
    const Product &p_;
    Builder b_;
    const unsigned steps_; // numbers that an operand's register becomes
    llvm::Type *numbers_;  // one of each lane
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
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                         {llvm::PointerType::get(context, 0), llvm::Type::getInt32Ty(context)}, false);
    llvm::Function *function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, name, module);
    for (const char *kind : {"target-cpu", "target-features", "tune-cpu", "no-trapping-math"})
        if (const llvm::Attribute attribute = caller.getFnAttribute(kind); attribute.isValid())
            function->addFnAttr(attribute);
    function->addFnAttr("min-legal-vector-width", "512");
    function->addFnAttr(WHOLE_VECTORS);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    WarpProduct(*function, product).build();
    return function;
}

} // namespace vgc::ptx
