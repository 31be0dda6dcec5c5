// A thread's code with loops in it cannot be vectorised over threads as it stands. So some threads of a row are taken
// at a time, the *lanes*, and run in lockstep, as the threads of a warp on a GPU:
//
//  - The code is cut into *pieces* without loops: a piece begins at the region's entry, at a loop's header, behind a
//    loop, at the end of a loop with loops inside. Pieces are numbered such that a loop's come one after the other,
//    and those behind it after them. So no lane begins a loop's next round before all lanes in it are done with this.
//  - Each lane has a number: the piece that it does next. Again and again, the piece with the lowest number that any
//    lane has is run for all lanes that have it, in a loop over the lanes, which is what the optimiser vectorises.
//  - What a lane carries from piece to piece is in arrays with an element per lane, which become vector registers.
//  - What is the same in all lanes that run in lockstep (loop counters, what is computed or loaded with them) is
//    computed once. That is what makes most addresses consecutive.
//
// lockstep.h lists the files that do it.
#include "lockstep.h"

namespace vgc
{
namespace
{

const unsigned LANES = 32;            // what they carry fits into vector registers
const unsigned STREAMING_LANES = 256; // what they load is long enough to be fetched ahead
const unsigned MAX_PIECES = 64;

class Lockstep : private LaneCode
{
  public:
    explicit Lockstep(ThreadLoop &loop) : LaneCode(loop)
    {
    }

    bool run()
    {
        if (!analyse())
            return false;
        split_inductions();
        if (has_atomics_ && !streams_)
            return false; // nothing to gain: no vectors, and no order of accesses that is better
        lanes_ = streams_ ? STREAMING_LANES : LANES;
        find_uniform();
        widen_indices();
        find_uniform();
        find_pieces();
        if (pieces_.size() > MAX_PIECES)
            return false;
        demote();
        emit();
        return true;
    }
};

} // namespace

bool turn_inside_out(ThreadLoop &loop)
{
    return Lockstep(loop).run();
}

} // namespace vgc
