#include "options.h"
#include "compiler.h"
#include "work.h"

namespace vgc
{
namespace
{

const char *const ALLOWED =
    "-D, -U, -O0..-O3, -std=c++03..c++20, --use_fast_math, -fmad=, -ftz=, -prec-div=, -prec-sqrt=, -lineinfo, "
    "-G, --name-expression=, --lowered-names, --kernel=, --allow-undefined, --malloc-heap-size=, -w, --lockstep, "
    "--memcheck, "
    "--initcheck, "
    "--racecheck, --leak-check, "
    "--profile; "
    "ignored: -arch, --gpu-architecture, --maxrregcount, --def-load-cache, --def-store-cache, --opt-level, "
    "-default-device, -rdc=, -dc, -g, "
    "--use-nvcc, --extended-lambda, "
    "--expt-relaxed-constexpr, --diag-suppress=";

bool is_ignored(llvm::StringRef option)
{
    for (llvm::StringRef prefix : {"-arch=",
                                   "--gpu-architecture=",
                                   "-code=",
                                   "--gpu-code=",
                                   "-gencode=",
                                   "--maxrregcount=",
                                   "-maxrregcount=",
                                   "-m64",
                                   "-Xcompiler",
                                   "--compiler-options=",
                                   "-cudart=",
                                   "--cudart=",
                                   "-Wno-deprecated-gpu-targets",
                                   "-default-stream=",
                                   "--default-stream=",
                                   "-default-device",
                                   "--device-as-default-execution-space",
                                   "-g",
                                   "-rdc=true",
                                   "-rdc=false",
                                   "-dc",
                                   "--device-c",
                                   "--relocatable-device-code=true",
                                   "--relocatable-device-code=false",
                                   "-Xptxas",
                                   "--ptxas-options",
                                   "-dlcm=",
                                   "--def-load-cache=",
                                   "-dscm=",
                                   "--def-store-cache=",
                                   "--opt-level=",
                                   "--warn-on-spills",
                                   "--warn-on-local-memory-usage",
                                   "--verbose",
                                   "-restrict",
                                   "--restrict",
                                   "--extra-device-vectorization",
                                   "-extra-device-vectorization",
                                   "--use-nvcc",
                                   "-extended-lambda",
                                   "--extended-lambda",
                                   "-expt-extended-lambda",
                                   "--expt-extended-lambda",
                                   "-expt-relaxed-constexpr",
                                   "--expt-relaxed-constexpr",
                                   "-diag-suppress=",
                                   "--diag-suppress=",
                                   "-O0",
                                   "-O1",
                                   "-O2",
                                   "-O3",
                                   "--optimize"})
        if (option.starts_with(prefix))
            return true;
    return false;
}

/// Options for the arithmetic of floats, whose value is true or false.
bool is_arithmetic(llvm::StringRef option)
{
    if (option.starts_with("--"))
        option = option.drop_front();
    return option == "-ftz" || option == "-fmad" || option == "-prec-div" || option == "-prec-sqrt";
}

bool takes_value(llvm::StringRef option)
{
    return is_arithmetic(option) || option == "-arch" || option == "--gpu-architecture" || option == "-code" ||
           option == "-gencode" || option == "-dlcm" || option == "--def-load-cache" || option == "-dscm" ||
           option == "--def-store-cache" || option == "--opt-level" || option == "-maxrregcount" ||
           option == "--maxrregcount" || option == "-D" || option == "-U" || option == "-Xptxas" ||
           option == "-Xcompiler" || option == "--compiler-options" || option == "-cudart" || option == "--cudart" ||
           option == "-diag-suppress" || option == "--diag-suppress" || option == "--define-macro" ||
           option == "--undefine-macro" || option == "-std" || option == "--std" || option == "--name-expression" ||
           option == "--malloc-heap-size" || option == "--kernel";
}

bool is_standard(llvm::StringRef name)
{
    return name == "c++03" || name == "c++11" || name == "c++14" || name == "c++17" || name == "c++20";
}

/// Divisions and square roots are exact: -prec-div=false and -prec-sqrt=false, which allow errors, change nothing.
void set_arithmetic(Options &options, llvm::StringRef option, llvm::StringRef value)
{
    if (value != "true" && value != "false")
        fail("unknown value '" + value + "' of option '" + option + "' (allowed: true, false)");
    if (option.ends_with("ftz"))
        options.flush_denormals = value == "true";
    else if (option.ends_with("fmad"))
        options.clang.push_back(value == "true" ? "-ffp-contract=fast" : "-ffp-contract=off");
}

/// Sets the size of the heap of malloc(), in bytes.
void set_heap(Options &options, llvm::StringRef value)
{
    uint64_t bytes = 0;
    if (value.getAsInteger(10, bytes) || bytes < VGC_CPU_MIN_HEAP || bytes > VGC_CPU_MAX_HEAP)
        fail("--malloc-heap-size=" + value + " (allowed: " + llvm::Twine(uint64_t(VGC_CPU_MIN_HEAP)) + " to " +
             llvm::Twine(uint64_t(VGC_CPU_MAX_HEAP)) + " bytes)");
    options.heap_bytes = bytes;
    options.clang.push_back("-D__VGC_HEAP_BYTES__=" + std::to_string(bytes) + "ull");
}

/// Adds a guest option and its value, which may have been a separate word.
void add_guest_option(Options &options, llvm::StringRef option, llvm::StringRef value)
{
    if (option == "-D" || option == "--define-macro")
        options.clang.push_back(("-D" + value).str());
    else if (option == "-U" || option == "--undefine-macro")
        options.clang.push_back(("-U" + value).str());
    else if (option == "--malloc-heap-size")
        set_heap(options, value);
    else if (option == "--kernel")
        options.kernel = value.str();
    else if (option == "--name-expression")
        options.name_expressions.push_back(value.str());
    else if (option == "-std" || option == "--std") {
        if (!is_standard(value))
            fail("unknown language standard '" + value + "' (allowed: c++03, c++11, c++14, c++17, c++20)");
        // the device headers need C++11
        options.clang.push_back(("-std=" + (value == "c++03" ? "c++11" : value)).str());
    } else if (option == "--use_fast_math" || option == "-use_fast_math") {
        options.clang.insert(options.clang.end(), {"-ffp-contract=fast", "-D__USE_FAST_MATH__=1"});
        options.flush_denormals = true;
    } else if (is_arithmetic(option))
        set_arithmetic(options, option, value);
    else if (option == "-w" || option == "--disable-warnings")
        options.clang.push_back("-w"), options.is_silent = true;
    else if (llvm::is_contained({"-lineinfo", "--lineinfo", "--generate-line-info", "-G", "--device-debug"}, option))
        options.lines = true;
    else if (option == "--profile")
        options.lines = options.profile = true;
    else if (option == "--lowered-names")
        options.lowered_names = true;
    else if (option == "--allow-undefined")
        options.allow_undefined = true;
    else if (option == "--lockstep")
        options.lockstep = true;
    else if (option == "--memcheck")
        options.checks |= VGC_CPU_KERNEL_MEMCHECK;
    else if (option == "--initcheck")
        options.checks |= VGC_CPU_KERNEL_INITCHECK;
    else if (option == "--racecheck")
        options.checks |= VGC_CPU_KERNEL_RACECHECK;
    else if (option == "--leak-check")
        options.checks |= VGC_CPU_KERNEL_LEAKCHECK;
    else if (!takes_value(option) && !is_ignored(option))
        fail("option '" + option + "' is not allowed (allowed: " + ALLOWED + ")");
}

void split_joined(llvm::StringRef word, llvm::StringRef &option, llvm::StringRef &value, bool &complete)
{
    complete = true;
    option = word;
    value = "";
    for (llvm::StringRef prefix : {"-D", "-U"})
        if (word.starts_with(prefix) && word.size() > prefix.size()) {
            option = prefix;
            value = word.drop_front(prefix.size());
            return;
        }
    for (llvm::StringRef prefix : {"-std=", "--std=", "--define-macro=", "--undefine-macro=", "--name-expression=",
                                   "--malloc-heap-size=", "--kernel="})
        if (word.starts_with(prefix)) {
            option = prefix.drop_back();
            value = word.drop_front(prefix.size());
            return;
        }
    if (const auto [name, rest] = word.split('='); is_arithmetic(name) && word.contains('=')) {
        option = name;
        value = rest;
        return;
    }
    complete = !takes_value(word);
}

} // namespace

void add_guest_options(Options &options, llvm::ArrayRef<std::string> words)
{
    for (size_t i = 0; i < words.size(); i++) {
        llvm::StringRef option, value;
        bool complete;
        split_joined(words[i], option, value, complete);
        if (!complete) {
            if (++i >= words.size())
                fail("option '" + option + "' needs a value");
            value = words[i];
        }
        add_guest_option(options, option, value);
    }
}

Options parse_options(int argc, char **argv)
{
    Options options;
    int i = 1;
    std::string work, parent;
    bool times = false;
    auto own = [&](llvm::StringRef word, llvm::StringRef name, std::string &into) {
        if (word != name)
            return false;
        if (++i >= argc)
            fail(name + " needs a value");
        into = argv[i];
        return true;
    };
    auto flag = [](llvm::StringRef word, llvm::StringRef name, bool &into) {
        into |= word == name;
        return word == name;
    };
    auto folder = [&](llvm::StringRef word, llvm::StringRef name, std::vector<std::string> &into) {
        std::string path;
        if (!own(word, name, path))
            return false;
        into.push_back(path);
        return true;
    };
    auto known_as = [&](llvm::StringRef word) { // of the folder that stands before it
        const char *const before = i > 1 ? argv[i - 1] : "";
        return own(word, "--known-as", options.names[before]);
    };
    for (; i < argc && llvm::StringRef(argv[i]) != "--"; i++) {
        const llvm::StringRef word = argv[i];
        if (word == "--host-headers")
            options.host_headers = true;
        else if (!folder(word, "--include-dir", options.include_dirs) && !folder(word, "--prelude", options.preludes) &&
                 !own(word, "--make-preludes", options.make_preludes) && !own(word, "--host-root", options.host_root) &&
                 !known_as(word) && !own(word, "--parent-dir", parent) &&
                 !folder(word, "--system-dir", options.system_dirs) &&
                 !folder(word, "--program-dir", options.program_dirs) && !own(word, "--output", options.output) &&
                 !own(word, "--dump-ir", options.dump_ir) && !own(word, "--work", work) &&
                 !flag(word, "--time-passes", times) && !flag(word, "--units", options.units) &&
                 !flag(word, "--ptx", options.ptx) && !flag(word, "--symbols", options.symbols) &&
                 !own(word, "--input", options.input) && !own(word, "--llvm", options.llvm))
            fail("usage: vgc-cpucc [--llvm DIR] --include-dir DIR... [--system-dir DIR]... [--program-dir DIR]... "
                 "[--prelude FILE]... [--units | --ptx] [--symbols] --input FILE --output FILE [--dump-ir FILE] "
                 "[--work FILE] "
                 "[--time-passes] "
                 "[-- guest options]; vgc-cpucc --host-headers [--llvm DIR]; "
                 "vgc-cpucc --make-preludes DIR --host-root NAME [--llvm DIR] --include-dir DIR...; "
                 "a DIR, or --parent-dir DIR that others are in, may be followed by --known-as NAME");
    }
    if (options.host_headers || !options.make_preludes.empty())
        return options;
    if (options.input.empty() || options.output.empty() || options.include_dirs.empty())
        fail("--include-dir, --input and --output are needed");
    if (i < argc)
        add_guest_options(options, std::vector<std::string>(argv + i + 1, argv + argc));
    report_work(work, times);
    return options;
}

} // namespace vgc
