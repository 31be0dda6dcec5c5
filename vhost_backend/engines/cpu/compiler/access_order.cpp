// The loop vectoriser joins accesses to the members of structures, point[x].a and point[x].b, in groups, which it does
// at once: loads where the first one is, stores where the last one is. In loops that are annotated as parallel it knows
// of no dependences, although the annotation speaks of different rounds only: it then moves a load over the store of
// the same thread to the same member. Addresses of accesses that must not change places are hidden from it here; they
// become gathers and scatters.
//
// So are addresses like shared[(x + 52) & 63], which are consecutive if 6 bits do not wrap within a row. The vectoriser
// would check that, and run thread by thread where they wrap, as they mostly do; LLVM 19 loses the check in some loops
// within others, and then reads beyond the array.
#include "access_order.h"

#include "llvm/Analysis/AliasAnalysis.h"
#include "llvm/Analysis/LoopAccessAnalysis.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/LoopIterator.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/Instructions.h"

namespace vgc
{
namespace
{

const int64_t MAX_STRIDE = 8;    // elements, of LLVM's groups
const size_t MAX_ACCESSES = 200; // that are compared with one another
const unsigned MIN_BITS = 32;    // of numbers that do not wrap within a row as a rule

struct Access {
    llvm::Instruction *instruction;
    bool may_be_grouped;
    bool is_ordered = false; // a store before an access that may touch the same memory, or that access
};

void hide_address(llvm::Instruction &access)
{
    llvm::Value *address = llvm::getLoadStorePointerOperand(&access);
    access.replaceUsesOfWith(address, new llvm::FreezeInst(address, "hidden", access.getIterator()));
}

bool may_be_grouped(llvm::Instruction &access, llvm::PredicatedScalarEvolution &evolution, const llvm::Loop &loop)
{
    const llvm::DenseMap<llvm::Value *, const llvm::SCEV *> none;
    const auto stride = llvm::getPtrStride(evolution, llvm::getLoadStoreType(&access),
                                           llvm::getLoadStorePointerOperand(&access), &loop, none, true, false);
    return stride.has_value() && std::abs(*stride) > 1 && std::abs(*stride) <= MAX_STRIDE;
}

void find_order(std::vector<Access> &accesses, llvm::AAResults &aliases)
{
    for (size_t later = 1; later < accesses.size(); later++)
        for (size_t earlier = 0; earlier < later; earlier++) {
            Access &a = accesses[earlier], &b = accesses[later];
            const bool is_relevant = (a.may_be_grouped && !a.is_ordered) || (b.may_be_grouped && !b.is_ordered);
            if (is_relevant && a.instruction->mayWriteToMemory() && // loads go up, stores down
                (accesses.size() > MAX_ACCESSES || !aliases.isNoAlias(llvm::MemoryLocation::get(a.instruction),
                                                                      llvm::MemoryLocation::get(b.instruction))))
                a.is_ordered = b.is_ordered = true;
        }
}

bool keep_order(llvm::Loop &loop, const llvm::LoopInfo &loops, llvm::ScalarEvolution &evolution,
                llvm::AAResults &aliases)
{
    llvm::PredicatedScalarEvolution assumed(evolution, loop);
    llvm::LoopBlocksRPO order(&loop);
    order.perform(&loops);
    std::vector<Access> accesses;
    for (llvm::BasicBlock *block : order)
        for (llvm::Instruction &instruction : *block)
            if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction))
                accesses.push_back({&instruction, may_be_grouped(instruction, assumed, loop)});
    if (llvm::count_if(accesses, [](const Access &access) { return access.may_be_grouped; }) < 2)
        return false; // no groups
    find_order(accesses, aliases);
    bool changed = false;
    for (const Access &access : accesses)
        if (access.is_ordered && access.may_be_grouped) {
            hide_address(*access.instruction);
            changed = true;
        }
    return changed;
}

/// True if the address is consecutive under the assumption only that some bits of a number do not wrap.
bool is_masked(llvm::Instruction &access, llvm::ScalarEvolution &evolution, llvm::Loop &loop)
{
    llvm::PredicatedScalarEvolution assumed(evolution, loop);
    const llvm::DenseMap<llvm::Value *, const llvm::SCEV *> none;
    if (!llvm::getPtrStride(assumed, llvm::getLoadStoreType(&access), llvm::getLoadStorePointerOperand(&access), &loop,
                            none, true, false))
        return false;
    const auto &assumptions = llvm::cast<llvm::SCEVUnionPredicate>(assumed.getPredicate());
    return llvm::any_of(assumptions.getPredicates(), [](const llvm::SCEVPredicate *assumption) {
        const auto *wraps = llvm::dyn_cast<llvm::SCEVWrapPredicate>(assumption);
        return wraps != nullptr && wraps->getExpr()->getType()->getIntegerBitWidth() < MIN_BITS;
    });
}

bool hide_masked(llvm::Loop &loop, llvm::ScalarEvolution &evolution)
{
    std::vector<llvm::Instruction *> masked;
    for (llvm::BasicBlock *block : loop.blocks())
        for (llvm::Instruction &instruction : *block)
            if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction) && is_masked(instruction, evolution, loop))
                masked.push_back(&instruction);
    for (llvm::Instruction *access : masked)
        hide_address(*access);
    return !masked.empty();
}

} // namespace

llvm::PreservedAnalyses KeepAccessOrder::run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses)
{
    const llvm::LoopInfo &loops = analyses.getResult<llvm::LoopAnalysis>(function);
    bool changed = false;
    llvm::ScalarEvolution &evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    for (llvm::Loop *loop : const_cast<llvm::LoopInfo &>(loops).getLoopsInPreorder())
        if (loop->isInnermost()) {
            changed |= hide_masked(*loop, evolution);
            if (loop->isAnnotatedParallel())
                changed |= keep_order(*loop, loops, evolution, analyses.getResult<llvm::AAManager>(function));
        }
    return changed ? llvm::PreservedAnalyses::none() : llvm::PreservedAnalyses::all();
}

} // namespace vgc
