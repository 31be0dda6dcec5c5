// Headers of the guest's, which stand before its source: the guest has found what the source includes in its own
// folders, as the host sees none of them.
//
//   //# vgc headers FOLDERS FILES
//   /opt/app/include                 FOLDERS lines: where headers are looked for, in this order
//   24 /opt/app/include/shape.h      FILES times: bytes and path in the guest, then these bytes
//   ...the source
#pragma once

#include <string>
#include <vector>

namespace vgc
{

struct GuestHeader {
    std::string path; // absolute
    std::string text;
};

struct GuestHeaders {
    std::vector<std::string> folders;
    std::vector<GuestHeader> files;

    bool has(const std::string &path) const;
};

/// Takes the headers from the front of a source; a source that has none stays as it is. Nothing in it is trusted.
GuestHeaders take_guest_headers(std::string &source);

} // namespace vgc
