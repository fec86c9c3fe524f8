// FLEX_INSTANTIATE_SCORE(S) compiles a score (flex/score.h) for every backend. Write it once in a program, at global
// scope, in a file that includes this header.
#pragma once

#include "flex/attention.h"
#include "flex/cpu/instantiate.h"

#define FLEX_INSTANTIATE_SCORE(S)                                                           \
  template <>                                                                               \
  const ::flex::detail::CompiledScore& ::flex::detail::compiled_score<S>() {                \
    static constexpr ::flex::detail::CompiledScore compiled = {FLEX_DETAIL_CPU_KERNELS(S)}; \
    return compiled;                                                                        \
  }
