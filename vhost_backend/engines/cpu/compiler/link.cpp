// The link of an image, by lld.
#include "compiler.h"
#include "options.h"

#include "lld/Common/Driver.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

namespace vgc
{

void link_image(const Options &options, const std::vector<std::string> &objects)
{
    const std::string compiler_rt = library(options);
    std::vector<const char *> arguments = {"ld.lld",
                                           "--threads=1",
                                           "-shared",
                                           "-Bsymbolic",
                                           "--gc-sections",
                                           options.symbols ? "--discard-locals"
                                           : options.lines ? "--discard-all"
                                                           : "--strip-all",
                                           "--hash-style=sysv",
                                           "-z",
                                           "now",
                                           "-z",
                                           "norelro",
                                           "-z",
                                           "noexecstack",
                                           "-z",
                                           "separate-code",
                                           "-z",
                                           "max-page-size=4096",
                                           "--build-id=none",
                                           "--exclude-libs=ALL",
                                           compiler_rt.c_str(),
                                           "-o",
                                           options.output.c_str()};
    for (const std::string &object : objects)
        arguments.push_back(object.c_str());
    if (!lld::elf::link(arguments, llvm::outs(), llvm::errs(), false, false))
        fail("linking failed");
}

} // namespace vgc
