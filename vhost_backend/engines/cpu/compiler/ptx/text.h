// A text that statements are in, and errors in it.
#pragma once

#include <string>

#include "llvm/ADT/Twine.h"

#include "syntax.h"

namespace vgc::ptx
{

class Text
{
  public:
    virtual ~Text() = default;
    /// Words with which an error at a place in the text begins.
    virtual std::string place(Position at) const = 0;
    /// Words with which all errors end.
    virtual std::string remark() const
    {
        return {};
    }
    /// Ends the compilation with an error at a place in the text.
    [[noreturn]] void fail(Position at, const llvm::Twine &message) const;
};

} // namespace vgc::ptx
