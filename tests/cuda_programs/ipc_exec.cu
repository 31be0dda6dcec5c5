// Rule: two processes work on the same memory in turn, each behind the other's work, in the order that events give.
#include "peer.h"

constexpr int COUNT = 1 << 16, ROUNDS = 5;

struct Handles {
    cudaIpcMemHandle_t numbers;
    cudaIpcEventHandle_t filled, added;
};

__global__ void fill(int *numbers, int value)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT; i += gridDim.x * blockDim.x)
        numbers[i] = value + i;
}

__global__ void add(int *numbers, int value)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT; i += gridDim.x * blockDim.x)
        numbers[i] += value;
}

static int consume(const Peer &producer)
{
    Handles handles;
    int *numbers;
    cudaEvent_t filled, added;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    producer.receive(&handles, sizeof handles);
    CHECK(cudaIpcOpenMemHandle((void **)&numbers, handles.numbers, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaIpcOpenEventHandle(&filled, handles.filled));
    CHECK(cudaIpcOpenEventHandle(&added, handles.added));
    for (int round = 0; round < ROUNDS; round++) {
        producer.meet(); /* it has recorded that it fills */
        CHECK(cudaStreamWaitEvent(stream, filled, 0));
        add<<<8, 128, 0, stream>>>(numbers, 1000);
        CHECK(cudaEventRecord(added, stream));
        producer.meet();
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaIpcCloseMemHandle(numbers));
    CHECK(cudaEventDestroy(filled));
    CHECK(cudaEventDestroy(added));
    CHECK(cudaStreamDestroy(stream));
    return failures;
}

static void produce(const Peer &consumer)
{
    Handles handles;
    int *numbers, *found = (int *)malloc(COUNT * sizeof *found);
    cudaEvent_t filled, added;
    cudaStream_t stream;
    const unsigned flags = cudaEventDisableTiming | cudaEventInterprocess;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&numbers, COUNT * sizeof *numbers));
    CHECK(cudaEventCreateWithFlags(&filled, flags));
    CHECK(cudaEventCreateWithFlags(&added, flags));
    CHECK(cudaIpcGetMemHandle(&handles.numbers, numbers));
    CHECK(cudaIpcGetEventHandle(&handles.filled, filled));
    CHECK(cudaIpcGetEventHandle(&handles.added, added));
    consumer.send(&handles, sizeof handles);
    for (int round = 0; round < ROUNDS; round++) {
        fill<<<8, 128, 0, stream>>>(numbers, round);
        CHECK(cudaEventRecord(filled, stream));
        consumer.meet();
        consumer.meet(); /* it has recorded that it adds */
        CHECK(cudaStreamWaitEvent(stream, added, 0));
        CHECK(cudaMemcpyAsync(found, numbers, COUNT * sizeof *found, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaEventQuery(added));
        CHECK(cudaEventSynchronize(added));
        int wrong = 0;
        for (int i = 0; i < COUNT; i++)
            wrong += found[i] != round + i + 1000;
        EXPECT_EQUAL(wrong, 0);
    }
    CHECK(cudaEventDestroy(filled));
    CHECK(cudaEventDestroy(added));
    free(found);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        Peer producer;
        producer.fd = atoi(argv[1]);
        return consume(producer);
    }
    Peer consumer = exec_peer(argv[0]); /* CUDA is not used yet, but might be */
    produce(consumer);
    EXPECT_EQUAL(consumer.wait(), 0);
    return finish();
}
