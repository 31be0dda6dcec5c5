// Matrices of a warp in fragments: wmma.load, wmma.store, wmma.mma.
#include "address.h"
#include "forms.h"
#include "fragment.h"
#include "matrix.h"
#include "warp.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

const Type HALF{Type::FLOAT, 16, 1};
const Type SINGLE{Type::FLOAT, 32, 1};

Shape take_shape(Instruction &i)
{
    llvm::StringRef sizes =
        i.need_one({"m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128"});
    Shape shape{};
    for (unsigned *size : {&shape.rows, &shape.columns, &shape.depth}) {
        sizes = sizes.drop_front();
        sizes.consumeInteger(10, *size);
    }
    return shape;
}

/// Depth of the shapes that there are for elements of A and B.
unsigned depth_of(Type element, bool tf32)
{
    if (tf32)
        return 8;
    return element.bits == 64 ? 4 : element.bits == 1 ? 128 : element.bits == 4 ? 32 : 16;
}

void take_synchronisation(Instruction &i)
{
    i.need_one({"sync"});
    i.need_one({"aligned"});
}

/// Where the lines of a matrix are in memory.
struct Lines {
    Value *begin;  // address of the first
    Value *stride; // elements from line to line, 64 bits
    unsigned bits; // of an element

    Value *place(Builder &b, Value *line, Value *element) const
    {
        Value *index = b.CreateAdd(b.CreateMul(line, stride), element);
        Value *bytes = b.CreateLShr(b.CreateMul(index, b.getInt64(bits)), 3);
        return b.CreateGEP(b.getInt8Ty(), begin, bytes);
    }
    llvm::Align align() const
    {
        return llvm::Align(std::max(1u, bits / 8));
    }
};

Lines lines_of(Instruction &i, size_t address, Space space, unsigned bits, unsigned length, size_t stride)
{
    Builder &b = i.b;
    Value *given = i.size() > stride ? i.in(stride, {Type::UNSIGNED, 32, 1}) : b.getInt32(length);
    return {pointer(i, address, space), b.CreateZExt(given, b.getInt64Ty()), bits};
}

/// Numbers of the lane: g and t of lane 4 g + t.
struct Lane {
    explicit Lane(Instruction &i)
    {
        Value *lane = i.b.CreateZExt(lane_number(i), i.b.getInt64Ty());
        group = i.b.CreateLShr(lane, 2);
        within = i.b.CreateAnd(lane, 3);
    }
    Value *group, *within;
};

/// Register of A or B: loaded at once if its elements follow each other in memory.
Value *load_register(Builder &b, const OperandFragment &fragment, unsigned number, const Lines &lines, const Lane &lane,
                     bool contiguous)
{
    const unsigned step = fragment.per_register();
    Value *line = b.CreateAdd(lane.group, b.getInt64(fragment.line(number)));
    Value *depth = b.CreateAdd(b.CreateMul(lane.within, b.getInt64(step)), b.getInt64(fragment.along(number)));
    llvm::Type *whole = b.getIntNTy(fragment.register_bits());
    if (contiguous)
        return b.CreateAlignedLoad(whole, lines.place(b, line, depth), lines.align());
    Value *value = nullptr;
    for (unsigned n = 0; n < step; n++) {
        Value *place = lines.place(b, b.CreateAdd(depth, b.getInt64(n)), line);
        Value *element = b.CreateZExt(b.CreateAlignedLoad(b.getIntNTy(lines.bits), place, lines.align()), whole);
        value = n == 0 ? element : b.CreateOr(value, b.CreateShl(element, n * lines.bits));
    }
    return value;
}

/// Elements of A and B by the names that only matrices have, or by those of other types.
Type take_element(Instruction &i, bool &tf32)
{
    tf32 = i.take("tf32");
    if (tf32)
        return SINGLE;
    const llvm::StringRef small = i.take_one({"s4", "u4", "b1"});
    if (!small.empty())
        return {small[0] == 's' ? Type::SIGNED : Type::UNSIGNED, unsigned(small[1] - '0'), 1};
    return i.need_type();
}

bool is_operand_type(Type element, bool tf32)
{
    const bool is_integer = element.kind == Type::SIGNED || element.kind == Type::UNSIGNED;
    return tf32 || (is_integer && element.bits <= 8) ||
           (element.lanes == 1 && element.is_float() && (element.bits == 16 || element.bits == 64));
}

/// Elements of f16 are in eight registers, whatever the shape is: again from the first on if they fill fewer.
unsigned written_registers(const OperandFragment &fragment, Type element)
{
    return element.kind == Type::FLOAT && element.bits == 16 ? 8 : fragment.registers();
}

void load_operand(Instruction &i, bool is_a, bool by_rows, Shape shape, Space space)
{
    bool tf32 = false;
    const Type element = take_element(i, tf32);
    const OperandFragment fragment(shape, is_a, element.bits);
    const bool contiguous = is_a == by_rows;
    if (!is_operand_type(element, tf32) || depth_of(element, tf32) != shape.depth || (element.bits < 8 && !contiguous))
        i.refuse();
    const Lines memory = lines_of(i, 1, space, element.bits, contiguous ? shape.depth : fragment.lines, 2);
    synchronise_warp(i, i.b.getInt32(~0u));
    const Lane lane(i);
    Values loaded;
    for (unsigned n = 0; n < fragment.registers(); n++)
        loaded.push_back(load_register(i.b, fragment, n, memory, lane, contiguous));
    const unsigned count = written_registers(fragment, element);
    for (unsigned n = 0; n < count; n++)
        i.low.write(i.element(i.operand(0), n, count), loaded[n % loaded.size()],
                    {Type::BITS, fragment.register_bits(), 1});
}

/// Type of C and D in memory.
Type take_sum_type(Instruction &i, Shape shape)
{
    const Type type = i.need_type();
    const bool fits =
        type.kind == Type::FLOAT && type.lanes == 1
            ? (type.bits == 64 ? shape.depth == 4 : shape.depth == 16 || (shape.depth == 8 && type.bits == 32))
            : type.kind == Type::SIGNED && type.bits == 32 && (shape.depth >= 16);
    if (!fits)
        i.refuse();
    return type;
}

/// Accesses of the elements of C or D, each of which is in one place of memory.
class SumAccess
{
  public:
    SumAccess(Instruction &i, size_t address, Shape shape, bool by_rows, Space space)
        : b_(i.b), shape_(shape), by_rows_(by_rows), type_(take_sum_type(i, shape)),
          memory_(lines_of(i, address, space, type_.bits, by_rows ? shape.columns : shape.rows, 2))
    {
        synchronise_warp(i, b_.getInt32(~0u));
        lane_.emplace(i);
    }
    Value *place(unsigned element)
    {
        const SumPlace at(shape_, element);
        Value *left = b_.CreateAdd(lane_->group, b_.getInt64(at.left));
        Value *right = b_.CreateAdd(b_.CreateShl(lane_->within, 1), b_.getInt64(at.right));
        const bool left_first = shape_.is_transposed() != by_rows_;
        return memory_.place(b_, left_first ? left : right, left_first ? right : left);
    }
    llvm::Align align() const
    {
        return memory_.align();
    }
    Type type() const
    {
        return type_;
    }
    unsigned per_register() const
    {
        return type_.bits == 16 ? 2 : 1;
    }
    unsigned registers() const
    {
        return shape_.sums() / per_register();
    }
    unsigned register_bits() const
    {
        return type_.bits * per_register();
    }

  private:
    Builder &b_;
    Shape shape_;
    bool by_rows_;
    Type type_;
    Lines memory_;
    std::optional<Lane> lane_;
};

void load_sums(Instruction &i, bool by_rows, Shape shape, Space space)
{
    Builder &b = i.b;
    SumAccess access(i, 1, shape, by_rows, space);
    llvm::Type *whole = b.getIntNTy(access.register_bits());
    for (unsigned n = 0; n < access.registers(); n++) {
        Value *value = llvm::ConstantInt::get(whole, 0);
        for (unsigned e = 0; e < access.per_register(); e++) {
            Value *place = access.place(n * access.per_register() + e);
            Value *element = b.CreateAlignedLoad(b.getIntNTy(access.type().bits), place, access.align());
            value = b.CreateOr(value, b.CreateShl(b.CreateZExt(element, whole), e * access.type().bits));
        }
        i.low.write(i.element(i.operand(0), n, access.registers()), value, {Type::BITS, access.register_bits(), 1});
    }
}

void lower_load(Instruction &i)
{
    const llvm::StringRef matrix = i.need_one({"a", "b", "c"});
    take_synchronisation(i);
    const bool by_rows = i.need_one({"row", "col"}) == "row";
    const Shape shape = take_shape(i);
    const Space space = take_space(i);
    if (matrix == "c")
        load_sums(i, by_rows, shape, space);
    else
        load_operand(i, matrix == "a", by_rows, shape, space);
}

void lower_store(Instruction &i)
{
    Builder &b = i.b;
    i.need_one({"d"});
    take_synchronisation(i);
    const bool by_rows = i.need_one({"row", "col"}) == "row";
    const Shape shape = take_shape(i);
    SumAccess access(i, 0, shape, by_rows, take_space(i));
    for (unsigned n = 0; n < access.registers(); n++) {
        Value *value = i.low.bits(i.element(i.operand(1), n, access.registers()), access.register_bits());
        for (unsigned e = 0; e < access.per_register(); e++) {
            Value *element =
                b.CreateTrunc(b.CreateLShr(value, e * access.type().bits), b.getIntNTy(access.type().bits));
            b.CreateAlignedStore(element, access.place(n * access.per_register() + e), access.align());
        }
    }
    synchronise_warp(i, b.getInt32(~0u));
}

/// Types of a product, and of C.
struct ProductTypes {
    Product product;
    Type addend, result;
};

/// Products of f16 name the types of D and C only.
ProductTypes take_types(Instruction &i, Shape shape)
{
    Product product{shape.rows == 8 && shape.columns == 8 ? 8u : 16u,
                    8,
                    shape.depth,
                    0,
                    {},
                    {},
                    false,
                    {},
                    i.take("satfinite"),
                    false};
    const Type result = i.need_type();
    Type addend{};
    if (take_own_types(i, product)) {
        addend = i.need_type();
    } else if (addend = i.need_type(); addend.kind == Type::FLOAT && addend.bits < 64) {
        product.left = product.right = HALF;
    } else {
        product.left = addend;
        product.right = i.need_type();
        addend = i.need_type();
    }
    product.bits = product.left.bits;
    product.result = result.bits == addend.bits ? result : SINGLE;
    return {product, addend, result};
}

bool is_half_or_single(Type type)
{
    return type.kind == Type::FLOAT && type.lanes == 1 && (type.bits == 16 || type.bits == 32);
}

bool exists(const ProductTypes &types, Shape shape)
{
    const Product &p = types.product;
    if (p.left.kind != p.right.kind || p.left.bits != p.right.bits || depth_of(p.left, p.tf32) != shape.depth)
        return false;
    if (!is_operand_type(p.left, p.tf32) || (p.saturates && (p.left.is_float() || p.left.bits == 1)))
        return false;
    if (p.left.kind == Type::FLOAT && p.left.bits == 16)
        return is_half_or_single(types.result) && is_half_or_single(types.addend);
    const Type sum = p.left.bits == 64 ? p.left : p.left.is_float() ? SINGLE : Type{Type::SIGNED, 32, 1};
    auto is_sum = [&](Type type) { return type.kind == sum.kind && type.bits == sum.bits && type.lanes == 1; };
    return is_sum(types.result) && is_sum(types.addend);
}

/// Values of sums in another type.
Values converted(Builder &b, const Values &from, Type type, Type to)
{
    if (type.bits == to.bits)
        return from;
    Values values;
    for (Value *word : from)
        for (unsigned n = 0; n < 32 / type.bits; n++) {
            Value *element = b.CreateTrunc(b.CreateLShr(word, n * type.bits), b.getIntNTy(type.bits));
            values.push_back(b.CreateZExt(narrow(b, widen(b, element, type), to), b.getInt32Ty()));
        }
    if (to.bits == 32)
        return values;
    Values packed;
    for (size_t n = 0; n < values.size(); n += 2)
        packed.push_back(b.CreateOr(values[n], b.CreateShl(values[n + 1], 16)));
    return packed;
}

unsigned sum_registers(Shape shape, Type type)
{
    return type.bits == 16 ? shape.sums() / 2 : shape.sums();
}

Values operand_of(Instruction &i, size_t operand, const OperandFragment &fragment, Type element)
{
    return registers_of(i, operand, written_registers(fragment, element), fragment.register_bits());
}

/// Part `tile` of registers, each of `size`; the first if there is one only.
Values tile_of(const Values &all, unsigned tile, unsigned tiles, size_t size)
{
    const auto begin = all.begin() + long(tiles > 1 ? tile * size : 0);
    return Values(begin, begin + long(size));
}

/// Products of the tiles of A and B, in their order, with their parts of C.
Values multiply_tiles(Instruction &i, Shape shape, const Product &product, const Values &sums)
{
    OperandFragment left(shape, true, product.bits), right(shape, false, product.bits);
    Values lefts = operand_of(i, 1, left, product.left), rights = operand_of(i, 2, right, product.right);
    if (shape.is_transposed()) {
        std::swap(left, right);
        std::swap(lefts, rights);
    }
    Values results;
    const unsigned tiles = shape.tiles();
    for (unsigned tile = 0; tile < tiles; tile++) {
        const Values part = multiply(i, product, tile_of(lefts, tile, left.tiles(), left.tile_registers()),
                                     tile_of(rights, tile, right.tiles(), right.tile_registers()),
                                     tile_of(sums, tile, tiles, sums.size() / tiles));
        results.insert(results.end(), part.begin(), part.end());
    }
    return results;
}

void lower_product(Instruction &i)
{
    take_synchronisation(i);
    i.need_one({"row", "col"});
    i.need_one({"row", "col"});
    const Shape shape = take_shape(i);
    const ProductTypes types = take_types(i, shape);
    i.take("rn");
    if (!exists(types, shape))
        i.refuse();
    const Values addends = registers_of(i, 3, sum_registers(shape, types.addend), std::max(32u, types.addend.bits));
    const Values sums = converted(i.b, addends, types.addend, types.product.result);
    Values results = multiply_tiles(i, shape, types.product, sums);
    results = converted(i.b, results, types.product.result, types.result);
    const unsigned count = unsigned(results.size());
    for (unsigned n = 0; n < count; n++)
        i.low.write(i.element(i.operand(0), n, count), results[n], {Type::BITS, std::max(32u, types.result.bits), 1});
}

void lower_wmma(Instruction &i)
{
    if (i.take("load"))
        lower_load(i);
    else if (i.take("store"))
        lower_store(i);
    else if (i.take("mma") && i.size() == 4)
        lower_product(i);
    else
        i.refuse();
}

} // namespace

llvm::ArrayRef<Form> wmma_forms()
{
    static const Form forms[] = {{"wmma", 2, 4, lower_wmma}};
    return forms;
}

} // namespace vgc::ptx
