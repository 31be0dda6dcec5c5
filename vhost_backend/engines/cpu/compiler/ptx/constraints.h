// The constraints of inline PTX, in the tokens that clang parses.
#pragma once

#include <functional>

namespace clang
{
class Preprocessor;
class Token;
} // namespace clang

namespace vgc::ptx
{

/// Function that is given each token that clang parses, and makes clang take the constraints and registers of PTX in
/// `asm` statements.
std::function<void(clang::Token &)> constraints_translator(clang::Preprocessor &preprocessor);

} // namespace vgc::ptx
