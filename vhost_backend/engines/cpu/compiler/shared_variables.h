// Declarations of shared variables that nvcc takes and clang does not.
#pragma once

namespace clang
{
class Preprocessor;
class Token;
} // namespace clang

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

/// Makes clang take `__device__ __shared__ T x`, which is a shared variable, in either order. `token` is the next one
/// that clang parses.
void forget_device_of_shared(clang::Preprocessor &preprocessor, clang::Token &token);

} // namespace vgc
