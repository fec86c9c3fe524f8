// Features: short documents share a run of the engine (one sequence each, one cache), long ones take several runs.
// Laws: a document's features do not depend on its neighbours (beyond the rounding of a quantised engine); nothing
// after the last layer wanted is computed.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

#include "draftsmith/base/check.h"
#include "draftsmith/target/llama/gguf_target.h"

namespace draftsmith {
namespace {

// Documents share a run while they fit into one step of the engine's cache, over all of which each token attends
// (masked): more would cost attention (SmolLM2, documents of 200 tokens, one thread: 172 tokens/s one by one, 159 in
// runs of 512).
constexpr std::int64_t kSharedTokens = 256;
constexpr std::int64_t kRunTokens = 512;  // of one long document
constexpr std::int64_t kMaxSequences = 64;

at::Tensor as_bf16(std::span<const float> numbers, std::int64_t num_rows, std::int64_t width) {
  const at::Tensor view = at::from_blob(const_cast<float*>(numbers.data()), {num_rows, width}, at::kFloat);
  return view.to(at::kBFloat16);
}

}  // namespace

struct FeatureReader::Group {
  struct Member {
    std::size_t index;
    std::span<const std::int32_t> tokens;
  };
  std::vector<Member> members;
  std::int64_t num_tokens = 0;
};

void FeatureReader::prepare(std::int64_t longest, std::span<const std::int64_t> taps, bool want_final_state) {
  const std::int64_t cells = std::max((longest + 255) / 256 * 256, kRunTokens);
  const bool same = context_ && std::equal(taps.begin(), taps.end(), taps_.begin(), taps_.end()) &&
                    wants_final_state_ == want_final_state && cells <= num_cells_;
  if (same) return;
  context_.reset();
  taps_.assign(taps.begin(), taps.end());
  wants_final_state_ = want_final_state;
  num_cells_ = std::max(cells, num_cells_);
  reader_ = std::make_unique<TapReader>(taps_, loaded_->info.hidden_size, want_final_state, true);
  context_ = make_context(*loaded_->model, {.num_cells = num_cells_,
                                            .num_sequences = loaded_->info.can_rewind ? kMaxSequences : 1,
                                            .batch_tokens = kRunTokens,
                                            .batch_outputs = want_final_state ? kRunTokens : 1,
                                            .threads = loaded_->threads,
                                            .shared_cache = true,
                                            .taps = reader_.get()});
}

void FeatureReader::run_group(const Group& group, std::vector<DocumentFeatures>& out) {
  forget_all(*context_);
  const std::int64_t hidden = loaded_->info.hidden_size, width = hidden * reader_->num_taps();
  for (const Group::Member& member : group.members) {
    const auto length = static_cast<std::int64_t>(member.tokens.size());
    if (reader_->num_taps() > 0) out[member.index].taps = at::empty({length, width}, at::kBFloat16);
    if (wants_final_state_) out[member.index].final_state = at::empty({length, hidden}, at::kBFloat16);
  }
  Batch batch;
  std::size_t member_idx = 0;
  std::int64_t position = 0;  // in the member
  while (member_idx < group.members.size()) {
    struct Piece {
      std::size_t member_idx;
      std::int64_t first, count;
    };
    std::vector<Piece> pieces;
    batch.clear();
    while (member_idx < group.members.size() && batch.size() < kRunTokens) {
      const std::span<const std::int32_t> tokens = group.members[member_idx].tokens;
      const std::int64_t rest = static_cast<std::int64_t>(tokens.size()) - position;
      const std::int64_t count = std::min(rest, kRunTokens - batch.size());
      for (std::int64_t i = position; i < position + count; ++i) {
        batch.add(tokens[static_cast<std::size_t>(i)], i, static_cast<std::int64_t>(member_idx), wants_final_state_);
      }
      if (count > 0) pieces.push_back({member_idx, position, count});
      position += count;
      if (count == rest) ++member_idx, position = 0;
    }
    if (batch.size() == 0) break;
    reader_->start(batch.size());
    batch.run(*context_);
    reader_->finish();
    std::int64_t row = 0;
    for (const Piece& piece : pieces) {
      DocumentFeatures& features = out[group.members[piece.member_idx].index];
      const auto rows_of = [&](std::span<const float> all, std::int64_t w) {
        return as_bf16(all.subspan(static_cast<std::size_t>(row * w), static_cast<std::size_t>(piece.count * w)),
                       piece.count, w);
      };
      if (features.taps.defined())
        features.taps.narrow(0, piece.first, piece.count).copy_(rows_of(reader_->rows(), width));
      if (features.final_state.defined()) {
        features.final_state.narrow(0, piece.first, piece.count).copy_(rows_of(reader_->final_states(), hidden));
      }
      row += piece.count;
    }
  }
}

std::vector<DocumentFeatures> FeatureReader::read(std::span<const std::span<const std::int32_t>> documents,
                                                  std::span<const std::int64_t> taps, bool want_final_state) {
  require(!taps.empty() || want_final_state, "no features were asked for: name at least one tap");
  const TargetInfo& info = loaded_->info;
  std::size_t longest = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    loaded_->check_tokens(documents[d], text_of("document ", d));
    longest = std::max(longest, documents[d].size());
  }
  std::vector<DocumentFeatures> out(documents.size());
  if (documents.empty()) return out;
  require(static_cast<std::int64_t>(longest) <= info.context_length, "a document of ", longest,
          " tokens is longer than the ", info.context_length,
          " the target was trained for; shorten the documents (data.max_length)");
  prepare(static_cast<std::int64_t>(longest), taps, want_final_state);
  // A recurrent memory regroups the rows of a batch, so there each document runs alone.
  const std::size_t most = info.can_rewind ? static_cast<std::size_t>(kMaxSequences) : 1;
  Group group;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    const auto length = static_cast<std::int64_t>(documents[d].size());
    if (!group.members.empty() && (group.members.size() == most || group.num_tokens + length > kSharedTokens)) {
      run_group(group, out);
      group = {};
    }
    group.members.push_back({d, documents[d]});
    group.num_tokens += length;
  }
  if (!group.members.empty()) run_group(group, out);
  return out;
}

}  // namespace draftsmith
