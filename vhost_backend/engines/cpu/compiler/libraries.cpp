// Advice about libraries that a source includes and the host does not have.
#include "compiler.h"
#include "options.h"
#include "source.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

/// True for headers of CUB, Thrust and libcu++.
bool is_of_cccl(llvm::StringRef name)
{
    for (llvm::StringRef folder : {"cub/", "cuda/", "nv/", "thrust/"})
        if (name.starts_with(folder))
            return true;
    return false;
}

} // namespace

void advise_on_libraries(const Options &options, llvm::StringRef text)
{
    for (const auto *folders : {&options.program_dirs, &options.include_dirs, &options.system_dirs})
        for (const std::string &folder : *folders)
            if (llvm::sys::fs::exists(folder + "/cuda/std/version"))
                return;
    for (llvm::StringRef rest = text; !rest.empty();) {
        llvm::StringRef line;
        std::tie(line, rest) = rest.split('\n');
        const llvm::StringRef name = included(line);
        if (!is_of_cccl(name))
            continue;
        llvm::errs() << "vgc-cpucc: note: " << name
                     << " is of CUB, Thrust and libcu++, which this host does not offer to programs; its operator gets "
                        "them with: pip install nvidia-cuda-cccl (vgcd doctor shows whether they are found), and may "
                        "name their folder by the engine's option 'cccl'\n";
        return;
    }
}

} // namespace vgc
