// Switches with few cases become branches: neither the loop vectoriser nor lockstep (lanes.cpp) takes a switch, which
// LLVM makes of `if (x == 0) ... if (x == 15) ...`, too.
#include "switches.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace vgc
{
namespace
{

const unsigned MAX_CASES = 8; // more are faster as a table, thread by thread

/// The choice before LLVM made it narrower, as which other passes know it.
llvm::Value *widest(llvm::Value *choice)
{
    const auto *narrow = llvm::dyn_cast<llvm::TruncInst>(choice);
    return narrow != nullptr && narrow->hasNoUnsignedWrap() ? narrow->getOperand(0) : choice;
}

/// A case's number in the type of the choice.
llvm::Constant *same_in(llvm::Type *type, const llvm::ConstantInt &number)
{
    return llvm::ConstantInt::get(type, number.getValue().zext(type->getIntegerBitWidth()));
}

/// Emits a comparison per case, each in a block of its own.
void lower(llvm::SwitchInst &choice)
{
    llvm::BasicBlock *from = choice.getParent(), *otherwise = choice.getDefaultDest();
    llvm::Value *value = widest(choice.getCondition());
    llvm::IRBuilder<> builder(&choice);
    std::vector<std::pair<llvm::ConstantInt *, llvm::BasicBlock *>> cases;
    for (const auto &one : choice.cases())
        cases.push_back({one.getCaseValue(), one.getCaseSuccessor()});
    // Each edge of a switch has an entry in its target's phis; so has each edge of the new blocks.
    std::vector<std::pair<llvm::BasicBlock *, llvm::BasicBlock *>> edges;
    llvm::BasicBlock *here = from;
    for (size_t i = 0; i < cases.size(); i++) {
        const bool is_last = i + 1 == cases.size();
        llvm::BasicBlock *next =
            is_last ? otherwise
                    : llvm::BasicBlock::Create(choice.getContext(), "case", from->getParent(), here->getNextNode());
        if (i > 0)
            builder.SetInsertPoint(here);
        builder.CreateCondBr(builder.CreateICmpEQ(value, same_in(value->getType(), *cases[i].first)), cases[i].second,
                             next);
        edges.push_back({here, cases[i].second});
        if (is_last)
            edges.push_back({here, otherwise});
        here = next;
    }
    llvm::MapVector<llvm::BasicBlock *, std::vector<llvm::BasicBlock *>> sources;
    for (const auto &[source, target] : edges)
        sources[target].push_back(source);
    for (const auto &[target, blocks] : sources)
        for (llvm::PHINode &phi : target->phis()) {
            llvm::Value *incoming = phi.getIncomingValueForBlock(from);
            while (phi.getBasicBlockIndex(from) >= 0)
                phi.removeIncomingValue(from, false);
            for (llvm::BasicBlock *block : blocks)
                phi.addIncoming(incoming, block);
        }
    choice.eraseFromParent();
}

} // namespace

bool lower_switches(llvm::Function &function)
{
    std::vector<llvm::SwitchInst *> found;
    for (llvm::BasicBlock &block : function)
        if (auto *choice = llvm::dyn_cast<llvm::SwitchInst>(block.getTerminator());
            choice != nullptr && choice->getNumCases() > 0 && choice->getNumCases() <= MAX_CASES)
            found.push_back(choice);
    for (llvm::SwitchInst *choice : found)
        lower(*choice);
    return !found.empty();
}

llvm::PreservedAnalyses LowerSwitches::run(llvm::Function &function, llvm::FunctionAnalysisManager &)
{
    return lower_switches(function) ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

} // namespace vgc
