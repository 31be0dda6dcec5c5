// Arrays with strides: pieces of them, in order, as elements without gaps.
#ifndef VGC_CPU_STRIDED_H
#define VGC_CPU_STRIDED_H

#include "vhost_backend/builtins/vgc_builtins.h"

#include <algorithm>
#include <cstdint>

namespace vgc
{
/* Adjacent elements, or one that stands for all. */
template <class T> struct Span {
    const T *elements;
    bool is_one;
};

/* Axes of arrays of one shape, the innermost first. Axes are joined where all arrays allow it, so that lines (along the
 * first axis) are long; they have 1 element or more. */
template <uint32_t ARRAYS> class Axes
{
  public:
    Axes(const int64_t *shape, const int64_t *const (&strides)[ARRAYS])
    {
        for (uint32_t axis = VGC_BUILTIN_RANK; axis-- > 0;)
            if (shape[axis] > 1)
                append(static_cast<uint64_t>(shape[axis]), strides, axis);
    }

    uint64_t items() const
    {
        return lengths_[0] * lengths_[1] * lengths_[2] * lengths_[3];
    }
    uint64_t line() const
    {
        return lengths_[0];
    }

    /* Whether pieces of the array are used as they are. */
    bool has_lines(uint32_t array) const
    {
        return strides_[array][0] <= 1;
    }

    /* Items `begin` to `begin + count` of an array: where they lie, if that is in one line, or copied to `buffer`. */
    template <class T> Span<T> fetch(uint32_t array, const T *data, uint64_t begin, uint64_t count, T *buffer) const
    {
        Place place = place_at(begin);
        const uint64_t *strides = strides_[array];
        if (strides[0] <= 1 && count <= lengths_[0] - place.index[0])
            return {data + place.offset(strides), strides[0] == 0};
        for (uint64_t done = 0; done < count;) {
            uint64_t run = std::min(count - done, lengths_[0] - place.index[0]);
            const T *from = data + place.offset(strides);
            for (uint64_t i = 0; i < run; i++)
                buffer[done + i] = from[i * strides[0]];
            done += run;
            next_line(place);
        }
        return {buffer, false};
    }

  private:
    struct Place {
        uint64_t index[VGC_BUILTIN_RANK];

        uint64_t offset(const uint64_t *strides) const
        {
            return index[0] * strides[0] + index[1] * strides[1] + index[2] * strides[2] + index[3] * strides[3];
        }
    };

    void append(uint64_t length, const int64_t *const (&strides)[ARRAYS], uint32_t axis)
    {
        bool is_joined = rank_ > 0;
        for (uint32_t i = 0; i < ARRAYS && is_joined; i++)
            is_joined = static_cast<uint64_t>(strides[i][axis]) == strides_[i][rank_ - 1] * lengths_[rank_ - 1];
        if (is_joined) {
            lengths_[rank_ - 1] *= length;
            return;
        }
        lengths_[rank_] = length;
        for (uint32_t i = 0; i < ARRAYS; i++)
            strides_[i][rank_] = static_cast<uint64_t>(strides[i][axis]);
        rank_++;
    }

    Place place_at(uint64_t item) const
    {
        Place place;
        for (uint32_t i = 0; i < VGC_BUILTIN_RANK; i++) {
            place.index[i] = item % lengths_[i];
            item /= lengths_[i];
        }
        return place;
    }

    void next_line(Place &place) const
    {
        place.index[0] = 0;
        for (uint32_t i = 1; i < VGC_BUILTIN_RANK; i++) {
            if (++place.index[i] < lengths_[i])
                return;
            place.index[i] = 0;
        }
    }

    uint64_t lengths_[VGC_BUILTIN_RANK] = {1, 1, 1, 1};
    uint64_t strides_[ARRAYS][VGC_BUILTIN_RANK] = {};
    uint32_t rank_ = 0;
};
} // namespace vgc

#endif
