// The pipeline reads all lines, sets some aside for evaluation, answers in rounds, makes documents and writes them.
#include "draftsmith/chat/prepare.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>

#include "draftsmith/base/check.h"
#include "draftsmith/base/rng.h"
#include "draftsmith/chat/answers.h"
#include "draftsmith/chat/conversations.h"
#include "draftsmith/chat/supervise.h"
#include "draftsmith/store/files.h"

namespace draftsmith {
namespace {

constexpr std::size_t kMaxExamples = 5;
constexpr const char* kNoKind = "other";  // the kind of conversations without one in data that has kinds

void skip(PrepareCounts& counts, const std::string& where, const std::string& reason, const std::string& detail = "") {
  ++counts.skipped[reason];
  if (counts.examples.size() < kMaxExamples) {
    counts.examples.push_back(where + ": " + reason + (detail.empty() ? "" : " (" + detail + ")"));
  }
}

void read_lines(const std::filesystem::path& file, std::vector<PendingDocument>& pending, PrepareCounts& counts,
                const ProgressFn& progress) {
  const bool standard_input = file == "-";
  std::ifstream stream;
  if (!standard_input) {
    require(!std::filesystem::is_directory(file), file.string(), " is a folder; give a file of JSON lines");
    stream.open(file, std::ios::binary);
    require(stream.is_open(), file.string(), " cannot be opened for reading");
  }
  const std::string name = standard_input ? "standard input" : file.string();
  ConversationReader reader(standard_input ? std::cin : stream);
  for (ConversationLine line; reader.next(line);) {
    ++counts.read;
    const std::string where = text_of(name, ":", line.number);
    if (!line.skip_reason.empty()) {
      skip(counts, where, line.skip_reason);
    } else {
      PendingDocument document;
      document.where = where;
      document.conversation = std::move(line.conversation);
      pending.push_back(std::move(document));
    }
    if (progress && counts.read % 1000 == 0) progress({counts.read, 0, "lines", ""});
  }
}

// Moves the documents that the seed picks from `train` to `eval`, both in the order they were read.
void take_eval_documents(const PrepareOptions& options, std::vector<PendingDocument>& train,
                         PrepareCounts& train_counts, std::vector<PendingDocument>& eval, PrepareCounts& eval_counts) {
  const auto size = static_cast<std::int64_t>(train.size());
  const std::int64_t count =
      options.eval_count > 0 ? options.eval_count : std::llround(options.eval_share * static_cast<double>(size));
  if (count == 0) return;
  require(count < size, "evaluation would take ", count, " of the ", size,
          " conversations that can be used; take fewer, or add conversations");
  constexpr std::uint64_t kSplit = 0x73706c6974;
  Rng rng(options.seed, RngPurpose::kSampling, {kSplit});
  std::vector<std::int64_t> order(size);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t k = 0; k < count; ++k) std::swap(order[k], order[k + rng.below(size - k)]);
  std::vector<bool> is_eval(size, false);
  for (std::int64_t k = 0; k < count; ++k) is_eval[order[k]] = true;
  std::vector<PendingDocument> rest;
  for (std::int64_t i = 0; i < size; ++i) (is_eval[i] ? eval : rest).push_back(std::move(train[i]));
  train = std::move(rest);
  train_counts.read -= count;
  eval_counts.read += count;
}

// Returns the names of all kinds in alphabetical order, or nothing when no conversation has one.
std::vector<std::string> names_of_kinds(const std::vector<PendingDocument>& train,
                                        const std::vector<PendingDocument>& eval) {
  std::map<std::string, bool> names;
  for (const auto* documents : {&train, &eval}) {
    for (const PendingDocument& pending : *documents) names[pending.conversation.kind] = true;
  }
  if (names.size() == 1 && names.begin()->first.empty()) return {};
  if (names.erase("") > 0) names[kNoKind] = true;
  require(names.size() <= 256, "the conversations have ", names.size(),
          " kinds, but at most 256 can be kept apart; merge some of them");
  std::vector<std::string> list;
  for (const auto& [name, present] : names) list.push_back(name);
  return list;
}

// Adds the document to `data`, or says why it is of no use ("" when it is added).
std::string keep_document(PendingDocument& pending, const PrepareOptions& options, DataSet& data,
                          PrepareCounts& counts) {
  SupervisedTokens& document = pending.document;
  const auto length = static_cast<std::int64_t>(document.tokens.size());
  const bool too_long = options.max_length > 0 && length > options.max_length;
  if (too_long) {
    document.tokens.resize(options.max_length);
    document.loss_mask.resize(options.max_length);
  }
  const std::int64_t supervised = std::count(document.loss_mask.begin(), document.loss_mask.end(), std::uint8_t{1});
  if (supervised == 0) return text_of("no supervised token within the first ", options.max_length);
  data.add_document(document.tokens, document.loss_mask);
  std::string kind = pending.conversation.kind;
  if (!data.kind_names.empty()) {
    if (kind.empty()) kind = kNoKind;
    const auto name = std::find(data.kind_names.begin(), data.kind_names.end(), kind);
    data.kind.push_back(static_cast<std::uint8_t>(name - data.kind_names.begin()));
    PrepareCounts::Kind& sums = counts.kinds[kind];
    ++sums.documents;
    sums.tokens += static_cast<std::int64_t>(document.tokens.size());
    sums.supervised_tokens += supervised;
  }
  ++counts.kept;
  counts.tokens += static_cast<std::int64_t>(document.tokens.size());
  counts.supervised_tokens += supervised;
  counts.documents_cut += too_long;
  counts.turns_left_out += document.num_turns_left_out;
  return "";
}

// Returns the documents that can be used, and adds their conversations to `jsonl` when a folder for them is given.
DataSet make_documents(std::vector<PendingDocument>& documents, const PrepareOptions& options,
                       const std::vector<std::string>& kind_names, const Supervisor& supervisor, PrepareCounts& counts,
                       std::string& jsonl) {
  DataSet data;
  data.kind_names = kind_names;
  for (PendingDocument& pending : documents) {
    std::string reason = pending.skip_reason, detail = pending.skip_detail;
    counts.answers_generated += pending.num_answers;
    counts.answers_cut += pending.num_answers > 0 && pending.conversation.cut;
    if (reason.empty()) reason = keep_document(pending, options, data, counts);
    if (!reason.empty()) {
      skip(counts, pending.where, reason, detail);
      continue;
    }
    if (options.jsonl_folder.empty()) continue;
    jsonl += conversation_to_json(pending.conversation) + "\n";
    if (pending.num_answers > 0) counts.answers_retokenised += !survives_as_text(pending, supervisor);
  }
  return data;
}

constexpr const char *kTrainJsonl = "train.jsonl", *kEvalJsonl = "eval.jsonl";

// A file that is read must not be written, because skipped lines would be lost.
void refuse_input(const PrepareOptions& options, const std::filesystem::path& written) {
  for (const auto& files : {options.train_files, options.eval_files}) {
    for (const std::filesystem::path& file : files) {
      std::error_code neither_exists;
      require(!std::filesystem::equivalent(file, written, neither_exists), "the answered chats would be written over ",
              file.string(), ", which is read; choose another folder for them");
    }
  }
}

void check_options(const PrepareOptions& options, const AnswerFn& answer) {
  require(!options.train_files.empty(), "there is no file to prepare; name at least one file of JSON lines");
  require(options.eval_count >= 0 && options.eval_share >= 0 && options.eval_share < 1,
          "the share of lines for evaluation must lie between 0 and 1, and their number must not be negative");
  require(
      options.eval_files.empty() || (options.eval_count == 0 && options.eval_share == 0),
      "conversations for evaluation come either from files of their own or out of the training files; give --eval, or "
      "--eval-count or --eval-share");
  require(options.max_length >= 0, "the maximum length is ", options.max_length, "; 0 means no limit");
  require(options.answer_mode == AnswerMode::kMissing || answer,
          "replacing all answers needs a target that gives new ones");
  require(!options.output.empty(), "there is no folder to write; name one");
  check_data_folder_target(options.output);
  std::filesystem::path output = std::filesystem::absolute(options.output).lexically_normal();
  if (!output.has_filename()) output = output.parent_path();  // "data/" is "data"
  require_writable_folder(output.parent_path());
  if (options.jsonl_folder.empty()) return;
  require_writable_folder(options.jsonl_folder);
  for (const char* name : {kTrainJsonl, kEvalJsonl}) refuse_input(options, options.jsonl_folder / name);
}

void refuse_unsupervised(const char* what, const PrepareCounts& counts) {
  if (counts.supervised_tokens > 0) return;
  std::string reasons;
  for (const auto& [reason, lines] : counts.skipped)
    reasons += text_of(reasons.empty() ? ": " : ", ", lines, " x ", reason);
  fail("nothing is supervised in the ", what, " data: all of its ", counts.read, " lines were skipped", reasons);
}

}  // namespace

PrepareSummary prepare(const PrepareOptions& options, const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                       const AnswerFn& answer, const ProgressFn& progress, const NoticeFn& notice) {
  check_options(options, answer);
  PrepareSummary summary;
  std::vector<PendingDocument> train, eval;
  for (const auto& file : options.train_files) read_lines(file, train, summary.train, progress);
  for (const auto& file : options.eval_files) read_lines(file, eval, summary.eval, progress);
  take_eval_documents(options, train, summary.train, eval, summary.eval);

  // One call answers the conversations of both, so that no prompt waits for a batch of its own.
  const Supervisor supervisor(tokenizer, chat_template);
  std::vector<PendingDocument*> all;
  for (auto* documents : {&train, &eval}) {
    for (PendingDocument& pending : *documents) all.push_back(&pending);
  }
  answer_documents(all, {options.answer_mode, options.max_length}, tokenizer, supervisor, answer);

  const std::vector<std::string> kinds = names_of_kinds(train, eval);
  DataFolder data;
  std::string train_jsonl, eval_jsonl;
  data.train = make_documents(train, options, kinds, supervisor, summary.train, train_jsonl);
  data.eval = make_documents(eval, options, kinds, supervisor, summary.eval, eval_jsonl);
  refuse_unsupervised("training", summary.train);
  if (summary.eval.read > 0) refuse_unsupervised("evaluation", summary.eval);
  for (DataSet* set : {&data.train, &data.eval}) {
    set->tokenizer_digest = tokenizer.digest();
    set->template_digest = chat_template.digest();
  }
  if (!options.jsonl_folder.empty()) {
    write_text_file(options.jsonl_folder / kTrainJsonl, train_jsonl);
    write_text_file(options.jsonl_folder / kEvalJsonl, eval_jsonl);
  }
  write_data_folder(options.output, data);
  const std::int64_t left_out = summary.train.turns_left_out + summary.eval.turns_left_out;
  if (notice && left_out > 0) {
    notice(text_of(
        left_out,
        " answers are not supervised: the chat template prints them differently once the conversation goes on"));
  }
  if (notice && summary.eval.kept == 0)
    notice(
        "there is nothing to evaluate on, so `draftsmith eval` and the held-out loss will have no data; give --eval or "
        "--eval-count to change that");
  return summary;
}

}  // namespace draftsmith
