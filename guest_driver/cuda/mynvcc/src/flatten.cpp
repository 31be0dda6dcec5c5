// What clang's -frewrite-includes writes [clang/lib/Frontend/Rewrite/InclusionRewriter.cpp], from clang 14 to 19:
//
//   #if 0 /* expanded by -frewrite-includes */        clang 17 and later, for a header that it goes into:
//   #include <stdio.h>                                #if defined(__CLANG_REWRITTEN_INCLUDES) ... /* stdio.h expanded
//   by #endif /* expanded by -frewrite-includes */       #include <stdio.h> # 3 "a.cu" #else /* stdio.h expanded by
//   -frewrite-includes */ # 1 "/usr/include/stdio.h" 1 3                    # 1 "/usr/include/stdio.h" 1 3
//   ...                                               ...
//                                                     #endif /* stdio.h expanded by -frewrite-includes */
//   # 4 "a.cu" 2                                      # 4 "a.cu" 2
//
//   #if 0 /* disabled by -frewrite-includes */
//   #if MAX > 3
//   #endif
//   #endif /* disabled by -frewrite-includes */
//   #if 1 /* evaluated by -frewrite-includes */
#include "flatten.h"
#include "process.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace mynvcc
{
namespace
{

const std::string MARK = " by -frewrite-includes */";

bool is_note(const std::string &line, const std::string &kind)
{
    return ends_with(line, kind + MARK);
}

/// A line such as `# 12 "file" 1 3`.
struct LineMarker {
    std::string file;
    bool enters = false, leaves = false, is_system = false;

    /// False unless `line` is one.
    bool parse(const std::string &line)
    {
        const size_t open = line.find('"'), close = line.rfind('"');
        if (line.size() < 5 || !starts_with(line, "# ") || !isdigit(static_cast<unsigned char>(line[2])) ||
            open == close)
            return false;
        file = line.substr(open + 1, close - open - 1);
        const std::string flags = line.substr(close + 1);
        enters = flags.find('1') != std::string::npos;
        leaves = flags.find('2') != std::string::npos;
        is_system = flags.find('3') != std::string::npos;
        return true;
    }
};

/// The name in a directive `#include <name>`, with its brackets or quotes; "" if it is computed by a macro.
std::string included_name(const std::string &directive)
{
    const size_t open = directive.find_first_of("<\"");
    if (open == std::string::npos)
        return "";
    const size_t close = directive.find(directive[open] == '<' ? '>' : '"', open + 1);
    return close == std::string::npos ? "" : directive.substr(open, close - open + 1);
}

/// Release of CUDA's header-only libraries.
struct Release {
    /// That tells it; "" as long as none does.
    std::string macro;
    unsigned value = 0;
    /// Releases of which only what stands behind this differs name their kernels alike.
    unsigned unit = 1;
};

class Flattener
{
  public:
    Flattener(const std::string &text, const std::string &headers) : folder(headers)
    {
        lines = split(text, '\n');
        for (std::string &line : lines) {
            if (ends_with(line, "\r")) // clang ends its own with \r, too, where the source does
                line.pop_back();
            if (ends_with(line, MARK)) // and begins them with the directive's indentation
                line.erase(0, line.find('#'));
        }
    }
    std::string run();

  private:
    void take_include();
    void take_condition();
    void take_marker(const LineMarker &marker, const std::string &line);
    void settle();
    bool is_put_back(const LineMarker &marker);
    bool is_known_elsewhere() const;
    void note_release(const std::string &line);
    void check_release();
    void write(const std::string &line)
    {
        if (skipped == 0)
            result += line + "\n";
    }

    std::vector<std::string> lines;
    std::string folder, result;
    size_t at = 0;
    /// Name that the last directive included, until the marker behind it says what came of it.
    std::string pending;
    /// Paths of the program's headers that have a library's name, as cuda/kernels.h.
    std::vector<std::string> own;
    Release release;
    bool is_release_checked = false;
    /// Files that are open below, and from which of them on nothing is written (0: all of it is).
    size_t depth = 0, skipped = 0;
    /// What is not written is the libraries' by name: CUDA's headers use them where they are, and do without.
    bool is_of_library = false;
};

/// The name of the last directive, without brackets or quotes.
std::string bare(const std::string &name)
{
    return name.size() > 2 ? name.substr(1, name.size() - 2) : "";
}

bool Flattener::is_put_back(const LineMarker &marker)
{
    const std::string name = bare(pending);
    if (starts_with(marker.file, folder + "/"))
        return !is_host_library_header(marker.file.substr(folder.size() + 1));
    if (is_library_header(name, marker.file))
        return true;
    if (is_library_name(name))
        own.push_back(marker.file);
    return marker.is_system && is_common_header(name);
}

bool Flattener::is_known_elsewhere() const
{
    const std::string name = bare(pending);
    const auto is_it = [&](const std::string &path) { return ends_with(path, "/" + name) || path == name; };
    return is_common_header(name) || (is_library_name(name) && std::none_of(own.begin(), own.end(), is_it));
}

/// The last directive's header was not gone into, as it was included before: by a header that is not the same
/// elsewhere, maybe.
void Flattener::settle()
{
    if (!pending.empty() && is_known_elsewhere())
        write("#include <" + bare(pending) + ">");
    pending.clear();
}

/// Reads the libraries' release off their own definition of it.
void Flattener::note_release(const std::string &line)
{
    static const std::pair<const char *, unsigned> macros[] = {{"CCCL_VERSION", 1000}, {"THRUST_VERSION", 100}};
    if (is_release_checked || !starts_with(line, "#"))
        return;
    const size_t define = line.find_first_not_of(" \t", 1);
    if (define == std::string::npos || line.compare(define, 7, "define ") != 0)
        return;
    const size_t name = line.find_first_not_of(" \t", define + 7), end = line.find_first_of(" \t", name);
    if (end == std::string::npos)
        return;
    for (const auto &[macro, unit] : macros)
        if (line.compare(name, end - name, macro) == 0 && unit >= release.unit)
            release = {macro, static_cast<unsigned>(strtoul(line.c_str() + end, nullptr, 10)), unit};
}

/// Has the device's compiler refuse another release: its kernels may have other names, and parameters.
void Flattener::check_release()
{
    if (is_release_checked || release.macro.empty() || release.value == 0)
        return;
    is_release_checked = true;
    const std::string wanted = std::to_string(release.value / release.unit);
    write("#if !defined(" + release.macro + ") || " + release.macro + " / " + std::to_string(release.unit) +
          " != " + wanted);
    write("#error \"CUB, Thrust and libcu++ of the guest, which this program was built with (" + release.macro + " " +
          std::to_string(release.value) +
          "), are of another release than the host's: install the host's in the "
          "guest (pip install nvidia-cuda-cccl==...) and build again\"");
    write("#endif");
}

void Flattener::take_include()
{
    const bool is_pragma = lines[at + 1].find("pragma") != std::string::npos;
    std::string directive;
    for (at++; at < lines.size() && !is_note(lines[at], "expanded"); at++)
        directive += lines[at];
    if (is_pragma)
        return;
    pending = included_name(directive);
}

void Flattener::take_condition()
{
    std::vector<std::string> block;
    for (at++; at < lines.size() && !is_note(lines[at], "disabled"); at++)
        block.push_back(lines[at]);
    block.pop_back();                            // its own #endif
    if (block.size() > 1 && block[0] == "#if 0") // in whose place an #elif stands
        block.erase(block.begin());
    std::string condition;
    for (const std::string &line : block)
        condition += (condition.empty() ? "" : "\n") + line;
    at++; // to what clang has made of it
    const bool is_about_files = condition.find("__has_include") != std::string::npos;
    if (at < lines.size())
        write(is_about_files || !is_note(lines[at], "evaluated") ? lines[at] : condition);
}

void Flattener::take_marker(const LineMarker &marker, const std::string &line)
{
    if (marker.enters) {
        depth++;
        if (skipped == 0 && is_put_back(marker)) {
            if (!pending.empty())
                write("#include <" + bare(pending) + ">");
            skipped = depth;
            is_of_library = is_library_name(bare(pending));
        }
        pending.clear();
        write(line);
        return;
    }
    if (!marker.leaves) {
        write(line);
        return;
    }
    const bool was_written = skipped == 0 && depth > 0;
    if (skipped == depth) {
        skipped = 0;
        if (is_of_library)
            check_release();
    }
    depth -= depth > 0;
    // nothing can be left that was not entered
    write(was_written ? line : line.substr(0, line.rfind('"') + 1) + (marker.is_system ? " 3" : ""));
}

std::string Flattener::run()
{
    for (; at < lines.size(); at++) {
        const std::string &line = lines[at];
        LineMarker marker;
        if (marker.parse(line)) {
            take_marker(marker, line);
            continue;
        }
        settle();
        if (skipped > 0)
            note_release(line);
        if (starts_with(line, "#if") && is_note(line, "disabled"))
            take_condition();
        else if (starts_with(line, "#if") && is_note(line, "expanded"))
            take_include();
        else if (!starts_with(line, "#endif") || !is_note(line, "expanded"))
            write(line);
    }
    return result;
}

} // namespace

std::string flatten(const std::string &rewritten, const std::string &cuda_headers)
{
    return Flattener(rewritten, cuda_headers).run();
}

} // namespace mynvcc
