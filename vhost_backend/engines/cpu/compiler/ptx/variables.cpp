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
const unsigned ADDRESS_BITS = 64;

Type element_type(const Variable &variable, const Text &text)
{
    if (variable.type == "texref" || variable.type == "samplerref" || variable.type == "surfref")
        text.fail(variable.at, "references of textures and surfaces ('." + variable.type +
                                   "') are not supported: pass objects to the kernel");
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

/// Address of a variable or function, or of a place in it.
llvm::Constant *address_of(const Operand &operand, llvm::LLVMContext &context, const Symbols &symbols, const Text &text)
{
    const auto found = symbols.find(operand.name);
    if (found == symbols.end() || !llvm::isa<llvm::Constant>(found->second.address))
        text.fail(operand.at, "there is no variable or function '" + operand.name + "'");
    if (found->second.is_kernel)
        text.fail(operand.at, "the address of kernel '" + operand.name + "' is not possible");
    if (found->second.space == Space::SHARED)
        text.fail(operand.at, "the address of shared variable '" + operand.name + "' is no constant");
    auto *address = llvm::cast<llvm::Constant>(found->second.address);
    llvm::Type *byte = llvm::Type::getInt8Ty(context), *wide = llvm::Type::getInt64Ty(context);
    llvm::Constant *offset = llvm::ConstantInt::get(wide, found->second.offset(operand));
    return llvm::ConstantExpr::getPtrToInt(llvm::ConstantExpr::getGetElementPtr(byte, address, offset), wide);
}

/// Element of an initialiser: a number, or an address.
llvm::Constant *element(const Operand &operand, llvm::IntegerType *type, const Symbols &symbols, const Text &text)
{
    if (operand.kind != Operand::NAME)
        return llvm::ConstantInt::get(type->getContext(), number(operand, type->getBitWidth()));
    if (type->getBitWidth() != ADDRESS_BITS)
        text.fail(operand.at, "an address has 64 bits");
    return address_of(operand, type->getContext(), symbols, text);
}

/// Elements of a variable that follow one another: numbers and addresses, zeroes, or the bytes of one address.
struct Part {
    enum { GIVEN, ZEROES, BYTES } kind;
    uint64_t count;
    size_t first; // of the initialiser's

    llvm::Type *type(llvm::IntegerType *element) const
    {
        if (kind == BYTES)
            return llvm::Type::getInt64Ty(element->getContext());
        return llvm::ArrayType::get(element, count);
    }
};

/// Bytes from number `first` on that are one address. Images have no place for a part of an address.
Part bytes_of_address(const Variable &variable, size_t first, const Text &text)
{
    const auto &given = variable.initialiser;
    const Operand &begin = given[first].value;
    if (element_type(variable, text).bits != 8)
        text.fail(begin.at, "masks of addresses are for elements of 8 bits");
    for (size_t i = 0; i < ADDRESS_BITS / 8; i++)
        if (first + i == given.size() || given[first + i].index != given[first].index + i ||
            given[first + i].value.mask != 0xFFull << 8 * i || given[first + i].value.name != begin.name ||
            given[first + i].value.offset != begin.offset || given[first + i].value.index != begin.index)
            text.fail(begin.at, "of an address, all eight bytes must follow one another, the lowest first");
    return {Part::BYTES, ADDRESS_BITS / 8, first};
}

/// Takes a variable apart: what its initialiser gives, and what it leaves out.
std::vector<Part> parts_of(const Variable &variable, const Text &text)
{
    const auto &given = variable.initialiser;
    std::vector<Part> parts;
    uint64_t end = 0;
    for (size_t i = 0; i < given.size();) {
        if (given[i].index > end)
            parts.push_back({Part::ZEROES, given[i].index - end, i});
        Part part{Part::GIVEN, 0, i};
        if (given[i].value.mask != 0)
            part = bytes_of_address(variable, i, text);
        else
            while (i + part.count < given.size() && given[i + part.count].index == given[i].index + part.count &&
                   given[i + part.count].value.mask == 0)
                part.count++;
        parts.push_back(part);
        end = given[i].index + part.count;
        i += part.count;
    }
    parts.push_back({Part::ZEROES, variable.count * variable.vector - end, given.size()});
    return parts;
}

/// Type of the variable in memory; that of a variable with an initialiser has the parts of that.
llvm::Type *value_type(const Variable &variable, llvm::LLVMContext &context, const Text &text)
{
    bytes_of(variable, text);
    llvm::IntegerType *element = llvm::IntegerType::get(context, element_type(variable, text).width());
    if (variable.initialiser.empty())
        return variable.is_array || variable.vector > 1
                   ? static_cast<llvm::Type *>(llvm::ArrayType::get(element, variable.count * variable.vector))
                   : element;
    std::vector<llvm::Type *> types;
    for (const Part &part : parts_of(variable, text))
        types.push_back(part.type(element));
    return llvm::StructType::get(context, types, true);
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

llvm::GlobalValue::LinkageTypes linkage_of(Linkage linkage)
{
    switch (linkage) {
    case Linkage::OWN:
        return llvm::GlobalValue::InternalLinkage;
    case Linkage::WEAK:
        return llvm::GlobalValue::WeakAnyLinkage;
    case Linkage::COMMON:
        return llvm::GlobalValue::CommonLinkage;
    default:
        return llvm::GlobalValue::ExternalLinkage;
    }
}

Cell make_global(llvm::Module &module, const Variable &variable, const llvm::Twine &name, const Text &text)
{
    llvm::Type *type = value_type(variable, module.getContext(), text);
    const bool is_shared = variable.space == Space::SHARED;
    const bool is_dynamic = is_shared && variable.is_array && variable.count == 0;
    const bool is_declared = is_dynamic || variable.linkage == Linkage::EXTERN;
    llvm::Constant *begin = is_declared ? nullptr
                            : is_shared ? llvm::UndefValue::get(type)
                                        : llvm::Constant::getNullValue(type);
    const bool is_weak = variable.linkage == Linkage::COMMON && !variable.initialiser.empty(); // common ones are zero
    const auto linkage =
        is_declared ? llvm::GlobalValue::ExternalLinkage : linkage_of(is_weak ? Linkage::WEAK : variable.linkage);
    auto *global = new llvm::GlobalVariable(module, type, false, linkage, begin, name);
    global->setAlignment(align_of(variable, text));
    if (is_shared && is_declared)
        global->setSection(SHARED_SECTION);
    return cell_of(variable, global, text);
}

void initialise(const Cell &cell, const Variable &variable, const Symbols &symbols, const Text &text)
{
    if (variable.initialiser.empty())
        return;
    if (variable.space == Space::SHARED)
        text.fail(variable.at, "shared variable '" + variable.name + "' has an initialiser");
    if (variable.linkage == Linkage::EXTERN)
        text.fail(variable.at, "variable '" + variable.name + "' of another module has an initialiser");
    auto *global = llvm::cast<llvm::GlobalVariable>(cell.address);
    auto *type = llvm::IntegerType::get(global->getContext(), element_type(variable, text).width());
    std::vector<llvm::Constant *> values;
    for (const Part &part : parts_of(variable, text)) {
        std::vector<llvm::Constant *> elements;
        for (size_t i = part.first; part.kind == Part::GIVEN && i < part.first + part.count; i++)
            elements.push_back(element(variable.initialiser[i].value, type, symbols, text));
        llvm::Type *whole = part.type(type);
        values.push_back(part.kind == Part::BYTES
                             ? address_of(variable.initialiser[part.first].value, type->getContext(), symbols, text)
                         : part.kind == Part::ZEROES
                             ? llvm::Constant::getNullValue(whole)
                             : llvm::ConstantArray::get(llvm::cast<llvm::ArrayType>(whole), elements));
    }
    global->setInitializer(llvm::ConstantStruct::get(llvm::cast<llvm::StructType>(global->getValueType()), values));
}

} // namespace vgc::ptx
