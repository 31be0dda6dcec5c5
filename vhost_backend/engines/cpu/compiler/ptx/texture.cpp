// Textures by their objects (unified mode): tex, tld4, txq.
#include "forms.h"
#include "sampling.h"

#include <cstddef>

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// Coordinates of a geometry, in their order; what follows them is not used.
struct Geometry {
    llvm::StringRef name;
    vgc_sample_shape shape;
    unsigned axes;
    bool has_layer;
    unsigned coordinates; // elements of the vector
};

const Geometry GEOMETRIES[] = {
    {"1d", VGC_SAMPLE_1D, 1, false, 1},     {"2d", VGC_SAMPLE_2D, 2, false, 2}, {"3d", VGC_SAMPLE_3D, 3, false, 4},
    {"a1d", VGC_SAMPLE_1D, 1, true, 2},     {"a2d", VGC_SAMPLE_2D, 2, true, 4}, {"cube", VGC_SAMPLE_CUBE, 3, false, 4},
    {"acube", VGC_SAMPLE_CUBE, 3, true, 4},
};

const Type WORD{Type::BITS, 32, 1};

const Geometry &take_geometry(Instruction &i)
{
    for (const Geometry &geometry : GEOMETRIES)
        if (i.take(geometry.name))
            return geometry;
    i.fail("expected one of .1d, .2d, .3d, .a1d, .a2d, .cube, .acube");
}

Value *real(Instruction &i, const Operand &operand)
{
    return i.b.CreateBitCast(i.low.bits(operand, 32), i.b.getFloatTy());
}

/// Middle of texel number `operand` along an axis, as a coordinate.
Value *middle(Instruction &i, Value *object, const Operand &operand, unsigned axis)
{
    llvm::Type *type = i.b.getFloatTy();
    Value *number = i.b.CreateSIToFP(i.low.bits(operand, 32), type);
    Value *scale = i.b.CreateLoad(type, descriptor_field(i, object, offsetof(vgc_texture, scale) + 4 * axis));
    return i.b.CreateFDiv(i.b.CreateFAdd(number, llvm::ConstantFP::get(type, 0.5)), scale);
}

void take_coordinates(Instruction &i, Value *object, const Geometry &geometry, bool whole, Fetch &fetch)
{
    const Operand &at = i.operand(1).parts[1];
    auto coordinate = [&](unsigned index) -> const Operand & { return i.element(at, index, geometry.coordinates); };
    const unsigned first = geometry.has_layer ? 1 : 0;
    if (geometry.has_layer)
        fetch.layer = i.low.bits(coordinate(0), 32);
    if (fetch.how == VGC_SAMPLE_FETCH)
        fetch.layer = i.low.bits(coordinate(0), 32);
    else
        for (unsigned axis = 0; axis < geometry.axes; axis++) {
            const Operand &operand = coordinate(first + axis);
            fetch.at[axis] = whole ? middle(i, object, operand, axis) : real(i, operand);
        }
}

void take_derivatives(Instruction &i, const Geometry &geometry, size_t index, Value *(&derivatives)[3])
{
    const unsigned count = geometry.axes == 3 ? 4 : geometry.axes;
    for (unsigned axis = 0; axis < geometry.axes; axis++)
        derivatives[axis] = real(i, i.element(i.operand(index), axis, count));
}

/// Type of a texel's components and of the coordinates.
struct Types {
    Type result;
    bool whole; // coordinates are integers
    unsigned registers;
};

Types take_types(Instruction &i)
{
    const bool halves = i.take("v2");
    if (!halves)
        i.need_one({"v4"});
    const Type result = i.need_type();
    const llvm::StringRef coordinate = i.need_one({"f32", "s32"});
    const bool fits = halves ? result.kind == Type::FLOAT && result.bits == 16 && result.lanes == 2
                             : result.lanes == 1 && ((result.bits == 32 && result.kind != Type::BITS) ||
                                                     (result.bits == 16 && result.kind == Type::FLOAT));
    if (!fits)
        i.refuse();
    return {result, coordinate == "s32", halves ? 2u : 4u};
}

void write_texel(Instruction &i, Value *channels, const Types &types)
{
    llvm::IRBuilder<> &b = i.b;
    for (unsigned n = 0; n < types.registers; n++) {
        const Operand &to = i.element(i.operand(0), n, types.registers);
        if (types.result.bits == 32) {
            i.low.write(to, b.CreateExtractElement(channels, n), WORD);
            continue;
        }
        std::vector<Value *> lanes;
        for (unsigned lane = 0; lane < types.result.lanes; lane++)
            lanes.push_back(
                b.CreateBitCast(b.CreateExtractElement(channels, n * types.result.lanes + lane), b.getFloatTy()));
        i.low.write_lanes(to, lanes, types.result);
    }
}

void lower_tex(Instruction &i)
{
    const llvm::StringRef level = i.take_one({"level", "grad", "base"});
    const Geometry &geometry = take_geometry(i);
    const Types types = take_types(i);
    Value *object = object_of(i, i.operand(1), 2);
    Fetch fetch{geometry.shape, VGC_SAMPLE_PLAIN};
    const size_t operands = level == "level" ? 3 : level == "grad" ? 4 : 2;
    if (level == "level")
        fetch.how = VGC_SAMPLE_LOD;
    else if (level == "grad")
        fetch.how = VGC_SAMPLE_GRADIENT;
    else if (types.whole && geometry.name == "1d")
        fetch.how = VGC_SAMPLE_FETCH;
    if (i.size() != operands)
        i.fail("offsets of texels and comparisons of depths are not supported");
    take_coordinates(i, object, geometry, types.whole, fetch);
    if (fetch.how == VGC_SAMPLE_LOD)
        fetch.detail =
            types.whole ? i.b.CreateSIToFP(i.low.bits(i.operand(2), 32), i.b.getFloatTy()) : real(i, i.operand(2));
    if (fetch.how == VGC_SAMPLE_GRADIENT) {
        take_derivatives(i, geometry, 2, fetch.dx);
        take_derivatives(i, geometry, 3, fetch.dy);
    }
    write_texel(i, sample_texture(i, object, fetch, types.result.is_float()), types);
}

void lower_tld4(Instruction &i)
{
    const llvm::StringRef channel = i.need_one({"r", "g", "b", "a"});
    const Geometry &geometry = take_geometry(i);
    const Types types = take_types(i);
    if (geometry.name != "2d" || types.whole || types.registers != 4)
        i.refuse();
    Value *object = object_of(i, i.operand(1), 2);
    Fetch fetch{geometry.shape, VGC_SAMPLE_GATHER};
    take_coordinates(i, object, geometry, false, fetch);
    fetch.layer = i.b.getInt32(unsigned(llvm::StringRef("rgba").find(channel)));
    write_texel(i, sample_texture(i, object, fetch, types.result.is_float()), types);
}

/// Member of a descriptor that a query asks for.
struct Query {
    llvm::StringRef name;
    size_t offset;
};

/// txq and suq. The descriptor of a surface has the slices of 3-D ones as layers.
void lower_query(Instruction &i)
{
    const Query queries[] = {
        {"width", offsetof(vgc_texture, width)},
        {"height", offsetof(vgc_texture, height)},
        {"depth", i.mnemonic() == "suq" ? offsetof(vgc_texture, layers) : offsetof(vgc_texture, depth)},
        {"array_size", offsetof(vgc_texture, layers)},
        {"num_mipmap_levels", offsetof(vgc_texture, levels)},
    };
    const bool normalised = i.take("normalized_coords");
    i.need_one({"b32"});
    Value *object = object_of(i, i.operand(1), 1);
    auto load = [&](llvm::Type *type, size_t offset) {
        return i.b.CreateLoad(type, descriptor_field(i, object, offset));
    };
    if (normalised) {
        Value *flags = load(i.b.getInt8Ty(), offsetof(vgc_texture, flags));
        Value *bit = i.b.CreateAnd(flags, uint64_t(VGC_READ_NORMALISED));
        return i.low.write(i.operand(0), i.b.CreateZExt(bit, i.b.getInt32Ty()), WORD);
    }
    for (const Query &query : queries)
        if (i.take(query.name))
            return i.low.write(i.operand(0), load(i.b.getInt32Ty(), query.offset), WORD);
    i.fail("expected one of .width, .height, .depth, .array_size, .num_mipmap_levels, .normalized_coords");
}

} // namespace

llvm::ArrayRef<Form> texture_forms()
{
    static const Form forms[] = {
        {"tex", 2, 6, lower_tex},
        {"tld4", 2, 2, lower_tld4},
        {"txq", 2, 2, lower_query},
        {"suq", 2, 2, lower_query},
    };
    return forms;
}

} // namespace vgc::ptx
