#include "llama_switch/llama_switch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static atomic_int quick_kernels = 0;

void llama_switch_quick_kernels(int on) { atomic_store(&quick_kernels, on); }

struct ggml_compute_params;

bool __real_llamafile_sgemm(const struct ggml_compute_params* params, int64_t m, int64_t n, int64_t k, const void* a,
                            int64_t lda, const void* b, int64_t ldb, void* c, int64_t ldc, int a_type, int b_type,
                            int c_type);

// With false, ggml goes on with its other kernels.
bool __wrap_llamafile_sgemm(const struct ggml_compute_params* params, int64_t m, int64_t n, int64_t k, const void* a,
                            int64_t lda, const void* b, int64_t ldb, void* c, int64_t ldc, int a_type, int b_type,
                            int c_type) {
  return atomic_load(&quick_kernels) &&
         __real_llamafile_sgemm(params, m, n, k, a, lda, b, ldb, c, ldc, a_type, b_type, c_type);
}
