#pragma once
#if __has_include_next(<cub/host/mutex.cuh>)
#include_next <cub/host/mutex.cuh>
#else
#include <cub/config.cuh>

#include <mutex>
CUB_NAMESPACE_BEGIN
struct Mutex {
    std::mutex mtx;
    void Lock() { mtx.lock(); }
    void Unlock() { mtx.unlock(); }
};
CUB_NAMESPACE_END
#endif
