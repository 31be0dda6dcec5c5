// A piece for all lanes that have it next, as a loop over lanes without inner loops, which the optimiser vectorises.
// Lanes that do not have the piece next go through the loop as well, and keep their values.
#include <set>

#include "liveness.h"
#include "lockstep.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace vgc
{
namespace
{

// Instructions of a piece that is interleaved: a larger one keeps the processor busy by itself. With few lanes the
// limit is higher, as their values can only live in registers if nothing is left of the loop.
const size_t MAX_INTERLEAVED = 300;
const size_t MAX_INTERLEAVED_STREAM = 100;
const uint64_t CACHE_LINE = 64;
const unsigned UNROLLED = 8; // rounds of a loop over lanes that stays one

bool has_atomics(const Piece &piece)
{
    return llvm::any_of(piece.blocks, [](const llvm::BasicBlock *block) {
        return llvm::any_of(*block, [](const llvm::Instruction &one) { return llvm::isa<llvm::AtomicRMWInst>(one); });
    });
}

} // namespace

/// Values that a lane brings into a piece and takes out of it, kept in local variables in between. They are loaded and
/// stored for all lanes, whether these run the piece or not, so that the arrays can live in registers.
class LaneCode::Carried
{
  public:
    Carried(LaneCode &owner, const Piece &piece, llvm::Value *lane, Exit exit)
        : owner_(owner), lane_(lane), writes_next_(exit == Exit::APART)
    {
        std::set<llvm::AllocaInst *> used;
        for (llvm::BasicBlock *part : piece.blocks)
            for (llvm::Instruction &instruction : *part)
                if (auto *slot =
                        llvm::dyn_cast_or_null<llvm::AllocaInst>(llvm::getLoadStorePointerOperand(&instruction));
                    slot != nullptr && owner.slots_.contains(slot) &&
                    !(exit == Exit::AGAIN && owner.is_for_leaving(piece, instruction)) && used.insert(slot).second)
                    add(slot, owner.arrays_[slot], slot->getAllocatedType());
        next_local_ = add(nullptr, owner.next_, owner.builder_.getInt32Ty());
        if (owner.all_ != nullptr) {
            all_local_ = add(nullptr, owner.all_, owner.builder_.getInt32Ty());
            any_local_ = add(nullptr, owner.any_, owner.builder_.getInt32Ty());
        }
    }

    void load(llvm::ValueToValueMapTy &values)
    {
        for (Entry &entry : entries_) {
            entry.element = owner_.builder_.CreateInBoundsGEP(entry.type, entry.array, lane_);
            llvm::LoadInst *value = owner_.builder_.CreateLoad(entry.type, entry.element);
            value->setMetadata(llvm::LLVMContext::MD_access_group, owner_.loop_.access_group);
            owner_.builder_.CreateStore(value, entry.local);
            if (entry.slot != nullptr)
                values[entry.slot] = entry.local;
            if (entry.local == next_local_)
                next_ = value;
        }
    }

    void store()
    {
        for (Entry &entry : entries_) {
            if (entry.local == next_local_ && !writes_next_)
                continue;
            llvm::Value *value = owner_.builder_.CreateLoad(entry.type, entry.local);
            owner_.builder_.CreateStore(value, entry.element)
                ->setMetadata(llvm::LLVMContext::MD_access_group, owner_.loop_.access_group);
        }
    }

    llvm::Value *next() const
    {
        return next_;
    }
    void go_to(unsigned piece)
    {
        owner_.builder_.CreateStore(owner_.builder_.getInt32(piece), next_local_);
    }
    /// Notes the site that the lane has reached.
    void reach(llvm::Value *site)
    {
        for (auto [local, how] : {std::pair{all_local_, llvm::Instruction::And}, {any_local_, llvm::Instruction::Or}}) {
            llvm::Value *before = owner_.builder_.CreateLoad(owner_.builder_.getInt32Ty(), local);
            owner_.builder_.CreateStore(owner_.builder_.CreateBinOp(how, before, site), local);
        }
    }

  private:
    struct Entry {
        llvm::AllocaInst *slot; // slot of the old code
        llvm::AllocaInst *array;
        llvm::AllocaInst *local;
        llvm::Type *type;
        llvm::Value *element = nullptr;
    };
    llvm::AllocaInst *add(llvm::AllocaInst *slot, llvm::AllocaInst *array, llvm::Type *type)
    {
        const llvm::IRBuilderBase::InsertPointGuard guard(owner_.builder_);
        owner_.builder_.SetInsertPoint(&*owner_.loop_.entry->getFirstInsertionPt());
        llvm::AllocaInst *local = owner_.builder_.CreateAlloca(type, nullptr, "local");
        entries_.push_back({slot, array, local, type});
        return local;
    }
    LaneCode &owner_;
    llvm::Value *lane_;
    bool writes_next_;
    std::vector<Entry> entries_;
    llvm::AllocaInst *next_local_ = nullptr, *all_local_ = nullptr, *any_local_ = nullptr;
    llvm::Value *next_ = nullptr;
};

llvm::SmallPtrSet<const llvm::Instruction *, 16> LaneCode::used_of_thread(const Piece &piece) const
{
    llvm::SmallPtrSet<const llvm::Instruction *, 16> used;
    std::vector<const llvm::Instruction *> work;
    auto look = [&](const llvm::Instruction &user) {
        for (const llvm::Value *operand : user.operands())
            if (const auto *value = llvm::dyn_cast<llvm::Instruction>(operand);
                value != nullptr && value->getParent() == loop_.thread && !llvm::isa<llvm::PHINode>(value) &&
                used.insert(value).second)
                work.push_back(value);
    };
    for (const llvm::BasicBlock *part : piece.blocks)
        for (const llvm::Instruction &instruction : *part)
            look(instruction);
    for (const llvm::Instruction &instruction : *loop_.latch)
        look(instruction);
    while (!work.empty()) {
        const llvm::Instruction *value = work.back();
        work.pop_back();
        look(*value);
    }
    return used;
}

bool LaneCode::can_be_ahead(const llvm::Value *value, const llvm::ValueToValueMapTy &next, unsigned depth) const
{
    const auto *instruction = llvm::dyn_cast<llvm::Instruction>(value);
    if (value == loop_.x || next.count(value) != 0)
        return true;
    if (!in_body(value) && (instruction == nullptr || instruction->getParent() != loop_.thread))
        return true;
    if (depth == MAX_RECOMPUTED || llvm::isa<llvm::PHINode>(instruction) || !is_pure(*instruction))
        return false;
    return llvm::all_of(instruction->operands(),
                        [&](const llvm::Value *operand) { return can_be_ahead(operand, next, depth + 1); });
}

void LaneCode::prefetch_next_round(const Piece &piece, const Updates &updates)
{
    if (!has_atomics(piece)) // vectors take little longer than the requests would
        return;
    const llvm::DataLayout &layout = function_.getParent()->getDataLayout();
    llvm::ValueToValueMapTy next;
    for (llvm::PHINode *phi : uniform_phis_)
        for (auto &[slot, value] : updates)
            if (uniform_slots_[phi] == slot)
                next[phi] = value;
    for (const llvm::BasicBlock *block : piece.blocks)
        for (const llvm::Instruction &instruction : *block) {
            const auto *load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
            if (load == nullptr || is_uniform(load->getPointerOperand()) || is_scattered(*load) ||
                llvm::isa<llvm::AllocaInst>(llvm::getUnderlyingObject(load->getPointerOperand())) ||
                !can_be_ahead(load->getPointerOperand(), next))
                continue; // what is common to all lanes is there already, local variables become others
            llvm::Value *first = at(first_, const_cast<llvm::Value *>(load->getPointerOperand()), next, piece);
            const uint64_t bytes = lanes_ * layout.getTypeStoreSize(load->getType());
            for (uint64_t line = 0; line < bytes; line += CACHE_LINE)
                builder_.CreateIntrinsic(llvm::Intrinsic::prefetch, {builder_.getPtrTy()},
                                         {builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, line),
                                          builder_.getInt32(0), builder_.getInt32(3), builder_.getInt32(1)});
        }
}

bool LaneCode::is_for_leaving(const Piece &piece, const llvm::Instruction &instruction) const
{
    const auto found = stored_for_.find(&instruction);
    return found != stored_for_.end() && found->second != piece.start;
}

void LaneCode::emit_lanes(unsigned number, llvm::ValueToValueMapTy &known, Exit exit, llvm::BasicBlock *after)
{
    Piece &piece = pieces_[number];
    llvm::BasicBlock *head = block("lane"), *body = block("lane.body"), *end = block("lane.end");
    llvm::BasicBlock *before = builder_.GetInsertBlock();
    // Atomics are done lane by lane: worth a loop of their own without a test of each lane, which the optimiser makes.
    llvm::Value *all = exit == Exit::AGAIN && has_atomics(piece) ? all_lanes_at(number) : builder_.getFalse();
    builder_.CreateBr(head);
    builder_.SetInsertPoint(head);
    llvm::Type *u32 = builder_.getInt32Ty();
    llvm::PHINode *lane = builder_.CreatePHI(u32, 2, "lane");
    lane->addIncoming(builder_.getInt32(0), before);

    llvm::ValueToValueMapTy values;
    for (auto entry : known)
        values[entry.first] = static_cast<llvm::Value *>(entry.second);
    values[loop_.x] = builder_.CreateAdd(first_, lane, "x", true, true);
    const llvm::SmallPtrSet<const llvm::Instruction *, 16> used = used_of_thread(piece);
    for (llvm::Instruction &instruction : *loop_.thread)
        if (used.contains(&instruction))
            copy(instruction, values);
    Carried carried(*this, piece, lane, exit);
    carried.load(values);
    llvm::Value *mine = builder_.CreateICmpEQ(carried.next(), builder_.getInt32(number));
    builder_.CreateCondBr(builder_.CreateOr(all, mine), body, end);

    clone_piece(piece, values, body, end, carried, exit);
    builder_.SetInsertPoint(end);
    carried.store();
    llvm::Value *following = builder_.CreateAdd(lane, builder_.getInt32(1), "", true, true);
    lane->addIncoming(following, end);
    llvm::BranchInst *again = builder_.CreateCondBr(builder_.CreateICmpULT(following, last_lane_), head, after);
    again->setMetadata(llvm::LLVMContext::MD_loop, vectorise(piece));
}

void LaneCode::clone_piece(Piece &piece, llvm::ValueToValueMapTy &values, llvm::BasicBlock *body, llvm::BasicBlock *end,
                           Carried &carried, Exit exit)
{
    llvm::SmallVector<llvm::BasicBlock *, 8> clones;
    for (llvm::BasicBlock *part : piece.blocks) {
        // uniform instructions keep the value that was computed before the lanes
        llvm::BasicBlock *clone = llvm::BasicBlock::Create(context_, part->getName(), &function_, end);
        for (llvm::Instruction &instruction : *part)
            if (!uniform_.contains(&instruction) && !instruction.isTerminator() &&
                !(exit == Exit::AGAIN && is_for_leaving(piece, instruction))) {
                llvm::Instruction *twin = instruction.clone();
                twin->insertInto(clone, clone->end());
                values[&instruction] = twin;
            }
        values[part] = clone;
        clones.push_back(clone);
    }
    for (llvm::BasicBlock *part : piece.blocks)
        clone_end(*part, values, end, carried, exit != Exit::APART);
    for (llvm::BasicBlock *part : piece.blocks)
        for (llvm::PHINode &phi : part->phis())
            if (!uniform_.contains(&phi))
                for (unsigned i = phi.getNumIncomingValues(); i-- > 0;)
                    if (!piece.blocks.contains(phi.getIncomingBlock(i)))
                        llvm::cast<llvm::PHINode>(values[&phi])->removeIncomingValue(i, false);
    llvm::remapInstructionsInBlocks(clones, values);
    builder_.SetInsertPoint(body);
    builder_.CreateBr(llvm::cast<llvm::BasicBlock>(values[piece.start]));
}

void LaneCode::clone_end(llvm::BasicBlock &part, llvm::ValueToValueMapTy &values, llvm::BasicBlock *end,
                         Carried &carried, bool together)
{
    auto *clone = llvm::cast<llvm::BasicBlock>(values[&part]);
    auto *branch = llvm::cast<llvm::BranchInst>(part.getTerminator());
    llvm::BasicBlock *to[2] = {nullptr, nullptr};
    for (unsigned i = 0; i < branch->getNumSuccessors(); i++) {
        llvm::BasicBlock *successor = branch->getSuccessor(i);
        to[i] = leaves(successor) ? (together ? end : way_out(part, successor, values, end, carried))
                                  : llvm::cast<llvm::BasicBlock>(values[successor]);
    }
    builder_.SetInsertPoint(clone);
    if (to[1] == nullptr || to[0] == to[1]) {
        builder_.CreateBr(to[0]);
        return;
    }
    // remapped with the block's other instructions
    builder_.CreateCondBr(branch->getCondition(), to[0], to[1]);
}

llvm::BasicBlock *LaneCode::way_out(llvm::BasicBlock &from, llvm::BasicBlock *to, llvm::ValueToValueMapTy &values,
                                    llvm::BasicBlock *end, Carried &carried)
{
    llvm::BasicBlock *way = block("way.out");
    way->moveBefore(end);
    builder_.SetInsertPoint(way);
    if (to != loop_.latch) {
        carried.go_to(numbers_[to]);
    } else {
        carried.go_to(DONE);
        if (loop_.next_store != nullptr) {
            llvm::Value *site = loop_.next->getIncomingValueForBlock(&from);
            llvm::ValueToValueMapTy at_latch;
            for (llvm::Instruction &instruction : *loop_.thread)
                if (const auto found = values.find(&instruction); found != values.end())
                    at_latch[&instruction] = static_cast<llvm::Value *>(found->second);
            at_latch[loop_.next] = site;
            copy_latch(at_latch);
            carried.reach(site);
        }
    }
    builder_.CreateBr(end);
    return way;
}

void LaneCode::copy_latch(llvm::ValueToValueMapTy &values)
{
    for (llvm::Instruction &instruction : *loop_.latch) {
        if (llvm::isa<llvm::PHINode>(instruction))
            continue;
        copy(instruction, values);
        if (&instruction == loop_.next_store)
            return;
    }
}

unsigned LaneCode::interleaving(const Piece &piece) const
{
    const size_t limit = streams_ ? MAX_INTERLEAVED_STREAM : MAX_INTERLEAVED;
    return vector_size(piece.blocks) > limit ? 1 : std::min(4u, lanes_ / vector_width());
}

llvm::MDNode *LaneCode::vectorise(const Piece &piece)
{
    auto number = [&](const char *name, unsigned value) {
        return llvm::MDNode::get(
            context_, {llvm::MDString::get(context_, name), llvm::ConstantAsMetadata::get(builder_.getInt32(value))});
    };
    llvm::Metadata *enable = llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.vectorize.enable"),
                                                          llvm::ConstantAsMetadata::get(builder_.getTrue())});
    llvm::Metadata *unroll =
        has_atomics(piece) ? number("llvm.loop.unroll.count", UNROLLED)
                           : llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.unroll.disable")});
    llvm::Metadata *parallel =
        llvm::MDNode::get(context_, {llvm::MDString::get(context_, "llvm.loop.parallel_accesses"), loop_.access_group});
    llvm::MDNode *node = llvm::MDNode::getDistinct(
        context_, {nullptr, parallel, enable, unroll, number("llvm.loop.vectorize.width", vector_width()),
                   number("llvm.loop.interleave.count", interleaving(piece))});
    node->replaceOperandWith(0, node);
    return node;
}

unsigned LaneCode::vector_width() const
{
    const llvm::StringRef features = function_.getFnAttribute("target-features").getValueAsString();
    return features.contains("+avx512f") ? 16 : features.contains("+avx") ? 8 : 4;
}

} // namespace vgc
