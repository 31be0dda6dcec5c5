// Loops inside the loop over threads: turned inside out, so that what is vectorised is the loop over threads.
#pragma once

#include "compiler.h"

namespace vgc
{

/// The innermost loop over threads of a region (region_loops.cpp), complete but for what the optimiser will do to it.
struct ThreadLoop {
    llvm::Function *function;
    llvm::BasicBlock *entry;     // where allocas go
    llvm::BasicBlock *row;       // before the loop
    llvm::BasicBlock *thread;    // its header: the thread's position, addresses of its slots
    llvm::BasicBlock *latch;     // where threads come that have reached a site or ended
    llvm::BasicBlock *row_end;   // behind the loop
    llvm::PHINode *x;            // threadIdx.x
    llvm::Value *row_x;          // from here
    llvm::Value *row_limit;      // to here, exclusive
    llvm::PHINode *next;         // in `latch`: the site reached
    llvm::StoreInst *next_store; // in `latch`, null if the region leads to one site only
    llvm::PHINode *all;          // "and" and "or" of the sites reached so far
    llvm::PHINode *any;
    llvm::MDNode *access_group;
};

/// Rewrites the region if it has inner loops and all in them can be vectorised. True if it did.
bool turn_inside_out(ThreadLoop &loop);

} // namespace vgc
