#include "statement.h"

#include "../compiler.h"
#include "parser.h"
#include "table.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

namespace vgc::ptx
{
namespace
{

/// Text of operand `number` if its constraint is C (a constant array of characters), which constraints.cpp made Q.
bool text_operand(const llvm::CallInst &call, unsigned number, std::string &text)
{
    const auto *assembly = llvm::cast<llvm::InlineAsm>(call.getCalledOperand());
    const auto constraints = assembly->ParseConstraints();
    unsigned argument = 0;
    for (unsigned i = 0; i < constraints.size(); i++) {
        if (constraints[i].Type != llvm::InlineAsm::isInput)
            continue;
        if (i == number && !constraints[i].Codes.empty() && constraints[i].Codes[0] == "Q") {
            llvm::StringRef found;
            if (!llvm::getConstantStringInfo(call.getArgOperand(argument), found))
                return false;
            text += found;
            return true;
        }
        argument++;
    }
    return false;
}

/// Replaces `$0` and `${0:x}` at the begin of `rest`.
void take_operand(const llvm::CallInst &call, llvm::StringRef &rest, std::string &text)
{
    const bool braces = rest.consume_front("{");
    unsigned number = 0;
    if (rest.consumeInteger(10, number)) { // ${:uid}
        text += "0";
        rest = rest.drop_front(std::min(rest.find('}'), rest.size() - 1) + 1);
        return;
    }
    if (braces)
        rest = rest.drop_front(std::min(rest.find('}'), rest.size() - 1) + 1);
    if (!text_operand(call, number, text))
        text += "%" + std::to_string(number);
}

/// The text of an asm statement.
class InlineText : public Text
{
  public:
    /// `where` is the place in the CUDA source.
    explicit InlineText(const std::string &where) : where_(where)
    {
    }
    std::string place(Position at) const override
    {
        const std::string line = at.line > 1 ? "line " + std::to_string(at.line) + ", " : "";
        return where_ + "inline PTX, " + line + "column " + std::to_string(at.column) + ": ";
    }

  private:
    const std::string &where_;
};

/// An asm statement while it is lowered: its operands and results.
class AsmStatement
{
  public:
    AsmStatement(llvm::CallInst &call, const std::string &where, const Text &text)
        : call_(call), where_(where), head_(call.getParent()), tail_(split(call)),
          low_(*head_, tail_, text, lower_instruction), b(low_.b)
    {
    }
    /// Replaces the call by the IR of the statements.
    void run(const std::vector<Statement> &statements);

  private:
    /// Splits the call's block before it; returns the second part.
    static llvm::BasicBlock *split(llvm::CallInst &call)
    {
        llvm::BasicBlock *head = call.getParent(), *tail = llvm::SplitBlock(head, &call);
        head->getTerminator()->eraseFromParent();
        return tail;
    }
    void take_operands();
    void take_input(unsigned argument, const llvm::InlineAsm::ConstraintInfo &constraint, Cell &cell);
    void give_results();

    llvm::CallInst &call_;
    const std::string &where_;
    llvm::BasicBlock *head_, *tail_;
    Lowering low_;
    llvm::IRBuilder<> &b;
    std::vector<Cell> arguments_; // by number
    unsigned outputs_ = 0;
};

/// Makes cells of the outputs, in their order, and of the inputs.
void AsmStatement::take_operands()
{
    const auto *assembly = llvm::cast<llvm::InlineAsm>(call_.getCalledOperand());
    const auto constraints = assembly->ParseConstraints();
    unsigned argument = 0;
    for (const llvm::InlineAsm::ConstraintInfo &constraint : constraints) {
        if (constraint.Type == llvm::InlineAsm::isClobber || constraint.Type == llvm::InlineAsm::isLabel)
            continue;
        if (constraint.isIndirect)
            vgc::fail(where_ + "inline PTX: operands in memory are not possible (constraints: h, r, l, q, f, d, n, C)");
        Cell cell;
        if (constraint.Type == llvm::InlineAsm::isOutput) {
            llvm::Type *type = call_.getType();
            if (const auto *results = llvm::dyn_cast<llvm::StructType>(type))
                type = results->getElementType(outputs_);
            outputs_++;
            cell.bits = unsigned(call_.getModule()->getDataLayout().getTypeSizeInBits(type));
            cell.slot = low_.local(b.getIntNTy(cell.bits));
        } else {
            take_input(argument++, constraint, cell);
        }
        arguments_.push_back(cell);
    }
}

void AsmStatement::take_input(unsigned argument, const llvm::InlineAsm::ConstraintInfo &constraint, Cell &cell)
{
    llvm::Value *value = call_.getArgOperand(argument);
    const std::string code = constraint.Codes.empty() ? "" : constraint.Codes[0];
    if (auto *constant = llvm::dyn_cast<llvm::ConstantInt>(value);
        constant != nullptr && (code == "n" || code == "i")) {
        cell.constant = constant;
        return;
    }
    if (value->getType()->isPointerTy())
        value = b.CreatePtrToInt(value, b.getInt64Ty());
    const unsigned bits = unsigned(call_.getModule()->getDataLayout().getTypeSizeInBits(value->getType()));
    value = b.CreateBitCast(value, b.getIntNTy(bits));
    unsigned output;
    if (!llvm::StringRef(code).getAsInteger(10, output) && output < arguments_.size()) {
        cell = arguments_[output]; // the second half of a "+r"
        b.CreateStore(b.CreateZExtOrTrunc(value, b.getIntNTy(cell.bits)), cell.slot);
        return;
    }
    cell.bits = bits;
    cell.slot = low_.local(value->getType());
    b.CreateStore(value, cell.slot);
}

/// Replaces the call's result by the values of the outputs.
void AsmStatement::give_results()
{
    llvm::Value *result = nullptr;
    auto load = [&](unsigned index, llvm::Type *type) -> llvm::Value * {
        llvm::Value *value = b.CreateLoad(b.getIntNTy(arguments_[index].bits), arguments_[index].slot);
        return type->isPointerTy() ? b.CreateIntToPtr(value, type) : b.CreateBitCast(value, type);
    };
    if (auto *results = llvm::dyn_cast<llvm::StructType>(call_.getType())) {
        result = llvm::PoisonValue::get(results);
        for (unsigned i = 0; i < outputs_; i++)
            result = b.CreateInsertValue(result, load(i, results->getElementType(i)), i);
    } else if (outputs_ == 1) {
        result = load(0, call_.getType());
    }
    if (result != nullptr)
        call_.replaceAllUsesWith(result);
}

void AsmStatement::run(const std::vector<Statement> &statements)
{
    take_operands();
    low_.set_arguments(arguments_);
    const auto *assembly = llvm::cast<llvm::InlineAsm>(call_.getCalledOperand());
    if (llvm::StringRef(assembly->getConstraintString()).contains("~{memory}"))
        low_.set_clobbered();
    low_.lower_all(statements);
    b.CreateBr(tail_);
    b.SetInsertPoint(&call_);
    give_results();
    call_.eraseFromParent();
}

} // namespace

std::string text_of(const llvm::CallInst &call)
{
    // clang takes braces and bars for variants of x86 assembly, and writes $(, $| and $) for them
    const std::string assembly(llvm::cast<llvm::InlineAsm>(call.getCalledOperand())->getAsmString());
    std::string text;
    for (llvm::StringRef rest = assembly; !rest.empty();) {
        const char c = rest.front();
        rest = rest.drop_front();
        if (c != '$' || rest.empty()) {
            if (c == '%') // in a text without operands the sign is still double
                rest.consume_front("%");
            text += c;
        } else if (const size_t sign = llvm::StringRef("$(|)").find(rest.front()); sign != llvm::StringRef::npos) {
            text += "${|}"[sign];
            rest = rest.drop_front();
        } else {
            take_operand(call, rest, text);
        }
    }
    return text;
}

void lower(llvm::CallInst &call, const std::string &where)
{
    const std::string text = text_of(call);
    const InlineText place(where);
    const auto parsed = parse(text);
    if (const Problem *problem = std::get_if<Problem>(&parsed))
        place.fail(problem->at, problem->text + ", in \"" + text + "\"");
    AsmStatement(call, where, place).run(std::get<std::vector<Statement>>(parsed));
}

} // namespace vgc::ptx
