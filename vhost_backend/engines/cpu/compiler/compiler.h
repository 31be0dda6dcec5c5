// vgc-cpucc: CUDA C source -> an image of x86 code that the CPU engine runs. The steps, in order:
//   frontend.cpp   clang parses CUDA and emits unoptimised IR
//   kernels.cpp    finds the kernels, their parameters and the variables a host may address
//   inline_asm.cpp turns PTX idioms into calls, refuses what is neither PTX idiom nor x86
//   shared.cpp     gives __shared__ variables their place in a block's shared memory
//   block_atomics.cpp  makes atomics on it plain instructions
//   regions.cpp    cuts kernels at barriers and warp operations and wraps the pieces in loops over threads; region.h
//                  lists the files of this step
//   guards.cpp     takes bounds checks out of these loops
//   lanes.cpp      turns them inside out if there are loops in them; lockstep.h lists the files of this step
//   image.cpp      emits the table that the runtime reads
//   backend.cpp    optimisation, code, link
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

#include "../vgc_cpu_abi.h"

namespace vgc
{

/// Ends the compilation with a message in the compiler's own style.
[[noreturn]] void fail(const llvm::Twine &message);

struct Options {
    std::string input;
    std::string output;
    std::vector<std::string> include_dirs;
    std::string dump_ir;                       // file for the final IR; for developers
    std::vector<std::string> clang;            // the guest's options in clang's words
    std::vector<std::string> name_expressions; // template instantiations to make
};

/// Reads the command line; refuses every option that is not on the white list.
Options parse_options(int argc, char **argv);

/// How a source-level parameter reaches the kernel's IR arguments.
struct Param {
    uint32_t offset;
    uint32_t size;
    enum { DIRECT, MEMORY, SKIPPED } passing;
    unsigned first_arg;
    unsigned num_args;
    vgc_cpu_param_kind kind;
};

struct Kernel {
    llvm::Function *function;
    std::string name;
    std::string short_name;
    std::vector<Param> params;
    uint32_t param_bytes = 0;
    uint32_t max_threads = VGC_CPU_MAX_THREADS;
    uint32_t shared_bytes = 0;
    // filled by regions.cpp
    struct Site {
        llvm::Function *resume;
        uint32_t kind;
        uint32_t flags;
        uint32_t mask;
        uint32_t arg;
    };
    std::vector<Site> sites;
    uint32_t frame_bytes = 0;
};

struct Global {
    llvm::GlobalVariable *variable;
    std::string name;
};

struct Program {
    std::vector<Kernel> kernels;
    std::vector<Global> globals;
};

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &options);
void link_image(const std::string &object, const std::string &output);

Program collect(llvm::Module &module);
void lower_inline_asm(llvm::Module &module);

/// Replaces shared variables by calls of __vgc_shared_var; `place` turns those into addresses after inlining.
class SharedMemory
{
  public:
    explicit SharedMemory(llvm::Module &module);
    void place(Program &program);

  private:
    struct Variable {
        std::string name;
        uint64_t size;
        uint64_t align;
        uint64_t offset;
        bool dynamic;
    };
    llvm::Module &module_;
    std::vector<Variable> variables_;
};

/// Atomics on shared memory, as long as it is known by name, and their end as plain instructions.
void mark_block_atomics(llvm::Module &module);
void lower_block_atomics(llvm::Module &module);

/// Inlines all that can be inlined; a kernel then contains its barriers itself.
void prepare_inlining(llvm::Module &module, const Program &program);
void form_regions(llvm::Module &module, Program &program);
void emit_table(llvm::Module &module, const Program &program);

std::unique_ptr<llvm::TargetMachine> host_machine();
void simplify(llvm::Module &module, llvm::TargetMachine &machine);
void optimise(llvm::Module &module, llvm::TargetMachine &machine);
void generate(llvm::Module &module, llvm::TargetMachine &machine, const std::string &object);
/// Refuses an object that needs what the runtime does not offer.
void check_symbols(const std::string &object);

/// The values of threadIdx & co. at one place in the code.
struct ThreadView {
    llvm::Value *tid[3];
    llvm::Value *block_idx[3];
    llvm::Value *block_dim[3];
    llvm::Value *grid_dim[3];
    llvm::Value *linear;
    llvm::Value *pe;
    llvm::Value *shared;
    llvm::Value *dynamic_shared;
};

/// True for the calls that read a thread's position (see kernels/cpu/include/vgc_builtins.h).
bool is_position_call(const llvm::Instruction &instruction);
bool is_position_name(llvm::StringRef name);
/// The value such a call has under `view`.
llvm::Value *position_value(llvm::CallInst &call, const ThreadView &view);
/// Loads a field of struct vgc_cpu_ctx.
llvm::Value *load_field(llvm::IRBuilder<> &builder, llvm::Value *ctx, llvm::Type *type, size_t offset,
                        const char *name);
/// Loads what is the same for all threads of the block.
void load_block_view(llvm::IRBuilder<> &builder, llvm::Value *ctx, ThreadView &view);
void lower_positions_by_context(llvm::Function &function);

} // namespace vgc
