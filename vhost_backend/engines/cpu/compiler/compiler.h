// vgc-cpucc: CUDA C source -> an image of x86 code that the CPU engine runs. The steps, in order:
//   source.cpp     looks at the source's text (source.h); libraries.cpp at those that it includes and the host lacks
//   units.cpp      takes a program of several sources apart; unit_link.cpp links their modules, unit_symbols.cpp says
//                  which of their names fit together, unit_calls.cpp has PTX and CUDA C call one another
//   guest_headers.cpp  takes the guest's own headers, which stand before a source
//   frontend.cpp   clang parses CUDA and emits unoptimised IR; arguments.cpp prepares it, prelude.cpp has the headers
//                  ready in precompiled form
//   kernels.cpp    finds the kernels, their parameters and the variables a host may address
//   ptx/module.cpp does both for a PTX module, in the place of these
//   launches.cpp   makes launches in device code calls of the runtime
//   inline_asm.cpp turns inline PTX into IR (ptx/), keeps x86
//   undefined.cpp  gives operations that C++ leaves undefined the results that they have on a GPU
//   denormals.cpp  with -ftz=true: flushes denormal floats to zero
//   exponentials.cpp  makes expf() and exp2f() arithmetic, which vectorises
//   zeroes.cpp     takes -0 for less than +0 in minima and maxima
//   shared.cpp     gives __shared__ variables their offsets in a block's shared memory
//   checks.cpp     with --memcheck and the like: has the runtime check accesses to memory
//   warp_hazards.cpp  warns of programs that need their warps in step; warp_values.cpp has what lanes compute
//   spins.cpp      lets threads that wait in a loop yield
//   warp_order.cpp  lets warps wait between accesses to memory whose order counts
//   block_atomics.cpp  makes atomics on shared memory plain instructions
//   regions.cpp    cuts kernels at barriers and warp operations and wraps the pieces in loops over threads; region.h
//                  lists the files of this step
//   switches.cpp   makes switches branches; strips.cpp says which kernels may run several blocks as one
//   guards.cpp     takes bounds checks out of these loops
//   lanes.cpp      turns these loops inside out if they contain loops; lockstep.h lists the files of this step
//   image.cpp      emits the table that the runtime reads
//   shares.cpp     divides large programs between two processes, up to the link
//   backend.cpp    optimisation, code; lone_threads.cpp takes code of one thread out of loops over threads,
//                  access_order.cpp keeps the order of a thread's accesses in them
//   masked_bits.cpp  avoids masked mixtures of bits, for which LLVM generates wrong code
//   symbols.cpp    the functions that code may call: the runtime's and compiler-rt's
//   link.cpp       lld makes the image
// main.cpp takes them one after the other; options.cpp reads the command line, host_headers.cpp says where headers are,
// diagnostics.cpp says what went wrong.
// demangled.cpp makes names readable. crash.cpp reports failures of the compiler itself. targets.cpp keeps what is not
// for x86 out of the program.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ValueHandle.h"
#include "llvm/Target/TargetMachine.h"

#include "../vgc_cpu_abi.h"

namespace vgc
{

/// Ends the compilation with an error message.
[[noreturn]] void fail(const llvm::Twine &message);
/// Shows LLVM's errors in the same style.
std::unique_ptr<llvm::DiagnosticHandler> diagnostics();

/// Whom code is for.
inline constexpr char TRIPLE[] = "x86_64-pc-linux-gnu";

struct Effort;  // effort.h
struct Options; // options.h

/// A parameter of the source, and the IR arguments that carry it.
struct Param {
    uint32_t offset;
    uint32_t size;
    enum { DIRECT, MEMORY, SKIPPED } passing;
    unsigned first_arg;
    unsigned num_args;
    uint32_t lead; // bytes before those that the first argument carries
    vgc_cpu_param_kind kind;
    bool is_grid_constant; // all threads use the one in the launch's parameters
};

struct Kernel {
    llvm::Function *function;
    std::string name;
    std::string short_name;
    std::vector<Param> params;
    uint32_t param_bytes = 0;
    uint32_t max_threads = VGC_CPU_MAX_THREADS;
    uint32_t shared_bytes = 0;
    uint32_t cluster[3] = {1, 1, 1}; // blocks
    uint32_t block[3] = {0, 0, 0};   // threads that a block must have; 0: any
    // set by regions.cpp
    struct Site {
        llvm::Function *resume;
        uint32_t kind;
        uint32_t flags;
        uint32_t mask;
        uint32_t arg;
        llvm::Function *work = nullptr;
        llvm::Constant *table = nullptr; // what differs between the sites that share `resume`
    };
    std::vector<Site> sites;
    uint32_t frame_bytes = 0;
    uint32_t local_bytes = 0; // set by measure_memory()
    uint32_t flags = 0;       // VGC_CPU_KERNEL_*
};

/// Attribute of the variables and kernels that belong to one unit of several: its name.
inline constexpr char UNIT[] = "vgc-unit";
/// Attribute of a kernel that the linker has renamed: its mangled name.
inline constexpr char NAME_IN_UNIT[] = "vgc-name-in-unit";

/// Attribute of variables in constant memory.
inline constexpr char CONSTANT[] = "vgc-constant";

/// Attribute of kernels with clusters of several blocks.
inline constexpr char CLUSTERS[] = "vgc-clusters";

struct Global {
    llvm::GlobalVariable *variable;
    std::string name;
};

struct Program {
    std::vector<Kernel> kernels;
    std::vector<Global> globals;
    uint32_t constant_bytes = 0; // set by measure_memory()
};

/// Names of the units that use functions and variables which they do not define, by mangled name.
using Users = std::map<std::string, std::string>;

/// Measures local memory of kernels and constant memory of the program, once what can be in registers is.
void measure_memory(const llvm::Module &module, Program &program);

std::unique_ptr<llvm::Module> run_front_end(llvm::LLVMContext &context, const Options &options, std::string text);
/// Compiles a program of several sources, in CUDA C and PTX, to one module. `program` gets kernels and variables of
/// those in PTX.
std::unique_ptr<llvm::Module> link_units(llvm::LLVMContext &context, const llvm::TargetMachine &machine,
                                         Options &options, Program &program, Users &users);
/// The folders in which clang finds the headers of the host's C and C++ libraries, in the order of its search.
std::vector<std::string> host_headers(const Options &options);
/// Prints the folders in which clang finds the headers of the host's C and C++ libraries, in the order of its search.
void print_host_headers(const Options &options);
void link_image(const Options &options, const std::vector<std::string> &objects);

/// Adds kernels and variables that were made of CUDA C to `program`. It must have some then, unless `may_be_empty`.
void collect(llvm::Module &module, Program &program, bool may_be_empty);
/// Keeps variables that kernels only write to, as the guest can read them; the optimiser drops those that are `static`.
void keep_globals(llvm::Module &module, const Program &program);
/// Makes launches in device code, which source.cpp has rewritten, calls of the runtime.
void lower_launches(llvm::Module &module, const Program &program);
void lower_inline_asm(llvm::Module &module);
/// Gives operations that are undefined in C++ the results that they have on a GPU.
void define_results(llvm::Module &module);
/// Makes exponential functions of floats arithmetic, which vectorises.
void expand_exponentials(llvm::Module &module);
/// Makes operations on floats take and give zeroes for denormal numbers.
void flush_denormals(llvm::Module &module);
/// Has the minimum of -0 and +0 be -0, and the maximum +0.
void order_zeroes(llvm::Module &module);
/// Keeps the code generator from masking mixtures of bits, which it does wrong; for optimised code.
void unmask_mixtures(llvm::Module &module);

/// Attribute of functions whose vectors stay whole: those with an element for each lane of a warp.
inline constexpr char WHOLE_VECTORS[] = "vgc-whole-vectors";

/// Attribute of the functions whose calls stand for shared variables.
inline constexpr char SHARED_VARIABLE[] = "vgc-shared-variable";

/// Replaces shared variables by calls of a function each; `place` turns those into addresses after inlining.
class SharedMemory
{
  public:
    explicit SharedMemory(llvm::Module &module);
    void place(Program &program);
    /// True if the program has shared variables.
    bool is_used() const
    {
        return !variables_.empty();
    }

  private:
    struct Variable {
        llvm::WeakVH access; // null once no use is left: the optimiser deletes it then
        uint64_t size;
        uint64_t align;
        uint64_t offset;
        bool dynamic;
    };
    using Uses = llvm::MapVector<llvm::Function *, std::map<uint32_t, std::vector<llvm::CallInst *>>>;
    Uses collect_uses() const;
    void put(uint32_t index, uint64_t &end);
    void mark(llvm::Function &kernel, const std::map<uint32_t, std::vector<llvm::CallInst *>> &calls) const;
    void replace(const std::map<uint32_t, std::vector<llvm::CallInst *>> &calls);
    llvm::Module &module_;
    std::vector<Variable> variables_;
};

/// True for the calls that stand for shared memory.
bool is_shared_object(const llvm::Value *object);
/// True for functions whose calls are waits for other threads.
bool is_wait_name(llvm::StringRef name);
/// Metadata of accesses that are volatile only until the optimiser has run.
inline constexpr char PINNED[] = "vgc.step";
/// Keeps the optimiser from merging and moving accesses to memory that other threads see, until `order_warps`. All that
/// can be inlined must be.
void pin_accesses(llvm::Module &module);
/// True if the kernel may be given waits that it does not ask for. What its threads keep in local memory is then the
/// launch's, for all threads of a block at once.
bool can_wait(const llvm::Function &kernel);
/// Has threads that spin until another thread stores something yield in each round.
void yield_in_spins(llvm::Module &module, const Program &program);
/// Lets the warps of the program's kernels wait between accesses whose order counts: volatile ones, or with `lockstep`
/// all.
void order_warps(llvm::Module &module, const Program &program, bool lockstep);

/// Mark atomics on shared memory while variables are known by name; turn marked ones into plain instructions.
/// In a program with clusters no memory is a block's alone.
void mark_block_atomics(llvm::Module &module);
void lower_block_atomics(llvm::Module &module);

/// Marks functions that can be inlined, so that each kernel contains its barriers: also those that are too large if
/// `all`.
void prepare_inlining(llvm::Module &module, const Program &program, bool all);
void form_regions(llvm::Module &module, Program &program);
/// Refuses a program whose variables are too large for an image.
void check_variables(const llvm::Module &module);
void emit_table(llvm::Module &module, const Program &program);

std::unique_ptr<llvm::TargetMachine> host_machine();
/// Inlines what `prepare_inlining` has marked, and makes local variables registers.
void inline_all(llvm::Module &module, llvm::TargetMachine &machine);
void simplify(llvm::Module &module, llvm::TargetMachine &machine);
void optimise(llvm::Module &module, llvm::TargetMachine &machine, const Effort &effort);
void generate(llvm::Module &module, llvm::TargetMachine &machine, const std::string &object);
/// Refuses objects with undefined symbols which none of them, nor the runtime, nor compiler-rt provides.
void check_symbols(const Options &options, const std::vector<std::string> &objects, const Users &users);
/// Refuses an image that imports symbols which the runtime does not provide.
void check_imports(const std::string &image);
/// Defines the functions that compiler-rt calls when it finds an error of its own: they end the launch.
void define_aborts(llvm::Module &module);
/// compiler-rt's functions, which LLVM calls for operations that the processor does not have; linked into the image.
std::string library(const Options &options);

/// Values of threadIdx, blockIdx, blockDim and gridDim at a place in the code.
struct ThreadView {
    llvm::Value *tid[3];
    llvm::Value *block_idx[3];
    llvm::Value *block_dim[3];
    llvm::Value *grid_dim[3];
    llvm::Value *cluster_dim[3];
    llvm::Value *slot_bytes;
    llvm::Value *linear;
    llvm::Value *pe;
    llvm::Value *shared;
    llvm::Value *dynamic_shared;
};

/// True for the calls that read a thread's position (see kernels/cpu/include/vgc_builtins.h).
bool is_position_call(const llvm::Instruction &instruction);
bool is_position_name(llvm::StringRef name);
/// True if all threads of the block get the same.
bool is_block_position_call(const llvm::Instruction &instruction);
/// Value of such a call under `view`.
llvm::Value *position_value(llvm::CallInst &call, const ThreadView &view);
/// Loads a field of struct vgc_cpu_ctx.
llvm::Value *load_field(llvm::IRBuilder<> &builder, llvm::Value *ctx, llvm::Type *type, size_t offset,
                        const char *name);
/// Loads the values of `view` that are the same for all threads of the block.
void load_block_view(llvm::IRBuilder<> &builder, llvm::Value *ctx, ThreadView &view);
/// Takes what LLVM has inferred of memory from functions that read their thread's position, themselves or in others: to
/// LLVM it is a constant so far. They are not inlined any more, as a region knows the position as values of its own.
void forget_effects_of_positions(llvm::Module &module);
void lower_positions_by_context(llvm::Function &function);

} // namespace vgc
