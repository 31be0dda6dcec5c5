// The constraints of inline PTX, in the tokens that clang parses.
#pragma once

namespace clang
{
class Preprocessor;
}

namespace vgc::ptx
{

/// Has clang take the constraints and registers of PTX in the `asm` statements that it parses from now on.
void translate_constraints(clang::Preprocessor &preprocessor);

} // namespace vgc::ptx
