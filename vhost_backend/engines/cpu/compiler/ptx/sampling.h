// Fetches of textures, as those of CUDA C are made (kernels/cpu/include/vgc_texture.h), so that the results are the
// same.
#pragma once

#include "instruction.h"

#include "../../../../../kernels/cpu/include/vgc_texture_layout.h"

namespace vgc::ptx
{

/// Arguments of a fetch (struct vgc_sample): floats, and an integer for the layer; null for zeroes.
struct Fetch {
    vgc_sample_shape shape;
    vgc_sample_how how;
    llvm::Value *at[3] = {};
    llvm::Value *layer = nullptr;
    llvm::Value *detail = nullptr;
    llvm::Value *dx[3] = {};
    llvm::Value *dy[3] = {};
};

/// Texture or surface object, in a register of 64 bits in brackets with `parts` - 1 more operands.
llvm::Value *object_of(Instruction &i, const Operand &operand, size_t parts);
/// Pointer to a member of the descriptor whose address is a texture or surface object.
llvm::Value *descriptor_field(Instruction &i, llvm::Value *object, size_t offset);
/// Channels of a fetch, as a vector of four integers of 32 bits: of floats, or of integers.
llvm::Value *sample_texture(Instruction &i, llvm::Value *object, const Fetch &fetch, bool gives_floats);

} // namespace vgc::ptx
