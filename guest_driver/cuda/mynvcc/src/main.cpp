// mynvcc: compiles CUDA programs in a guest that has no GPU and nothing of NVIDIA's. Host code is compiled by the clang
// that is installed; the text of the device code is embedded, and compiled by the device when the program runs.
#include "command_line.h"
#include "compile.h"
#include "link.h"
#include "prepared.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace mynvcc
{
namespace
{

/// Everything that one command line asks for.
class Driver
{
  public:
    explicit Driver(Options &o)
        : options(o), toolkit(find_toolkit(o.host_compiler)),
          work(o.is_keeping || o.shell.is_dry ? (o.keep_folder.empty() ? "." : o.keep_folder) : ""),
          compiler(options, toolkit, work)
    {
    }
    int run();

  private:
    void note_environment() const;
    void keep_piped_inputs();
    void check_output(const std::string &output) const;
    std::string output_of(const Input &input, const char *suffix) const;
    void make_each();
    Words make_objects(const std::string &target);
    int run_program(const std::string &program) const;

    Options &options;
    Toolkit toolkit;
    WorkFolder work;
    Compiler compiler;
};

/// What nvcc prints of its surroundings with -v, which CMake reads.
void Driver::note_environment() const
{
    const char *const path = getenv("PATH");
    const std::string top = toolkit.top;
    options.shell.note("_NVVM_BRANCH_=nvvm");
    options.shell.note("_SPACE_= ");
    options.shell.note("_CUDART_=cudart");
    options.shell.note("_HERE_=" + top + "/bin");
    options.shell.note("_THERE_=" + top + "/bin");
    options.shell.note("TOP=" + top);
    options.shell.note("NVVMIR_LIBRARY_DIR=" + top + "/nvvm/libdevice");
    options.shell.note("PATH=" + top + "/bin:" + (path ? path : ""));
    options.shell.note("INCLUDES=" + quoted("-I" + top + "/include"));
    options.shell.note("LIBRARIES=" + quoted("-L" + top + "/lib64"));
}

/// Sources that can be read once are kept as files, as both halves are made of them.
void Driver::keep_piped_inputs()
{
    for (Input &input : options.inputs) {
        struct stat status;
        const bool is_input = input.path == "-";
        if (options.shell.is_dry ||
            (!is_input && (stat(input.path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode))))
            continue;
        if (input.language.empty())
            fail("Don't know what to do with '" + input.path + "'");
        const int file = is_input ? STDIN_FILENO : open(input.path.c_str(), O_RDONLY | O_CLOEXEC);
        const std::string text = file < 0 ? "" : read_all(file);
        if (file < 0 || errno != 0)
            fail("cannot read " + input.path);
        const std::string name = is_input ? "<stdin>" : input.path;
        input.path = work.file("stdin." + (input.language == "c++" ? "cpp" : input.language));
        write_file(input.path, "# 1 \"" + name + "\"\n" + text);
        options.includes.insert(options.includes.begin(), {"-iquote", "."});
    }
}

void Driver::check_output(const std::string &output) const
{
    std::error_code ignored;
    for (const Input &input : options.inputs)
        if (std::filesystem::is_regular_file(output, ignored) &&
            std::filesystem::equivalent(input.path, output, ignored))
            fail("The output file '" + output + "' is an input file, too");
}

std::string Driver::output_of(const Input &input, const char *suffix) const
{
    if (!options.output.empty())
        return options.output;
    const std::string name = stem_of(input.path) + suffix;
    return options.output_folder.empty() ? name : options.output_folder + "/" + name;
}

void Driver::make_each()
{
    if (options.inputs.size() > 1 && !options.output.empty())
        fail("A single input file is required for a non-link phase when an outputfile is specified");
    for (const Input &input : options.inputs) {
        if (language_of(input) == Language::linked)
            continue; // as nvcc does
        check_output(options.output);
        switch (options.phase) {
        case Phase::object:
            check_output(output_of(input, ".o"));
            compiler.make_object(input, output_of(input, ".o"), output_of(input, ".o"));
            break;
        case Phase::preprocess:
            compiler.preprocess(input, options.output);
            break;
        case Phase::host_code:
            compiler.make_host_code(input, output_of(input, ".cu.cpp.ii"));
            break;
        case Phase::dependencies:
            compiler.print_dependencies(input, options.output);
            break;
        default:
            compiler.make_device_code(input, output_of(input, options.device_suffix.c_str()));
        }
    }
}

/// The objects to link: those of sources are made in the work folder, under names that are not alike.
Words Driver::make_objects(const std::string &target)
{
    Words objects;
    for (size_t i = 0; i < options.inputs.size(); i++) {
        const Input &input = options.inputs[i];
        if (language_of(input) == Language::linked) {
            objects.push_back(input.path);
            continue;
        }
        objects.push_back(work.file(std::to_string(i) + "-" + stem_of(input.path) + ".o"));
        compiler.make_object(input, objects.back(), target);
    }
    return objects;
}

int Driver::run_program(const std::string &program) const
{
    Words words = {program.find('/') == std::string::npos ? "./" + program : program};
    words.insert(words.end(), options.arguments.begin(), options.arguments.end());
    options.shell.run(words);
    return 0;
}

int Driver::run()
{
    note_environment();
    if (options.inputs.empty())
        fail("No input files specified; use option --help for more information");
    if (!options.host_compiler.empty() && !options.shell.is_dry)
        check_host_compiler(toolkit);
    keep_piped_inputs();
    switch (options.phase) {
    case Phase::link: {
        const std::string program = options.output.empty() ? "a.out" : options.output;
        check_output(program);
        link_objects(options, toolkit, make_objects(program), program);
        return options.is_run ? run_program(program) : 0;
    }
    case Phase::library: {
        const std::string library = options.output.empty() ? "a.a" : options.output;
        check_output(library);
        archive_objects(options, make_objects(library), library);
        return 0;
    }
    case Phase::device_link:
        make_device_link(options, toolkit, work, options.output.empty() ? "a_dlink.o" : options.output);
        return 0;
    default:
        make_each();
        return 0;
    }
}

} // namespace
} // namespace mynvcc

namespace
{

int run(int argc, char **argv)
{
    using namespace mynvcc;
    try {
        if (argc == 2 && argv[1] == std::string("--prepare")) {
            prepare_headers();
            return 0;
        }
        Options options = parse_options(Words(argv + 1, argv + argc));
        return Driver(options).run();
    } catch (const Failure &failure) {
        if (!failure.message.empty())
            std::cerr << "nvcc fatal   : " << failure.message << '\n';
        return failure.status;
    } catch (const std::exception &error) { // of the machine: no memory, a disk that fails
        std::cerr << "nvcc fatal   : " << error.what() << '\n';
        return 1;
    }
}

} // namespace

int main(int argc, char **argv)
{
    mynvcc::watch_interruptions();
    const int status = run(argc, argv);
    if (const int signal = mynvcc::interruption(); signal != 0) { // whoever waits for it is told so
        std::signal(signal, SIG_DFL);
        std::raise(signal);
    }
    return status;
}
