// Rule: copies and fills of rows in a captured stream become nodes, and are done at each launch.
#include "check.h"

__global__ void change(int *values)
{
    values[threadIdx.x] += 1;
}

int main()
{
    int *from, *to, values[16] = {};
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t count;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&from, sizeof values));
    CHECK(cudaMalloc(&to, sizeof values));
    CHECK(cudaMemset(from, 0, sizeof values));
    CHECK(cudaMemset(to, 0, sizeof values));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    change<<<1, 16, 0, stream>>>(from);
    CHECK(cudaMemset2DAsync(to, 16, 1, 8, 4, stream)); /* the left half of 4 x 4 */
    CHECK(cudaMemcpy2DAsync(to, 16, from, 16, 4, 2, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    EXPECT_EQUAL(count, 3);
    CHECK(cudaMemcpy(values, to, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(values[0], 0);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 1; round <= 2; round++) {
        CHECK(cudaGraphLaunch(exec, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaMemcpy(values, to, sizeof values, cudaMemcpyDeviceToHost));
        EXPECT(values[0] == round && values[4] == round && values[8] == 0x01010101 && values[1] == 0x01010101);
        EXPECT(values[2] == 0 && values[15] == 0);
    }
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    return finish();
}
