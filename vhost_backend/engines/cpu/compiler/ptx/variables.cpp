#include "variables.h"

#include "../shared_variables.h"
#include "types.h"

#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/IRBuilder.h"

namespace vgc::ptx
{
namespace
{

const uint64_t MAX_BYTES = 1ull << 31;

Type element_type(const Variable &variable, const Text &text)
{
    const std::optional<Type> type = type_named(variable.type);
    if (!type || type->bits % 8 != 0)
        text.fail(variable.at, "'." + variable.type + "' is no type of variables");
    return *type;
}

/// Bits of a number as an element has them.
llvm::APInt number(const Operand &operand, unsigned width)
{
    uint64_t bits = operand.bits;
    if (operand.kind == Operand::FLOAT64 && width == 32)
        bits = llvm::bit_cast<uint32_t>(float(llvm::bit_cast<double>(bits)));
    if (operand.kind == Operand::FLOAT32 && width == 64)
        bits = llvm::bit_cast<uint64_t>(double(llvm::bit_cast<float>(uint32_t(bits))));
    return llvm::APInt(64, bits).sextOrTrunc(width);
}

/// Element of an initialiser: a number, or an address.
llvm::Constant *element(const Operand &operand, llvm::IntegerType *type, const Symbols &symbols, const Text &text)
{
    if (operand.kind != Operand::NAME)
        return llvm::ConstantInt::get(type->getContext(), number(operand, type->getBitWidth()));
    const auto found = symbols.find(operand.name);
    if (found == symbols.end() || !llvm::isa<llvm::Constant>(found->second.address))
        text.fail(operand.at, "there is no variable or function '" + operand.name + "'");
    if (found->second.is_kernel)
        text.fail(operand.at, "the address of kernel '" + operand.name + "' is not possible");
    if (found->second.space == Space::SHARED)
        text.fail(operand.at, "the address of shared variable '" + operand.name + "' is no constant");
    if (type->getBitWidth() != 64)
        text.fail(operand.at, "an address has 64 bits");
    auto *address = llvm::cast<llvm::Constant>(found->second.address);
    llvm::Type *byte = llvm::Type::getInt8Ty(type->getContext()), *wide = llvm::Type::getInt64Ty(type->getContext());
    return llvm::ConstantExpr::getPtrToInt(
        llvm::ConstantExpr::getGetElementPtr(byte, address,
                                             llvm::ConstantInt::get(wide, found->second.offset(operand))),
        type);
}

/// Type of the variable in memory: the elements with a value, and those without.
llvm::Type *value_type(const Variable &variable, llvm::LLVMContext &context, const Text &text)
{
    bytes_of(variable, text);
    llvm::Type *element = llvm::IntegerType::get(context, element_type(variable, text).width());
    const uint64_t count = variable.count * variable.vector, given = variable.initialiser.size();
    if (given > count)
        text.fail(variable.initialiser[count].at,
                  "variable '" + variable.name + "' has " + llvm::Twine(count) + " elements");
    if (given > 0)
        return llvm::StructType::get(
            context, {llvm::ArrayType::get(element, given), llvm::ArrayType::get(element, count - given)}, true);
    return variable.is_array || variable.vector > 1 ? llvm::ArrayType::get(element, count) : element;
}

Cell cell_of(const Variable &variable, llvm::Value *address, const Text &text)
{
    Cell cell;
    cell.address = address;
    cell.space = variable.space;
    cell.element = element_bytes(variable, text);
    cell.bits = variable.is_array ? 0 : unsigned(8 * element_bytes(variable, text));
    return cell;
}

} // namespace

uint64_t element_bytes(const Variable &variable, const Text &text)
{
    return uint64_t(element_type(variable, text).width() / 8) * variable.vector;
}

uint64_t bytes_of(const Variable &variable, const Text &text)
{
    const uint64_t bytes = element_bytes(variable, text);
    if (variable.count > MAX_BYTES / bytes)
        text.fail(variable.at, "variable '" + variable.name + "' is larger than " + llvm::Twine(MAX_BYTES) + " bytes");
    return variable.count * bytes;
}

llvm::Align align_of(const Variable &variable, const Text &text)
{
    return llvm::Align(variable.align != 0 ? variable.align : llvm::bit_floor(element_bytes(variable, text)));
}

llvm::IntegerType *scalar_type(const Variable &variable, llvm::LLVMContext &context, const Text &text)
{
    return llvm::IntegerType::get(context, unsigned(8 * element_bytes(variable, text)));
}

Cell make_local(llvm::Function &function, const Variable &variable, const Text &text)
{
    llvm::BasicBlock &entry = function.getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    const bool is_scalar = !variable.is_array && variable.vector == 1;
    llvm::Type *type = is_scalar ? static_cast<llvm::Type *>(scalar_type(variable, function.getContext(), text))
                                 : llvm::ArrayType::get(at_entry.getInt8Ty(), bytes_of(variable, text));
    llvm::AllocaInst *alloca = at_entry.CreateAlloca(type, nullptr, variable.name);
    alloca->setAlignment(align_of(variable, text));
    return cell_of(variable, alloca, text);
}

Cell make_global(llvm::Module &module, const Variable &variable, const llvm::Twine &name, const Text &text)
{
    llvm::Type *type = value_type(variable, module.getContext(), text);
    const bool is_shared = variable.space == Space::SHARED;
    const bool is_dynamic = is_shared && variable.is_array && variable.count == 0;
    llvm::Constant *begin = is_dynamic  ? nullptr
                            : is_shared ? llvm::UndefValue::get(type)
                                        : llvm::Constant::getNullValue(type);
    const auto linkage = is_dynamic ? llvm::GlobalValue::ExternalLinkage : llvm::GlobalValue::InternalLinkage;
    auto *global = new llvm::GlobalVariable(module, type, false, linkage, begin, name);
    global->setAlignment(align_of(variable, text));
    if (is_dynamic)
        global->setSection(SHARED_SECTION);
    return cell_of(variable, global, text);
}

void initialise(const Cell &cell, const Variable &variable, const Symbols &symbols, const Text &text)
{
    if (variable.initialiser.empty())
        return;
    if (variable.space == Space::SHARED)
        text.fail(variable.at, "shared variable '" + variable.name + "' has an initialiser");
    auto *global = llvm::cast<llvm::GlobalVariable>(cell.address);
    auto *type = llvm::cast<llvm::StructType>(global->getValueType());
    auto *given = llvm::cast<llvm::ArrayType>(type->getElementType(0));
    std::vector<llvm::Constant *> elements;
    for (const Operand &operand : variable.initialiser)
        elements.push_back(element(operand, llvm::cast<llvm::IntegerType>(given->getElementType()), symbols, text));
    global->setInitializer(llvm::ConstantStruct::get(
        type, {llvm::ConstantArray::get(given, elements), llvm::Constant::getNullValue(type->getElementType(1))}));
}

} // namespace vgc::ptx
