// The compiler's own failures: each becomes one error that names what was being compiled, without addresses of the
// host.
#include "crash.h"

#include "demangled.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "clang/Basic/SourceManager.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/raw_ostream.h"

namespace vgc
{
namespace
{

const size_t HANDLER_BYTES = 256 << 10; // of the handler's stack: the compiler's own may have overflowed
const rlim_t STACK_LIMIT = 120 << 20;   // of the compiler: LLVM calls itself along chains of instructions. Linux keeps
                                        // 128 MiB free below a program's stack, whatever its limit is at the start.
const size_t RESERVE_BYTES = 8 << 20;   // to say where memory ran out
const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};

/// Text of limited length; safe in signal handlers.
class Line
{
  public:
    Line &operator<<(const char *text)
    {
        for (; *text != '\0' && size_ < text_.size() - 1; text++)
            text_[size_++] = *text == '\n' ? ' ' : *text;
        text_[size_] = '\0';
        return *this;
    }
    const char *text() const
    {
        return text_.data();
    }
    [[noreturn]] void end()
    {
        text_[size_++] = '\n';
        (void)!write(STDERR_FILENO, text_.data(), size_);
        _exit(1);
    }

  private:
    std::array<char, 1024> text_{};
    size_t size_ = 0;
};

Line subject; // what is being compiled

/// What clang has read last.
struct {
    const clang::SourceManager *sources; // null: nothing
    clang::SourceLocation place;
} token;

void note_last_token()
{
    if (token.sources == nullptr)
        return;
    const clang::SourceManager &sources = *std::exchange(token.sources, nullptr);
    const clang::PresumedLoc place = sources.getPresumedLoc(sources.getExpansionLoc(token.place));
    if (place.isValid())
        subject << ", after " << place.getFilename() << ":" << std::to_string(place.getLine()).c_str() << ":"
                << std::to_string(place.getColumn()).c_str();
}
llvm::StringMap<std::string> &places()
{
    static llvm::StringMap<std::string> map;
    return map;
}

/// Notes what clang or the code generator is at. Both leave entries on LLVM's stack of notes, the newest first: clang's
/// parser and its emission of IR with the place in the source, passes with their function.
void note_entries()
{
    using Entry = llvm::PrettyStackTraceEntry;
    for (auto *entry = static_cast<const Entry *>(llvm::SavePrettyStackState()); entry != nullptr;
         entry = entry->getNextEntry()) {
        llvm::SmallString<1024> text;
        llvm::raw_svector_ostream out(text);
        entry->print(out);
        const auto [before, name] = llvm::StringRef(text).split(" on function '@");
        if (!name.empty()) {
            note_function(name.take_front(name.find('\'')).trim('"'));
            return;
        }
        if (text.str().contains(':')) {
            subject = Line();
            while (text.back() == '\n')
                text.pop_back();
            subject << ", at " << text.c_str();
        }
    }
    if (*subject.text() == '\0')
        note_last_token();
}

[[noreturn]] void report(const char *what, const char *detail)
{
    Line line;
    line << "vgc-cpucc: error: " << what << detail << subject.text();
    line.end();
}

volatile sig_atomic_t is_late;

[[noreturn]] void report_lateness()
{
    report("the compiler took too much processor time", "");
}

void on_signal(int number)
{
    if (is_late) // it came in the middle of something, which the notes of the place may have needed
        report_lateness();
    const char *name = number == SIGSEGV   ? "SIGSEGV"
                       : number == SIGABRT ? "SIGABRT"
                       : number == SIGBUS  ? "SIGBUS"
                       : number == SIGILL  ? "SIGILL"
                       : number == SIGFPE  ? "SIGFPE"
                                           : "SIGTRAP";
    note_entries();
    report("a defect of the compiler: ", name);
}

void on_late(int)
{
    is_late = 1;
    note_entries();
    report_lateness();
}

void on_fatal_error(void *, const char *reason, bool)
{
    note_entries();
    report("a defect of the compiler: ", reason);
}

void *reserve;

void on_out_of_memory()
{
    if (reserve != nullptr) { // else memory has run out again, in the next line
        free(std::exchange(reserve, nullptr));
        note_entries();
    }
    report("the compiler ran out of memory", "");
}

} // namespace

void extend_stack()
{
    rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_LIMIT)
        return;
    stack.rlim_cur = std::min(stack.rlim_max, STACK_LIMIT);
    setrlimit(RLIMIT_STACK, &stack);
}

void report_crashes()
{
    static char stack[HANDLER_BYTES];
    stack_t alternative{};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = int(SA_ONSTACK | SA_RESETHAND);
    for (const int number : SIGNALS)
        sigaction(number, &action, nullptr);
    action.sa_handler = on_late;
    sigaction(SIGXCPU, &action, nullptr);
    rlimit time;
    if (getrlimit(RLIMIT_CPU, &time) == 0 && time.rlim_max != RLIM_INFINITY && time.rlim_max > 1) {
        time.rlim_cur = time.rlim_max - 1; // the kernel kills at the limit itself
        setrlimit(RLIMIT_CPU, &time);
    }
    reserve = malloc(RESERVE_BYTES); // nothing is written to it
    std::set_new_handler(on_out_of_memory);
    llvm::install_fatal_error_handler(on_fatal_error);
    llvm::install_bad_alloc_error_handler([](void *, const char *, bool) { on_out_of_memory(); });
}

void note_places(const llvm::Module &module)
{
    for (const llvm::Function &function : module)
        if (const llvm::DISubprogram *source = function.getSubprogram())
            places()[function.getName()] = (source->getFilename() + ":" + llvm::Twine(source->getLine())).str();
}

void note_token(const clang::SourceManager &sources, clang::SourceLocation place)
{
    token = {&sources, place};
}

void forget_token()
{
    token.sources = nullptr;
}

void note_function(llvm::StringRef name)
{
    static std::string noted;
    if (name == noted)
        return;
    noted = name.str();
    const llvm::StringRef base = name.take_front(name.rfind(".region"));
    const auto place = places().find(base);
    subject = Line();
    subject << ", in " << (base.empty() ? "the program" : demangled(base).c_str());
    if (place != places().end())
        subject << " (" << place->second.c_str() << ")";
}

void note_step(const char *step)
{
    note_function("");
    subject = Line();
    subject << ", in " << step;
}

} // namespace vgc

/// Assertions of LLVM: the C library's function would show paths of the host.
extern "C" void __assert_fail(const char *expression, const char *file, unsigned, const char *) noexcept
{
    const char *name = strrchr(file, '/');
    vgc::Line text;
    text << "assertion `" << expression << "' in " << (name == nullptr ? file : name + 1) << " failed";
    vgc::note_entries();
    vgc::report("a defect of the compiler: ", text.text());
}
