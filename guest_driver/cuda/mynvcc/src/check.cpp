#include "check.h"
#include "blob.h"
#include "libvgc/vgc.h"

#include <cstring>
#include <dlfcn.h>
#include <iostream>

namespace mynvcc
{
namespace
{

/// libvgc, which is loaded only where it is asked for: most builds have no device.
class Library
{
  public:
    explicit Library(const std::string &top)
    {
        const std::string own = top + "/lib64/libvgc.so";
        handle = dlopen(exists(own) ? own.c_str() : "libvgc.so.1", RTLD_NOW);
        if (handle == nullptr)
            fail(std::string("--check needs libvgc.so: ") + dlerror());
    }
    template <class F> F *find(F *, const char *name) const
    {
        void *const function = dlsym(handle, name);
        if (function == nullptr)
            fail(std::string("libvgc.so has no ") + name);
        return reinterpret_cast<F *>(function);
    }

  private:
    void *handle;
};

/// Words of the device's compiler about a unit that has host code alone, which no program asks it to compile.
const char NOTHING_TO_COMPILE[] = "the source defines no kernel";

#define FROM(library, name) (library).find(&name, #name)

std::vector<const char *> options_of(const char *options, size_t length)
{
    std::vector<const char *> words;
    for (const char *at = options; at < options + length; at += strlen(at) + 1)
        words.push_back(at);
    return words;
}

} // namespace

void check_device_code(const std::string &top, const std::string &blob)
{
    vgc_cuda_blob header;
    memcpy(&header, blob.data(), sizeof(header));
    if ((header.flags & VGC_CUDA_BLOB_RELOCATABLE) != 0)
        fail("--check cannot compile relocatable device code, which may need other files");
    const char *const options = blob.data() + sizeof(header) + header.name_len;
    const Library library(top);
    const auto last_error = FROM(library, vgc_last_error);
    vgc_device *device;
    if (FROM(library, vgc_open)(nullptr, &device) != VGC_OK)
        fail(std::string("--check needs the device: ") + last_error());
    vgc_program *program;
    const std::vector<const char *> words = options_of(options, header.options_len);
    const int result =
        FROM(library, vgc_program_load)(device, VGC_SOURCE_CUDA, options + header.options_len, header.text_len,
                                        words.data(), static_cast<uint32_t>(words.size()), &program);
    const std::string error = result == VGC_OK ? "" : last_error(), log = FROM(library, vgc_last_log)();
    FROM(library, vgc_close)(device);
    if (log.find(NOTHING_TO_COMPILE) != std::string::npos)
        return;
    std::cerr << log << (log.empty() || log.back() == '\n' ? "" : "\n");
    if (result != VGC_OK) // behind its first line, the error has the log, or its end
        fail(log.empty() ? "--check: " + error : "--check: " + error.substr(0, error.find(":\n")));
}

} // namespace mynvcc
