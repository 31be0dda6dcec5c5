// What the compiler does for a source, for developers and tests: the size of the code after each step, and times.
#pragma once

#include <memory>
#include <string>

#include "llvm/ADT/StringRef.h"

namespace llvm
{
class Module;
class PassInstrumentationCallbacks;
class TimePassesHandler;
} // namespace llvm

namespace vgc
{

/// Makes `note_work` write to a file, and LLVM's passes report their times to stderr.
void report_work(const std::string &path, bool times);
/// Notes the sizes of the code after a step, one line: step, functions, blocks, instructions, instructions of the
/// largest function. Behind a division (shares.h) each process notes its share.
void note_work(const char *step, const llvm::Module &module);
/// Notes the name of the prelude that a source is parsed with.
void note_prelude(llvm::StringRef name);
/// Times the passes of a pipeline, if that was asked for. The result prints the times when it is deleted.
std::unique_ptr<llvm::TimePassesHandler> time_passes(llvm::PassInstrumentationCallbacks &callbacks);

} // namespace vgc
