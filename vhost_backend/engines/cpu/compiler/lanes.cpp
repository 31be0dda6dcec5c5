// Turning the loop over threads inside out. Code with loops cannot be vectorised over threads directly. Therefore some
// threads of a row at a time, the *lanes*, are run in lockstep, like the threads of a warp on a GPU:
//
//  - The code is cut into *pieces* without loops: a piece begins at the region's entry, at a loop's header, behind a
//    loop, at the end of a loop with inner loops. The pieces of a loop have consecutive numbers, lower than those of
//    the pieces behind it. No lane therefore begins a loop's next round before all lanes in it have finished this one.
//  - Each lane has the number of its next piece. Repeatedly, the piece with the lowest number of any lane is run for
//  all
//    lanes that have it next, in a loop over the lanes, which the optimiser vectorises.
//  - Values that a lane carries from piece to piece are in arrays with an element per lane, which become vector
//  registers.
//  - A loop in which all lanes of the group go on, as a test of the first and the last lane tells, runs without each
//    lane's own test.
//  - Values that are the same in all lanes (loop counters, and values computed or loaded with them) are computed once,
//    which makes most addresses consecutive.
//
// lockstep.h lists the files that do it.
#include "lanes.h"
#include "lockstep.h"
#include "reroll.h"

#include "llvm/Transforms/Utils/LoopUtils.h"

namespace vgc
{
namespace
{

const size_t MAX_BODY = 8000; // size as vectors of code that is vectorised
const size_t MAX_LONG = 100;  // of code whose values fit into registers for LONG_LANES

class Lockstep : private LaneCode
{
  public:
    explicit Lockstep(ThreadLoop &loop) : LaneCode(loop)
    {
    }

    bool run()
    {
        if (!analyse() || vector_size(body_) > MAX_BODY)
            return false;
        split_inductions();
        if (has_atomics_ && !streams_)
            return false; // no gain: neither vectors nor a better order of accesses
        const bool is_short = loop_.has_long_rows && vector_size(body_) <= MAX_LONG;
        lanes_ = streams_ ? STREAMING_LANES : is_short ? LONG_LANES : LANES;
        find_uniform();
        widen_indices();
        find_uniform();
        if (lane_size(body_) > MAX_BODY || is_faster_apart() || !find_pieces())
            return false;
        demote();
        emit();
        return true;
    }

  private:
    /// True if the code runs thread by thread, for which its loops are then prepared.
    bool is_faster_apart()
    {
        const std::vector<llvm::Loop *> slow = slow_loops();
        if (slow.empty())
            return false;
        // rounds are few, and their number differs: what unrolling leaves over is one more jump to guess
        llvm::addStringMetadataToLoop(slow.front(), "llvm.loop.unroll.runtime.disable");
        std::vector<llvm::BasicBlock *> unrolled;
        for (const llvm::Loop *loop : slow)
            if (const auto pair = UnrolledPair::of(*loop, loops_)) {
                join_inductions(pair->first);
                join_inductions(pair->main);
                unrolled.push_back(pair->first);
            }
        reroll(function_, unrolled);
        return true;
    }
};

} // namespace

bool turn_inside_out(ThreadLoop &loop)
{
    return Lockstep(loop).run();
}

} // namespace vgc
