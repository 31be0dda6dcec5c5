// Rule: votes, matches and reductions of a warp give the same answer to all lanes that the mask names.
#include "check.h"

struct Lane {
    unsigned ballot, any, all, match_any, match_all, sum, largest, active;
    int all_same;
};

__global__ void votes(Lane *lanes)
{
    int lane = threadIdx.x;
    Lane mine;
    mine.ballot = __ballot_sync(~0u, lane % 3 == 0);
    mine.any = __any_sync(~0u, lane == 17);
    mine.all = __all_sync(~0u, lane != 17);
    mine.match_any = __match_any_sync(~0u, lane / 4);
    mine.match_all = __match_all_sync(~0u, lane / 32, &mine.all_same);
    mine.sum = __reduce_add_sync(~0u, (unsigned)lane);
    mine.largest = __reduce_max_sync(~0u, (unsigned)(lane * 3));
    mine.active = 0;
    if (lane < 10)
        mine.active = __popc(__ballot_sync(0x3ff, lane >= 4)) + 100 * __popc(__activemask() & 0x3ff);
    lanes[lane] = mine;
}

int main()
{
    Lane lanes[32], *device;
    CHECK(cudaMalloc(&device, sizeof lanes));
    votes<<<1, 32>>>(device);
    CHECK(cudaMemcpy(lanes, device, sizeof lanes, cudaMemcpyDeviceToHost));
    unsigned thirds = 0;
    for (int lane = 0; lane < 32; lane += 3)
        thirds |= 1u << lane;
    for (int lane = 0; lane < 32; lane++) {
        EXPECT_EQUAL(lanes[lane].ballot, thirds);
        EXPECT(lanes[lane].any != 0 && lanes[lane].all == 0);
        EXPECT_EQUAL(lanes[lane].match_any, 0xfu << (lane / 4 * 4));
        EXPECT_EQUAL(lanes[lane].match_all, 0xffffffffu);
        EXPECT(lanes[lane].all_same);
        EXPECT_EQUAL(lanes[lane].sum, 496);
        EXPECT_EQUAL(lanes[lane].largest, 93);
        EXPECT_EQUAL(lanes[lane].active % 100, lane < 10 ? 6 : 0);
    }
    return finish();
}
