#include "gcc_options.h"
#include "process.h"

#include <algorithm>

namespace mynvcc
{
namespace
{

const char EXPORTS[] = "-export-dynamic";

bool is_of_gcc_alone(const std::string &option)
{
    static const Words beginnings = {"-fabi-version=",
                                     "-faggressive-loop-optimizations",
                                     "-fallow-store-data-races",
                                     "-fconcepts",
                                     "-fdevirtualize-at-ltrans",
                                     "-fdump-",
                                     "-fenforce-eh-specs",
                                     "-fgnu-unique",
                                     "-fgraphite",
                                     "-fipa-",
                                     "-fira-",
                                     "-floop-",
                                     "-freorder-blocks",
                                     "-fsched-",
                                     "-fsection-anchors",
                                     "-fstack-reuse=",
                                     "-ftree-",
                                     "-fvar-tracking",
                                     "-maccumulate-outgoing-args",
                                     "-mpreferred-stack-boundary=",
                                     "-mstringop-strategy=",
                                     "-mveclibabi=",
                                     EXPORTS};
    static const Words of_both = {"-ftree-vectorize", "-ftree-slp-vectorize"};
    const std::string name = starts_with(option, "-fno-") ? "-f" + option.substr(5) : option;
    return std::find(of_both.begin(), of_both.end(), name) == of_both.end() &&
           std::any_of(beginnings.begin(), beginnings.end(),
                       [&](const std::string &beginning) { return starts_with(name, beginning); });
}

} // namespace

Words without_gcc_options(Words options)
{
    options.erase(std::remove_if(options.begin(), options.end(), is_of_gcc_alone), options.end());
    return options;
}

Words link_options_of_clang(const Words &options)
{
    Words words = without_gcc_options(options);
    if (std::find(options.begin(), options.end(), EXPORTS) != options.end())
        words.push_back("-rdynamic");
    return words;
}

} // namespace mynvcc
