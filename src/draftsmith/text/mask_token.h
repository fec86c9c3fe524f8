// Chooses the id that stands for "not yet known" in a block.
#pragma once

#include <cstdint>
#include <string>

#include "draftsmith/text/tokenizer.h"

namespace draftsmith {

struct MaskTokenChoice {
  std::int32_t id = -1;
  std::string why;  // a line to print when one of the last two rules chose it, else empty
};
// Takes the first of these that exists: the configured id (unless -1), the tokenizer's mask token, the lowest embedding
// row at or above the tokenizer's length, and the highest control token that the template never prints and that is not
// bos, eos, an end, pad or unk. Throws a UserError when the id lies outside 0 .. num_embedding_rows-1 or is pad or an
// end token, and when none exists.
MaskTokenChoice choose_mask_token(const Tokenizer& tokenizer, std::int64_t configured, std::int64_t num_embedding_rows);

}  // namespace draftsmith
