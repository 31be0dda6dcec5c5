/* The clock, and waiting by it. */
#include <time.h>

#include "win32.h"

#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION /* Windows 10 1803 */
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 2
#endif

uint64_t vgc_now_ns(void)
{
    LARGE_INTEGER frequency, count; /* neither call fails since Windows XP */
    (void)QueryPerformanceFrequency(&frequency);
    (void)QueryPerformanceCounter(&count);
    uint64_t per_s = (uint64_t)frequency.QuadPart, ticks = (uint64_t)count.QuadPart;
    return ticks / per_s * VGC_NS_PER_S + ticks % per_s * VGC_NS_PER_S / per_s;
}

void vgc_nap(uint64_t ns)
{
    const LARGE_INTEGER due = {.QuadPart = -(LONGLONG)VGC_MAX(ns / 100, 1u)}; /* relative, in 100 ns */
    HANDLE timer =
        CreateWaitableTimerExW(NULL, NULL, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, TIMER_MODIFY_STATE | SYNCHRONIZE);
    if (timer != NULL && SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE))
        (void)WaitForSingleObject(timer, INFINITE);
    else
        Sleep(1); /* Windows before 10 1803 */
    if (timer != NULL)
        (void)CloseHandle(timer);
}

void vgc_cond_init(pthread_cond_t *condition)
{
    (void)pthread_cond_init(condition, NULL);
}

void vgc_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    uint64_t now = vgc_now_ns();
    uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec wait = {(time_t)(left / VGC_NS_PER_S), (long)(left % VGC_NS_PER_S)};
    (void)pthread_cond_timedwait_relative_np(condition, mutex, &wait);
}
