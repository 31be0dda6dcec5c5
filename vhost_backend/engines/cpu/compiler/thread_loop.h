// The loop over threads, as region_loops.cpp makes it and lanes.cpp turns it inside out.
#pragma once

#include "compiler.h"

namespace vgc
{

/// The innermost loop over threads of a region (region_loops.cpp), complete, but not optimised yet.
struct ThreadLoop {
    llvm::Function *function;
    llvm::BasicBlock *entry;     // has the allocas
    llvm::BasicBlock *row;       // before the loop
    llvm::BasicBlock *thread;    // header of the loop: the thread's position, addresses of its slots
    llvm::BasicBlock *latch;     // for threads that have reached a site or ended
    llvm::BasicBlock *row_end;   // after the loop
    llvm::PHINode *x;            // threadIdx.x
    llvm::Value *row_x;          // first x of the row
    llvm::Value *row_limit;      // end of the row's x, exclusive
    llvm::PHINode *next;         // in `latch`: the reached site
    llvm::StoreInst *next_store; // in `latch`; null if the region leads to one site only
    llvm::PHINode *all;          // "and" of the sites reached so far
    llvm::PHINode *any;          // "or" of them
    llvm::MDNode *access_group;
    bool has_long_rows; // several blocks may run as one
};

} // namespace vgc
