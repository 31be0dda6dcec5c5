#include "unit_calls.h"
#include "ptx/module.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace vgc
{
namespace
{

const unsigned PROMOTED_BITS = 32; // PTX passes smaller integers as these
const unsigned POINTER_BITS = 64;

/// Bits of a type by value; 0 for those that units of both kinds do not pass alike.
unsigned bits_of(const llvm::Type *type)
{
    return type->isPointerTy() ? POINTER_BITS : type->isVectorTy() ? 0 : type->getPrimitiveSizeInBits();
}

/// How one kind of unit passes an argument or result.
struct Passed {
    llvm::Type *type;
    bool is_signed; // extended by its sign
    bool is_ptx;
    bool is_memory; // a struct, whose address is passed

    bool is_simple() const
    {
        return bits_of(type) != 0 && !is_memory && !(is_ptx && type->isPointerTy());
    }
    bool fits(const Passed &other) const
    {
        const unsigned bits = bits_of(type), others = bits_of(other.type);
        const unsigned in_ptx = is_ptx ? bits : others, in_cuda = is_ptx ? others : bits;
        return is_simple() && other.is_simple() &&
               (in_ptx == in_cuda || (in_ptx == PROMOTED_BITS && in_cuda < PROMOTED_BITS));
    }
};

Passed parameter(const llvm::Function &function, unsigned index)
{
    const bool is_memory = function.hasParamAttribute(index, llvm::Attribute::ByVal) ||
                           function.hasParamAttribute(index, llvm::Attribute::StructRet);
    return {function.getFunctionType()->getParamType(index), function.hasParamAttribute(index, llvm::Attribute::SExt),
            ptx::is_from_ptx(function), is_memory};
}

Passed result(const llvm::Function &function)
{
    return {function.getReturnType(), function.hasRetAttribute(llvm::Attribute::SExt), ptx::is_from_ptx(function),
            false};
}

/// On a GPU, whoever expects a result that the function lacks finds whatever the register has.
bool results_fit(const Passed &one, const Passed &other)
{
    return one.type->isVoidTy() || other.type->isVoidTy() || one.fits(other);
}

bool fit(const llvm::Function &one, const llvm::Function &other)
{
    if (one.arg_size() != other.arg_size() || one.isVarArg() || other.isVarArg() ||
        !results_fit(result(one), result(other)))
        return false;
    for (unsigned i = 0; i < one.arg_size(); i++)
        if (!parameter(one, i).fits(parameter(other, i)))
            return false;
    return true;
}

/// A value as the other kind of unit has it.
llvm::Value *converted(llvm::IRBuilder<> &b, llvm::Value *value, const Passed &from, const Passed &to)
{
    if (from.type->isPointerTy())
        value = b.CreatePtrToInt(value, b.getIntNTy(POINTER_BITS));
    else
        value = b.CreateBitCast(value, b.getIntNTy(bits_of(from.type)));
    llvm::Type *integer = b.getIntNTy(bits_of(to.type));
    value = from.is_signed ? b.CreateSExtOrTrunc(value, integer) : b.CreateZExtOrTrunc(value, integer);
    return to.type->isPointerTy() ? b.CreateIntToPtr(value, to.type) : b.CreateBitCast(value, to.type);
}

/// Attributes of parameters and results, by which code generation extends them.
llvm::AttributeList extensions(const llvm::Function &function)
{
    return function.getAttributes().removeFnAttributes(function.getContext());
}

} // namespace

bool adapt_calls(llvm::Function &declared, const llvm::Function &definition)
{
    if (!fit(declared, definition))
        return false;
    llvm::Module &module = *declared.getParent();
    auto *adapter = llvm::Function::Create(declared.getFunctionType(), llvm::GlobalValue::InternalLinkage,
                                           declared.getName() + ".adapted", module);
    adapter->copyAttributesFrom(&declared);
    declared.replaceAllUsesWith(adapter);
    auto *target = llvm::Function::Create(definition.getFunctionType(), llvm::GlobalValue::ExternalLinkage, "", module);
    target->takeName(&declared);
    target->setAttributes(extensions(definition));
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(module.getContext(), "", adapter));
    std::vector<llvm::Value *> arguments;
    for (unsigned i = 0; i < adapter->arg_size(); i++)
        arguments.push_back(converted(b, adapter->getArg(i), parameter(declared, i), parameter(definition, i)));
    llvm::CallInst *call = b.CreateCall(target, arguments);
    call->setAttributes(extensions(definition));
    if (adapter->getReturnType()->isVoidTy())
        b.CreateRetVoid();
    else if (call->getType()->isVoidTy())
        b.CreateRet(llvm::Constant::getNullValue(adapter->getReturnType()));
    else
        b.CreateRet(converted(b, call, result(definition), result(declared)));
    declared.eraseFromParent();
    return true;
}

} // namespace vgc
