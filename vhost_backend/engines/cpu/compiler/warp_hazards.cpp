// Warnings of programs that rely on the lanes of a warp going in step: one lane reads an element of shared memory,
// another writes it, and nothing between makes the lanes wait for each other. Volatile memory is kept in order, so it
// is not warned of.
//
// Accesses are compared whose addresses the code tells for each lane of a block's first warp, but for values that all
// threads share (warp_values.h). There is a warning only if two lanes surely meet at one byte and no way from the one
// access to the other leads through a wait: programs in which that is right by some other means are hardly written.
#include "checks.h"
#include "warp_values.h"

#include <deque>
#include <set>

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

const size_t MAX_ACCESSES = 256;       // of a kernel with more, these are compared
const unsigned MAX_WARNINGS = 20;      // of a program
const unsigned LANES_OF_A_PLANE = 8;   // in a row of a block that has rows
const size_t MAX_INSTRUCTIONS = 30000; // of a kernel that is looked at

/// What each lane does with an access: which bytes, and whether it comes there.
struct Lanes {
    bool is_known = false;
    std::map<const llvm::Value *, int64_t> terms;
    std::vector<int64_t> offsets;
    std::vector<bool> active;
};

/// A condition on the way to an access that values decide which all threads share, and its outcome.
using Assumptions = std::map<const llvm::Value *, bool>;

struct Access {
    llvm::Instruction *instruction;
    const llvm::Value *pointer;
    int64_t bytes;
    bool writes;
    Lanes first; // in the first iteration of its loops
    Assumptions assumptions;
};

/// A place on the way from an access, to be looked at from its begin.
struct Step {
    const llvm::BasicBlock *block;
    bool waited; // at a barrier or the like
    bool again;  // in the loop's second iteration
    bool operator<(const Step &other) const
    {
        return std::tie(block, waited, again) < std::tie(other.block, other.waited, other.again);
    }
};

class HazardSearch
{
  public:
    HazardSearch(const Kernel &kernel, std::set<std::string> &told)
        : function_(*kernel.function), layout_(function_.getParent()->getDataLayout()), told_(told),
          dominators_(function_), loops_(dominators_), lanes_(std::min(kernel.max_threads, count_lanes()))
    {
        for (unsigned lane = 0; lane < lanes_; lane++)
            values_.emplace_back(loops_, lane);
    }

    void run()
    {
        collect();
        for (unsigned lane = 0; lane < lanes_; lane++)
            if (llvm::any_of(accesses_, [&](const Access &access) { return leaves_array(access, lane); }))
                lanes_ = lane;
        for (Access &access : accesses_)
            access.first = lanes_of(access, values_, access.assumptions);
        for (const Access &access : accesses_)
            if (access.first.is_known)
                follow(access);
    }

  private:
    /// Lanes of the first warp that lie in the block's first row for sure, or nearly.
    unsigned count_lanes() const
    {
        for (const llvm::Instruction &instruction : llvm::instructions(function_))
            if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
                call != nullptr && call->getCalledFunction() != nullptr &&
                (call->getCalledFunction()->getName() == "__vgc_tid_y" ||
                 call->getCalledFunction()->getName() == "__vgc_tid_z"))
                return LANES_OF_A_PLANE;
        return VGC_CPU_WARP;
    }

    void collect()
    {
        for (llvm::Instruction &instruction : llvm::instructions(function_)) {
            auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
            auto *store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
            if ((load == nullptr || !load->isSimple()) && (store == nullptr || !store->isSimple()))
                continue;
            const llvm::Value *pointer = llvm::getLoadStorePointerOperand(&instruction);
            if (!is_shared_object(llvm::getUnderlyingObject(pointer, 0)))
                continue;
            const auto bytes = int64_t(layout_.getTypeStoreSize(llvm::getLoadStoreType(&instruction)));
            index_[&instruction] = accesses_.size();
            accesses_.push_back({&instruction, pointer, bytes, store != nullptr, {}, {}});
            if (accesses_.size() == MAX_ACCESSES)
                break;
        }
    }

    Lanes lanes_of(const Access &access, std::vector<WarpValues> &values, Assumptions &assumptions)
    {
        Lanes lanes;
        const llvm::BasicBlock *block = access.instruction->getParent();
        for (unsigned lane = 0; lane < lanes_; lane++) {
            const std::optional<LaneValue> address = values[lane].at(access.pointer, block);
            const Truth comes = comes_to(block, values[lane], assumptions);
            if (comes == Truth::UNKNOWN || (comes != Truth::NO && !address))
                return {};
            lanes.active.push_back(comes != Truth::NO);
            lanes.offsets.push_back(address ? address->number : 0);
            if (comes == Truth::NO)
                continue;
            if (lanes.is_known && lanes.terms != address->terms)
                return {};
            lanes.terms = address->terms;
            lanes.is_known = true;
        }
        return lanes;
    }

    /// Does a lane come to the block?
    Truth comes_to(const llvm::BasicBlock *block, WarpValues &values, Assumptions &assumptions)
    {
        const llvm::DomTreeNode *node = dominators_.getNode(block);
        for (; node != nullptr && node->getIDom() != nullptr; node = node->getIDom()) {
            const llvm::BasicBlock *before = node->getIDom()->getBlock();
            const llvm::Loop *loop = loops_.getLoopFor(before);
            const auto *branch = llvm::dyn_cast<llvm::BranchInst>(before->getTerminator());
            if (llvm::isa<llvm::SwitchInst>(before->getTerminator()) &&
                !values.is_common(before->getTerminator()->getOperand(0)))
                return Truth::UNKNOWN;
            if (branch == nullptr || !branch->isConditional() || (loop != nullptr && !loop->contains(block)))
                continue;
            for (unsigned way = 0; way < 2; way++) {
                if (!dominators_.dominates(llvm::BasicBlockEdge(before, branch->getSuccessor(way)), block))
                    continue;
                const Truth taken = values.truth(branch->getCondition(), before);
                if (taken == Truth::UNKNOWN || taken == (way == 0 ? Truth::NO : Truth::YES))
                    return taken == Truth::UNKNOWN ? taken : Truth::NO;
                if (taken == Truth::LIKELY)
                    assumptions[branch->getCondition()] = way == 0;
            }
        }
        return Truth::YES;
    }

    static bool leaves_dimension(const llvm::GEPOperator &address, WarpValues &values, const llvm::BasicBlock *block)
    {
        llvm::Type *type = address.getSourceElementType();
        for (unsigned i = 2; i < address.getNumOperands(); i++) { // the first index is of the whole
            const std::optional<LaneValue> index = values.at(address.getOperand(i), block);
            if (type->isArrayTy() && index && index->terms.empty() &&
                index->number >= int64_t(type->getArrayNumElements()))
                return true;
            type = llvm::GetElementPtrInst::getTypeAtIndex(type, address.getOperand(i));
        }
        return false;
    }

    /// True if the lane would come to elements behind the end of an array: blocks are smaller then.
    bool leaves_array(const Access &access, unsigned lane)
    {
        Assumptions ignored;
        const llvm::BasicBlock *block = access.instruction->getParent();
        if (comes_to(block, values_[lane], ignored) == Truth::NO)
            return false;
        const llvm::Value *pointer = access.pointer;
        for (const auto *address = llvm::dyn_cast<llvm::GEPOperator>(pointer); address != nullptr;
             pointer = address->getPointerOperand(), address = llvm::dyn_cast<llvm::GEPOperator>(pointer))
            if (leaves_dimension(*address, values_[lane], block))
                return true;
        return false;
    }

    /// Looks at what follows the access, as far as the second iteration of its innermost loop.
    void follow(const Access &access)
    {
        const llvm::Loop *loop = loops_.getLoopFor(access.instruction->getParent());
        std::set<Step> known;
        std::deque<Step> work;
        std::map<std::pair<size_t, bool>, bool> met; // accesses, in this or the next iteration; true: behind a wait
        auto walk = [&](Step step, const llvm::Instruction *from) {
            for (; from != nullptr; from = from->getNextNode()) {
                const auto *call = llvm::dyn_cast<llvm::CallInst>(from);
                step.waited |= call != nullptr && call->getCalledFunction() != nullptr &&
                               is_wait_name(call->getCalledFunction()->getName());
                if (const auto found = index_.find(from); found != index_.end())
                    met[{found->second, step.again}] |= step.waited;
            }
            for (const llvm::BasicBlock *next : llvm::successors(step.block)) {
                const bool back = dominators_.dominates(next, step.block);
                const bool own = loop != nullptr && next == loop->getHeader() && !step.again;
                if ((!back || own) && known.insert({next, step.waited, step.again || back}).second)
                    work.push_back({next, step.waited, step.again || back});
            }
        };
        walk({access.instruction->getParent(), false, false}, access.instruction->getNextNode());
        while (!work.empty()) {
            const Step step = work.front();
            work.pop_front();
            walk(step, &step.block->front());
        }
        for (const auto &[where, waited] : met) {
            const Access &later = accesses_[where.first];
            if (!waited && access.writes != later.writes)
                compare(access, later, where.second ? loop : nullptr);
        }
    }

    /// `again`: the later access is in the loop's second iteration; null: in the same one.
    void compare(const Access &access, const Access &later, const llvm::Loop *again)
    {
        Lanes lanes = later.first;
        Assumptions assumptions = later.assumptions;
        if (again != nullptr) {
            if (!again->contains(later.instruction) || again->getLoopLatch() == nullptr)
                return;
            std::vector<WarpValues> second;
            for (WarpValues &first : values_)
                second.emplace_back(loops_, unsigned(second.size()), &first, again);
            assumptions = {};
            lanes = lanes_of(later, second, assumptions);
            if (!go_round(*again, lanes))
                return;
        }
        for (const auto &[condition, outcome] : assumptions)
            if (const auto same = access.assumptions.find(condition);
                same != access.assumptions.end() && same->second != outcome)
                return;
        if (lanes.is_known && lanes.terms == access.first.terms && !stores_same(access.writes ? access : later))
            meet(access, later, lanes);
    }

    /// Takes away the lanes that do not go on to the loop's second iteration; false if that is not known.
    bool go_round(const llvm::Loop &loop, Lanes &lanes)
    {
        const llvm::BasicBlock *latch = loop.getLoopLatch();
        const auto *branch = llvm::dyn_cast<llvm::BranchInst>(latch->getTerminator());
        for (unsigned lane = 0; lanes.is_known && lane < lanes_; lane++) {
            Assumptions ignored;
            Truth comes = comes_to(latch, values_[lane], ignored);
            if (comes != Truth::NO && branch != nullptr && branch->isConditional()) {
                const Truth taken = values_[lane].truth(branch->getCondition(), latch);
                const Truth leaves = branch->getSuccessor(0) == loop.getHeader() ? Truth::NO : Truth::YES;
                comes = taken == leaves ? Truth::NO : taken == Truth::UNKNOWN ? taken : Truth::YES;
            }
            if (comes == Truth::UNKNOWN)
                return false;
            lanes.active[lane] = lanes.active[lane] && comes != Truth::NO;
        }
        return lanes.is_known;
    }

    /// True if all lanes store the same value at the same place.
    bool stores_same(const Access &access)
    {
        const llvm::Value *stored = llvm::cast<llvm::StoreInst>(access.instruction)->getValueOperand();
        return values_[0].is_common(stored) && llvm::all_equal(access.first.offsets);
    }

    /// Warns if two lanes meet at one byte.
    void meet(const Access &access, const Access &later, const Lanes &lanes)
    {
        for (unsigned one = 0; one < lanes_; one++)
            for (unsigned two = 0; two < lanes_; two++)
                if (one != two && access.first.active[one] && lanes.active[two] &&
                    access.first.offsets[one] < lanes.offsets[two] + later.bytes &&
                    lanes.offsets[two] < access.first.offsets[one] + access.bytes) {
                    warn(access.writes ? later : access, access.writes ? access : later);
                    return;
                }
    }

    void warn(const Access &read, const Access &write)
    {
        const llvm::DILocation *here = place_in_source(*read.instruction), *there = place_in_source(*write.instruction);
        if (here == nullptr || there == nullptr)
            return;
        const std::string name = object_name(*llvm::getUnderlyingObject(read.pointer, 0));
        std::string text;
        llvm::raw_string_ostream(text) << here->getFilename() << ":" << here->getLine() << ":" << here->getColumn()
                                       << ": warning: reads what other threads of the warp write to '" << name
                                       << "' at line " << there->getLine()
                                       << ", without __syncwarp() or a barrier between: right only if the warp goes in "
                                          "step, as with --lockstep or if the memory is volatile\n";
        const std::string lines =
            (here->getFilename() + ":" + llvm::Twine(here->getLine()) + ":" + llvm::Twine(there->getLine())).str();
        if (told_.size() < MAX_WARNINGS && told_.insert(lines).second)
            llvm::errs() << text;
    }

    llvm::Function &function_;
    const llvm::DataLayout &layout_;
    std::set<std::string> &told_; // pairs of lines
    llvm::DominatorTree dominators_;
    llvm::LoopInfo loops_;
    unsigned lanes_;
    std::vector<WarpValues> values_; // by lane
    std::vector<Access> accesses_;
    llvm::DenseMap<const llvm::Instruction *, size_t> index_;
};

} // namespace

void warn_of_hazards(const Program &program)
{
    std::set<std::string> told;
    for (const Kernel &kernel : program.kernels)
        if (kernel.function->getInstructionCount() <= MAX_INSTRUCTIONS)
            HazardSearch(kernel, told).run();
}

} // namespace vgc
