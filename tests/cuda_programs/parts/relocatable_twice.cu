// A function of the device for relocatable_thrust.cu.
__device__ int twice(int value)
{
    return 2 * value;
}
