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

class Flattener
{
  public:
    Flattener(const std::string &text, const std::string &headers) : folder(headers)
    {
        lines = split(text, '\n');
    }
    std::string run();

  private:
    void take_include();
    void take_condition();
    void take_marker(const LineMarker &marker, const std::string &line);
    void settle();
    bool is_put_back(const LineMarker &marker) const;
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
    /// Files that are open below, and from which of them on nothing is written (0: all of it is).
    size_t depth = 0, skipped = 0;
};

bool Flattener::is_put_back(const LineMarker &marker) const
{
    if (starts_with(marker.file, folder + "/"))
        return true;
    return marker.is_system && pending.size() > 2 && is_common_header(pending.substr(1, pending.size() - 2));
}

/// The last directive's header was not gone into, as it was included before: by a header that is not the same
/// elsewhere, maybe.
void Flattener::settle()
{
    if (pending.size() > 2 && is_common_header(pending.substr(1, pending.size() - 2)))
        write("#include <" + pending.substr(1, pending.size() - 2) + ">");
    pending.clear();
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
    block.pop_back();                          // its own #endif
    if (!block.empty() && block[0] == "#if 0") // in whose place an #elif stands
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
                write("#include <" + pending.substr(1, pending.size() - 2) + ">");
            skipped = depth;
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
    if (skipped == depth)
        skipped = 0;
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
