// Matrices that a warp holds together: mma, ldmatrix, stmatrix, movmatrix.
//
// In the fragments of the PTX ISA, lane 4 g + t has elements of row g (of A, C and D) or column g (of B). A lane
// collects the two rows and the two columns that its results need by shuffles, and calculates alone.
#include "address.h"
#include "forms.h"
#include "math.h"
#include "warp.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;
using Registers = std::vector<Value *>;

/// Shape and types of a product of matrices.
struct Product {
    unsigned rows, columns, depth;
    unsigned bits;    // of an element of A and B
    Type left, right; // types of the elements
    bool tf32;
    Type result;
    unsigned per_register() const
    {
        return bits < 32 ? 32 / bits : 1;
    }
    unsigned register_bits() const
    {
        return std::max(32u, bits);
    }
    /// Registers that hold what a lane has of the depth of one row or column.
    unsigned along_depth() const
    {
        return depth / (4 * per_register());
    }
};

Value *mask_of_warp(Instruction &i)
{
    return i.b.getInt32(~0u);
}

const Operand &part(Instruction &i, size_t operand, unsigned index, unsigned count)
{
    const Operand &all = i.operand(operand);
    if (count == 1 && all.kind != Operand::VECTOR)
        return all;
    if (all.kind != Operand::VECTOR || all.parts.size() != count)
        i.low.fail(all.at, "expected " + llvm::Twine(count) + " registers in braces");
    return all.parts[index];
}

/// Elements along the depth of a row or column whose registers the lanes from 4 * `group` on have.
Registers collect(Instruction &i, const Product &product, const Registers &own, Value *group, Type element)
{
    Builder &b = i.b;
    const unsigned step = product.per_register();
    Registers elements(product.depth);
    for (unsigned t = 0; t < 4; t++) {
        Value *from = b.CreateAdd(b.CreateShl(group, 2), b.getInt32(t));
        for (unsigned n = 0; n < own.size(); n++) {
            Value *found = value_of_lane(i, mask_of_warp(i), own[n], from);
            for (unsigned e = 0; e < step; e++) {
                Value *bits = b.CreateTrunc(b.CreateLShr(found, e * product.bits % product.register_bits()),
                                            b.getIntNTy(product.bits));
                if (product.tf32)
                    bits = b.CreateAnd(bits, 0xffffe000);
                elements[n * 4 * step + t * step + e] =
                    element.is_float() ? widen(b, bits, element) : extend(b, bits, 32, element.is_signed());
            }
        }
    }
    return elements;
}

Value *dot(Instruction &i, const Product &product, const Registers &left, const Registers &right, Value *sum)
{
    Builder &b = i.b;
    for (unsigned k = 0; k < product.depth; k++)
        sum = product.left.is_float()
                  ? b.CreateIntrinsic(llvm::Intrinsic::fma, {sum->getType()}, {left[k], right[k], sum})
                  : b.CreateAdd(sum, b.CreateMul(left[k], right[k]));
    return sum;
}

Product read_product(Instruction &i)
{
    i.need_one({"sync"});
    i.need_one({"aligned"});
    const llvm::StringRef shape = i.need_one({"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", "m8n8k4"});
    Product product{16, 8, 4, 32, {}, {}, false, {}};
    llvm::StringRef sizes = shape.drop_front();
    sizes.consumeInteger(10, product.rows);
    sizes.substr(sizes.find('k') + 1).getAsInteger(10, product.depth);
    i.need_one({"row"});
    i.need_one({"col"});
    const bool saturates = i.take("satfinite");
    product.tf32 = i.take("tf32") && i.take("tf32");
    product.result = i.need_type();
    if (product.tf32) {
        product.left = product.right = {Type::FLOAT, 32, 1};
    } else {
        product.left = i.need_type();
        product.right = i.need_type();
    }
    product.bits = product.left.bits;
    const Type addend = i.need_type();
    const bool known = (product.left.bits == 64 || (product.rows == 16 && (product.tf32 || product.left.bits < 32))) &&
                       addend.kind == product.result.kind && addend.bits == product.result.bits &&
                       product.left.bits == product.right.bits && product.along_depth() > 0 &&
                       product.left.is_float() == product.right.is_float() &&
                       product.left.is_float() == product.result.is_float() && product.result.lanes == 1 &&
                       (product.left.bits == 64) == (product.result.bits == 64) &&
                       (product.result.is_float() || product.result.bits == 32);
    if (!known || saturates)
        i.refuse();
    return product;
}

/// The lane's elements of D: rows g and g + 8, columns 2 t and 2 t + 1.
void lower_mma(Instruction &i)
{
    Builder &b = i.b;
    const Product product = read_product(i);
    const unsigned halves = product.rows / 8, along = product.along_depth();
    Value *lane = lane_number(i), *group = b.CreateLShr(lane, 2), *pair = b.CreateShl(b.CreateAnd(lane, 3), 1);
    Registers rows[2], columns[2];
    for (unsigned half = 0; half < halves; half++) {
        Registers own;
        for (unsigned n = 0; n < along; n++)
            own.push_back(i.low.bits(part(i, 1, n * halves + half, along * halves), product.register_bits()));
        rows[half] = collect(i, product, own, group, product.left);
    }
    Registers own;
    for (unsigned n = 0; n < along; n++)
        own.push_back(i.low.bits(part(i, 2, n, along), product.register_bits()));
    for (unsigned n = 0; n < 2; n++)
        columns[n] = collect(i, product, own, b.CreateAdd(pair, b.getInt32(n)), product.right);
    const bool packed = product.result.bits == 16;
    const unsigned registers = packed ? halves : 2 * halves;
    const Type type = packed ? Type{product.result.kind, 16, 2} : product.result;
    for (unsigned half = 0; half < halves; half++) {
        Registers sums;
        for (unsigned n = 0; n < 2; n++) {
            const Operand &from = part(i, 3, packed ? half : 2 * half + n, registers);
            Value *addend = type.is_float() ? i.low.lanes(from, type)[packed ? n : 0] : i.low.bits(from, 32);
            sums.push_back(dot(i, product, rows[half], columns[n], addend));
        }
        for (unsigned n = 0; n < (packed ? 1u : 2u); n++) {
            const Operand &to = part(i, 0, packed ? half : 2 * half + n, registers);
            if (packed)
                i.low.write_lanes(to, sums, type);
            else if (type.is_float())
                i.low.write_lanes(to, {sums[n]}, type);
            else
                i.low.write(to, sums[n], type);
        }
    }
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
    Registers results;
    for (unsigned m = 0; m < count; m++) {
        Value *given = loads ? nullptr : i.low.bits(part(i, 1, m, count), 32), *result = nullptr;
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
        i.low.write(part(i, 0, m, count), results[m], type);
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
