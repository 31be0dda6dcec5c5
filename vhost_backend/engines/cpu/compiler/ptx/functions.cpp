#include "functions.h"

#include "../../vgc_cpu_abi.h"
#include "pointers.h"
#include "table.h"
#include "variables.h"

namespace vgc::ptx
{
namespace
{

bool is_array(const Variable &variable)
{
    return variable.is_array && variable.space == Space::PARAMETER;
}

/// Type of the IR argument that carries a parameter (see calls.cpp).
llvm::Type *argument_type(const Function &function, const Variable &parameter, llvm::LLVMContext &context,
                          const Text &text)
{
    if (is_array(parameter) || is_pointer(function, parameter))
        return llvm::PointerType::get(context, 0);
    if (function.is_entry && parameter.type == "f32")
        return llvm::Type::getFloatTy(context);
    if (function.is_entry && parameter.type == "f64")
        return llvm::Type::getDoubleTy(context);
    return scalar_type(parameter, context, text);
}

/// A function's body while it is lowered.
class Body
{
  public:
    Body(llvm::Function &ir, const Function &function, const Text &text)
        : ir_(ir), function_(function), text_(text),
          low_(*llvm::BasicBlock::Create(ir.getContext(), "entry", &ir), nullptr, text, lower_instruction)
    {
    }
    void lower(const Symbols &module, Lowering::Locate locate);

  private:
    void take_results();
    Cell take(const Variable &parameter, llvm::Argument &argument);
    Cell make_register(const Variable &variable);
    void name(const Variable &variable, const Cell &cell);

    llvm::Function &ir_;
    const Function &function_;
    const Text &text_;
    Lowering low_;
    Symbols own_;
};

void Body::name(const Variable &variable, const Cell &cell)
{
    if (!own_.try_emplace(variable.name, cell).second)
        text_.fail(variable.at, "parameter '" + variable.name + "' is there twice");
}

Cell Body::make_register(const Variable &variable)
{
    Cell cell;
    cell.bits = scalar_type(variable, ir_.getContext(), text_)->getBitWidth();
    cell.slot = low_.local(low_.b.getIntNTy(cell.bits));
    return cell;
}

void Body::take_results()
{
    for (const Variable &result : function_.results) {
        Cell cell;
        if (is_array(result)) {
            cell.address = ir_.getArg(0);
            cell.space = Space::PARAMETER;
        } else {
            cell = result.space == Space::REGISTER ? make_register(result) : make_local(ir_, result, text_);
            low_.set_result(cell);
        }
        name(result, cell);
    }
}

/// Cell of a parameter. A kernel's array is the launch's own, which all threads read.
Cell Body::take(const Variable &parameter, llvm::Argument &argument)
{
    llvm::IRBuilder<> &b = low_.b;
    Cell cell;
    if (is_array(parameter)) {
        cell.address = &argument;
        cell.space = Space::PARAMETER;
        cell.is_constant = function_.is_entry;
        return cell;
    }
    cell = parameter.space == Space::REGISTER ? make_register(parameter) : make_local(ir_, parameter, text_);
    llvm::Value *value = &argument;
    if (value->getType()->isPointerTy())
        value = b.CreatePtrToInt(value, b.getInt64Ty());
    b.CreateStore(b.CreateBitCast(value, b.getIntNTy(cell.bits)), cell.slot != nullptr ? cell.slot : cell.address);
    return cell;
}

void Body::lower(const Symbols &module, Lowering::Locate locate)
{
    take_results();
    unsigned next = !function_.results.empty() && is_array(function_.results[0]) ? 1 : 0;
    for (const Variable &parameter : function_.parameters)
        name(parameter, take(parameter, *ir_.getArg(next++)));
    low_.set_symbols({&module, &own_});
    low_.set_places(std::move(locate));
    if (function_.is_entry)
        low_.set_max_threads(max_threads(function_));
    low_.lower_all(function_.body);
    low_.leave();
    recover_pointers(ir_);
}

} // namespace

bool is_pointer(const Function &kernel, const Variable &parameter)
{
    if (!kernel.is_entry || parameter.is_array || parameter.vector != 1)
        return false;
    const bool is_wide = parameter.type == "u64" || parameter.type == "b64";
    const bool tells = std::any_of(kernel.parameters.begin(), kernel.parameters.end(),
                                   [](const Variable &other) { return other.is_pointer; });
    return is_wide && (parameter.is_pointer || !tells);
}

uint32_t max_threads(const Function &kernel)
{
    uint64_t threads = 1;
    for (const uint32_t extent : kernel.threads)
        threads = std::min<uint64_t>(threads * std::max(1u, extent), VGC_CPU_MAX_THREADS);
    return kernel.threads[0] == 0 ? uint32_t(VGC_CPU_MAX_THREADS) : uint32_t(threads);
}

llvm::FunctionType *function_type(const Function &function, llvm::LLVMContext &context, const Text &text)
{
    std::vector<llvm::Type *> types;
    llvm::Type *result = llvm::Type::getVoidTy(context);
    if (function.results.size() > 1)
        text.fail(function.at, "function '" + function.name + "' has more than one result");
    for (const Variable &variable : function.results) {
        llvm::Type *type = argument_type(function, variable, context, text);
        if (type->isPointerTy())
            types.push_back(type);
        else
            result = type;
    }
    for (const Variable &parameter : function.parameters)
        types.push_back(argument_type(function, parameter, context, text));
    return llvm::FunctionType::get(result, types, false);
}

void lower_body(llvm::Function &ir, const Function &function, const Symbols &module, const Text &text,
                Lowering::Locate locate)
{
    Body(ir, function, text).lower(module, std::move(locate));
}

} // namespace vgc::ptx
