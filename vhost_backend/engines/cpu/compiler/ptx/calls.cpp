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

/// A call while its parts are collected.
struct Call {
    const Operand *result = nullptr;
    const Operand *callee = nullptr;
    llvm::ArrayRef<Operand> arguments;
};

Call parts_of(Instruction &i)
{
    Call call;
    size_t next = 0;
    if (i.operand(0).kind == Operand::LIST) {
        if (i.operand(0).parts.size() != 1)
            i.fail("a function has at most one result");
        call.result = &i.operand(0).parts[0];
        next = 1;
    }
    call.callee = &i.operand(next);
    if (next + 1 < i.size() && i.operand(next + 1).kind == Operand::LIST)
        call.arguments = i.operand(next + 1).parts;
    return call;
}

/// Argument for a parameter of type `type`, if the callee is known.
Value *argument(Instruction &i, const Operand &operand, llvm::Type *type)
{
    Builder &b = i.b;
    const Cell *variable = i.low.variable(operand);
    const bool is_array = variable != nullptr && variable->bits == 0;
    if (type == nullptr)
        type = is_array ? static_cast<llvm::Type *>(b.getPtrTy()) : b.getIntNTy(std::max(8u, i.low.width_of(operand)));
    if (is_array != type->isPointerTy())
        i.low.fail(operand.at, "the argument is not of the parameter's type");
    if (is_array)
        return variable->address;
    if (variable == nullptr)
        return i.low.bits(operand, type->getIntegerBitWidth());
    if (type->getIntegerBitWidth() > variable->bits)
        i.low.fail(operand.at, "the argument is smaller than the parameter");
    return b.CreateAlignedLoad(type, variable->address, llvm::Align(1));
}

/// Function that the call names, or the address in a register; null in `type` for the latter.
Value *callee_of(Instruction &i, const Operand &operand, llvm::FunctionType *&type)
{
    if (const Cell *cell = i.low.function(operand)) {
        type = llvm::cast<llvm::Function>(cell->address)->getFunctionType();
        return cell->address;
    }
    if (i.low.width_of(operand) != 64)
        i.low.fail(operand.at, "there is no function '" + operand.name + "'");
    return i.b.CreateIntToPtr(i.low.bits(operand, 64), i.b.getPtrTy());
}

/// Writes the value that a call has returned.
void take_result(Instruction &i, const Operand &operand, Value *value)
{
    if (const Cell *variable = i.low.variable(operand))
        i.b.CreateAlignedStore(value, variable->address, llvm::Align(1));
    else
        i.low.write(operand, value, {Type::BITS, value->getType()->getIntegerBitWidth(), 1});
}

void lower_call(Instruction &i)
{
    i.take("uni");
    const Call call = parts_of(i);
    llvm::FunctionType *type = nullptr;
    Value *callee = callee_of(i, *call.callee, type);
    std::vector<Value *> values;
    const Cell *result = call.result == nullptr ? nullptr : i.low.variable(*call.result);
    const bool is_written = result != nullptr && result->bits == 0;
    if (is_written)
        values.push_back(result->address);
    if (type != nullptr && type->getNumParams() != call.arguments.size() + values.size())
        i.fail("the function has " + llvm::Twine(type->getNumParams() - values.size()) + " parameters");
    for (const Operand &operand : call.arguments)
        values.push_back(argument(i, operand, type == nullptr ? nullptr : type->getParamType(values.size())));
    if (type == nullptr) {
        std::vector<llvm::Type *> types;
        for (const Value *value : values)
            types.push_back(value->getType());
        const bool returns = call.result != nullptr && !is_written;
        const unsigned width = returns ? std::max(8u, i.low.width_of(*call.result)) : 0;
        type = llvm::FunctionType::get(returns ? i.b.getIntNTy(width) : i.b.getVoidTy(), types, false);
    }
    if ((call.result != nullptr && !is_written) == type->getReturnType()->isVoidTy())
        i.fail("the function's result is not that of the call");
    Value *returned = i.b.CreateCall(type, callee, values);
    if (!type->getReturnType()->isVoidTy())
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
