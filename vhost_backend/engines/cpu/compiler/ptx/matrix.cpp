// Matrices that a warp holds together: mma, ldmatrix, stmatrix, movmatrix.
//
// In the fragments of the PTX ISA, lane 4 g + t has elements of row g (of A, C and D) or column g (of B).
#include "matrix.h"
#include "address.h"
#include "forms.h"
#include "warp.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

Value *mask_of_warp(Instruction &i)
{
    return i.b.getInt32(~0u);
}

/// True if mma has the shape and the types.
bool exists(const Product &product, Type addend)
{
    const bool floats = product.left.is_float();
    const unsigned along = product.along_depth();
    const bool shape = product.left.bits == 64 ? along > 0
                       : product.rows == 16    ? along == 1 || along == 2
                                               : along == 1 && !floats;
    return shape && (product.left.bits == 64 || product.tf32 || product.left.bits < 32) &&
           addend.kind == product.result.kind && addend.bits == product.result.bits &&
           product.left.bits == product.right.bits && floats == product.right.is_float() &&
           floats == product.result.is_float() && product.result.lanes == 1 &&
           (product.left.bits == 64) == (product.result.bits == 64) && (floats || product.result.bits == 32) &&
           !(product.saturates && (floats || product.left.bits == 1));
}

Value *place_in_room(Instruction &i, unsigned word)
{
    return i.low.call_builtin("__vgc_room" + std::to_string(word), i.b.getPtrTy());
}

/// Stores a register in the lane's room, from a word on; returns the first word behind it.
unsigned store_in_room(Instruction &i, unsigned word, Value *value)
{
    Builder &b = i.b;
    for (unsigned at = 0; at < value->getType()->getIntegerBitWidth(); at += 32)
        b.CreateStore(b.CreateTrunc(b.CreateLShr(value, at), b.getInt32Ty()), place_in_room(i, word++));
    return word;
}

/// Register of 32 or 64 bits.
Value *load_from_room(Instruction &i, unsigned word, unsigned bits)
{
    Builder &b = i.b;
    Value *low = b.CreateLoad(b.getInt32Ty(), place_in_room(i, word));
    if (bits == 32)
        return low;
    Value *high = b.CreateZExt(b.CreateLoad(b.getInt32Ty(), place_in_room(i, word + 1)), b.getInt64Ty());
    return b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.CreateShl(high, 32));
}

Product read_product(Instruction &i)
{
    i.need_one({"sync"});
    i.need_one({"aligned"});
    const llvm::StringRef shape = i.need_one({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128",
                                              "m16n8k256", "m8n8k4", "m8n8k16", "m8n8k32", "m8n8k128"});
    Product product{16, 8, 4, 32, {}, {}, false, {}, false, false};
    llvm::StringRef sizes = shape.drop_front();
    sizes.consumeInteger(10, product.rows);
    sizes.substr(sizes.find('k') + 1).getAsInteger(10, product.depth);
    i.need_one({"row"});
    i.need_one({"col"});
    product.saturates = i.take("satfinite");
    product.result = i.need_type();
    if (!take_own_types(i, product)) {
        product.left = i.need_type();
        product.right = i.need_type();
    }
    product.bits = product.left.bits;
    const Type addend = i.need_type();
    if (product.left.bits == 64)
        i.take("rn");
    if (!exists(product, addend))
        i.refuse();
    return product;
}

void lower_mma(Instruction &i)
{
    const Product product = read_product(i);
    const unsigned sums = product.sum_registers();
    const Values results = multiply(i, product, registers_of(i, 1, product.left_registers(), product.register_bits()),
                                    registers_of(i, 2, product.right_registers(), product.register_bits()),
                                    registers_of(i, 3, sums, product.sum_bits()));
    for (unsigned n = 0; n < sums; n++)
        i.low.write(i.element(i.operand(0), n, sums), results[n], {Type::BITS, product.sum_bits(), 1});
}

/// Address of the row that the lane has a part of; rows of matrix m are at the addresses of lanes 8 m to 8 m + 7.
Value *row_address(Instruction &i, Value *address, unsigned matrix, Value *row)
{
    Value *from = i.b.CreateAdd(row, i.b.getInt32(8 * matrix));
    Value *found = value_of_lane(i, mask_of_warp(i), i.b.CreatePtrToInt(address, i.b.getInt64Ty()), from);
    return i.b.CreateIntToPtr(found, i.b.getPtrTy());
}

/// ldmatrix and stmatrix: of each matrix of 8 rows of 16 bytes, a lane has two elements of a row or, with .trans, of a
/// column.
void lower_matrix_access(Instruction &i)
{
    Builder &b = i.b;
    const bool loads = i.mnemonic() == "ldmatrix";
    i.need_one({"sync"});
    i.need_one({"aligned"});
    i.need_one({"m8n8"});
    const llvm::StringRef number = i.need_one({"x1", "x2", "x4"});
    const bool transposed = i.take("trans");
    const Space space = take_space(i);
    i.need_one({"b16"});
    const unsigned count = unsigned(number[1] - '0');
    Value *address = pointer(i, loads ? 1 : 0, space), *lane = lane_number(i);
    Value *group = b.CreateLShr(lane, 2), *pair = b.CreateShl(b.CreateAnd(lane, 3), 1);
    llvm::Type *half = b.getInt16Ty(), *word = b.getInt32Ty();
    const Type type{Type::BITS, 32, 1};
    auto access = [&](Value *place, llvm::Type *as, Value *stored) -> Value * {
        if (loads)
            return b.CreateAlignedLoad(as, place, llvm::Align(1));
        return b.CreateAlignedStore(b.CreateTrunc(stored, as), place, llvm::Align(1));
    };
    Values results;
    for (unsigned m = 0; m < count; m++) {
        Value *given = loads ? nullptr : i.low.bits(i.element(i.operand(1), m, count), 32), *result = nullptr;
        for (unsigned n = 0; n < (transposed ? 2u : 1u); n++) {
            Value *row = transposed ? b.CreateAdd(pair, b.getInt32(n)) : group;
            Value *base = row_address(i, address, m, row);
            Value *place = b.CreateGEP(half, base, transposed ? group : pair);
            Value *stored = loads ? nullptr : b.CreateLShr(given, 16 * n);
            Value *found = access(place, transposed ? half : word, stored);
            if (loads && transposed)
                found = b.CreateShl(b.CreateZExt(found, word), 16 * n);
            result = n == 0 || !loads ? found : b.CreateOr(result, found);
        }
        results.push_back(result);
    }
    for (unsigned m = 0; loads && m < count; m++)
        i.low.write(i.element(i.operand(0), m, count), results[m], type);
    synchronise_warp(i, mask_of_warp(i)); // what follows may overwrite what another lane has yet to read
}

/// movmatrix: the transposed matrix.
void lower_movmatrix(Instruction &i)
{
    Builder &b = i.b;
    for (llvm::StringRef modifier : {"sync", "aligned", "m8n8", "trans", "b16"})
        i.need_one({modifier});
    const Type type{Type::BITS, 32, 1};
    Value *value = i.in(1, type), *lane = lane_number(i);
    Value *group = b.CreateLShr(lane, 2), *pair = b.CreateShl(b.CreateAnd(lane, 3), 1);
    Value *result = b.getInt32(0), *upper = b.CreateShl(b.CreateAnd(group, 1), 4);
    for (unsigned n = 0; n < 2; n++) {
        Value *row = b.CreateAdd(pair, b.getInt32(n));
        Value *from = b.CreateOr(b.CreateShl(row, 2), b.CreateLShr(group, 1));
        Value *found = b.CreateLShr(value_of_lane(i, mask_of_warp(i), value, from), upper);
        result = b.CreateOr(result, b.CreateShl(b.CreateAnd(found, 0xffff), 16 * n));
    }
    i.low.write(i.operand(0), result, type);
}

} // namespace

bool take_own_types(Instruction &i, Product &product)
{
    if (i.take("tf32") && i.take("tf32")) {
        product.tf32 = true;
        product.left = product.right = {Type::FLOAT, 32, 1};
        return true;
    }
    const std::string name = i.name();
    for (llvm::StringRef types : {"s4.s4", "s4.u4", "u4.s4", "u4.u4", "b1.b1"}) {
        if (name.find(("." + types + ".").str()) == std::string::npos)
            continue;
        const auto [left, right] = types.split('.');
        i.take(left);
        i.take(right);
        product.left = {left[0] == 's' ? Type::SIGNED : Type::UNSIGNED, unsigned(left[1] - '0'), 1};
        product.right = {right[0] == 's' ? Type::SIGNED : Type::UNSIGNED, product.left.bits, 1};
        if (product.left.bits == 1) {
            product.exclusive = i.need_one({"and", "xor"}) == "xor";
            i.need_one({"popc"});
        }
        return true;
    }
    return false;
}

Values registers_of(Instruction &i, size_t operand, unsigned count, unsigned bits)
{
    Values values;
    for (unsigned n = 0; n < count; n++)
        values.push_back(i.low.bits(i.element(i.operand(operand), n, count), bits));
    return values;
}

Values multiply(Instruction &i, const Product &product, const Values &left, const Values &right, const Values &sums)
{
    Builder &b = i.b;
    unsigned word = 0;
    for (const Values *registers : {&left, &right, &sums})
        for (Value *value : *registers)
            word = store_in_room(i, word, value);
    i.low.call_builtin("__vgc_warp_product", b.getVoidTy(),
                       {mask_of_warp(i), warp_product(*b.GetInsertBlock()->getParent(), product)});
    word -= unsigned(sums.size()) * product.sum_bits() / 32;
    Values results;
    for (size_t n = 0; n < sums.size(); n++, word += product.sum_bits() / 32)
        results.push_back(load_from_room(i, word, product.sum_bits()));
    return results;
}

llvm::ArrayRef<Form> matrix_forms()
{
    static const Form forms[] = {
        {"mma", 4, 4, lower_mma},
        {"ldmatrix", 2, 2, lower_matrix_access},
        {"stmatrix", 2, 2, lower_matrix_access},
        {"movmatrix", 2, 2, lower_movmatrix},
    };
    return forms;
}

} // namespace vgc::ptx
