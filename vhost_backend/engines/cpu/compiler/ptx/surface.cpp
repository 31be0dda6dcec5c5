// Surfaces by their objects: suld, sust. The first coordinate is in bytes, as in CUDA C
// (kernels/cpu/include/vgc_surface.h).
#include "address.h"
#include "forms.h"
#include "math.h"
#include "sampling.h"

#include <cstddef>

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// Which elements of the coordinates' vector are x, y and the slice or layer.
struct Geometry {
    llvm::StringRef name;
    unsigned coordinates;
    int places[3]; // -1: none, it is 0
};

const Geometry GEOMETRIES[] = {
    {"1d", 1, {0, -1, -1}}, {"2d", 2, {0, 1, -1}}, {"3d", 4, {0, 1, 2}}, {"a1d", 2, {1, -1, 0}}, {"a2d", 4, {1, 2, 0}},
};

const Geometry &take_geometry(Instruction &i)
{
    for (const Geometry &geometry : GEOMETRIES)
        if (i.take(geometry.name))
            return geometry;
    i.fail("expected one of .1d, .2d, .3d, .a1d, .a2d");
}

/// What suld and sust have in common.
struct Access {
    explicit Access(Instruction &i) : geometry((i.need_one({"b"}), take_geometry(i)))
    {
        take_cache_hints(i);
        const llvm::StringRef vector = i.take_one({"v2", "v4"});
        count = vector.empty() ? 1 : unsigned(vector[1] - '0');
        const std::optional<Type> found = i.take_type();
        if (!found || found->kind != Type::BITS || found->width() * count > 128)
            i.refuse();
        type = *found;
        const llvm::StringRef outside = i.need_one({"trap", "clamp", "zero"});
        mode = outside == "zero" ? VGC_BOUNDARY_ZERO : outside == "clamp" ? VGC_BOUNDARY_CLAMP : VGC_BOUNDARY_TRAP;
    }
    const Geometry &geometry;
    unsigned count;
    Type type;
    int mode;

    unsigned bytes() const
    {
        return count * type.width() / 8;
    }
};

/// A surface, and where it is accessed.
class Place
{
  public:
    Place(Instruction &i, const Operand &operand, const Access &access)
        : i_(i), b_(i.b), access_(access), object_(object_of(i, operand, 2))
    {
        for (unsigned axis = 0; axis < 3; axis++) {
            const int from = access.geometry.places[axis];
            at_[axis] = b_.getInt32(0);
            if (from >= 0)
                at_[axis] = i.low.bits(i.element(operand.parts[1], unsigned(from), access.geometry.coordinates), 32);
        }
    }
    /// Address of the accessed bytes; 0 if the access has no effect.
    Value *address()
    {
        llvm::BasicBlock *within = i_.low.new_block("ptx.within"), *outside = i_.low.new_block("ptx.outside"),
                         *after = i_.low.new_block("ptx.place");
        b_.CreateCondBr(is_inside(), within, outside);
        b_.SetInsertPoint(within);
        Value *inner = address_inside();
        b_.CreateBr(after);
        b_.SetInsertPoint(outside);
        Value *outer = i_.low.call_builtin(
            "__vgc_surface_outside", b_.getInt64Ty(),
            {object_, at_[0], at_[1], at_[2], b_.getInt32(access_.bytes()), b_.getInt32(unsigned(access_.mode))});
        b_.CreateBr(after);
        b_.SetInsertPoint(after);
        llvm::PHINode *found = b_.CreatePHI(b_.getInt64Ty(), 2);
        found->addIncoming(inner, within);
        found->addIncoming(outer, outside);
        return found;
    }

  private:
    Value *field(llvm::Type *type, size_t offset)
    {
        return b_.CreateLoad(type, descriptor_field(i_, object_, offset));
    }
    Value *wide(Value *value)
    {
        return b_.CreateZExt(value, b_.getInt64Ty());
    }
    Value *is_inside()
    {
        llvm::Type *word = b_.getInt32Ty();
        Value *row = b_.CreateMul(wide(field(word, offsetof(vgc_texture, width))),
                                  wide(field(b_.getInt8Ty(), offsetof(vgc_texture, raw))));
        return b_.CreateAnd({
            b_.CreateICmpEQ(field(word, offsetof(vgc_texture, magic)), b_.getInt32(VGC_SURFACE_MAGIC)),
            b_.CreateICmpSGE(at_[0], b_.getInt32(0)),
            b_.CreateICmpULE(b_.CreateAdd(wide(at_[0]), b_.getInt64(access_.bytes())), row),
            b_.CreateICmpULT(at_[1], field(word, offsetof(vgc_texture, height))),
            b_.CreateICmpULT(at_[2], field(word, offsetof(vgc_texture, layers))),
        });
    }
    Value *address_inside()
    {
        llvm::Type *type = b_.getInt64Ty();
        Value *row = b_.CreateMul(wide(at_[1]), field(type, offsetof(vgc_texture, pitch)));
        Value *slice = b_.CreateMul(wide(at_[2]), field(type, offsetof(vgc_texture, slice)));
        Value *begin = b_.CreateAdd(field(type, offsetof(vgc_texture, data)), wide(at_[0]));
        return b_.CreateAdd(begin, b_.CreateAdd(row, slice));
    }

    Instruction &i_;
    Builder &b_;
    const Access &access_;
    Value *object_, *at_[3];
};

/// Runs `use` for each of the elements at the place, in a block that is left out if the access has no effect.
template <class Use> void if_there(Instruction &i, const Access &access, Value *place, Use use)
{
    Builder &b = i.b;
    llvm::BasicBlock *there = i.low.new_block("ptx.there"), *after = i.low.new_block("ptx.accessed");
    b.CreateCondBr(b.CreateICmpNE(place, b.getInt64(0)), there, after);
    b.SetInsertPoint(there);
    Value *base = b.CreateIntToPtr(place, b.getPtrTy());
    for (unsigned n = 0; n < access.count; n++)
        use(n, b.CreateConstGEP1_64(b.getInt8Ty(), base, n * access.type.width() / 8));
    b.CreateBr(after);
    b.SetInsertPoint(after);
}

void lower_suld(Instruction &i)
{
    Builder &b = i.b;
    const Access access(i);
    Value *place = Place(i, i.operand(1), access).address();
    llvm::Type *type = b.getIntNTy(access.type.width());
    std::vector<llvm::AllocaInst *> loaded;
    for (unsigned n = 0; n < access.count; n++)
        loaded.push_back(i.low.local(type));
    if_there(i, access, place, [&](unsigned n, Value *from) {
        b.CreateStore(b.CreateAlignedLoad(type, from, llvm::Align(1)), loaded[n]);
    });
    for (unsigned n = 0; n < access.count; n++)
        i.low.write(i.element(i.operand(0), n, access.count), b.CreateLoad(type, loaded[n]), access.type);
}

void lower_sust(Instruction &i)
{
    const Access access(i);
    Value *place = Place(i, i.operand(0), access).address();
    if_there(i, access, place, [&](unsigned n, Value *to) {
        Value *value = i.low.bits(i.element(i.operand(1), n, access.count), access.type.width());
        i.b.CreateAlignedStore(value, to, llvm::Align(1));
    });
}

} // namespace

llvm::ArrayRef<Form> surface_forms()
{
    static const Form forms[] = {
        {"suld", 2, 2, lower_suld},
        {"sust", 2, 2, lower_sust},
    };
    return forms;
}

} // namespace vgc::ptx
