/* The barrier of CUDA 11.0; cuda::barrier of libcu++ has taken its place. */
#pragma once
#include "cuda_awbarrier_primitives.h"

namespace nvcuda {
namespace experimental {

class awbarrier {
  public:
    class arrival_token {
      public:
        arrival_token() = default;
        __device__ uint32_t pending_count() const { return __mbarrier_token_pending_count(token_); }

      private:
        __device__ arrival_token(__mbarrier_token_t token) : token_(token) {}
        __mbarrier_token_t token_;
        friend awbarrier;
    };

    awbarrier() = default;
    awbarrier(const awbarrier &) = delete;
    awbarrier &operator=(const awbarrier &) = delete;
    __device__ arrival_token arrive() { return __mbarrier_arrive(&barrier_); }
    __device__ arrival_token arrive_and_drop() { return __mbarrier_arrive_and_drop(&barrier_); }
    __device__ bool try_wait(arrival_token token, uint32_t nanoseconds) {
        return __mbarrier_try_wait(&barrier_, token.token_, nanoseconds);
    }
    __device__ bool try_wait_parity(bool parity, uint32_t nanoseconds) {
        return __mbarrier_try_wait_parity(&barrier_, parity, nanoseconds);
    }
    /* A cycle is a nanosecond. */
    __device__ bool timed_wait(arrival_token token, uint32_t cycles) { return try_wait(token, cycles); }
    __device__ bool timed_wait_parity(bool parity, uint32_t cycles) { return try_wait_parity(parity, cycles); }
    __device__ void wait(arrival_token token) {
        while (!__mbarrier_test_wait(&barrier_, token.token_)) {
        }
    }
    __device__ void arrive_and_wait() { wait(arrive()); }
    __host__ __device__ static constexpr uint32_t max() { return __mbarrier_maximum_count(); }

  private:
    __mbarrier_t barrier_;
    friend __device__ inline void init(awbarrier *barrier, uint32_t expected) {
        __mbarrier_init(&barrier->barrier_, expected);
    }
    friend __device__ inline void inval(awbarrier *barrier) { __mbarrier_inval(&barrier->barrier_); }
};

__device__ inline void init(awbarrier *barrier, uint32_t expected);
__device__ inline void inval(awbarrier *barrier);

} // namespace experimental
} // namespace nvcuda
