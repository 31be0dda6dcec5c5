#include "lowering.h"

#include "carry.h"

#include "../compiler.h"
#include "names.h"
#include "special.h"
#include "variables.h"

#include "llvm/IR/MDBuilder.h"

namespace vgc::ptx
{

Lowering::Lowering(llvm::BasicBlock &begin, llvm::BasicBlock *before, const Text &text, Emit emit)
    : b(&begin), function_(*begin.getParent()), module_(*function_.getParent()), before_(before), text_(text),
      emit_(emit)
{
}

void Lowering::fail(Position at, const llvm::Twine &message) const
{
    text_.fail(at, message);
}

llvm::AllocaInst *Lowering::local(llvm::Type *type)
{
    llvm::BasicBlock &entry = function_.getEntryBlock();
    llvm::IRBuilder<> at_entry(&entry, entry.begin());
    llvm::AllocaInst *slot = at_entry.CreateAlloca(type);
    b.CreateStore(llvm::Constant::getNullValue(type), slot);
    return slot;
}

llvm::BasicBlock *Lowering::new_block(const llvm::Twine &name)
{
    return llvm::BasicBlock::Create(b.getContext(), name, &function_, before_);
}

void Lowering::jump(llvm::BasicBlock *to)
{
    b.CreateBr(to);
    b.SetInsertPoint(new_block("ptx.after"));
}

void Lowering::lower_all(const std::vector<Statement> &statements)
{
    scopes_.emplace_back();
    labels_.emplace_back();
    for (const Statement &statement : statements)
        if (statement.kind == Statement::LABEL) {
            llvm::BasicBlock *&block = labels_.back().blocks[statement.name];
            if (block != nullptr)
                fail(statement.at, "label '" + statement.name + "' is there twice");
            block = new_block("ptx." + statement.name);
            if (&statement != &statements.back() && (&statement)[1].kind == Statement::TARGETS)
                labels_.back().targets[statement.name] = (&statement)[1].operands;
        }
    for (const Statement &statement : statements)
        lower_one(statement);
    scopes_.pop_back();
    labels_.pop_back();
}

void Lowering::lower_one(const Statement &statement)
{
    if (locate_)
        b.SetCurrentDebugLocation(locate_(statement));
    switch (statement.kind) {
    case Statement::BLOCK:
        return lower_all(statement.body);
    case Statement::REGISTERS:
        return declare(statement);
    case Statement::VARIABLES:
        for (const Variable &variable : statement.variables)
            declare(variable);
        return;
    case Statement::TARGETS:
    case Statement::SOURCE:
        return;
    case Statement::LABEL: {
        llvm::BasicBlock *block = labels_.back().blocks[statement.name];
        b.CreateBr(block);
        b.SetInsertPoint(block);
        return;
    }
    case Statement::INSTRUCTION:
        return lower_guarded(statement);
    }
}

void Lowering::lower_guarded(const Statement &statement)
{
    if (!statement.guard)
        return emit_(*this, statement);
    llvm::BasicBlock *guarded = new_block("ptx.guarded"), *after = new_block("ptx.next");
    b.CreateCondBr(predicate(*statement.guard), guarded, after);
    b.SetInsertPoint(guarded);
    emit_(*this, statement);
    b.CreateBr(after);
    b.SetInsertPoint(after);
}

void Lowering::declare(const Statement &statement)
{
    unsigned count = 1;
    llvm::StringRef name = statement.modifiers.back();
    if (statement.modifiers.size() == 2)
        count = statement.modifiers[0] == "v2" ? 2 : statement.modifiers[0] == "v4" ? 4 : 0;
    const std::optional<Type> type = type_named(name);
    if (!type || count == 0 || statement.modifiers.size() > 2)
        fail(statement.at, "'." + name + "' is no type of registers");
    for (const Registers &registers : statement.registers)
        for (unsigned i = 0; i < std::max(1u, registers.count); i++)
            for (unsigned element = 0; element < count; element++) {
                std::string full = registers.name + (registers.count > 0 ? std::to_string(i) : "");
                if (count > 1)
                    full += std::string(".") + "xyzw"[element];
                const auto [found, is_new] = scopes_.back().try_emplace(full);
                if (!is_new)
                    fail(statement.at, "register '" + full + "' is declared twice");
                found->second.slot = local(b.getIntNTy(type->width()));
                found->second.bits = type->width();
            }
}

void Lowering::declare(const Variable &variable)
{
    const auto [found, is_new] = scopes_.back().try_emplace(variable.name);
    if (!is_new)
        fail(variable.at, "'" + variable.name + "' is declared twice");
    Cell &cell = found->second;
    if (variable.space == Space::LOCAL || variable.space == Space::PARAMETER) {
        cell = make_local(function_, variable, text_);
    } else {
        cell = make_global(module_, variable, ir_name(variable.name), text_);
        initialise(cell, variable, scopes_.back(), text_);
    }
}

llvm::BasicBlock *Lowering::label(const Operand &operand)
{
    if (operand.kind != Operand::NAME)
        fail(operand.at, "expected a label");
    for (size_t i = labels_.size(); i-- > 0;)
        if (auto found = labels_[i].blocks.find(operand.name); found != labels_[i].blocks.end())
            return found->second;
    fail(operand.at, "there is no label '" + operand.name + "'");
}

const std::vector<Operand> &Lowering::targets(const Operand &operand) const
{
    for (size_t i = labels_.size(); operand.kind == Operand::NAME && i-- > 0;)
        if (auto found = labels_[i].targets.find(operand.name); found != labels_[i].targets.end())
            return found->second;
    fail(operand.at, "expected a label with '.branchtargets'");
}

const Cell *Lowering::find(const Operand &operand) const
{
    if (operand.kind == Operand::ARGUMENT)
        return operand.bits < arguments_.size() && operand.name.empty() ? &arguments_[operand.bits] : nullptr;
    for (size_t i = scopes_.size(); operand.kind == Operand::NAME && i-- > 0;)
        if (auto found = scopes_[i].find(operand.name); found != scopes_[i].end())
            return &found->second;
    for (size_t i = symbols_.size(); operand.kind == Operand::NAME && i-- > 0;)
        if (auto found = symbols_[i]->find(operand.name); found != symbols_[i]->end())
            return &found->second;
    return nullptr;
}

const Cell *Lowering::variable(const Operand &operand) const
{
    const Cell *cell = find(operand);
    return cell != nullptr && cell->address != nullptr && !cell->is_function() ? cell : nullptr;
}

const Cell *Lowering::function(const Operand &operand) const
{
    const Cell *cell = find(operand);
    return cell != nullptr && cell->is_function() ? cell : nullptr;
}

const Cell &Lowering::cell_of(const Operand &operand) const
{
    if (const Cell *cell = find(operand))
        return *cell;
    if (operand.kind == Operand::ARGUMENT)
        fail(operand.at, "the asm statement has no operand %" + llvm::Twine(operand.bits) + operand.name);
    if (operand.kind == Operand::NAME)
        fail(operand.at, "register '" + operand.name + "' is not declared");
    fail(operand.at, "expected a register");
}

unsigned Lowering::width_of(const Operand &operand)
{
    if (operand.kind == Operand::VECTOR) {
        unsigned bits = 0;
        for (const Operand &part : operand.parts)
            bits += width_of(part);
        return bits;
    }
    const Cell *cell = find(operand);
    return cell == nullptr ? 0 : cell->bits;
}

llvm::Value *Lowering::literal(const Operand &operand, unsigned width)
{
    uint64_t bits = operand.bits;
    if (operand.kind != Operand::INTEGER && width == 16)
        fail(operand.at, "a float in an operand of 16 bits; allowed: its bits, as an integer (0x3C00)");
    if (operand.kind == Operand::FLOAT64 && width == 32)
        bits = llvm::bit_cast<uint32_t>(float(llvm::bit_cast<double>(bits)));
    if (operand.kind == Operand::FLOAT32 && width == 64)
        bits = llvm::bit_cast<uint64_t>(double(llvm::bit_cast<float>(uint32_t(bits))));
    if (operand.inverted)
        fail(operand.at, "'!' before a number");
    return llvm::ConstantInt::get(b.getContext(), llvm::APInt(64, bits).sextOrTrunc(width));
}

/// Value of a special register that a builtin has; threads' numbers are less than a block has threads.
llvm::Value *Lowering::read_position(llvm::StringRef name, llvm::StringRef builtin)
{
    auto *value = llvm::cast<llvm::CallInst>(call_builtin(builtin, b.getInt32Ty()));
    if (name.starts_with("tid."))
        value->setMetadata(
            llvm::LLVMContext::MD_range,
            llvm::MDBuilder(b.getContext()).createRange(llvm::APInt(32, 0), llvm::APInt(32, max_threads_)));
    return value;
}

/// Value of a special register; null if the name is unknown.
llvm::Value *Lowering::read_special(llvm::StringRef name)
{
    const Special special = special_named(name);
    llvm::Value *time = nullptr, *threads = b.getInt32(1);
    switch (special.kind) {
    case Special::UNKNOWN:
        return nullptr;
    case Special::BUILTIN:
        return read_position(name, special.builtin);
    case Special::CONSTANT:
        return b.getInt32(special.constant);
    case Special::CYCLES:
        time = b.CreateIntrinsic(llvm::Intrinsic::readcyclecounter, {}, {});
        break;
    case Special::TIMER:
        time = call_builtin("__vgc_globaltimer", b.getInt64Ty());
        break;
    case Special::CLUSTERED:
        return b.CreateZExt(b.CreateICmpUGT(call_builtin("__vgc_cluster_nctarank", b.getInt32Ty()), b.getInt32(1)),
                            b.getInt32Ty());
    case Special::WARPS:
        for (const char *extent : {"__vgc_ntid_x", "__vgc_ntid_y", "__vgc_ntid_z"})
            threads = b.CreateMul(threads, call_builtin(extent, b.getInt32Ty()));
        return b.CreateLShr(b.CreateAdd(threads, b.getInt32(31)), 5);
    }
    return special.upper_half ? b.CreateLShr(time, 32) : time;
}

llvm::Value *Lowering::shared_base()
{
    if (shared_ == nullptr) {
        const llvm::IRBuilderBase::InsertPointGuard guard(b);
        llvm::BasicBlock &entry = function_.getEntryBlock();
        b.SetInsertPoint(&entry, entry.begin());
        shared_ = call_builtin("__vgc_shared", b.getPtrTy());
    }
    return shared_;
}

llvm::Value *Lowering::local_pointer(llvm::Value *low)
{
    for (const Symbols &scope : scopes_)
        for (const auto &[name, cell] : scope)
            if (cell.address != nullptr && cell.space == Space::LOCAL) { // within 2 GiB of all others
                llvm::Value *known = b.CreateTrunc(b.CreatePtrToInt(cell.address, b.getInt64Ty()), b.getInt32Ty());
                llvm::Value *distance = b.CreateSExt(b.CreateSub(low, known), b.getInt64Ty());
                return b.CreateGEP(b.getInt8Ty(), cell.address, distance);
            }
    return nullptr;
}

/// Address of a variable or function: in shared memory an offset, as instructions take it, in local memory whole or the
/// low half.
llvm::Value *Lowering::address(const Cell &cell, const Operand &operand, unsigned width)
{
    if (cell.is_kernel)
        fail(operand.at, "the address of kernel '" + operand.name + "' is not possible");
    llvm::Value *place = cell.address;
    if (const uint64_t offset = cell.offset(operand); offset != 0)
        place = b.CreateGEP(b.getInt8Ty(), place, b.getInt64(offset));
    llvm::Value *whole = b.CreatePtrToInt(place, b.getInt64Ty());
    if (cell.space == Space::SHARED)
        whole = b.CreateSub(whole, b.CreatePtrToInt(shared_base(), b.getInt64Ty()));
    if (width != 64 && (width != 32 || (cell.space != Space::SHARED && cell.space != Space::LOCAL)))
        fail(operand.at,
             "the address of '" + operand.name + "' has 64 bits, the instruction takes " + llvm::Twine(width));
    return b.CreateTrunc(whole, b.getIntNTy(width));
}

unsigned Lowering::part_of(const Operand &vector, unsigned width) const
{
    const unsigned count = unsigned(vector.parts.size()), part = width / count;
    if (part < 8 || part * count != width || !llvm::isPowerOf2_32(part))
        fail(vector.at, "a vector of " + llvm::Twine(count) + " in " + llvm::Twine(width) + " bits");
    return part;
}

/// Value that a register has got in the running block; null if none.
llvm::Value *&Lowering::value_in_block(const Cell &cell)
{
    if (block_ != b.GetInsertBlock())
        values_.clear();
    block_ = b.GetInsertBlock();
    return values_[cell.slot];
}

/// Value of a register: of large functions, most loads are spared here rather than found to be needless later.
llvm::Value *Lowering::read(const Cell &cell)
{
    llvm::Value *&value = value_in_block(cell);
    if (value == nullptr)
        value = b.CreateLoad(b.getIntNTy(cell.bits), cell.slot);
    return value;
}

llvm::Value *Lowering::bits(const Operand &operand, unsigned width)
{
    if (operand.kind == Operand::INTEGER || operand.kind == Operand::FLOAT32 || operand.kind == Operand::FLOAT64)
        return literal(operand, width);
    if (operand.kind == Operand::VECTOR) { // the first element is the lowest
        llvm::Value *whole = llvm::ConstantInt::get(b.getIntNTy(width), 0);
        const unsigned part = part_of(operand, width);
        for (unsigned i = 0; i < operand.parts.size(); i++)
            whole =
                b.CreateOr(whole, b.CreateShl(b.CreateZExt(bits(operand.parts[i], part), whole->getType()), i * part));
        return whole;
    }
    if (find(operand) == nullptr && operand.kind == Operand::NAME && operand.name[0] == '%')
        if (llvm::Value *special = read_special(llvm::StringRef(operand.name).drop_front()))
            return b.CreateZExtOrTrunc(special, b.getIntNTy(width));
    const Cell &cell = cell_of(operand);
    if (cell.address != nullptr)
        return address(cell, operand, width);
    if (operand.offset != 0 || operand.index != 0)
        fail(operand.at, "a number is added to a register");
    if (cell.constant != nullptr)
        return llvm::ConstantInt::get(b.getContext(), cell.constant->getValue().sextOrTrunc(width));
    if (cell.bits < width || (is_exact_ && cell.bits > width))
        fail(operand.at,
             "the operand has " + llvm::Twine(cell.bits) + " bits, the instruction takes " + llvm::Twine(width));
    if (operand.inverted && cell.bits != 1)
        fail(operand.at, "'!' before an operand that is no predicate");
    llvm::Value *value = read(cell);
    return b.CreateTrunc(operand.inverted ? b.CreateNot(value) : value, b.getIntNTy(width));
}

llvm::Value *Lowering::value(const Operand &operand, Type type)
{
    if (type.is_float() && type.lanes == 1 && operand.kind == Operand::INTEGER)
        fail(operand.at, "expected a float, not an integer");
    return bits(operand, type.width());
}

std::vector<llvm::Value *> Lowering::lanes(const Operand &operand, Type type)
{
    llvm::Value *whole = value(operand, type);
    std::vector<llvm::Value *> values;
    for (unsigned i = 0; i < type.lanes; i++)
        values.push_back(
            widen(b, b.CreateTrunc(b.CreateLShr(whole, i * type.bits), b.getIntNTy(type.bits)), type.lane()));
    return values;
}

void Lowering::write_lanes(const Operand &operand, llvm::ArrayRef<llvm::Value *> values, Type type)
{
    llvm::Type *all = b.getIntNTy(type.width());
    llvm::Value *whole = llvm::ConstantInt::get(all, 0);
    for (unsigned i = 0; i < type.lanes; i++)
        whole = b.CreateOr(whole, b.CreateShl(b.CreateZExt(narrow(b, values[i], type.lane()), all), i * type.bits));
    write(operand, whole, type);
}

llvm::Value *Lowering::predicate(const Operand &operand)
{
    if (operand.kind == Operand::INTEGER)
        return b.getInt1(operand.bits != 0);
    if (operand.kind == Operand::NAME && operand.name == "%is_explicit_cluster" && find(operand) == nullptr) {
        llvm::Value *value = b.CreateTrunc(read_special("is_explicit_cluster"), b.getInt1Ty());
        return operand.inverted ? b.CreateNot(value) : value;
    }
    if (width_of(operand) != 1)
        fail(operand.at, "expected a predicate");
    return bits(operand, 1);
}

void Lowering::write(const Operand &operand, llvm::Value *value, Type type)
{
    if (operand.kind == Operand::SINK)
        return;
    if (operand.kind == Operand::VECTOR) {
        const unsigned part = part_of(operand, type.width());
        for (unsigned i = 0; i < operand.parts.size(); i++)
            write(operand.parts[i], b.CreateTrunc(b.CreateLShr(value, i * part), b.getIntNTy(part)),
                  {Type::BITS, part, 1});
        return;
    }
    const Cell &cell = cell_of(operand);
    if (cell.slot == nullptr || operand.inverted)
        fail(operand.at, "expected a register to write to");
    if (cell.bits < type.width() || (is_exact_ && cell.bits > type.width()))
        fail(operand.at,
             "the result has " + llvm::Twine(type.width()) + " bits, its register " + llvm::Twine(cell.bits));
    llvm::Type *into = b.getIntNTy(cell.bits);
    value = type.is_signed() && type.lanes == 1 ? b.CreateSExt(value, into) : b.CreateZExt(value, into);
    b.CreateStore(value, cell.slot);
    value_in_block(cell) = value;
}

void Lowering::write_predicate(const Operand &operand, llvm::Value *value)
{
    if (operand.kind != Operand::SINK && width_of(operand) != 1)
        fail(operand.at, "expected a predicate");
    write(operand, value, {Type::PREDICATE, 1, 1});
}

llvm::Value *Lowering::carry()
{
    return b.CreateCall(carry_reader(module_));
}

void Lowering::set_carry(llvm::Value *value)
{
    b.CreateCall(carry_writer(module_), value);
}

bool Lowering::leave()
{
    llvm::Type *type = function_.getReturnType();
    if (type->isVoidTy())
        b.CreateRetVoid();
    else if (result_.address != nullptr)
        b.CreateRet(b.CreateAlignedLoad(type, result_.address, llvm::Align(1)));
    else if (result_.slot != nullptr)
        b.CreateRet(b.CreateLoad(type, result_.slot));
    else
        return false;
    return true;
}

void Lowering::end_thread(llvm::StringRef builtin)
{
    llvm::cast<llvm::CallInst>(call_builtin(builtin, b.getVoidTy()))->setDoesNotReturn();
    b.CreateUnreachable();
    b.SetInsertPoint(new_block("ptx.after"));
}

llvm::Value *Lowering::call_builtin(llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> arguments)
{
    std::vector<llvm::Type *> types;
    for (llvm::Value *argument : arguments)
        types.push_back(argument->getType());
    llvm::FunctionCallee callee = module_.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
    auto *function = llvm::cast<llvm::Function>(callee.getCallee());
    if (is_position_name(name) || name.starts_with("__vgc_room"))
        function->setDoesNotAccessMemory();
    else if (name.starts_with("__vgc_warp") || name.starts_with("__vgc_barrier") || name == "__vgc_cluster_barrier")
        function->setConvergent();
    function->setDoesNotThrow();
    return b.CreateCall(callee, arguments);
}

} // namespace vgc::ptx
