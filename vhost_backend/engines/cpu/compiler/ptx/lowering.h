// Lowering of statements to IR, those of an asm statement or of a function: registers, labels and operands.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "../../vgc_cpu_abi.h"
#include "cell.h"
#include "text.h"
#include "types.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/DebugInfoMetadata.h"

namespace vgc::ptx
{

class Lowering
{
  public:
    /// Emits one instruction.
    using Emit = void (*)(Lowering &low, const Statement &statement);

    /// Lowers to the end of the block `begin`; more blocks come before `before`, or at the function's end.
    Lowering(llvm::BasicBlock &begin, llvm::BasicBlock *before, const Text &text, Emit emit);
    /// Lowers statements; what comes after them is at the end of the running block.
    void lower_all(const std::vector<Statement> &statements);
    /// Operands of the asm statement, by number.
    void set_arguments(std::vector<Cell> arguments)
    {
        arguments_ = std::move(arguments);
    }
    /// Has statements read memory each time, as others change it.
    void set_clobbered()
    {
        is_clobbered_ = true;
    }
    /// Names that are known in all blocks of statements, those of inner scopes last.
    void set_symbols(std::vector<const Symbols *> symbols)
    {
        symbols_ = std::move(symbols);
    }
    /// Where the function's result is when it returns.
    void set_result(const Cell &result)
    {
        result_ = result;
    }
    /// Most threads of the blocks for which the code is.
    void set_max_threads(uint32_t threads)
    {
        max_threads_ = threads;
    }
    /// Place that debuggers show for a statement.
    using Locate = std::function<llvm::DILocation *(const Statement &)>;
    void set_places(Locate locate)
    {
        locate_ = std::move(locate);
    }

    /// Ends the compilation with an error at a place in the statement's text.
    [[noreturn]] void fail(Position at, const llvm::Twine &message) const;

    /// Has registers that are wider than what is read or written refused: ld, st and cvt allow them, arithmetic does
    /// not (ISA, "Operand Size Exceeding Instruction-Type Size").
    void set_exact(bool exact)
    {
        is_exact_ = exact;
    }
    /// Value of an operand as an integer of `width` bits.
    llvm::Value *bits(const Operand &operand, unsigned width);
    /// The same for the type's width.
    llvm::Value *value(const Operand &operand, Type type);
    /// Lanes of an operand of a float type, as floats to calculate with (see widen).
    std::vector<llvm::Value *> lanes(const Operand &operand, Type type);
    llvm::Value *predicate(const Operand &operand);
    /// Writes an integer to a register: extended by the type's sign if the register is wider.
    void write(const Operand &operand, llvm::Value *value, Type type);
    void write_lanes(const Operand &operand, llvm::ArrayRef<llvm::Value *> values, Type type);
    void write_predicate(const Operand &operand, llvm::Value *value);
    /// Bits of the register or variable that an operand names; 0 for arrays, literals and `_`.
    unsigned width_of(const Operand &operand);
    /// Variable or function that an operand names; null if it names none.
    const Cell *variable(const Operand &operand) const;
    const Cell *function(const Operand &operand) const;
    /// Begin of the block's shared memory.
    llvm::Value *shared_base();
    /// Pointer into local memory from the low 32 bits of an address, which some compilers use; null if the function has
    /// no variable there.
    llvm::Value *local_pointer(llvm::Value *low);

    /// The carry flag. Statements read what others wrote, also in functions that are inlined later: see carry.cpp.
    llvm::Value *carry();
    void set_carry(llvm::Value *value);
    /// True if the asm statement says that it changes memory, so that it must read memory each time.
    bool clobbers_memory() const
    {
        return is_clobbered_;
    }

    /// Block of a label; `at` names it in an error.
    llvm::BasicBlock *label(const Operand &operand);
    /// Labels that a label with `.branchtargets` stands for.
    const std::vector<Operand> &targets(const Operand &operand) const;
    /// Ends the running block with a jump; what follows begins a new one.
    void jump(llvm::BasicBlock *to);
    /// Ends the running block with a return; false, and nothing, if the function has a result that is not known.
    bool leave();
    /// Calls a builtin that does not return.
    void end_thread(llvm::StringRef builtin);
    llvm::BasicBlock *new_block(const llvm::Twine &name);
    llvm::AllocaInst *local(llvm::Type *type);
    /// Calls a builtin of the engine by name.
    llvm::Value *call_builtin(llvm::StringRef name, llvm::Type *result, llvm::ArrayRef<llvm::Value *> arguments = {});

    llvm::IRBuilder<> b;

  private:
    struct Labels {
        std::map<std::string, llvm::BasicBlock *> blocks;
        std::map<std::string, std::vector<Operand>> targets;
    };
    void lower_one(const Statement &statement);
    void lower_guarded(const Statement &statement);
    void declare(const Statement &statement);
    void declare(const Variable &variable);
    const Cell *find(const Operand &operand) const;
    const Cell &cell_of(const Operand &operand) const;
    llvm::Value *&value_in_block(const Cell &cell);
    llvm::Value *read(const Cell &cell);
    llvm::Value *address(const Cell &cell, const Operand &operand, unsigned width);
    llvm::Value *read_special(llvm::StringRef name);
    llvm::Value *read_position(llvm::StringRef name, llvm::StringRef builtin);
    llvm::Value *literal(const Operand &operand, unsigned width);
    /// Width of each element of a vector operand that has `width` bits.
    unsigned part_of(const Operand &vector, unsigned width) const;

    llvm::Function &function_;
    llvm::Module &module_;
    llvm::BasicBlock *before_;
    const Text &text_;
    Emit emit_;
    bool is_exact_ = false;
    bool is_clobbered_ = false;
    std::vector<Cell> arguments_;
    std::vector<const Symbols *> symbols_;
    Cell result_;
    Locate locate_;
    uint32_t max_threads_ = VGC_CPU_MAX_THREADS;
    std::vector<Symbols> scopes_;
    std::vector<Labels> labels_;
    llvm::Value *shared_ = nullptr; // begin of the block's shared memory, from the function's begin on
    llvm::BasicBlock *block_ = nullptr;
    llvm::DenseMap<const llvm::AllocaInst *, llvm::Value *> values_; // that registers have got in `block_`
};

} // namespace vgc::ptx
