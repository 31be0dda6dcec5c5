// Calls of functions, and what a function returns.
//
// A parameter that is no array is an integer in IR, one that is an array the address of the caller's variable. A result
// that is an array is written to a variable of the caller, whose address is the first argument.
#include "forms.h"
#include "math.h"

namespace vgc::ptx
{
namespace
{

using llvm::Value;

/// A call's parts.
struct Call {
    const Operand *result = nullptr;
    const Cell *array = nullptr; // that the function writes its result to
    const Operand *callee = nullptr;
    llvm::ArrayRef<Operand> arguments;

    bool returns() const
    {
        return result != nullptr && array == nullptr;
    }
};

Call parts_of(Instruction &i)
{
    Call call;
    size_t next = 0;
    if (i.operand(0).kind == Operand::LIST) {
        if (i.operand(0).parts.size() != 1)
            i.fail("a function has at most one result");
        call.result = &i.operand(0).parts[0];
        const Cell *variable = i.low.variable(*call.result);
        call.array = variable != nullptr && variable->bits == 0 ? variable : nullptr;
        next = 1;
    }
    call.callee = &i.operand(next);
    if (next + 1 < i.size() && i.operand(next + 1).kind == Operand::LIST)
        call.arguments = i.operand(next + 1).parts;
    return call;
}

/// Type of an argument or a result by itself.
llvm::Type *type_of(Instruction &i, const Operand &operand)
{
    const Cell *variable = i.low.variable(operand);
    if (variable != nullptr && variable->bits == 0)
        return i.b.getPtrTy();
    return i.b.getIntNTy(std::max(8u, i.low.width_of(operand)));
}

/// Type of the function, if only its address is known.
llvm::FunctionType *type_of(Instruction &i, const Call &call)
{
    std::vector<llvm::Type *> types;
    if (call.array != nullptr)
        types.push_back(i.b.getPtrTy());
    for (const Operand &operand : call.arguments)
        types.push_back(type_of(i, operand));
    return llvm::FunctionType::get(call.returns() ? type_of(i, *call.result) : i.b.getVoidTy(), types, false);
}

/// Refuses a call that does not fit the function.
void check(Instruction &i, const Call &call, const llvm::FunctionType &type)
{
    const size_t before = call.array != nullptr ? 1 : 0;
    if (before != 0 && (type.getNumParams() == 0 || !type.getParamType(0)->isPointerTy()))
        i.fail("the function's result is not that of the call");
    if (type.getNumParams() != call.arguments.size() + before)
        i.fail("the function has " + llvm::Twine(type.getNumParams() - before) + " parameters");
    if (call.returns() == type.getReturnType()->isVoidTy())
        i.fail("the function's result is not that of the call");
}

/// Argument for a parameter of a type.
Value *argument(Instruction &i, const Operand &operand, llvm::Type *type)
{
    const Cell *variable = i.low.variable(operand);
    const bool is_array = variable != nullptr && variable->bits == 0;
    if (is_array != type->isPointerTy())
        i.low.fail(operand.at, "the argument is not of the parameter's type");
    if (is_array)
        return variable->address;
    if (variable == nullptr)
        return i.low.bits(operand, type->getIntegerBitWidth());
    if (type->getIntegerBitWidth() > variable->bits)
        i.low.fail(operand.at, "the argument is smaller than the parameter");
    return i.b.CreateAlignedLoad(type, variable->address, llvm::Align(1));
}

/// Function that an operand names, or whose address is in a register.
Value *callee_of(Instruction &i, const Operand &operand)
{
    if (const Cell *cell = i.low.function(operand)) {
        if (cell->is_kernel)
            i.low.fail(operand.at, "'" + operand.name + "' is a kernel, which cannot be called");
        return cell->address;
    }
    if (i.low.width_of(operand) != 64)
        i.low.fail(operand.at, "there is no function '" + operand.name + "'");
    return i.b.CreateIntToPtr(i.low.bits(operand, 64), i.b.getPtrTy());
}

/// Writes the value that a call has returned.
void take_result(Instruction &i, const Operand &operand, Value *value)
{
    const unsigned width = value->getType()->getIntegerBitWidth();
    const Cell *variable = i.low.variable(operand);
    if (variable == nullptr)
        return i.low.write(operand, value, {Type::BITS, width, 1});
    if (variable->bits < width)
        i.low.fail(operand.at,
                   "the result has " + llvm::Twine(width) + " bits, its variable " + llvm::Twine(variable->bits));
    i.b.CreateAlignedStore(value, variable->address, llvm::Align(1));
}

void lower_call(Instruction &i)
{
    i.take("uni");
    const Call call = parts_of(i);
    Value *callee = callee_of(i, *call.callee);
    const auto *function = llvm::dyn_cast<llvm::Function>(callee);
    llvm::FunctionType *type = function != nullptr ? function->getFunctionType() : type_of(i, call);
    check(i, call, *type);
    std::vector<Value *> values;
    if (call.array != nullptr)
        values.push_back(call.array->address);
    for (const Operand &operand : call.arguments)
        values.push_back(argument(i, operand, type->getParamType(unsigned(values.size()))));
    Value *returned = i.b.CreateCall(type, callee, values);
    if (call.returns())
        take_result(i, *call.result, returned);
}

void lower_ret(Instruction &i)
{
    i.take("uni");
    if (!i.low.leave())
        i.fail("it is possible only in functions without a result");
    i.b.SetInsertPoint(i.low.new_block("ptx.after"));
}

} // namespace

llvm::ArrayRef<Form> call_forms()
{
    static const Form forms[] = {
        {"call", 1, 4, lower_call},
        {"ret", 0, 0, lower_ret},
    };
    return forms;
}

} // namespace vgc::ptx
