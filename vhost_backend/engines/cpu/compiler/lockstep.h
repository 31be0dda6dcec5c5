// The layers of turning a loop over threads inside out (lanes.cpp says what that means), each built on the one before:
//   LaneBody       lane_body.cpp      what may run in lockstep
//   UniformValues  lane_uniform.cpp   what all lanes agree about, and how addresses change from lane to lane
//   LanePieces     lane_pieces.cpp    the code's pieces, and what lanes carry from one to the next
//   LaneCode       lane_code.cpp      the new code: groups of lanes, which piece is run next
//                  lane_loop.cpp      one piece's loop over lanes, which the optimiser vectorises
#pragma once

#include <optional>
#include <vector>

#include "lanes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/Transforms/Utils/ValueMapper.h"

namespace vgc
{

const unsigned LANE_STEP = 64;      // loops over lanes end at multiples of this
const unsigned DONE = 255;          // the piece of lanes that have come to the latch
const unsigned MAX_RECOMPUTED = 12; // instructions of an expression

using Blocks = llvm::SetVector<llvm::BasicBlock *>;

/// The body of the loop over threads, with its inner loops in a form that the other layers can rely on.
class LaneBody
{
  protected:
    explicit LaneBody(ThreadLoop &loop)
        : loop_(loop), function_(*loop.function), context_(function_.getContext()), builder_(context_)
    {
    }

    /// May it be done? Brings the loops into shape if so.
    bool analyse();

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

/// What is the same in all lanes that run in lockstep, and is computed once for all.
class UniformValues : protected LaneBody
{
  protected:
    using LaneBody::LaneBody;

    /// Begins with everything, and takes out what is not until nothing changes.
    void find_uniform();
    /// Computed once for all lanes: or defined before the loop over threads.
    bool is_uniform(const llvm::Value *value) const;
    /// i += step, where only the first i differs between lanes: becomes first + u, u += step, with u uniform.
    void split_inductions();
    /// An index that is computed in 32 bits and then extended is consecutive only if it does not wrap from one lane
    /// to the next. If it is signed, that would take it from one end of 4 GiB to the other: no array is like that.
    void widen_indices();

    llvm::SmallPtrSet<const llvm::Instruction *, 32> uniform_;
    bool streams_ = false; // goes through memory with a stride, one thread beside the other

  private:
    /// A load that every lane of a piece does first thing, before any store, can be done once for all.
    bool is_first_in_piece(const llvm::LoadInst &load) const;
    bool may_be_uniform(const llvm::Instruction &instruction) const;
    static bool is_safe_division(const llvm::Instruction &instruction);
    void split_induction(llvm::PHINode &phi);
    /// By how much a 32-bit value grows from lane to lane; none if that is not a constant. `checked`: only what is
    /// known not to wrap.
    std::optional<int64_t> growth(const llvm::Value *value, bool checked, unsigned depth = 0) const;
    /// The value in 64 bits.
    llvm::Value *extended(llvm::Value *value, llvm::CastInst &cast);
};

/// Code without loops, and how lanes leave it.
struct Piece {
    llvm::BasicBlock *start;
    Blocks blocks;
    llvm::BasicBlock *only_exit = nullptr; // the one block that leads out, if there is just one
    // made by LaneCode
    llvm::BasicBlock *check = nullptr; // does any lane have this piece next?
    llvm::BasicBlock *before = nullptr;
    llvm::BasicBlock *after = nullptr;
};

/// The code cut into pieces, and its values sorted into those that lanes carry across the cuts and those they do not.
class LanePieces : protected UniformValues
{
  protected:
    using UniformValues::UniformValues;

    void find_pieces();
    bool leaves(llvm::BasicBlock *successor) const;
    /// Moves into slots in memory what lanes carry from piece to piece, unless it is cheaper to compute it
    /// again.
    void demote();

    std::vector<Piece> pieces_;
    llvm::DenseMap<llvm::BasicBlock *, unsigned> numbers_;
    llvm::SetVector<llvm::AllocaInst *> slots_; // one per value; made into arrays, an element per lane
    std::vector<llvm::PHINode *> uniform_phis_;
    llvm::MapVector<llvm::Instruction *, llvm::AllocaInst *> uniform_slots_;

  private:
    /// Blocks in reverse post-order, but with the blocks of a loop together.
    void order_blocks(const llvm::Loop *level, std::vector<llvm::BasicBlock *> &ordered);
    void fill(Piece &piece);
    bool is_recomputable(const llvm::Value *value, unsigned &budget) const;
    llvm::Value *recompute(llvm::Value *value, llvm::Instruction *before);
    /// A phi at a piece's start: stored on the way in, loaded there.
    void demote_phi(llvm::PHINode &phi);
};

/// Writes the new code and takes the old away.
class LaneCode : protected LanePieces
{
  protected:
    using LanePieces::LanePieces;

    void emit();

    unsigned lanes_ = 0; // in a group; set before `emit`

  private:
    class Carried;
    /// Where a piece's lanes go if they all go the same way: decided once.
    struct Way {
        llvm::Value *condition = nullptr; // null: always the first
        llvm::BasicBlock *to[2] = {nullptr, nullptr};
    };

    // lane_code.cpp
    llvm::AllocaInst *allocate(llvm::Type *type, unsigned count, const char *name);
    llvm::BasicBlock *block(const llvm::Twine &name);
    llvm::Type *lanes_of(llvm::Type *type);
    /// The loop over groups of threads of the row.
    void emit_chunks();
    llvm::Instruction *copy(llvm::Instruction &instruction, llvm::ValueToValueMapTy &values);
    llvm::Constant *splat(unsigned piece);
    llvm::Value *any_lane_at(unsigned piece);
    llvm::BasicBlock *check_behind(unsigned piece);
    /// A uniform value at the builder's place, before the lanes of a piece; memorised in `known`.
    llvm::Value *once(llvm::Value *value, llvm::ValueToValueMapTy &known, const Piece &piece);
    std::optional<Way> common_way(const Piece &piece, llvm::ValueToValueMapTy &known);
    void emit_piece(unsigned number);
    /// The instruction, if it is uniform, or what it takes from others that are.
    void compute_once(llvm::Instruction &instruction, llvm::ValueToValueMapTy &known, const Piece &piece);
    /// What the uniform phis of loops become that the piece leads to.
    std::vector<std::pair<llvm::AllocaInst *, llvm::Value *>> phi_updates(const Piece &piece,
                                                                          llvm::ValueToValueMapTy &known);
    /// All lanes of the piece go the same way.
    void emit_common_way(unsigned number, const Way &way);
    /// Lanes part: back to the lowest piece that any of them has next.
    void emit_ways(unsigned number);
    /// After the last piece: adds up where lanes have come to, and goes on with the next group.
    void emit_chunk_end();
    /// Takes the old loop away; who used its results gets the totals.
    void remove_old();

    // lane_loop.cpp
    /// The loop over lanes that the optimiser vectorises. `together`: lanes are sent on behind the loop.
    void emit_lanes(unsigned number, llvm::ValueToValueMapTy &known, bool together);
    void clone_piece(Piece &piece, llvm::ValueToValueMapTy &values, llvm::BasicBlock *body, llvm::BasicBlock *end,
                     Carried &carried, bool together);
    /// The end of a cloned block. Ways out of the piece set the lane's next piece.
    void clone_end(llvm::BasicBlock &part, llvm::ValueToValueMapTy &values, llvm::BasicBlock *end, Carried &carried,
                   bool together);
    llvm::BasicBlock *way_out(llvm::BasicBlock &from, llvm::BasicBlock *to, llvm::ValueToValueMapTy &values,
                              llvm::BasicBlock *end, Carried &carried);
    /// The address computation and store of ctx->next, as the latch has them.
    void copy_latch(llvm::ValueToValueMapTy &values);
    llvm::MDNode *vectorise();
    /// 32-bit lanes of a vector register of this host.
    unsigned vector_width() const;

    llvm::DenseMap<llvm::AllocaInst *, llvm::AllocaInst *> arrays_;
    llvm::AllocaInst *next_ = nullptr, *all_ = nullptr, *any_ = nullptr, *all_total_ = nullptr, *any_total_ = nullptr;
    llvm::BasicBlock *chunk_ = nullptr, *chunk_end_ = nullptr;
    llvm::PHINode *first_ = nullptr;
    llvm::Value *last_lane_ = nullptr; // exclusive
};

} // namespace vgc
