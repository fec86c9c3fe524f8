// A parameter with its name and its role. Optimizer groups, casts, stored types and counts ask for the role, never for
// the number of dimensions.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "draftsmith/base/rng.h"

namespace draftsmith {

enum class Role {
  kMatrix,  // multiplies rows: computed in the compute type, stored in the type asked for, decayed
  kNorm,    // scale of a normalisation: fp32, starts at 1, not decayed
  kBias,    // added to rows: fp32, starts at 0, not decayed
  kTable,   // looked up by id: computed and stored as a matrix, not decayed
};

// Tells whether parameters of this role are cast to the compute type and stored in the type that the user chooses.
constexpr bool is_computed(Role role) { return role == Role::kMatrix || role == Role::kTable; }

struct Param {
  std::string name;
  at::Tensor tensor;
  Role role = Role::kMatrix;
};
using ParamList = std::vector<Param>;

// Gives an fp32 parameter its usual first value: N(0, 0.02^2) for matrices and tables, 1 for norms, 0 for biases.
void fill_first_value(const at::Tensor& tensor, Role role, Rng& rng);

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace draftsmith
