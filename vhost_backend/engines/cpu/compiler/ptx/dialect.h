// Tells PTX from x86 assembly.
#pragma once

#include <string_view>

namespace vgc::ptx
{

/// True if the text of an asm statement is PTX: its first statement has an instruction's dotted name, a guard, a
/// directive of PTX, or is a block. x86 mnemonics have no dots.
bool is_ptx(std::string_view text);
/// True if the text is a module: its first directive is `.version`.
bool begins_module(std::string_view text);
/// Words of a module's version, such as "8.0".
std::string_view version_of(std::string_view text);
/// True if the text has no statement: it stands for both.
bool is_blank(std::string_view text);

} // namespace vgc::ptx
