#include "statement.h"

#include "../compiler.h"
#include "parser.h"
#include "table.h"

#include "llvm/Analysis/ValueTracking.h"

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
    Lowering lowering(call, where, lower_instruction);
    const auto parsed = parse(text);
    if (const Problem *problem = std::get_if<Problem>(&parsed))
        lowering.fail(problem->at, problem->text + ", in \"" + text + "\"");
    lowering.run(std::get<std::vector<Statement>>(parsed));
}

} // namespace vgc::ptx
