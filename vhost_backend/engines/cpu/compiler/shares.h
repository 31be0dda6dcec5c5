// The back end in two processes: each optimises and generates code for a share of the functions.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "llvm/IR/Module.h"

namespace vgc
{

struct Options; // options.h

/// This process's share of a program. The process that started keeps the first one.
class Share
{
  public:
    /// Divides `module` and forks if that is worth it: behind this, each process has the functions of its share alone.
    Share(llvm::Module &module, const Options &options);
    /// File for the object code of this share.
    const std::string &object() const
    {
        return objects_[index_];
    }
    /// Ends all processes but the first, which waits for the others. Returns the files of all shares.
    const std::vector<std::string> &join(bool has_errors);

  private:
    size_t index_ = 0;
    std::vector<std::string> objects_;
    std::vector<pid_t> others_;
};

} // namespace vgc
