#include "compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "llvm/ADT/StringExtras.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

extern char **environ;

namespace vgc
{
namespace
{

/// Passes a tool's messages on, and keeps back what LLVM's tools print when they crash: their arguments and addresses.
class Messages
{
  public:
    /// Takes a line without its end.
    void take(llvm::StringRef line)
    {
        crashed_ |= line.starts_with("PLEASE submit a bug report") || line.starts_with("Stack dump:");
        if (!crashed_)
            llvm::errs() << line << "\n";
        else if (const auto [number, text] = line.split(".\t"); at_.empty() && llvm::all_of(number, llvm::isDigit) &&
                                                                text.contains(':') &&
                                                                !text.starts_with("Program arguments"))
            at_ = text.str();
    }
    bool crashed() const
    {
        return crashed_;
    }
    /// Place in the source at which the tool crashed; empty if it is not known.
    const std::string &at() const
    {
        return at_;
    }

  private:
    bool crashed_ = false;
    std::string at_;
};

void forward(int from, Messages &messages)
{
    std::string pending;
    char piece[4096];
    for (ssize_t size; (size = read(from, piece, sizeof piece)) != 0;) {
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0)
            break;
        pending.append(piece, size_t(size));
        size_t begin = 0;
        for (size_t end; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1)
            messages.take(llvm::StringRef(pending).slice(begin, end));
        pending.erase(0, begin);
    }
    if (!pending.empty())
        messages.take(pending);
}

pid_t spawn(const std::vector<std::string> &command, int messages)
{
    std::vector<char *> argv;
    for (const std::string &word : command)
        argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, messages, STDERR_FILENO);
    pid_t pid;
    if (const int error = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ))
        fail("cannot run " + command[0] + ": " + strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    close(messages);
    return pid;
}

/// Runs a tool with this process's stdout and stderr; returns its exit status.
int run(const std::vector<std::string> &command)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        fail(llvm::Twine("cannot make a pipe: ") + strerror(errno));
    const pid_t pid = spawn(command, ends[1]);
    Messages messages;
    forward(ends[0], messages);
    close(ends[0]);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            fail("cannot wait for " + command[0] + ": " + strerror(errno));
    const llvm::StringRef tool = llvm::sys::path::filename(command[0]);
    if (messages.crashed())
        fail("a defect of the compiler: " + tool + " crashed" + (messages.at().empty() ? "" : " at ") + messages.at());
    if (WIFSIGNALED(status))
        fail("a defect of the compiler: " + tool + " was killed by signal " + llvm::Twine(WTERMSIG(status)));
    return WEXITSTATUS(status);
}

/// Writes what clang parses instead of the source: `text`, and instances of the templates of --name-expression, which
/// are host variables with their addresses. Text with a library in it is a system header, as the library is elsewhere.
std::string write_input(const Options &options, llvm::StringRef text)
{
    const std::string path = options.output + ".input.cu";
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (error)
        fail("cannot write " + path + ": " + error.message());
    const bool libraries = has_libraries_text(text);
    if (libraries)
        out << "#define __malloc__(...)\n"; // clang's attribute has no arguments
    out << "# 1 \"" << options.input << "\"" << (libraries ? " 3\n" : "\n") << text
        << "\n#line 1 \"name-expression\"\n";
    int index = 0;
    for (const std::string &expression : options.name_expressions)
        out << "static const auto __vgc_name_expression_" << index++ << " = &" << expression << ";\n";
    return path;
}

/// True if the text has an identifier that may be, or may be pasted together to, the name of a texture or surface
/// function.
bool names_texture_function(llvm::StringRef text)
{
    for (llvm::StringRef prefix : {"tex", "surf"})
        for (size_t at = text.find(prefix); at != llvm::StringRef::npos; at = text.find(prefix, at + 1)) {
            const llvm::StringRef rest = text.drop_front(at + prefix.size());
            if (at > 0 && (llvm::isAlnum(text[at - 1]) || text[at - 1] == '_'))
                continue;
            if (rest.starts_with("1D") || rest.starts_with("2D") || rest.starts_with("3D") ||
                rest.starts_with("Cubemap") || rest.ltrim().starts_with("##"))
                return true;
        }
    return false;
}

/// True if the program may use textures or surfaces: their headers are too slow to be included always.
bool uses_textures(const Options &options)
{
    for (const auto *words : {&options.clang, &options.name_expressions})
        for (const std::string &word : *words) {
            const bool defines = llvm::StringRef(word).starts_with("-D");
            if (names_texture_function(defines ? llvm::StringRef(word).split('=').second : llvm::StringRef(word)))
                return true;
        }
    const auto source = llvm::MemoryBuffer::getFile(options.input);
    return source && names_texture_function((*source)->getBuffer());
}

/// Adds the folders of headers: device headers lie over those of the host's libraries; clang's own stand before the C
/// ones.
void add_folders(const Options &options, std::vector<std::string> &command)
{
    for (const std::string &folder : options.program_dirs)
        command.insert(command.end(), {"-I", folder});
    for (const std::vector<std::string> *folders : {&options.include_dirs, &options.system_dirs})
        for (const std::string &folder : *folders)
            command.insert(command.end(), {"-isystem", folder});
}

std::vector<std::string> clang_command(const Options &options, const std::string &input, const std::string &bitcode,
                                       llvm::StringRef text)
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
                                        "-nostdinc++",
                                        "-fno-crash-diagnostics"};
    if (!options.plugin.empty())
        command.push_back("-fplugin=" + options.plugin);
    add_folders(options, command);
    command.insert(command.end(), {"-include", "cuda_runtime.h"});
    if (wants_hosts_names(options, text))
        command.insert(command.end(), {"-include", "vgc_hosted.h"});
    if (!may_name_api(text))
        command.push_back("-D__VGC_NO_API__=1");
    command.insert(command.end(), {// clang 19 warns of the features that it finds itself on processors with AVX10
                                   "-march=native", "-Wno-invalid-feature-combination", "-Wno-register",
                                   "-Wno-c++11-narrowing", "-fPIC", "-O2", "-std=gnu++17", "-ffp-contract=fast",
                                   "-fno-math-errno", "-fexceptions", "-fcxx-exceptions", "-fno-strict-return",
                                   "-fno-strict-float-cast-overflow", "-fno-stack-protector", "-fno-color-diagnostics",
                                   "-Xclang", "-disable-llvm-passes", "-Xclang", "-debug-info-kind=standalone"});
    if (uses_textures(options))
        command.insert(command.end(), {"-include", "vgc_texture.h", "-include", "vgc_surface.h"});
    command.insert(command.end(), options.clang.begin(), options.clang.end());
    command.insert(command.end(), {"-emit-llvm", "-c", input, "-o", bitcode});
    return command;
}

} // namespace

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &options)
{
    const std::string bitcode = options.output + ".bc";
    std::string text = read_source(options);
    replace_gccs_packs(text);
    const bool rewritten = join_launch_brackets(text) || has_libraries_text(text) || !options.name_expressions.empty();
    const std::string input = rewritten ? write_input(options, text) : options.input;
    const int status = run(clang_command(options, input, bitcode, text));
    if (rewritten)
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
             "--exclude-libs=ALL",
             object,
             library(options),
             "-o",
             options.output}))
        fail("linking failed");
}

} // namespace vgc
