// Tables of Fourier transforms.
#include "fft_plans.h"
#include "fft_tables.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace vgc
{
namespace
{
constexpr uint64_t KEPT_BYTES = 64 << 20;

/* Its address tells tables of one class from those of others. */
template <class Table> const char kind = 0;

struct Entry {
    std::shared_ptr<const void> table;
    const char *kind;
    uint64_t length, bytes;
    bool alone;
};

/* Tables of all classes, the last used ones first: nobody is charged for them, so they share a bound. */
struct Kept {
    std::mutex lock;
    std::array<Entry, 16> entries;

    /* Null: there is no such table. */
    std::shared_ptr<const void> find(const char *wanted, uint64_t length, bool alone)
    {
        std::lock_guard guard(lock);
        auto is_wanted = [&](const Entry &entry) {
            return entry.table != nullptr && entry.kind == wanted && entry.length == length && entry.alone == alone;
        };
        auto found = std::find_if(entries.begin(), entries.end(), is_wanted);
        if (found == entries.end())
            return nullptr;
        std::rotate(entries.begin(), found, found + 1);
        return entries[0].table;
    }
    /* Forgets what is too much, but never the first one. */
    void keep(const Entry &entry)
    {
        std::lock_guard guard(lock);
        std::rotate(entries.begin(), entries.end() - 1, entries.end());
        entries[0] = entry;
        uint64_t bytes = 0;
        for (Entry &each : entries) {
            bytes += each.table != nullptr ? each.bytes : 0;
            if (bytes > KEPT_BYTES && &each != &entries[0])
                each.table.reset();
        }
    }
};

Kept kept;
std::mutex building; /* one table at a time: that takes several times its bytes */
} // namespace

template <class Table> std::shared_ptr<const Table> table_for(uint64_t length, bool alone)
{
    auto found = kept.find(&kind<Table>, length, alone);
    if (found == nullptr) {
        std::lock_guard guard(building);
        found = kept.find(&kind<Table>, length, alone);
        if (found == nullptr) {
            auto table = make_table<Table>(length, alone);
            kept.keep({table, &kind<Table>, length, table->footprint(), alone});
            return table;
        }
    }
    return std::static_pointer_cast<const Table>(found);
}

template std::shared_ptr<const ducc0::pocketfft_c<float>> table_for(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_c<double>> table_for(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_r<float>> table_for(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_r<double>> table_for(uint64_t, bool);
template std::shared_ptr<const Roots<double>> table_for(uint64_t, bool);
} // namespace vgc
