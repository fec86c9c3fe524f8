// Masks say which keys a query sees. A mask is any callable `bool (b, h, q, k)`; it may also have a member
//     Cover cover(b, h, Box) const
// that answers for a rectangle of queries and keys at once; without it every element is asked for. Keys have one
// numbering: first the context's, then the block's (view.h, attention.h). Masks combine with all_of, any_of and
// negation.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>
#include <utility>

namespace flex {

enum class Cover { kNone, kAll, kMixed };

// A box holds queries q_begin .. q_end - 1 and keys k_begin .. k_end - 1, and is never empty.
struct Box {
  std::int64_t q_begin = 0, q_end = 0, k_begin = 0, k_end = 0;
};

template <class M>
concept Mask = requires(const M& mask, std::int64_t i) {
  { mask(i, i, i, i) } -> std::convertible_to<bool>;
};

template <class M>
concept MaskWithCover = Mask<M> && requires(const M& mask, std::int64_t i, const Box& box) {
  { mask.cover(i, i, box) } -> std::same_as<Cover>;
};

template <Mask M>
Cover cover_of(const M& mask, std::int64_t b, std::int64_t h, const Box& box) {
  if constexpr (MaskWithCover<M>) {
    return mask.cover(b, h, box);
  } else {
    return Cover::kMixed;
  }
}

// Returns the cover of a rectangle whose queries all see the keys begin .. end - 1; an empty range shows nothing.
inline Cover cover_of_range(const Box& box, std::int64_t begin, std::int64_t end) {
  if (box.k_end <= begin || box.k_begin >= end || begin >= end) return Cover::kNone;
  return begin <= box.k_begin && box.k_end <= end ? Cover::kAll : Cover::kMixed;
}

struct Everything {
  bool operator()(std::int64_t, std::int64_t, std::int64_t, std::int64_t) const { return true; }
  Cover cover(std::int64_t, std::int64_t, const Box&) const { return Cover::kAll; }
};

// Shows keys k <= q + offset: query q is at key q + offset.
struct Causal {
  std::int64_t offset = 0;
  bool operator()(std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) const { return k <= q + offset; }
  Cover cover(std::int64_t, std::int64_t, const Box& box) const {
    if (box.k_begin > box.q_end - 1 + offset) return Cover::kNone;
    return box.k_end - 1 <= box.q_begin + offset ? Cover::kAll : Cover::kMixed;
  }
};

// Shows the `window` keys up to the query's own: q + offset - window < k <= q + offset.
struct SlidingWindow {
  std::int64_t window = 1, offset = 0;
  bool operator()(std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) const {
    return k <= q + offset && k > q + offset - window;
  }
  Cover cover(std::int64_t, std::int64_t, const Box& box) const {
    if (box.k_begin > box.q_end - 1 + offset || box.k_end - 1 <= box.q_begin + offset - window) return Cover::kNone;
    return box.k_end - 1 <= box.q_begin + offset && box.k_begin > box.q_end - 1 + offset - window ? Cover::kAll
                                                                                                  : Cover::kMixed;
  }
};

// Shows the first `length` keys.
struct Prefix {
  std::int64_t length = 0;
  bool operator()(std::int64_t, std::int64_t, std::int64_t, std::int64_t k) const { return k < length; }
  Cover cover(std::int64_t, std::int64_t, const Box& box) const { return cover_of_range(box, 0, length); }
};

// Shows the keys of the query's document; a negative id belongs to no document. The ids stay the caller's. The mask is
// built quickly where documents are consecutive, and is right in any order.
class SameDocument {
 public:
  SameDocument(std::span<const std::int32_t> of_query, std::span<const std::int32_t> of_key)
      : of_query_(of_query), of_key_(of_key) {}
  bool operator()(std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) const {
    return of_query_[static_cast<std::size_t>(q)] >= 0 &&
           of_query_[static_cast<std::size_t>(q)] == of_key_[static_cast<std::size_t>(k)];
  }
  Cover cover(std::int64_t, std::int64_t, const Box& box) const {
    const auto [q_low, q_high] = bounds(of_query_, box.q_begin, box.q_end);
    const auto [k_low, k_high] = bounds(of_key_, box.k_begin, box.k_end);
    if (q_high < k_low || k_high < q_low || q_high < 0) return Cover::kNone;
    return q_low == q_high && k_low == k_high && q_low == k_low ? Cover::kAll : Cover::kMixed;
  }

 private:
  static std::pair<std::int32_t, std::int32_t> bounds(std::span<const std::int32_t> ids, std::int64_t begin,
                                                      std::int64_t end) {
    const auto [low, high] = std::minmax_element(ids.begin() + begin, ids.begin() + end);
    return {*low, *high};
  }
  std::span<const std::int32_t> of_query_, of_key_;
};

// Each query sees up to two ranges of keys; the arrays [Q] stay the caller's.
struct TwoRanges {
  std::span<const std::int32_t> first_begin, first_end, second_begin, second_end;
  bool operator()(std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) const {
    const auto i = static_cast<std::size_t>(q);
    return (first_begin[i] <= k && k < first_end[i]) || (second_begin[i] <= k && k < second_end[i]);
  }
  Cover cover(std::int64_t, std::int64_t, const Box& box) const {
    bool all = true, none = true;
    for (std::int64_t q = box.q_begin; q < box.q_end && (all || none); ++q) {
      const auto i = static_cast<std::size_t>(q);
      const Cover one = cover_of_range(box, first_begin[i], first_end[i]),
                  two = cover_of_range(box, second_begin[i], second_end[i]);
      all = all && (one == Cover::kAll || two == Cover::kAll);
      none = none && one == Cover::kNone && two == Cover::kNone;
    }
    return all ? Cover::kAll : none ? Cover::kNone : Cover::kMixed;
  }
};

// The mask of DFlash: queries are blocks of `block_size` slots, block b with its anchor at context position anchors[b]
// in a document that begins at document_begins[b]. Slot j sees the context t with document_begin <= t < anchor (with a
// window W: also t >= anchor + j - (W - 1)) and slots of its own block: all, or the j' <= j if the layer is causal.
// The keys are num_context context positions, then the slots. The arrays stay the caller's.
struct DFlashBlocks {
  std::span<const std::int64_t> anchors, document_begins;
  std::int64_t num_context = 0, block_size = 1;
  std::int64_t window = 0;  // 0: full
  enum class InBlock { kBothWays, kCausal } in_block = InBlock::kBothWays;

  bool operator()(std::int64_t, std::int64_t, std::int64_t q, std::int64_t k) const {
    const auto block = static_cast<std::size_t>(q / block_size);
    const std::int64_t slot = q % block_size;
    if (k < num_context) {
      const std::int64_t anchor = anchors[block];
      return document_begins[block] <= k && k < anchor && (window <= 0 || k >= anchor + slot - (window - 1));
    }
    const std::int64_t other = k - num_context - (q - slot);  // slot in its own block
    return 0 <= other && other < block_size && (in_block == InBlock::kBothWays || other <= slot);
  }
  Cover cover(std::int64_t, std::int64_t, const Box& box) const {
    if (box.k_begin < num_context && box.k_end > num_context) return Cover::kMixed;
    bool all = true, none = true;
    for (std::int64_t q = box.q_begin; q < box.q_end && (all || none);) {
      const std::int64_t block = q / block_size, first = block * block_size;
      const std::int64_t last = std::min(box.q_end, first + block_size);  // of this block's rows in the box
      const Cover seen = box.k_begin < num_context ? context_cover(box, block, q - first, last - 1 - first)
                                                   : slots_cover(box, first, q - first, last - 1 - first);
      all = all && seen == Cover::kAll;
      none = none && seen == Cover::kNone;
      q = last;
    }
    return all ? Cover::kAll : none ? Cover::kNone : Cover::kMixed;
  }

 private:
  Cover context_cover(const Box& box, std::int64_t block, std::int64_t first_slot, std::int64_t last_slot) const {
    const auto i = static_cast<std::size_t>(block);
    const std::int64_t anchor = anchors[i], begin = document_begins[i];
    if (window <= 0) return cover_of_range(box, begin, anchor);
    // Slots see ranges that begin later and later: all of them see the last one's, none more than the first one's.
    const Cover least = cover_of_range(box, std::max(begin, anchor + last_slot - (window - 1)), anchor);
    const Cover most = cover_of_range(box, std::max(begin, anchor + first_slot - (window - 1)), anchor);
    return least == Cover::kAll ? Cover::kAll : most == Cover::kNone ? Cover::kNone : Cover::kMixed;
  }
  Cover slots_cover(const Box& box, std::int64_t first, std::int64_t first_slot, std::int64_t last_slot) const {
    const std::int64_t begin = num_context + first;
    if (in_block == InBlock::kBothWays) return cover_of_range(box, begin, begin + block_size);
    const Cover least = cover_of_range(box, begin, begin + first_slot + 1);
    const Cover most = cover_of_range(box, begin, begin + last_slot + 1);
    return least == Cover::kAll ? Cover::kAll : most == Cover::kNone ? Cover::kNone : Cover::kMixed;
  }
};

template <Mask A, Mask B>
struct AllOf {
  A a;
  B b;
  bool operator()(std::int64_t batch, std::int64_t h, std::int64_t q, std::int64_t k) const {
    return a(batch, h, q, k) && b(batch, h, q, k);
  }
  Cover cover(std::int64_t batch, std::int64_t h, const Box& box) const {
    const Cover x = cover_of(a, batch, h, box);
    if (x == Cover::kNone) return x;
    const Cover y = cover_of(b, batch, h, box);
    return y == Cover::kNone ? y : x == Cover::kAll ? y : x;
  }
};

template <Mask A, Mask B>
struct AnyOf {
  A a;
  B b;
  bool operator()(std::int64_t batch, std::int64_t h, std::int64_t q, std::int64_t k) const {
    return a(batch, h, q, k) || b(batch, h, q, k);
  }
  Cover cover(std::int64_t batch, std::int64_t h, const Box& box) const {
    const Cover x = cover_of(a, batch, h, box);
    if (x == Cover::kAll) return x;
    const Cover y = cover_of(b, batch, h, box);
    return y == Cover::kAll ? y : x == Cover::kNone ? y : x;
  }
};

template <Mask A>
struct Negation {
  A a;
  bool operator()(std::int64_t batch, std::int64_t h, std::int64_t q, std::int64_t k) const {
    return !a(batch, h, q, k);
  }
  Cover cover(std::int64_t batch, std::int64_t h, const Box& box) const {
    const Cover x = cover_of(a, batch, h, box);
    return x == Cover::kAll ? Cover::kNone : x == Cover::kNone ? Cover::kAll : x;
  }
};

template <Mask A, Mask B>
AllOf<A, B> all_of(A a, B b) {
  return {std::move(a), std::move(b)};
}
template <Mask A, Mask B>
AnyOf<A, B> any_of(A a, B b) {
  return {std::move(a), std::move(b)};
}
template <Mask A>
Negation<A> negation(A a) {
  return {std::move(a)};
}

}  // namespace flex
