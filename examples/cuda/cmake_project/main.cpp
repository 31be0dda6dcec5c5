#include <cstdio>
#include <exception>

#include "counting.h"

int main()
{
    std::string text;
    for (int i = 0; i < 10000; i++)
        text += "to be or not to be, that is the question; "[i % 42];
    try {
        const std::array<unsigned, 256> counts = count_bytes(text);
        std::array<unsigned, 256> expected{};
        for (unsigned char c : text)
            expected[c]++;
        std::printf("e: %u, t: %u, spaces: %u\n", counts['e'], counts['t'], counts[' ']);
        return counts == expected ? 0 : 1;
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
        return 1;
    }
}
