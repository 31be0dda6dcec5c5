// Counts how often each byte occurs.
#pragma once
#include <array>
#include <string>

std::array<unsigned, 256> count_bytes(const std::string &text);
