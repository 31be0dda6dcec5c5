#include "compiler.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

extern char **environ;

namespace vgc
{
namespace
{

/// Runs a tool with this process's stdout and stderr; returns its exit status.
int run(const std::vector<std::string> &command)
{
    std::vector<char *> argv;
    for (const std::string &word : command)
        argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    pid_t pid;
    if (const int error = posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ))
        fail("cannot run " + command[0] + ": " + strerror(error));
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            fail("cannot wait for " + command[0] + ": " + strerror(errno));
    if (WIFSIGNALED(status))
        fail(command[0] + " was killed by signal " + llvm::Twine(WTERMSIG(status)));
    return WEXITSTATUS(status);
}

/// Writes a source that instantiates the templates of --name-expression, by host variables with their addresses.
std::string write_instantiations(const Options &options)
{
    const std::string path = options.output + ".names.cu";
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (error)
        fail("cannot write " + path + ": " + error.message());
    out << "#include \"" << options.input << "\"\n#line 1 \"name-expression\"\n";
    int index = 0;
    for (const std::string &expression : options.name_expressions)
        out << "static const auto __vgc_name_expression_" << index++ << " = &" << expression << ";\n";
    return path;
}

std::vector<std::string> clang_command(const Options &options, const std::string &input, const std::string &bitcode)
{
    std::vector<std::string> command = {options.llvm + "/bin/clang++",
                                        "-x",
                                        "cuda",
                                        "--cuda-host-only",
                                        "-nocudainc",
                                        "-nocudalib",
                                        "-Wno-unknown-cuda-version",
                                        "-Xclang",
                                        "-target-sdk-version=11.0",
                                        "-Xclang",
                                        "-fcuda-allow-variadic-functions",
                                        "-Xclang",
                                        "-fcuda-is-device",
                                        "-U__CUDA_ARCH__",
                                        "-D__CUDA_ARCH__=700",
                                        "-D__CUDACC__=1",
                                        "-D__VGC_CPU__=1",
                                        "-nostdinc",
                                        "-nostdinc++"};
    for (const std::string &folder : options.include_dirs)
        command.insert(command.end(), {"-isystem", folder});
    command.insert(command.end(), {"-isystem",
                                   // clang's own stddef.h, stdint.h, float.h, limits.h: no header of the host is read
                                   options.llvm + "/lib/clang/19/include", "-include", "cuda_runtime.h",
                                   // clang 19 warns of the features that it finds itself on processors with AVX10
                                   "-march=native", "-Wno-invalid-feature-combination", "-fPIC", "-O2", "-std=c++17",
                                   "-ffp-contract=fast", "-fno-math-errno", "-fno-exceptions", "-fno-strict-return",
                                   "-fno-strict-float-cast-overflow", "-fno-stack-protector", "-fno-color-diagnostics",
                                   "-Xclang", "-disable-llvm-passes", "-Xclang", "-debug-info-kind=standalone"});
    command.insert(command.end(), options.clang.begin(), options.clang.end());
    command.insert(command.end(), {"-emit-llvm", "-c", input, "-o", bitcode});
    return command;
}

} // namespace

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &options)
{
    const std::string bitcode = options.output + ".bc";
    const bool wrapped = !options.name_expressions.empty();
    const std::string input = wrapped ? write_instantiations(options) : options.input;
    const int status = run(clang_command(options, input, bitcode));
    if (wrapped)
        unlink(input.c_str());
    if (status != 0)
        _exit(1); // clang has printed the reason
    llvm::SMDiagnostic diagnostic;
    auto module = llvm::parseIRFile(bitcode, diagnostic, context);
    unlink(bitcode.c_str());
    if (!module)
        fail("cannot read clang's output: " + diagnostic.getMessage());
    return module;
}

void link_image(const Options &options, const std::string &object)
{
    if (run({options.llvm + "/bin/ld.lld",
             "-shared",
             "-Bsymbolic",
             "--gc-sections",
             "--strip-all",
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
             object,
             "-o",
             options.output}))
        fail("linking failed");
}

} // namespace vgc
