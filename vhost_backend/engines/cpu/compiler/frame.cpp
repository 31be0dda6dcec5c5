// Values that live across waits at different times share slots. Threads that are in different regions at once have
// elements of their own in each slot, so that only what one thread needs matters: a slot is taken by a value for all
// regions that store or load it, or begin while it is still to be loaded.
#include "frame.h"

#include "liveness.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/Support/Alignment.h"

namespace vgc
{
namespace
{

/// Slot whose value an instruction stores or loads; null for other instructions.
const llvm::AllocaInst *slot_of(const llvm::Instruction &instruction)
{
    return llvm::dyn_cast_or_null<llvm::AllocaInst>(llvm::getLoadStorePointerOperand(&instruction));
}

/// Regions that need each of a kernel's values.
class RegionsOfValues
{
  public:
    RegionsOfValues(llvm::Function &function, const std::vector<Wait> &waits, std::vector<llvm::AllocaInst *> values)
        : values_(std::move(values))
    {
        for (const Wait &wait : waits)
            waits_.insert(wait.block);
        for (unsigned number = 0; number < values_.size(); number++)
            numbers_[values_[number]] = number;
        regions_.assign(values_.size(), llvm::BitVector(unsigned(waits.size() + 1)));
        for (llvm::BasicBlock &block : function)
            live_in_[&block].resize(unsigned(values_.size()));
        repeat_backwards(function, [this](llvm::BasicBlock &block) { return update(block); });
        add(0, function.getEntryBlock());
        for (unsigned wait = 0; wait < waits.size(); wait++)
            add(wait + 1, *waits[wait].resume);
    }
    const std::vector<llvm::AllocaInst *> &values() const
    {
        return values_;
    }
    const llvm::BitVector &of(unsigned number) const
    {
        return regions_[number];
    }

  private:
    std::optional<unsigned> number_at(const llvm::Instruction &instruction) const
    {
        const auto found = numbers_.find(slot_of(instruction));
        return found == numbers_.end() ? std::nullopt : std::optional(found->second);
    }
    /// Finds the values that are still to be loaded at the block's begin; false if they were known.
    bool update(llvm::BasicBlock &block);
    void add(unsigned region, llvm::BasicBlock &begin);

    llvm::SmallPtrSet<llvm::BasicBlock *, 16> waits_;
    std::vector<llvm::AllocaInst *> values_;
    llvm::DenseMap<const llvm::AllocaInst *, unsigned> numbers_;
    llvm::DenseMap<const llvm::BasicBlock *, llvm::BitVector> live_in_;
    std::vector<llvm::BitVector> regions_;
};

bool RegionsOfValues::update(llvm::BasicBlock &block)
{
    llvm::BitVector live(unsigned(values_.size()));
    for (llvm::BasicBlock *successor : llvm::successors(&block))
        live |= live_in_[successor];
    for (const llvm::Instruction &instruction : llvm::reverse(block))
        if (const std::optional<unsigned> number = number_at(instruction)) {
            if (llvm::isa<llvm::StoreInst>(instruction))
                live.reset(*number);
            else
                live.set(*number);
        }
    llvm::BitVector &known = live_in_[&block];
    if (live == known)
        return false;
    known = std::move(live);
    return true;
}

void RegionsOfValues::add(unsigned region, llvm::BasicBlock &begin)
{
    for (const unsigned number : live_in_[&begin].set_bits())
        regions_[number].set(region);
    for (llvm::BasicBlock *block : reachable(&begin, waits_))
        for (const llvm::Instruction &instruction : *block)
            if (const std::optional<unsigned> number = number_at(instruction))
                regions_[*number].set(region);
}

class Frame
{
  public:
    Frame(const std::vector<Kept> &kept, const std::vector<Wait> &waits, Kernel &kernel)
        : kernel_(kernel), layout_(kernel.function->getParent()->getDataLayout())
    {
        std::vector<llvm::AllocaInst *> values;
        for (const Kept &one : kept)
            if (one.is_value && !one.common)
                values.push_back(one.alloca);
            else
                slots_[one.alloca] = {add(size_of(*one.alloca)), size_of(*one.alloca), one.common};
        share(RegionsOfValues(*kernel.function, waits, std::move(values)));
        kernel.frame_bytes = uint32_t(bytes_);
    }
    Slots slots()
    {
        return std::move(slots_);
    }

  private:
    struct Place {
        uint64_t offset, size;
        llvm::BitVector regions; // that need it
    };
    uint64_t size_of(const llvm::AllocaInst &alloca) const
    {
        return llvm::alignTo(alloca.getAllocationSize(layout_)->getFixedValue(), alloca.getAlign());
    }
    /// Makes the frame larger; returns the offset of what is added.
    uint64_t add(uint64_t size)
    {
        const uint64_t offset = bytes_;
        bytes_ += size;
        if (bytes_ > VGC_CPU_MAX_FRAME)
            fail("kernel '" + kernel_.name + "' keeps more than " + llvm::Twine(int(VGC_CPU_MAX_FRAME)) +
                 " bytes per thread across barriers");
        return offset;
    }
    void share(const RegionsOfValues &regions)
    {
        std::vector<Place> places;
        for (unsigned number = 0; number < regions.values().size(); number++) {
            llvm::AllocaInst *value = regions.values()[number];
            const uint64_t size = size_of(*value);
            auto place = llvm::find_if(places, [&](const Place &place) {
                return place.size == size && !place.regions.anyCommon(regions.of(number));
            });
            if (place == places.end())
                place = places.insert(place, {add(size), size, llvm::BitVector(regions.of(number).size())});
            place->regions |= regions.of(number);
            slots_[value] = {place->offset, size, false};
        }
    }

    Kernel &kernel_;
    const llvm::DataLayout &layout_;
    Slots slots_;
    uint64_t bytes_ = 0;
};

} // namespace

Slots lay_out_frame(const std::vector<Kept> &kept, const std::vector<Wait> &waits, Kernel &kernel)
{
    return Frame(kept, waits, kernel).slots();
}

} // namespace vgc
