// The command line.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include "guest_headers.h"

namespace vgc
{

struct Options {
    std::string input; // or a unit's name
    std::string output;
    bool units = false;                       // the input is several sources (units.h)
    bool ptx = false;                         // the input is a PTX module (ptx/module.h)
    std::string cuid;                         // number of a unit; empty for a program of one source
    std::string llvm = VGC_LLVM;              // folder with clang's own headers and compiler-rt
    std::vector<std::string> include_dirs;    // device headers
    std::vector<std::string> system_dirs;     // headers of the host's C and C++ libraries, in the order of their search
    std::map<std::string, std::string> names; // under which clang sees folders: what it says and keeps has them
    std::vector<std::string> preludes;        // files of headers in precompiled form
    std::string make_preludes;                // folder in which to leave preludes, compiling nothing
    std::string host_root;                    // name under which clang sees the host's root folder while it makes them
    std::vector<std::string> program_dirs;    // the program's own headers; for developers, a guest's source is one file
    GuestHeaders guest_headers;               // the source's own, taken from its front
    std::string dump_ir;                      // file for the final IR; for developers
    std::vector<std::string> clang;           // the guest's options, translated for clang
    std::vector<std::string> name_expressions; // templates to instantiate
    std::string kernel;                        // --kernel: the only one to keep, as the linker calls it
    bool lowered_names = false;                // --lowered-names: say what the linker calls them
    bool allow_undefined = false; // --allow-undefined: another unit has what the source lacks, in a link to come
    // those of a whole program, the same for all its units:
    bool flush_denormals = false; // -ftz=true
    bool lockstep = false;        // --lockstep
    bool is_silent = false;       // -w
    bool lines = false;           // -lineinfo, -G: the image has a table of the source's lines
    bool profile = false;         // --profile
    uint32_t checks = 0;          // VGC_CPU_KERNEL_*CHECK, by --memcheck, --initcheck, --racecheck, --leak-check
    bool symbols = false;         // --symbols: the image has names of its code, for perf
    uint64_t heap_bytes = 0;      // --malloc-heap-size; 0: as the headers say
    bool host_headers = false;    // print where the headers of the host are, and compile nothing

    /// Name under which clang sees a folder.
    std::string known_as(const std::string &folder) const
    {
        const auto name = names.find(folder);
        return name == names.end() ? folder : name->second;
    }
};

/// Reads the command line; refuses every option that is not on the white list.
Options parse_options(int argc, char **argv);
/// Adds options of a guest; likewise.
void add_guest_options(Options &options, llvm::ArrayRef<std::string> words);

} // namespace vgc
