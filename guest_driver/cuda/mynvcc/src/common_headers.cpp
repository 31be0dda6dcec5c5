#include "flatten.h"
#include "process.h"

#include <algorithm>
#include <cstring>

namespace mynvcc
{
namespace
{

/// Sorted, for a binary search.
const char *const COMMON[] = {
    "algorithm",
    "alloca.h",
    "any",
    "array",
    "arpa/inet.h",
    "assert.h",
    "atomic",
    "barrier",
    "bit",
    "bits/stdc++.h",
    "bitset",
    "cassert",
    "ccomplex",
    "cctype",
    "cerrno",
    "cfenv",
    "cfloat",
    "charconv",
    "chrono",
    "cinttypes",
    "ciso646",
    "climits",
    "clocale",
    "cmath",
    "codecvt",
    "compare",
    "complex",
    "complex.h",
    "concepts",
    "condition_variable",
    "coroutine",
    "csetjmp",
    "csignal",
    "cstdalign",
    "cstdarg",
    "cstdbool",
    "cstddef",
    "cstdint",
    "cstdio",
    "cstdlib",
    "cstring",
    "ctgmath",
    "ctime",
    "ctype.h",
    "cuchar",
    "cwchar",
    "cwctype",
    "deque",
    "dirent.h",
    "dlfcn.h",
    "endian.h",
    "errno.h",
    "exception",
    "execution",
    "expected",
    "fcntl.h",
    "fenv.h",
    "filesystem",
    "float.h",
    "format",
    "forward_list",
    "fstream",
    "functional",
    "future",
    "getopt.h",
    "glob.h",
    "initializer_list",
    "inttypes.h",
    "iomanip",
    "ios",
    "iosfwd",
    "iostream",
    "iso646.h",
    "istream",
    "iterator",
    "latch",
    "libgen.h",
    "limits",
    "limits.h",
    "linux/types.h",
    "list",
    "locale",
    "locale.h",
    "malloc.h",
    "map",
    "math.h",
    "memory",
    "memory.h",
    "memory_resource",
    "mutex",
    "netdb.h",
    "netinet/in.h",
    "new",
    "numbers",
    "numeric",
    "optional",
    "ostream",
    "poll.h",
    "pthread.h",
    "pwd.h",
    "queue",
    "random",
    "ranges",
    "ratio",
    "regex",
    "sched.h",
    "scoped_allocator",
    "semaphore",
    "semaphore.h",
    "set",
    "setjmp.h",
    "shared_mutex",
    "signal.h",
    "source_location",
    "span",
    "sstream",
    "stack",
    "stdalign.h",
    "stdarg.h",
    "stdatomic.h",
    "stdbool.h",
    "stddef.h",
    "stdexcept",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "stdnoreturn.h",
    "stop_token",
    "streambuf",
    "string",
    "string.h",
    "string_view",
    "strings.h",
    "strstream",
    "syncstream",
    "sys/file.h",
    "sys/ioctl.h",
    "sys/ipc.h",
    "sys/mman.h",
    "sys/param.h",
    "sys/resource.h",
    "sys/select.h",
    "sys/shm.h",
    "sys/socket.h",
    "sys/stat.h",
    "sys/syscall.h",
    "sys/sysinfo.h",
    "sys/time.h",
    "sys/times.h",
    "sys/types.h",
    "sys/uio.h",
    "sys/un.h",
    "sys/utsname.h",
    "sys/wait.h",
    "syscall.h",
    "syslog.h",
    "system_error",
    "termios.h",
    "tgmath.h",
    "thread",
    "time.h",
    "tuple",
    "type_traits",
    "typeindex",
    "typeinfo",
    "uchar.h",
    "unistd.h",
    "unordered_map",
    "unordered_set",
    "utility",
    "valarray",
    "variant",
    "vector",
    "version",
    "wchar.h",
    "wctype.h",
};

/// A folder of the header-only libraries that come with CUDA, and a header that each release has in it.
struct Library {
    const char *folder, *header;
};
const Library LIBRARIES[] = {
    {"cub/", "cub/cub.cuh"},
    {"cuda/", "cuda/std/version"},
    {"nv/", "nv/target"},
    {"thrust/", "thrust/version.h"},
};

const Library *library_of(const std::string &name)
{
    for (const Library &library : LIBRARIES)
        if (starts_with(name, library.folder))
            return &library;
    return nullptr;
}

/// How the names of the libraries' headers begin. Of cuRAND's, those for the host alone: its device functions are
/// everywhere.
const char *const HOST_LIBRARIES[] = {"cublas",          "cudalibxt.h", "cufft",    "curand_mtgp32_host.h",
                                      "curand_mtgp32dc", "cusolver",    "cusparse", "library_types.h",
                                      "vgc_either.h"};

bool begins_with_one_of(const std::string &name, const char *const *first, const char *const *last)
{
    return std::any_of(first, last, [&](const char *start) { return name.compare(0, strlen(start), start) == 0; });
}

} // namespace

bool is_host_library_header(const std::string &name)
{
    return begins_with_one_of(name, std::begin(HOST_LIBRARIES), std::end(HOST_LIBRARIES));
}

bool is_common_header(const std::string &name)
{
    const auto before = [](const char *a, const char *b) { return strcmp(a, b) < 0; };
    return std::binary_search(std::begin(COMMON), std::end(COMMON), name.c_str(), before);
}

bool is_library_name(const std::string &name)
{
    return library_of(name) != nullptr;
}

bool is_library_header(const std::string &name, const std::string &path)
{
    const Library *const library = library_of(name);
    return library != nullptr && ends_with(path, "/" + name) &&
           exists(path.substr(0, path.size() - name.size()) + library->header);
}

} // namespace mynvcc
