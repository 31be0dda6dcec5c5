// Messages, files, and the programs that mynvcc runs.
#pragma once
#include <string>
#include <vector>

namespace mynvcc
{

using Words = std::vector<std::string>;

/// An error of the user's or of the machine; `main` prints it and exits with `status`. With no message, whoever found
/// the error has said so.
struct Failure {
    std::string message;
    int status = 1;
};

[[noreturn]] void fail(const std::string &message);
/// From now on, SIGINT, SIGTERM and SIGHUP end the program that is being run, and then Shell raises Failure, so that
/// nothing is left behind.
void watch_interruptions();
/// The signal that has interrupted mynvcc, or 0.
int interruption();
void warn(const std::string &message);

/// How commands are run: printed (-v), only printed (--dryrun).
struct Shell {
    bool is_verbose = false;
    bool is_dry = false;
    /// File for what the programs say on stderr; "" leaves it where it is.
    std::string errors;

    /// Runs a program that is found as the shell would; raises Failure with its exit status unless that is 0.
    void run(const Words &command) const;
    /// The same, with its standard output in a file.
    void run_into(const std::string &path, const Words &command) const;
    /// Prints a line as nvcc does, behind "#$ ".
    void note(const std::string &line) const;

  private:
    void start(const Words &command, const char *into) const;
};

/// Folder for intermediate files; removed with the object unless it was given.
class WorkFolder
{
  public:
    explicit WorkFolder(const std::string &kept);
    ~WorkFolder();
    WorkFolder(const WorkFolder &) = delete;
    WorkFolder &operator=(const WorkFolder &) = delete;
    std::string file(const std::string &name) const;

  private:
    std::string path;
    bool is_kept;
};

std::string read_file(const std::string &path);
/// What the file of a descriptor has, to its end.
std::string read_all(int file);
/// The content of a text file, with line ends as Unix has them.
std::string read_text(const std::string &path);
/// Writes a file, or none.
void write_file(const std::string &path, const std::string &content);
bool exists(const std::string &path);
/// The path of a program on PATH, or "".
std::string find_program(const std::string &name);
bool starts_with(const std::string &text, const std::string &prefix);
bool ends_with(const std::string &text, const std::string &suffix);
std::string base_name(const std::string &path);
std::string folder_of(const std::string &path);
/// Name without folder and suffix.
std::string stem_of(const std::string &path);
/// The suffix with its dot, or "".
std::string suffix_of(const std::string &path);
/// A word as a shell reads it.
std::string quoted(const std::string &word);
Words split(const std::string &text, char separator);

} // namespace mynvcc
