// Declarations of shared variables that nvcc takes and clang does not.
#pragma once

namespace clang
{
class Token;
}

namespace vgc
{

/// Section of shared variables that are declared only, in IR.
inline constexpr char SHARED_SECTION[] = ".vgc.shared";

/// Makes clang take `__shared__ alignas(16) T x`: its own keyword may stand behind an attribute, C++'s may not.
class SharedAlignment
{
  public:
    /// Takes the next token that clang parses.
    void take(clang::Token &token);

  private:
    unsigned seen_ = 0; // of `vgc_shared ) )`
};

} // namespace vgc
