// The layers of turning a loop over threads inside out (explained in lanes.cpp), each built on the one before:
//   LaneBody       lane_body.cpp      decides which code may run in lockstep
//   UniformValues  lane_uniform.cpp   values that are the same in all lanes, and strides of addresses between lanes
//                  lane_gain.cpp      whether lockstep is worth it
//   LanePieces     lane_pieces.cpp    the pieces of the code, and the values that lanes carry between them
//   LaneCode       lane_code.cpp      the new code: groups of lanes, choice of the next piece
//                  lane_loop.cpp      a piece's loop over lanes, which the optimiser vectorises
#pragma once

#include <optional>
#include <vector>

#include "thread_loop.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{

const unsigned LANES = 32;            // the values that they carry fit into vector registers
const unsigned LONG_LANES = 64;       // of long rows, for short code: a sum waits for the one before it
const unsigned STREAMING_LANES = 256; // their loads are long enough to be prefetched
const unsigned LANE_STEP = 64;        // numbers of lanes in loops are multiples of this
const unsigned DONE = 255;            // piece number of lanes that have reached the latch
const size_t COST_BY_LANE = 48;       // instructions: a branch, the operation and moves for each lane of a vector
const unsigned MAX_RECOMPUTED = 12;   // most instructions of an expression that is computed again

using Blocks = llvm::SetVector<llvm::BasicBlock *>;

/// The body of the loop over threads, with its inner loops in a form that the other layers can rely on.
class LaneBody
{
  protected:
    explicit LaneBody(ThreadLoop &loop)
        : loop_(loop), function_(*loop.function), context_(function_.getContext()), builder_(context_)
    {
    }

    /// True if the body may run in lockstep; its loops are then in a regular shape.
    bool analyse();

    /// Estimated number of instructions of the blocks' code as vectors: operations without vectors are done lane by
    /// lane.
    static size_t vector_size(const Blocks &blocks);
    bool in_body(const llvm::Value *value) const;
    bool is_header(llvm::BasicBlock *block) const;
    bool starts_piece(llvm::BasicBlock *block) const;

    ThreadLoop &loop_;
    llvm::Function &function_;
    llvm::LLVMContext &context_;
    llvm::IRBuilder<> builder_;
    llvm::LoopInfo loops_;
    llvm::Loop *threads_ = nullptr;
    Blocks body_;
    bool has_atomics_ = false;

  private:
    bool accept(const llvm::BasicBlock &block);

    llvm::DominatorTree dominators_;
};

/// Values that are the same in all lanes, and are computed once.
class UniformValues : protected LaneBody
{
  protected:
    using LaneBody::LaneBody;

    /// Begins with all values, and removes those that may differ until nothing changes.
    void find_uniform();
    /// True for values that are computed once for all lanes, or defined before the loop over threads.
    bool is_uniform(const llvm::Value *value) const;
    /// Splits i += step, where only the first i differs between lanes, into first + u, u += step, with u uniform.
    void split_inductions();
    /// Undoes that in a loop, for code that runs thread by thread.
    void join_inductions(const llvm::BasicBlock *header);
    /// Computes indices in 64 bits that were computed in 32 bits and then extended, since those are consecutive only if
    /// they do not wrap between lanes. A signed index that wraps would jump across 4 GiB, which no array allows.
    void widen_indices();
    /// True for a load or store of elements that are neither the same for all lanes nor side by side.
    bool is_scattered(const llvm::Instruction &access) const;
    /// Size of code as vectors, with the accesses that the processor has for single lanes only.
    size_t lane_size(const Blocks &blocks) const;
    /// Loops that are faster thread by thread.
    std::vector<llvm::Loop *> slow_loops() const;

    llvm::SmallPtrSet<const llvm::Instruction *, 32> uniform_;
    bool streams_ = false; // lanes walk through memory from different starts with the same step

  private:
    bool may_be_uniform(const llvm::Instruction &instruction) const;
    static bool is_safe_division(const llvm::Instruction &instruction);
    void split_induction(llvm::PHINode &phi);
    bool is_slow(const llvm::Loop &loop) const;
    /// Difference of a 32-bit value between neighbouring lanes; none if it is not constant. `checked`: only if it is
    /// known not to wrap.
    std::optional<int64_t> growth(const llvm::Value *value, bool checked, unsigned depth = 0) const;
    /// Difference of a number or an address (in bytes) between neighbouring lanes; none if it is not constant.
    std::optional<int64_t> stride(const llvm::Value *value, unsigned depth = 0) const;
    std::optional<int64_t> address_stride(const llvm::GetElementPtrInst &address, unsigned depth) const;
    /// True if all lanes that enter the loop leave it together.
    bool has_common_rounds(const llvm::Loop &loop) const;
    /// Value, extended to 64 bits.
    llvm::Value *extended(llvm::Value *value, llvm::CastInst &cast);

    // that every lane of a piece does before any store to the same memory: they can be done once for all lanes
    llvm::DenseSet<const llvm::LoadInst *> first_loads_;
    struct Split {
        llvm::PHINode *offset;
        llvm::BinaryOperator *sum, *next; // sum + step
    };
    std::vector<Split> splits_;
};

/// Piece: code without loops, and its exits.
struct Piece {
    llvm::BasicBlock *start;
    Blocks blocks;
    llvm::BasicBlock *only_exit = nullptr; // the block that leads out, if only one does
    // made by LaneCode
    llvm::BasicBlock *check = nullptr; // checks whether any lane has this piece next
    llvm::BasicBlock *before = nullptr;
    llvm::BasicBlock *after = nullptr;
};

/// Code cut into pieces, and the values that lanes carry from piece to piece.
class LanePieces : protected UniformValues
{
  protected:
    using UniformValues::UniformValues;

    /// False if the pieces together are too large.
    bool find_pieces();
    bool leaves(llvm::BasicBlock *successor) const;
    /// Moves values that lanes carry from piece to piece into slots in memory, unless it is cheaper to compute them
    /// again.
    void demote();

    std::vector<Piece> pieces_;
    llvm::DenseMap<llvm::BasicBlock *, unsigned> numbers_;
    llvm::SetVector<llvm::AllocaInst *> slots_; // one per value; made into arrays, an element per lane
    std::vector<llvm::PHINode *> uniform_phis_;
    llvm::MapVector<llvm::Instruction *, llvm::AllocaInst *> uniform_slots_;
    llvm::DenseMap<const llvm::Instruction *, llvm::BasicBlock *>
        stored_for_; // stores, and the phi's block that needs them

  private:
    /// Sorts blocks in reverse post-order, with the blocks of a loop together.
    void order_blocks(const llvm::Loop *level, std::vector<llvm::BasicBlock *> &ordered);
    void fill(Piece &piece);
    /// Makes pieces of `starts` in the order of `ordered`.
    void cut(const std::vector<llvm::BasicBlock *> &ordered, const Blocks &starts);
    /// Instructions of all pieces together; code that several pieces lead to is part of each.
    size_t size() const;
    /// Instructions with which pieces load and store the values that lanes carry.
    size_t carried() const;
    /// Adds the blocks where code of several pieces comes together.
    void add_joins(Blocks &starts) const;
    bool is_recomputable(const llvm::Value *value, unsigned &budget) const;
    llvm::Value *recompute(llvm::Value *value, llvm::Instruction *before);
    /// Replaces a phi at a piece's start by stores in front of it and a load.
    void demote_phi(llvm::PHINode &phi);
};

/// Emits the new code and removes the old.
class LaneCode : protected LanePieces
{
  protected:
    using LanePieces::LanePieces;

    void emit();

    unsigned lanes_ = 0; // lanes per group; set before `emit`

  private:
    class Carried;
    /// Successor of a piece that all its lanes take, decided once for all lanes.
    struct Way {
        llvm::Value *condition = nullptr; // null: always the first
        llvm::BasicBlock *to[2] = {nullptr, nullptr};
    };

    // lane_code.cpp
    llvm::AllocaInst *allocate(llvm::Type *type, unsigned count, const char *name);
    llvm::BasicBlock *block(const llvm::Twine &name);
    llvm::Type *lanes_of(llvm::Type *type);
    /// Emits the loop over groups of threads of the row.
    void emit_chunks();
    llvm::Instruction *copy(llvm::Instruction &instruction, llvm::ValueToValueMapTy &values);
    llvm::Constant *splat(unsigned piece);
    llvm::Value *any_lane_at(unsigned piece);
    llvm::Value *all_lanes_at(unsigned piece);
    llvm::BasicBlock *check_behind(unsigned piece);
    /// Emits a uniform value at the builder's position, before the lanes of a piece; memorised in `known`.
    llvm::Value *once(llvm::Value *value, llvm::ValueToValueMapTy &known, const Piece &piece);
    std::optional<Way> common_way(const Piece &piece, llvm::ValueToValueMapTy &known);
    /// True for numbers that grow by 1 from lane to lane, but where they wrap around.
    bool counts_up(const llvm::Value *value, unsigned depth = 0) const;
    /// Such a number, or a uniform value, for the thread `x`, at the builder's position.
    llvm::Value *at(llvm::Value *x, llvm::Value *value, llvm::ValueToValueMapTy &known, const Piece &piece);
    /// If the piece is a loop whose test compares such a number with a uniform one: whether all lanes pass it and run
    /// the piece again; null if it is not. False may mean that this is not known.
    llvm::Value *all_go_on(const Piece &piece, llvm::ValueToValueMapTy &known);
    using Updates = std::vector<std::pair<llvm::AllocaInst *, llvm::Value *>>;
    /// Emits a round of a loop after which `all` lanes go on, without the test of each.
    void emit_round(unsigned number, llvm::ValueToValueMapTy &known, const Updates &updates, llvm::Value *all);
    void emit_piece(unsigned number);
    /// Computes the instruction if it is uniform, or else its uniform operands.
    void compute_once(llvm::Instruction &instruction, llvm::ValueToValueMapTy &known, const Piece &piece);
    /// New values of the uniform phis of loops that the piece leads to.
    Updates phi_updates(const Piece &piece, llvm::ValueToValueMapTy &known);
    /// Emits the exit of a piece whose lanes all go the same way.
    void emit_common_way(unsigned number, const Way &way);
    /// Emits the exit of a piece whose lanes may diverge: to the lowest piece that any lane has next.
    void emit_ways(unsigned number);
    /// Emits the code after the last piece: combines the sites that lanes have reached, and goes on with the next
    /// group.
    void emit_chunk_end();
    /// Removes the old loop; users of its results get the totals.
    void remove_old();

    // lane_loop.cpp
    /// How lanes leave a piece: each sets its next piece; all go one way, which is set behind the loop over lanes; all
    /// run the piece again.
    enum class Exit { APART, TOGETHER, AGAIN };
    /// Emits the loop over lanes, to the block `after`.
    void emit_lanes(unsigned number, llvm::ValueToValueMapTy &known, Exit exit, llvm::BasicBlock *after);
    /// Asks for the memory that lanes load side by side in the next round of a loop which is done lane by lane.
    void prefetch_next_round(const Piece &piece, const Updates &updates);
    /// True if the address of the loop's next round can be computed ahead, with `next` for what changes.
    bool can_be_ahead(const llvm::Value *value, const llvm::ValueToValueMapTy &next, unsigned depth = 0) const;
    /// True for stores of values that the piece only needs when lanes leave it.
    bool is_for_leaving(const Piece &piece, const llvm::Instruction &instruction) const;
    /// Instructions at a thread's begin that the piece, or the latch behind it, uses.
    llvm::SmallPtrSet<const llvm::Instruction *, 16> used_of_thread(const Piece &piece) const;
    void clone_piece(Piece &piece, llvm::ValueToValueMapTy &values, llvm::BasicBlock *body, llvm::BasicBlock *end,
                     Carried &carried, Exit exit);
    /// Emits the end of a cloned block. Exits of the piece set the lane's next piece.
    void clone_end(llvm::BasicBlock &part, llvm::ValueToValueMapTy &values, llvm::BasicBlock *end, Carried &carried,
                   bool together);
    llvm::BasicBlock *way_out(llvm::BasicBlock &from, llvm::BasicBlock *to, llvm::ValueToValueMapTy &values,
                              llvm::BasicBlock *end, Carried &carried);
    /// Copies the latch's address computation and store of ctx->next.
    void copy_latch(llvm::ValueToValueMapTy &values);
    llvm::MDNode *vectorise(const Piece &piece);
    /// Number of vectors that an iteration of the loop over lanes works on.
    unsigned interleaving(const Piece &piece) const;
    /// Number of 32-bit lanes of a vector register of this host.
    unsigned vector_width() const;

    llvm::DenseMap<llvm::AllocaInst *, llvm::AllocaInst *> arrays_;
    llvm::AllocaInst *next_ = nullptr, *all_ = nullptr, *any_ = nullptr, *all_total_ = nullptr, *any_total_ = nullptr;
    llvm::BasicBlock *chunk_ = nullptr, *chunk_end_ = nullptr;
    llvm::PHINode *first_ = nullptr;
    llvm::Value *last_lane_ = nullptr; // exclusive
};

} // namespace vgc
