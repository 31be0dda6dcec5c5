// Rule: objects made by kernels call their virtual functions in later kernels.
#include "check.h"

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual const char *name() const
    {
        return "shape";
    }
    __device__ virtual ~Shape()
    {
    }
};

struct Square : Shape {
    float side;
    __device__ explicit Square(float side) : side(side)
    {
    }
    __device__ float area() const override
    {
        return side * side;
    }
};

struct Box final : Square {
    float other;
    __device__ Box(float side, float other) : Square(side), other(other)
    {
    }
    __device__ float area() const override
    {
        return Square::area() / side * other;
    }
    __device__ const char *name() const override
    {
        return "box";
    }
};

__global__ void make(Shape **shapes)
{
    int i = threadIdx.x;
    if (i % 2)
        shapes[i] = new Square(i);
    else
        shapes[i] = new Box(i + 1, 3);
}

__global__ void measure(Shape **shapes, float *areas)
{
    int i = threadIdx.x;
    areas[i] = shapes[i]->area() + (shapes[i]->name()[0] == 'b' ? 0.5f : 0);
    delete shapes[i];
}

int main()
{
    Shape **shapes;
    float *device, areas[32];
    CHECK(cudaMalloc(&shapes, 32 * sizeof *shapes));
    CHECK(cudaMalloc(&device, sizeof areas));
    make<<<1, 32>>>(shapes);
    measure<<<1, 32>>>(shapes, device);
    CHECK(cudaMemcpy(areas, device, sizeof areas, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(areas[i], i % 2 ? i * i : (i + 1) * 3 + 0.5f);
    return finish();
}
