// The optimiser and the code generator take more than linear time for large functions, and copy code (unrolling,
// unswitching, vectorising, inlining) the more, the more there is. The limits here are far above hand-written kernels.
#include "effort.h"

#include "compiler.h"
#include "sites.h"

#include <set>

#include "llvm/ADT/SCCIterator.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

// numbers of instructions
const size_t MAX_INLINED = 30000;     // of a function with all that is inlined into it, before any optimisation
const size_t SMALL = 300;             // functions that limits never concern
const size_t LARGE = 4000;            // a function that is optimised for size: nothing is unrolled or unswitched
const size_t ENORMOUS = 12000;        // a function that is not vectorised either
const size_t LONG_PROGRAM = 30000;    // a program that is spared what takes a quarter of the time and gains little
const size_t LARGE_PROGRAM = 50000;   // a program whose functions are all optimised for size
const size_t VAST_PROGRAM = 100000;   // a program that is spared a third, too: -O2, loops that do one vector at a time
const unsigned MAX_UNROLLED = 4096;   // of a loop with #pragma unroll; LLVM's own limit is four times as many
const unsigned REGISTER_SPLITS = 500; // of a range's blocks that the register allocator weighs in long programs
const size_t MAX_BLOCK = 1000;        // of a block that the code generator takes as one
const unsigned MAX_SCHEDULED = 200;   // accesses of memory in a block that the schedulers compare with one another

template <typename Value> void set_option(const char *name, Value value)
{
    auto &options = llvm::cl::getRegisteredOptions();
    if (const auto found = options.find(name); found != options.end())
        static_cast<llvm::cl::opt<Value> *>(found->second)->setValue(value);
}

/// Functions that wait for other threads, or end one, themselves or in functions that they call.
std::set<const llvm::Function *> waiting(const llvm::Module &module)
{
    std::set<const llvm::Function *> found;
    std::vector<const llvm::Function *> work;
    for (const llvm::Function &function : module)
        if (is_wait_name(function.getName()) || function.getName() == "__vgc_exit")
            work.push_back(&function);
    for (const llvm::Function &function : module) // warp_order.cpp may put waits between volatile accesses
        for (const llvm::Instruction &instruction : llvm::instructions(function))
            if (instruction.isVolatile() && found.insert(&function).second)
                work.push_back(&function);
    while (!work.empty()) {
        const llvm::Function *callee = work.back();
        work.pop_back();
        for (const llvm::User *user : callee->users())
            if (const auto *call = llvm::dyn_cast<llvm::CallInst>(user);
                call != nullptr && found.insert(call->getFunction()).second)
                work.push_back(call->getFunction());
    }
    return found;
}

/// Takes the wish to be interleaved from the loop that a branch closes, if it does.
void keep_apart(llvm::Instruction &branch)
{
    llvm::MDNode *loop = branch.getMetadata(llvm::LLVMContext::MD_loop);
    if (loop == nullptr)
        return;
    llvm::LLVMContext &context = branch.getContext();
    branch.setMetadata(llvm::LLVMContext::MD_loop,
                       llvm::makePostTransformationMetadata(context, loop, {"llvm.loop.interleave.count"}, {}));
}

class InlinedSizes
{
  public:
    explicit InlinedSizes(llvm::Module &module) : waiting_(waiting(module))
    {
    }

    /// Takes a function whose callees have been taken.
    void take(llvm::Function &function)
    {
        size_t own = function.getInstructionCount();
        llvm::MapVector<llvm::Function *, size_t> calls;
        for (llvm::Instruction &instruction : llvm::instructions(function))
            if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
                call != nullptr && call->getCalledFunction() != nullptr && is_inlined(*call->getCalledFunction()))
                calls[call->getCalledFunction()]++;
        size_t sum = own;
        for (const auto &[callee, count] : calls)
            sum += count * sizes_[callee];
        while (sum > MAX_INLINED) {
            llvm::Function *heaviest = nullptr;
            for (const auto &[callee, count] : calls)
                if (may_stay(*callee) &&
                    (heaviest == nullptr || count * sizes_[callee] > calls[heaviest] * sizes_[heaviest]))
                    heaviest = callee;
            if (heaviest == nullptr)
                break;
            heaviest->removeFnAttr(llvm::Attribute::AlwaysInline);
            heaviest->addFnAttr(llvm::Attribute::NoInline);
            sum -= calls[heaviest] * sizes_[heaviest];
        }
        sizes_[&function] = sum;
    }

  private:
    static bool is_inlined(const llvm::Function &function)
    {
        return function.hasFnAttribute(llvm::Attribute::AlwaysInline) && !function.isDeclaration();
    }
    bool may_stay(const llvm::Function &function)
    {
        return is_inlined(function) && !waiting_.contains(&function) && sizes_[&function] > SMALL;
    }

    const std::set<const llvm::Function *> waiting_;
    llvm::DenseMap<const llvm::Function *, size_t> sizes_;
};

} // namespace

void limit_inlining(llvm::Module &module)
{
    llvm::CallGraph graph(module);
    InlinedSizes sizes(module);
    for (auto component = llvm::scc_begin(&graph); !component.isAtEnd(); ++component)
        for (const llvm::CallGraphNode *node : *component)
            if (llvm::Function *function = node->getFunction(); function != nullptr && !function->isDeclaration())
                sizes.take(*function);
}

void limit_unrolling()
{
    set_option("pragma-unroll-threshold", MAX_UNROLLED);
}

void keep_strides()
{
    set_option("enable-mem-access-versioning", false);
    set_option("unswitch-threshold", 100);
}

void limit_scheduling()
{
    set_option("dag-maps-huge-region", MAX_SCHEDULED);
    set_option("dag-maps-reduction-size", MAX_SCHEDULED / 2);
    set_option("disable-x86-domain-reassignment", true); // the square of a function's registers
}

namespace
{

/// Ends a block before an instruction with a jump that the code generator does not take for one, so that it does not
/// join the blocks again: an empty `asm goto`.
void split_before(llvm::Instruction &place)
{
    llvm::BasicBlock *block = place.getParent(), *rest = block->splitBasicBlock(&place);
    block->getTerminator()->eraseFromParent();
    auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(block->getContext()), false);
    llvm::IRBuilder<>(block).CreateCallBr(type, llvm::InlineAsm::get(type, "", "", true), rest, {}, {});
}

/// The places behind each MAX_BLOCK instructions of a long block. Variables stay where functions begin.
std::vector<llvm::Instruction *> places_to_split(llvm::BasicBlock &block)
{
    std::vector<llvm::Instruction *> places;
    size_t count = 0;
    for (llvm::Instruction &instruction : block) {
        if (llvm::isa<llvm::PHINode, llvm::AllocaInst>(instruction)) {
            places.clear();
            count = 0;
        } else if (++count > MAX_BLOCK && !instruction.isTerminator()) {
            places.push_back(&instruction);
            count = 0;
        }
    }
    return places;
}

} // namespace

void split_blocks(llvm::Module &module)
{
    for (llvm::Function &function : module)
        for (llvm::BasicBlock &block : llvm::make_early_inc_range(function)) {
            if (block.size() <= 2 * MAX_BLOCK)
                continue;
            const std::vector<llvm::Instruction *> places = places_to_split(block);
            for (llvm::Instruction *place : llvm::reverse(places)) // so that no instruction is moved twice
                split_before(*place);
        }
}

bool is_enormous(const llvm::Function &function)
{
    return function.hasFnAttribute(llvm::Attribute::NoImplicitFloat);
}

Effort limit_effort(llvm::Module &module)
{
    const size_t program = module.getInstructionCount();
    size_t largest = 0;
    for (llvm::Function &function : module) {
        const size_t size = function.getInstructionCount();
        largest = std::max(largest, size);
        if (size <= SMALL || (size <= LARGE && program <= LARGE_PROGRAM))
            continue;
        function.addFnAttr(llvm::Attribute::OptimizeForSize);
        if (size > ENORMOUS)
            function.addFnAttr(llvm::Attribute::NoImplicitFloat);    // neither kind of vectoriser takes these
        if (size > LARGE && !function.getName().starts_with("vgc.")) // no function of the source
            llvm::errs() << "vgc-cpucc: remark: '" << function.getName() << "' has " << size << " instructions and is "
                         << (size > ENORMOUS ? "neither unrolled nor vectorised\n" : "not unrolled\n");
    }
    if (program > LARGE_PROGRAM)
        llvm::errs() << "vgc-cpucc: remark: the program has " << program
                     << " instructions; its larger functions are not unrolled\n";
    // the scheduler need not weigh registers in these: measured, their code is faster so, and made in half the time
    if (largest > ENORMOUS)
        set_option("misched-regpressure", false);
    Effort effort;
    if (program > LONG_PROGRAM) {
        set_option("disable-lsr", true);
        set_option("enable-epilogue-vectorization", false); // the rest of a row of threads, which seldom has any
        set_option("grow-region-complexity-budget", REGISTER_SPLITS);
        effort.skipped.push_back("LoopLoadEliminationPass");
    }
    if (program > VAST_PROGRAM) {
        for (llvm::Function &function : module)
            for (llvm::BasicBlock &block : function)
                keep_apart(*block.getTerminator());
        effort.level = llvm::OptimizationLevel::O2;
        for (const char *pass : {"GVNPass", "DSEPass"}) // have been done before the regions were formed
            effort.skipped.push_back(pass);
        effort.skipped.push_back("SLPVectorizerPass");
    }
    return effort;
}

} // namespace vgc
