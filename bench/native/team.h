// Threads that work on one program together: each runs the same function over its share of every step.
#pragma once

#include <barrier>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

// One thread's place in a team.
class Member
{
  public:
    Member(unsigned number, unsigned threads, std::barrier<> &all) : number_(number), threads_(threads), all_(all)
    {
    }

    // This thread's part of [begin, end).
    std::pair<uint64_t, uint64_t> share(uint64_t begin, uint64_t end) const
    {
        const uint64_t count = end > begin ? end - begin : 0;
        return {begin + count * number_ / threads_, begin + count * (number_ + 1) / threads_};
    }

    // Calls work(i) for the indices of this thread's part, then waits for the other threads.
    template <class Work> void each(uint64_t begin, uint64_t end, Work work)
    {
        const auto [from, to] = share(begin, end);
        for (uint64_t i = from; i < to; i++) {
            work(i);
        }
        wait();
    }

    void wait()
    {
        all_.arrive_and_wait();
    }

    unsigned number() const
    {
        return number_;
    }

  private:
    unsigned number_, threads_;
    std::barrier<> &all_;
};

// Runs work(member) on `threads` threads.
template <class Work> void team(unsigned threads, Work work)
{
    std::barrier<> all(threads);
    std::vector<std::thread> others;
    for (unsigned number = 1; number < threads; number++) {
        others.emplace_back([&, number] {
            Member member(number, threads, all);
            work(member);
        });
    }
    Member first(0, threads, all);
    work(first);
    for (auto &other : others) {
        other.join();
    }
}
