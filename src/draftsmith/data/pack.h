// Packs: sequences of S tokens that hold whole documents, and the anchors drawn in them. Nothing crosses documents.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "draftsmith/base/rng.h"
#include "draftsmith/data/data_set.h"

namespace draftsmith {

// A document's place in a pack.
struct DocumentSpan {
  std::int64_t document = 0;  // index in the data set
  std::int64_t begin = 0;     // its first token in the pack
  std::int64_t length = 0;
};

// One sequence of the model. token/document/position ids and loss_mask have `length` entries; padding has document id
// -1, token id 0, position 0, loss mask 0. Document ids count from 0 within the pack.
struct Pack {
  std::int64_t length = 0;
  std::vector<std::int32_t> token_ids;
  std::vector<std::int32_t> document_ids;
  std::vector<std::int64_t> position_ids;
  std::vector<std::uint8_t> loss_mask;
  std::vector<DocumentSpan> documents;
  std::int64_t num_tokens() const;  // without padding
};

// Which documents share a pack: documents longer than max_length are cut at the end; those without a valid anchor left
// are left out (counted). The order is shuffled by (seed, epoch); each pack is filled first-fit, and the last partial
// pack is kept.
struct PackPlan {
  std::vector<std::vector<std::int64_t>> packs;  // document indices of each pack, in order
  std::int64_t num_without_anchor = 0;
  std::int64_t num_cut = 0;  // of those placed
};
struct PackOptions {
  std::int64_t row_length = 512;
  std::int64_t max_length = 1024;
  std::uint64_t seed = 1;
  std::int64_t epoch = 0;
  std::int64_t multiple = 1;  // make_pack fills a pack up to a multiple of so many tokens, at most to row_length

  // Tokens that a document of `length` keeps; the rest is cut off.
  std::int64_t kept(std::int64_t length) const;
};
PackPlan plan_packs(const DataSet& data, const PackOptions& options);
// One pack of a plan. Its documents fit in row_length together once each is cut to its share.
Pack make_pack(const DataSet& data, std::span<const std::int64_t> documents, const PackOptions& options);

// Positions a of `pack`, in document `span`, with loss_mask[a] and loss_mask[a+1] in the same document, ascending.
std::vector<std::int64_t> valid_anchors(const Pack& pack, const DocumentSpan& span);

struct AnchorOptions {
  std::int64_t per_document = 512;
  std::int64_t per_pack = 512;
};
// Uniform without replacement in each document, ascending over the pack. When the pack's budget is smaller than what
// the documents would get, it is shared out in proportion (largest remainders), at least one each while it lasts.
std::vector<std::int64_t> sample_anchors(const Pack& pack, const AnchorOptions& options, Rng& rng);

}  // namespace draftsmith
