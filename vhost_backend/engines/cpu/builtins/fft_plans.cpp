// Tables of Fourier transforms.
#include "fft_plans.h"

#include <array>
#include <mutex>

namespace vgc
{
namespace
{
constexpr uint64_t KEPT_BYTES = 64 << 20;

/* Tables of one kind, the last used ones first. */
template <class Table> struct Kept {
    struct Entry {
        std::shared_ptr<const Table> table;
        bool alone;
    };
    std::mutex lock;
    std::array<Entry, 8> entries;

    /* Forgets what is too much, but never the first one. */
    void trim()
    {
        uint64_t bytes = 0;
        for (Entry &entry : entries) {
            bytes += entry.table != nullptr ? entry.table->footprint() : 0;
            if (bytes > KEPT_BYTES && &entry != &entries[0])
                entry.table.reset();
        }
    }
};

template <class Table> Kept<Table> kept;
} // namespace

template <class Table> std::shared_ptr<const Table> table_for(uint64_t length, bool alone)
{
    Kept<Table> &here = kept<Table>;
    std::lock_guard guard(here.lock);
    auto is_wanted = [&](const auto &entry) {
        return entry.table != nullptr && entry.table->length() == length && entry.alone == alone;
    };
    auto found = std::find_if(here.entries.begin(), here.entries.end(), is_wanted);
    if (found == here.entries.end()) {
        found = here.entries.end() - 1;
        *found = {std::make_shared<const Table>(length, alone), alone};
    }
    std::rotate(here.entries.begin(), found, found + 1);
    auto table = here.entries[0].table;
    here.trim();
    return table;
}

template std::shared_ptr<const ducc0::pocketfft_c<float>> table_for(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_c<double>> table_for(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_r<float>> table_for(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_r<double>> table_for(uint64_t, bool);
} // namespace vgc
