#include "process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mynvcc
{
namespace
{

volatile sig_atomic_t caught;
volatile pid_t running; // a program; 0: none

/// A terminal sends SIGINT to the program that is running, too.
void on_interruption(int signal)
{
    caught = signal;
    if (running > 0 && signal != SIGINT)
        kill(running, signal);
}

/// Signals that end the program; those that were ignored when it started stay so, as for nohup.
constexpr int interruptions[] = {SIGINT, SIGTERM, SIGHUP};

/// Holds back all signals while it lives.
class SignalsHeld
{
  public:
    SignalsHeld()
    {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
    }
    ~SignalsHeld()
    {
        const int error = errno;
        sigprocmask(SIG_SETMASK, &before, nullptr);
        errno = error;
    }
    SignalsHeld(const SignalsHeld &) = delete;
    SignalsHeld &operator=(const SignalsHeld &) = delete;

    sigset_t before;
};

/// Starts a process, of which no signal that comes meanwhile is lost: a handler of ours would be gone after exec().
pid_t start_process()
{
    const SignalsHeld held;
    const pid_t child = fork();
    running = child;
    for (int signal : interruptions) {
        struct sigaction action = {};
        if (child == 0 && sigaction(signal, nullptr, &action) == 0 && action.sa_handler == on_interruption) {
            action.sa_handler = SIG_DFL;
            sigaction(signal, &action, nullptr);
        }
    }
    return child;
}

void stop_if_interrupted()
{
    if (caught != 0)
        throw Failure{"", 128 + caught};
}

} // namespace

void watch_interruptions()
{
    for (int signal : interruptions) {
        struct sigaction action = {};
        if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN)
            continue;
        action = {};
        action.sa_handler = on_interruption;
        sigaction(signal, &action, nullptr);
    }
}

int interruption()
{
    return caught;
}

void fail(const std::string &message)
{
    throw Failure{message};
}

void warn(const std::string &message)
{
    std::cerr << "nvcc warning : " << message << '\n';
}

std::string quoted(const std::string &word)
{
    if (!word.empty() && word.find_first_of(" \t\n\"'\\$`&|;()<>*?[]#~!{}") == std::string::npos)
        return word;
    std::string text = "\"";
    for (char c : word) {
        if (strchr("\"\\$`", c))
            text += '\\';
        text += c;
    }
    return text + '"';
}

void Shell::note(const std::string &line) const
{
    if (is_verbose || is_dry)
        std::cerr << "#$ " << line << '\n';
}

void Shell::start(const Words &command, const char *into) const
{
    std::string line;
    for (const std::string &word : command)
        line += quoted(word) + ' ';
    note(into ? line + "> " + quoted(into) : line);
    if (is_dry)
        return;
    std::vector<char *> argv;
    for (const std::string &word : command)
        argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    stop_if_interrupted();
    const pid_t child = start_process();
    if (child < 0)
        fail(std::string("cannot start a process: ") + strerror(errno));
    if (child == 0) {
        if (into != nullptr) {
            const int file = open(into, O_WRONLY | O_CREAT | O_TRUNC, 0666);
            if (file < 0 || dup2(file, STDOUT_FILENO) < 0)
                _exit(126);
        }
        if (!errors.empty() &&
            (close(STDERR_FILENO) != 0 || open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666) != STDERR_FILENO))
            _exit(126);
        execvp(argv[0], argv.data());
        fprintf(stderr, "nvcc fatal   : cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail(std::string("cannot wait for a process: ") + strerror(errno));
    running = 0;
    stop_if_interrupted();
    if (WIFSIGNALED(status))
        fail(base_name(command[0]) + " died: " + strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        throw Failure{"", WEXITSTATUS(status)};
}

void Shell::run(const Words &command) const
{
    start(command, nullptr);
}

void Shell::run_into(const std::string &path, const Words &command) const
{
    start(command, path.c_str());
}

WorkFolder::WorkFolder(const std::string &kept) : path(kept), is_kept(!kept.empty())
{
    if (is_kept) {
        std::filesystem::create_directories(path);
        return;
    }
    const char *parent = getenv("TMPDIR");
    path = std::string(parent && *parent ? parent : "/tmp") + "/mynvcc-XXXXXX"; // mkdtemp() puts letters there
    if (mkdtemp(path.data()) == nullptr)
        fail("cannot make a folder in " + folder_of(path) + ": " + strerror(errno));
}

WorkFolder::~WorkFolder()
{
    std::error_code ignored;
    if (!is_kept)
        std::filesystem::remove_all(path, ignored);
}

std::string WorkFolder::file(const std::string &name) const
{
    return path + "/" + name;
}

std::string read_file(const std::string &path)
{
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail("cannot read " + path + ": " + strerror(errno));
    const std::string content = read_all(file);
    const int error = errno;
    close(file);
    if (error != 0)
        fail("cannot read " + path + ": " + strerror(error));
    return content;
}

std::string read_all(int file)
{
    std::string content;
    char buffer[1 << 16];
    const SignalsHeld held; // but while it waits, so that none comes between looking and waiting
    for (;;) {
        errno = EINTR;
        pollfd readable = {file, POLLIN, 0};
        ssize_t got = caught != 0 ? -1 : ppoll(&readable, 1, nullptr, &held.before);
        if (got >= 0)
            got = read(file, buffer, sizeof(buffer));
        if (got < 0 && errno == EINTR && caught == 0)
            continue;
        if (got == 0)
            errno = 0;
        if (got <= 0)
            return content;
        content.append(buffer, static_cast<size_t>(got));
    }
}

std::string read_text(const std::string &path)
{
    std::string text = read_file(path);
    size_t end = 0;
    for (size_t at = 0; at < text.size(); at++)
        if (text[at] != '\r' || at + 1 == text.size() || text[at + 1] != '\n')
            text[end++] = text[at];
    text.resize(end);
    return text;
}

void write_file(const std::string &path, const std::string &content)
{
    std::ofstream file(path, std::ios::binary);
    const bool is_open = file.is_open();
    file << content;
    file.close();
    if (file)
        return;
    const int error = errno;
    if (is_open && std::filesystem::is_regular_file(path))
        unlink(path.c_str());
    fail("cannot write " + path + ": " + strerror(error));
}

bool exists(const std::string &path)
{
    return access(path.c_str(), F_OK) == 0;
}

std::string find_program(const std::string &name)
{
    if (name.find('/') != std::string::npos)
        return access(name.c_str(), X_OK) == 0 ? name : "";
    const char *path = getenv("PATH");
    for (const std::string &folder : split(path ? path : "/usr/local/bin:/usr/bin:/bin", ':'))
        if (const std::string file = folder + "/" + name; !folder.empty() && access(file.c_str(), X_OK) == 0)
            return file;
    return "";
}

bool starts_with(const std::string &text, const std::string &prefix)
{
    return text.compare(0, prefix.size(), prefix) == 0;
}

bool ends_with(const std::string &text, const std::string &suffix)
{
    return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string base_name(const std::string &path)
{
    return path.substr(path.rfind('/') + 1);
}

std::string folder_of(const std::string &path)
{
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string stem_of(const std::string &path)
{
    const std::string name = base_name(path);
    return name.substr(0, name.rfind('.'));
}

std::string suffix_of(const std::string &path)
{
    const std::string name = base_name(path);
    const size_t dot = name.rfind('.');
    return dot == std::string::npos ? "" : name.substr(dot);
}

Words split(const std::string &text, char separator)
{
    Words words;
    for (size_t at = 0; at <= text.size();) {
        const size_t end = std::min(text.find(separator, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

} // namespace mynvcc
