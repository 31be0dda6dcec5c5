#include "option_table.h"
#include "architectures.h"

#include <algorithm>

namespace mynvcc
{
namespace
{

using Value = const std::string &;

template <Phase phase> void set_phase(Options &o, Value)
{
    o.phase = phase;
}

constexpr char PTX_SUFFIX[] = ".ptx", CUBIN_SUFFIX[] = ".cubin", FATBIN_SUFFIX[] = ".fatbin";

template <const char *suffix> void set_device_code(Options &o, Value)
{
    o.phase = Phase::device_code;
    o.device_suffix = suffix;
}

void add_device(Options &o, const char *name, Value value)
{
    o.device.push_back(std::string("-") + name + "=" + value);
}

void set_fast_math(Options &o, Value)
{
    o.device.push_back("--use_fast_math");
}

void set_device_debug(Options &o, Value)
{
    o.device.push_back("-G");
    o.macros.push_back("-D__CUDACC_DEBUG__=1");
}

void set_default_stream(Options &o, Value value)
{
    if (value == "per-thread")
        o.macros.push_back("-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1");
}

void optimize(Options &o, Value level)
{
    o.host.push_back("-O" + (level.size() == 1 && level < "3" ? level : "3"));
}

void set_make_rules(Options &o, const char *option)
{
    o.dependencies.push_back(option);
}

void add_make_rules(Options &o, const char *option, Value value)
{
    o.dependencies.insert(o.dependencies.end(), {option, value});
}

/// nvcc has the host's compiler preprocess device code, too.
void add_host_option(Options &o, Value value)
{
    if (starts_with(value, "-D") || starts_with(value, "-U"))
        return o.macros.push_back(value);
    if (starts_with(value, "-I"))
        return o.includes.push_back(value);
    if (!starts_with(value, "-l") && !starts_with(value, "-L"))
        o.host.push_back(value); // clang warns of libraries where it does not link, gcc does not
    o.link.push_back(value);
}

void add_error_kind(Options &o, Value value)
{
    if (value == "all-warnings")
        o.host.push_back("-Werror");
}

const auto nothing = Takes::nothing;
const auto value = Takes::value;
const auto number = Takes::number;
const auto each = Takes::each;
const auto values = Takes::values;
const auto words = Takes::words;

} // namespace

const std::vector<OptionRow> OPTION_TABLE = {
    {"", "", nothing, "", "What is made", nullptr},
    {"compile", "c", nothing, "", "Compile each input into an object file.", set_phase<Phase::object>},
    {"device-c", "dc", nothing, "", "As -c -rdc=true.",
     [](Options &o, Value) {
         o.phase = Phase::object;
         o.is_relocatable = true;
     }},
    {"device-w", "dw", nothing, "", "As -c -rdc=false.",
     [](Options &o, Value) {
         o.phase = Phase::object;
         o.is_relocatable = false;
     }},
    {"device-link", "dlink", nothing, "",
     "Make the object file that stands for linked device code: units are linked when a program runs.",
     set_phase<Phase::device_link>},
    {"relocatable-device-code", "rdc", value, "{true|false}",
     "Let device code refer to functions and variables of other files.",
     [](Options &o, Value v) { o.is_relocatable = v == "true"; }},
    {"link", "link", nothing, "", "Compile and link all inputs: this is the default.", set_phase<Phase::link>},
    {"shared", "shared", nothing, "", "Link a shared library.", [](Options &o, Value) { o.is_shared = true; }},
    {"lib", "lib", nothing, "", "Put the objects into a static library.", set_phase<Phase::library>},
    {"run", "run", nothing, "", "Link a program and run it.", [](Options &o, Value) { o.is_run = true; }},
    {"run-args", "run-args", values, "<argument>,...", "Arguments of the program for --run.",
     [](Options &o, Value v) { o.arguments.push_back(v); }},
    {"preprocess", "E", nothing, "", "Preprocess each input to standard output.", set_phase<Phase::preprocess>},
    {"generate-dependencies", "M", nothing, "", "Print a rule for make that names each input's headers.",
     set_phase<Phase::dependencies>},
    {"generate-nonsystem-dependencies", "MM", nothing, "", "The same without headers of the system.",
     [](Options &o, Value) {
         o.phase = Phase::dependencies;
         o.omits_system_headers = true;
     }},
    {"generate-dependencies-with-compile", "MD", nothing, "", "Write such a rule beside what is compiled.",
     [](Options &o, Value) { set_make_rules(o, "-MD"); }},
    {"generate-nonsystem-dependencies-with-compile", "MMD", nothing, "", "The same without headers of the system.",
     [](Options &o, Value) { set_make_rules(o, "-MMD"); }},
    {"dependency-output", "MF", value, "<file>", "File for such a rule.",
     [](Options &o, Value v) { add_make_rules(o, "-MF", v); }},
    {"dependency-target-name", "MT", value, "<target>", "Target of such a rule.",
     [](Options &o, Value v) { add_make_rules(o, "-MT", v); }},
    {"generate-dependency-targets", "MP", nothing, "", "Add an empty rule for each header.",
     [](Options &o, Value) { set_make_rules(o, "-MP"); }},
    {"cuda", "cuda", nothing, "",
     "Write the preprocessed host code of each input, to be read. Only mynvcc can compile it, from its source.",
     set_phase<Phase::host_code>},
    {"ptx", "ptx", nothing, "", "Write the device code alone, as a text for those who load PTX.",
     set_device_code<PTX_SUFFIX>},
    {"cubin", "cubin", nothing, "", "Write it as the container that is embedded in programs.",
     set_device_code<CUBIN_SUFFIX>},
    {"fatbin", "fatbin", nothing, "", "The same.", set_device_code<FATBIN_SUFFIX>},
    {"output-file", "o", value, "<file>", "Name of what is made.", [](Options &o, Value v) { o.output = v; }},
    {"output-directory", "odir", value, "<folder>", "Folder of what is made, unless -o names it.",
     [](Options &o, Value v) { o.output_folder = v; }},
    {"x", "x", value, "{cu|c++|c}", "Language of the inputs, whatever their suffixes.",
     [](Options &o, Value v) { o.language = v; }},

    {"", "", nothing, "", "Preprocessor", nullptr},
    {"include-path", "I", each, "<folder>", "Look for headers there.",
     [](Options &o, Value v) { o.includes.push_back("-I" + v); }},
    {"system-include", "isystem", each, "<folder>", "Look for headers there after all of -I.",
     [](Options &o, Value v) { o.includes.insert(o.includes.end(), {"-isystem", v}); }},
    {"pre-include", "include", each, "<file>", "Include this file first.",
     [](Options &o, Value v) { o.includes.insert(o.includes.end(), {"-include", v}); }},
    {"define-macro", "D", each, "<name>[=<text>]", "Define a macro.",
     [](Options &o, Value v) { o.macros.push_back("-D" + v); }},
    {"undefine-macro", "U", each, "<name>", "Forget a macro.",
     [](Options &o, Value v) { o.macros.push_back("-U" + v); }},

    {"", "", nothing, "", "Language, code, messages", nullptr},
    {"std", "std", value, "{c++03|c++11|c++14|c++17|c++20}", "Standard of C++; c++17 unless given.",
     [](Options &o, Value v) { o.standard = v; }},
    {"no-host-device-initializer-list", "nohdinitlist", nothing, "", "Without effect.", nullptr},
    {"expt-relaxed-constexpr", "expt-relaxed-constexpr", nothing, "",
     "Let device code call constexpr functions of the host. It always may.",
     [](Options &o, Value) { o.macros.push_back("-D__CUDACC_RELAXED_CONSTEXPR__=1"); }},
    {"extended-lambda", "extended-lambda", nothing, "", "Let lambdas be functions of the device. They always may.",
     [](Options &o, Value) { o.macros.push_back("-D__CUDACC_EXTENDED_LAMBDA__=1"); }},
    {"expt-extended-lambda", "expt-extended-lambda", nothing, "", "The older name of --extended-lambda.",
     [](Options &o, Value) { o.macros.push_back("-D__CUDACC_EXTENDED_LAMBDA__=1"); }},
    {"no-exceptions", "noeh", nothing, "", "Host code without exceptions.",
     [](Options &o, Value) { o.host.push_back("-fno-exceptions"); }},
    {"ftemplate-depth", "ftemplate-depth", number, "<depth>", "Bound the depth of templates in host code.",
     [](Options &o, Value v) { o.host.push_back("-ftemplate-depth=" + v); }},
    {"ftemplate-backtrace-limit", "ftemplate-backtrace-limit", number, "<count>",
     "Show no more than so many templates in messages.",
     [](Options &o, Value v) { o.host.push_back("-ftemplate-backtrace-limit=" + v); }},
    {"machine", "m", value, "{64}", "Width of addresses.", nullptr},
    {"m64", "m64", nothing, "", "As --machine=64.", nullptr},
    {"optimize", "O", number, "<level>", "Optimise host code; above 3 is 3.", optimize},
    {"debug", "g", nothing, "", "Debugging information for host code.",
     [](Options &o, Value) { o.host.push_back("-g"); }},
    {"profile", "pg", nothing, "", "Host code for gprof.",
     [](Options &o, Value) {
         o.host.push_back("-pg");
         o.link.push_back("-pg");
     }},
    {"device-debug", "G", nothing, "", "Name source lines in reports of faulty device code.", set_device_debug},
    {"generate-line-info", "lineinfo", nothing, "", "The same.",
     [](Options &o, Value) { o.device.push_back("-lineinfo"); }},
    {"use_fast_math", "use_fast_math", nothing, "", "Faster and less exact device code.", set_fast_math},
    {"ftz", "ftz", value, "{true|false}", "Flush denormal floats of device code to zero.",
     [](Options &o, Value v) { add_device(o, "ftz", v); }},
    {"prec-div", "prec-div", value, "{true|false}", "Divide floats exactly in device code.",
     [](Options &o, Value v) { add_device(o, "prec-div", v); }},
    {"prec-sqrt", "prec-sqrt", value, "{true|false}", "Take roots of floats exactly in device code.",
     [](Options &o, Value v) { add_device(o, "prec-sqrt", v); }},
    {"fmad", "fmad", value, "{true|false}", "Contract products and sums in device code.",
     [](Options &o, Value v) { add_device(o, "fmad", v); }},
    {"maxrregcount", "maxrregcount", number, "<count>", "Bound the registers of a thread.",
     [](Options &o, Value v) { add_device(o, "maxrregcount", v); }},
    {"default-stream", "default-stream", value, "{legacy|null|per-thread}", "Stream of launches that name none.",
     set_default_stream},
    {"gpu-architecture", "arch", value, "<architecture>",
     "Accepted: device code is compiled when a program runs, for the device that is there.", set_architecture},
    {"gpu-code", "code", each, "<code>,...", "Accepted, as --gpu-architecture.", add_code},
    {"generate-code", "gencode", each, "arch=<architecture>,code=<code>", "Accepted, as --gpu-architecture.",
     add_generated_code},
    {"disable-warnings", "w", nothing, "", "No warnings.",
     [](Options &o, Value) {
         o.host.push_back("-w");
         o.device.push_back("-w");
     }},
    {"Werror", "Werror", values,
     "{all-warnings|cross-execution-space-call|reorder|default-stream-launch|missing-launch-bounds|"
     "ext-lambda-captures-this|deprecated-declarations}",
     "Make warnings of a kind errors.", add_error_kind},
    {"Wno-deprecated-gpu-targets", "Wno-deprecated-gpu-targets", nothing, "", "Without effect.", nullptr},
    {"Wno-deprecated-declarations", "Wno-deprecated-declarations", nothing, "", "No warnings of old functions.",
     [](Options &o, Value) { o.host.push_back("-Wno-deprecated-declarations"); }},
    {"Wreorder", "Wreorder", nothing, "", "Warn of members that are initialised in another order.",
     [](Options &o, Value) { o.host.push_back("-Wreorder"); }},
    {"Wdefault-stream-launch", "Wdefault-stream-launch", nothing, "", "Without effect.", nullptr},
    {"Wmissing-launch-bounds", "Wmissing-launch-bounds", nothing, "", "Without effect.", nullptr},
    {"Wext-lambda-captures-this", "Wext-lambda-captures-this", nothing, "", "Without effect.", nullptr},
    {"diag-suppress", "diag-suppress", each, "<number>,...", "Without effect.", nullptr},
    {"diag-warn", "diag-warn", each, "<number>,...", "Without effect.", nullptr},
    {"diag-error", "diag-error", each, "<number>,...", "Without effect.", nullptr},
    {"display-error-number", "err-no", nothing, "", "Without effect.", nullptr},
    {"no-display-error-number", "no-err-no", nothing, "", "Without effect.", nullptr},
    {"restrict", "restrict", nothing, "", "Without effect.", nullptr},
    {"extra-device-vectorization", "extra-device-vectorization", nothing, "", "Without effect.", nullptr},
    {"resource-usage", "res-usage", nothing, "", "Without effect.", nullptr},
    {"split-compile", "split-compile", number, "<count>", "Without effect.", nullptr},
    {"threads", "t", number, "<count>", "Without effect.", nullptr},
    {"time", "time", value, "<file>", "Without effect.", nullptr},
    {"source-in-ptx", "src-in-ptx", nothing, "", "Without effect.", nullptr},
    {"dlink-time-opt", "dlto", nothing, "", "Without effect.", nullptr},
    {"lto", "lto", nothing, "", "Without effect.", nullptr},
    {"gen-opt-lto", "gen-opt-lto", nothing, "", "Without effect.", nullptr},
    {"dopt", "dopt", value, "{on}", "Without effect: device code is optimised always.", nullptr},
    {"Ofast-compile", "Ofc", value, "{0|max|mid|min}", "Without effect.", nullptr},
    {"optimization-info", "opt-info", values, "{inline}", "Without effect.", nullptr},
    {"jump-table-density", "jtd", number, "<percentage>", "Without effect.", nullptr},
    {"keep-device-functions", "keep-device-functions", nothing, "", "Without effect.", nullptr},
    {"static-global-template-stub", "static-global-template-stub", value, "{true|false}", "Without effect.", nullptr},
    {"brief-diagnostics", "brief-diag", value, "{true|false}", "Without effect.", nullptr},
    {"compress-mode", "compress-mode", value, "{default|size|speed|balance|none}", "Without effect.", nullptr},
    {"frandom-seed", "frandom-seed", value, "<seed>", "Without effect.", nullptr},

    {"", "", nothing, "", "Libraries", nullptr},
    {"library", "l", values, "<library>,...", "Link these libraries.",
     [](Options &o, Value v) { o.libraries.push_back("-l" + v); }},
    {"library-path", "L", values, "<folder>,...", "Look for libraries in these folders.",
     [](Options &o, Value v) { o.libraries.push_back("-L" + v); }},
    {"cudart", "cudart", value, "{shared|static|none}", "How the CUDA runtime is linked; shared unless given.",
     [](Options &o, Value v) { o.cudart = v; }},
    {"cudadevrt", "cudadevrt", value, "{none|static}", "Without effect: device code needs no such library.", nullptr},

    {"", "", nothing, "", "Other programs", nullptr},
    {"compiler-options", "Xcompiler", words, "<option>,...", "Options of the host's compiler and of its link.",
     add_host_option},
    {"linker-options", "Xlinker", words, "<option>,...", "Options of the host's linker.",
     [](Options &o, Value v) { o.linker.push_back(v); }},
    {"archive-options", "Xarchive", words, "<option>,...", "Options of ar, for --lib.",
     [](Options &o, Value v) { o.archiver.push_back(v); }},
    {"ptxas-options", "Xptxas", values, "<option>,...", "Without effect: there is no such program.", nullptr},
    {"nvlink-options", "Xnvlink", values, "<option>,...", "Without effect: there is no such program.", nullptr},
    {"compiler-bindir", "ccbin", value, "<program>",
     "Compiler of files without CUDA, and linker. One of clang's compiles all files.",
     [](Options &o, Value v) { o.host_compiler = v; }},
    {"allow-unsupported-compiler", "allow-unsupported-compiler", nothing, "", "Without effect.", nullptr},
    {"forward-unknown-to-host-compiler", "forward-unknown-to-host-compiler", nothing, "",
     "Pass options that are not in this list to the host's compiler.",
     [](Options &o, Value) { o.forwards_unknown = true; }},
    {"forward-unknown-to-host-linker", "forward-unknown-to-host-linker", nothing, "",
     "Pass options that are not in this list to the host's linker.",
     [](Options &o, Value) { o.forwards_unknown_to_linker = true; }},
    {"forward-unknown-opts", "forward-unknown-opts", nothing, "", "Both.",
     [](Options &o, Value) { o.forwards_unknown = o.forwards_unknown_to_linker = true; }},
    {"cudafe-options", "Xcudafe", values, "<option>,...", "Without effect: there is no such program.", nullptr},
    {"fatbin-options", "Xfatbin", values, "<option>,...", "Without effect: there is no such program.", nullptr},
    {"target-directory", "target-dir", value, "<folder>", "Without effect.", nullptr},
    {"no-compress", "no-compress", nothing, "", "Without effect.", nullptr},

    {"", "", nothing, "", "mynvcc itself", nullptr},
    {"check", "check", nothing, "", "Have the device compile the device code now, and print what it says.",
     [](Options &o, Value) { o.is_checked = true; }},
    {"either", "either", values, "<pattern>,...",
     "Make CPU versions of the kernels whose names match, as of those that the source marks with __vgc_either__.",
     [](Options &o, Value v) { o.either.push_back(v); }},
    {"verbose", "v", nothing, "", "Print the commands that are run.",
     [](Options &o, Value) { o.shell.is_verbose = true; }},
    {"dryrun", "dryrun", nothing, "", "Print the commands, and run none.",
     [](Options &o, Value) { o.shell.is_dry = true; }},
    {"keep", "keep", nothing, "", "Keep intermediate files.", [](Options &o, Value) { o.is_keeping = true; }},
    {"keep-dir", "keep-dir", value, "<folder>", "Folder for these.", [](Options &o, Value v) { o.keep_folder = v; }},
    {"save-temps", "save-temps", nothing, "", "As --keep.", [](Options &o, Value) { o.is_keeping = true; }},
    {"objdir-as-tempdir", "objtemp", nothing, "", "Without effect.", nullptr},
    {"options-file", "optf", values, "<file>,...", "Read more options from files; @<file> does so, too.", nullptr},
    {"list-gpu-arch", "arch-ls", nothing, "", "Print the architectures that --gpu-architecture has.", nullptr},
    {"list-gpu-code", "code-ls", nothing, "", "Print those that --gpu-code has.", nullptr},
    {"help", "h", nothing, "", "Print this.", nullptr},
    {"version", "V", nothing, "", "Print the version.", nullptr},
};

const OptionRow *find_option(const std::string &word)
{
    const bool is_long = starts_with(word, "--");
    const std::string name = word.substr(is_long ? 2 : 1);
    for (const OptionRow &row : OPTION_TABLE)
        if (*row.name != 0 && (name == row.brief || name == row.name))
            return &row;
    return nullptr;
}

void check_value(const OptionRow &row, const std::string &value)
{
    const bool is_number =
        !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (row.takes == Takes::number && !is_number)
        fail("'" + value + "': expected a number");
    const std::string list = row.value;
    if (list.empty() || list[0] != '{')
        return;
    std::string allowed;
    for (const std::string &choice : split(list.substr(1, list.size() - 2), '|')) {
        if (value == choice)
            return;
        allowed += (allowed.empty() ? "'" : ", '") + choice + "'";
    }
    fail("Value '" + value + "' is not defined for option '" + row.name + "'. Allowed values: " + allowed);
}

std::string help_text()
{
    std::string text =
        "Usage  : nvcc [options] <inputfile>\n\nCompiles CUDA programs for the device that virtio-gpu-compute "
        "serves: host code with the clang that is\ninstalled, device code when a program runs.\n";
    for (const OptionRow &row : OPTION_TABLE) {
        if (*row.name == 0) {
            text += std::string("\n") + row.help + "\n" + std::string(std::string(row.help).size(), '=') + "\n\n";
            continue;
        }
        text += std::string("--") + row.name + (*row.value ? std::string(" ") + row.value : "");
        if (std::string(row.brief) != row.name)
            text += std::string("  (-") + row.brief + ")";
        text += std::string("\n        ") + row.help + "\n";
    }
    text += "\nEnvironment\n===========\n\nNVCC_PREPEND_FLAGS, NVCC_APPEND_FLAGS\n        Options before and behind "
            "those of the "
            "command line.\nMYNVCC_CLANG, MYNVCC_CACHE\n        The clang to use; folder of precompiled headers, empty "
            "for none.\n";
    return text;
}

std::string version_text()
{
    return "nvcc: NVIDIA (R) Cuda compiler driver\n"
           "Stands in for it: not a program of NVIDIA's\n"
           "Built by virtio-gpu-compute\n"
           "Cuda compilation tools, release 12.6, V12.6.20\n"
           "Build mynvcc of virtio-gpu-compute, " MYNVCC_VERSION "\n";
}

} // namespace mynvcc
