// From a source file to an object file, or to another thing that its preprocessor or its device code makes.
#pragma once
#include "options.h"
#include "toolkit.h"

namespace mynvcc
{

enum class Language { cuda, cxx, c, assembler, linked };

Language language_of(const Input &input);

class Compiler
{
  public:
    Compiler(const Options &o, const Toolkit &t, const WorkFolder &w) : options(o), toolkit(t), work(w)
    {
    }
    /// Compiles a source into an object file. `target` is what rules for make are of: the object or, if it does not
    /// stay, what it is linked to.
    void make_object(const Input &input, const std::string &output, const std::string &target) const;
    /// Writes the container of a CUDA source's device code.
    void make_device_code(const Input &input, const std::string &output) const;
    /// Writes the preprocessed host code of a CUDA source; compilers refuse it, as launches would be lost.
    void make_host_code(const Input &input, const std::string &output) const;
    /// Preprocesses a source to `output`, or to standard output if that is "".
    void preprocess(const Input &input, const std::string &output) const;
    /// Prints a rule for make.
    void print_dependencies(const Input &input, const std::string &output) const;

  private:
    Words command(const Input &input) const;
    Words managed_command(const Input &input) const;
    Words cuda_command() const;
    Words device_macros() const;
    bool make_prepared_object(const Words &base, const Words &last) const;
    void explain_missing_headers(const Input &input) const;
    std::string blob_of(const Input &input) const;
    std::string local_library(const Input &input) const;
    void add_local_code(const Input &input, const std::string &blob) const;
    void make_joined_object(const Input &input, const Words &base, const Words &more, const std::string &output,
                            const std::string &target) const;
    Words dependency_words(const Input &input, const std::string &output, const std::string &target) const;

    const Options &options;
    const Toolkit &toolkit;
    const WorkFolder &work;
};

} // namespace mynvcc
