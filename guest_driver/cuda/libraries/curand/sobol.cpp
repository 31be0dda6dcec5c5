// Direction vectors of Sobol's sequences, made of Joe and Kuo's numbers; and a scrambling of our own.
#include <mutex>
#include <vector>

#include "generator.h"
#include "sobol_numbers.h"

namespace vgc_rand
{
namespace
{

// As Bratley and Fox describe it ("Algorithm 659", 1988), for words of any width.
template <class Word> std::vector<Word> plain_directions()
{
    constexpr unsigned BITS_OF_WORD = 8 * sizeof(Word);
    std::vector<Word> all((size_t)MOST_DIMENSIONS * BITS_OF_WORD);
    for (unsigned k = 0; k < BITS_OF_WORD; k++)
        all[k] = (Word)1 << (BITS_OF_WORD - 1 - k);
    const unsigned short *numbers = SOBOL_NUMBERS;
    for (unsigned dimension = 1; dimension < MOST_DIMENSIONS; dimension++) {
        Word *const v = &all[(size_t)dimension * BITS_OF_WORD];
        const unsigned polynomial = SOBOL_POLYNOMIALS[dimension - 1];
        const unsigned degree = 31 - (unsigned)__builtin_clz(polynomial);
        for (unsigned k = 0; k < degree; k++)
            v[k] = (Word)numbers[k] << (BITS_OF_WORD - 1 - k);
        numbers += degree;
        for (unsigned k = degree; k < BITS_OF_WORD; k++) {
            v[k] = v[k - degree] ^ v[k - degree] >> degree;
            for (unsigned i = 1; i < degree; i++)
                if (polynomial >> (degree - i) & 1)
                    v[k] ^= v[k - i];
        }
    }
    return all;
}

// Steele, Lea and Flood's SplitMix64.
unsigned long long mixed(unsigned long long &state)
{
    unsigned long long z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// Matousek's linear scrambling: each dimension's digits times a random lower triangular matrix with ones on the
// diagonal.
template <class Word> std::vector<Word> scrambled_directions()
{
    constexpr unsigned BITS_OF_WORD = 8 * sizeof(Word);
    std::vector<Word> all = plain_directions<Word>();
    unsigned long long state = BITS_OF_WORD;
    for (unsigned dimension = 0; dimension < MOST_DIMENSIONS; dimension++) {
        Word rows[BITS_OF_WORD]; // of the matrix, the most significant digit first
        for (unsigned row = 0; row < BITS_OF_WORD; row++) {
            const Word diagonal = (Word)1 << (BITS_OF_WORD - 1 - row);
            rows[row] = ((Word)mixed(state) & ~(diagonal | (diagonal - 1))) | diagonal;
        }
        for (unsigned k = 0; k < BITS_OF_WORD; k++) {
            Word &v = all[(size_t)dimension * BITS_OF_WORD + k], result = 0;
            for (unsigned row = 0; row < BITS_OF_WORD; row++)
                result |= (Word)__builtin_parityll(rows[row] & v) << (BITS_OF_WORD - 1 - row);
            v = result;
        }
    }
    return all;
}

template <class Word> std::vector<Word> shifts()
{
    std::vector<Word> all(MOST_DIMENSIONS);
    unsigned long long state = 1000 + sizeof(Word);
    for (Word &shift : all)
        shift = (Word)mixed(state);
    return all;
}
} // namespace

const unsigned *directions32(bool scrambled)
{
    static const auto *const plain = new auto(plain_directions<unsigned>()), *const mix = new auto(
                                                                                 scrambled_directions<unsigned>());
    return (scrambled ? mix : plain)->data();
}
const unsigned long long *directions64(bool scrambled)
{
    static const auto *const plain = new auto(plain_directions<unsigned long long>()),
                             *const mix = new auto(scrambled_directions<unsigned long long>());
    return (scrambled ? mix : plain)->data();
}
const unsigned *scrambles32()
{
    static const auto *const all = new auto(shifts<unsigned>());
    return all->data();
}
const unsigned long long *scrambles64()
{
    static const auto *const all = new auto(shifts<unsigned long long>());
    return all->data();
}

} // namespace vgc_rand
