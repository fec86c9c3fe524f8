#include "draftsmith/config/yaml.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "draftsmith/base/check.h"
#include "draftsmith/config/nearest_name.h"
#include "draftsmith/config/run_config_check.h"

namespace draftsmith {
namespace {

using Assignments = std::vector<std::string>;

RunConfig read(const std::string& text, const Assignments& assignments = {}) {
  return run_config_from_yaml(text, "run.yaml", assignments);
}

// Expects that the text is refused with a UsageError whose message holds every part.
void expect_refused(const std::string& text, const std::vector<std::string>& parts,
                    const Assignments& assignments = {}) {
  try {
    read(text, assignments);
    ADD_FAILURE() << "accepted: " << text << (assignments.empty() ? "" : assignments[0]);
  } catch (const UsageError& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "no '" << part << "' in: " << error.what();
    }
  }
}

TEST(ConfigYaml, EmptyTextGivesTheDefaults) {
  EXPECT_EQ(run_config_to_yaml(read("")), run_config_to_yaml(RunConfig()));
  EXPECT_EQ(run_config_to_yaml(read("# nothing\ndraft:\ntrain:\n")), run_config_to_yaml(RunConfig()));
}

TEST(ConfigYaml, ValuesReachTheirFields) {
  const RunConfig config = read(
      "output: runs/x\nseed: 18446744073709551615\nmodel:\n  path: \"a b.gguf\"\ndraft:\n  taps: [1, 9, 4]\n  init: "
      "123\n"
      "train: {learning_rate: 1e-3, warmup: 5, beta1: .5}\n");
  EXPECT_EQ(config.output, "runs/x");
  EXPECT_EQ(config.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(config.model.path, "a b.gguf");
  EXPECT_EQ(config.draft.taps, (std::vector<std::int64_t>{1, 9, 4}));
  EXPECT_EQ(config.draft.init, DraftInit::from_folder("123"));
  EXPECT_EQ(config.train.learning_rate, 1e-3);
  EXPECT_EQ(config.train.warmup, 5.0);
  EXPECT_EQ(config.train.beta1, 0.5);
}

TEST(ConfigYaml, UnknownNamesSuggestTheNearest) {
  expect_refused("train:\n  epochs: 2\n  lerning_rate: 1e-3\n",
                 {"run.yaml:3:", "'train.lerning_rate'", "did you mean train.learning_rate?"});
  expect_refused("learning_rate: 1e-3\n", {"run.yaml:1:", "did you mean train.learning_rate?"});
  expect_refused("train:\n  layers: 3\n", {"run.yaml:2:", "did you mean draft.layers?"});
  expect_refused("trian:\n  epochs: 2\n", {"run.yaml:1:", "unknown section 'trian'", "did you mean train?"});
  expect_refused("ouput: x\n", {"did you mean output?"});
  expect_refused("", {"--set train.epoch=3", "did you mean train.epochs?"}, {"train.epoch=3"});
  expect_refused("zzzzzzzz: 1\n", {"unknown key 'zzzzzzzz'", "train --help"});
  expect_refused(std::string(1000, 'z') + ": 1\n", {"unknown key"});
}

TEST(ConfigYaml, AKeyThatIsGoneIsReadWhereNothingChangesAndElseRefused) {
  EXPECT_EQ(run_config_to_yaml(read("train:\n  attention: fused\n")), run_config_to_yaml(RunConfig()));
  expect_refused("train:\n  attention: plain\n", {"run.yaml:2:", "train.attention is gone", "remove the key"});
}

TEST(ConfigYaml, WrongTypesNameFileLineKeyAndType) {
  expect_refused("train:\n  epochs: six\n", {"run.yaml:2: train.epochs must be a whole number, not 'six'"});
  for (const char* value :
       {"1e6", "1.0", "\"3\"", "0x10", "+3", "3 4", "~", "", "[3]", "{a: 3}", "true", "99999999999999999999"}) {
    expect_refused(std::string("train:\n  epochs: ") + value + "\n",
                   {"run.yaml:2:", "train.epochs must be a whole number"});
  }
  for (const char* value : {"fast", "\"1e-3\"", ".inf", "nan", "inf", "1e999", "[1]", "", "1,5"}) {
    expect_refused(std::string("train:\n  learning_rate: ") + value + "\n",
                   {"run.yaml:2:", "train.learning_rate must be a number"});
  }
  for (const char* value : {"3", "[1.5]", "[a]", "[[1]]", "\"[1]\"", "~"}) {
    expect_refused(std::string("draft:\n  taps: ") + value + "\n",
                   {"run.yaml:2:", "draft.taps must be a list of whole numbers"});
  }
  for (const char* value : {"[a]", "{a: b}", ""}) {
    expect_refused(std::string("output: ") + value + "\n", {"run.yaml:1:", "output must be text"});
  }
  expect_refused("seed: -1\n", {"seed must be a whole number from 0"});
}

TEST(ConfigYaml, BadFilesAreRefusedByLine) {
  expect_refused("a: b: c\n", {"run.yaml:1:", "not valid YAML"});
  expect_refused("output: x\n  bad: [\n", {"run.yaml:", "not valid YAML"});
  expect_refused("- 1\n", {"run.yaml: it must hold keys and sections"});
  expect_refused("just text\n", {"run.yaml: it must hold keys and sections"});
  expect_refused("output: x\n---\noutput: y\n", {"2 YAML documents"});
  expect_refused("output: x\noutput: y\n", {"run.yaml:2: output is set twice"});
  expect_refused("train:\n  epochs: 1\n  epochs: 2\n", {"run.yaml:3: train.epochs is set twice"});
  expect_refused("train:\n  epochs: 1\ntrain:\n  clip: 2\n", {"run.yaml:3: train is set twice"});
  expect_refused("train: 3\n", {"run.yaml:1: train must hold keys"});
  expect_refused("[1, 2]: 3\n", {"run.yaml:1: a key must be a name"});
  expect_refused("train.epochs: 3\n", {"run.yaml:1: train.epochs must be in the section train"});
  expect_refused(std::string(100000, '['), {"run.yaml"});
  expect_refused(std::string(100000, '{'), {"run.yaml"});
}

TEST(ConfigYaml, MissingFilesAreUsageErrors) {
  EXPECT_THROW(read_run_config("none.yaml", {}), UsageError);
  EXPECT_THROW(read_run_config(DRAFTSMITH_SOURCE_DIR, {}), UsageError);
  EXPECT_THROW(read_run_config("/dev/zero", {}), UsageError);
}

TEST(ConfigYaml, AssignmentsComeAfterTheFileInOrder) {
  const RunConfig config =
      read("train:\n  epochs: 2\n", {"train.epochs=3", "train.epochs=4", "draft.taps=[1, 5]", "seed=9",
                                     "train.clip=0.5", "model.path=a: b#c.gguf", "output=\"x\\ty\"", "data.path="});
  EXPECT_EQ(config.train.epochs, 4);
  EXPECT_EQ(config.draft.taps, (std::vector<std::int64_t>{1, 5}));
  EXPECT_EQ(config.seed, 9u);
  EXPECT_EQ(config.train.clip, 0.5);
  EXPECT_EQ(config.model.path, "a: b#c.gguf");
  EXPECT_EQ(config.output, "x\ty");
  EXPECT_EQ(config.data.path, "");
}

TEST(ConfigYaml, BadAssignmentsAreQuotedBack) {
  expect_refused("", {"--set train.epochs: it must read section.key=value"}, {"train.epochs"});
  expect_refused("", {"--set =3", "section.key=value"}, {"=3"});
  expect_refused("", {"--set train.epochs=x: train.epochs must be a whole number, not 'x'"}, {"train.epochs=x"});
  expect_refused("", {"--set train.epochs=: train.epochs must be a whole number"}, {"train.epochs="});
  expect_refused("", {"--set draft.taps=1,2", "a list of whole numbers"}, {"draft.taps=1,2"});
  expect_refused("", {"--set draft.taps=[1", "not valid YAML"}, {"draft.taps=[1"});
  expect_refused("", {"--set train={epochs: 3}"}, {"train={epochs: 3}"});
}

// Gives every field a value of its own, far from the default.
struct Scramble {
  std::int64_t n = 100;
  void operator()(const char*, const char*, std::int64_t& field, const char*) { field = ++n; }
  void operator()(const char*, const char*, bool& field, const char*) { field = !field; }
  void operator()(const char*, const char*, std::uint64_t& field, const char*) { field = ~std::uint64_t{0} - ++n; }
  void operator()(const char*, const char*, double& field, const char*) { field = 1.0 / static_cast<double>(++n); }
  void operator()(const char*, const char*, std::vector<std::int64_t>& field, const char*) { field = {++n, ++n}; }
  void operator()(const char*, const char*, std::string& field, const char*) { field = "text " + std::to_string(++n); }
  template <Choice T>
  void operator()(const char*, const char*, T& field, const char*) {
    for (const auto& choice : names_of(field))
      if (choice.value != T(field)) return void(field = choice.value);
  }
  void operator()(const char*, const char*, DraftInit& field, const char*) { field = DraftInit::from_folder("a: b"); }
};

TEST(ConfigYaml, PrintedTextReadsBackTheSame) {
  RunConfig config;
  visit_fields(config, Scramble());
  // The rules of check_run_config tie these together.
  config.draft.heads = config.draft.kv_heads * 2;
  config.draft.head_dim = 64;
  config.draft.num_taps = 2;
  config.draft.layers = 900;
  config.train.min_learning_rate = config.train.learning_rate / 3;
  config.train.soft_labels = 0.25;
  for (const std::string path : {"a", "a: b", "", " x ", "#", "null", "~", "-", "'\"\\", "\ttab\nline", "[1]", "true",
                                 "\xc3\xa9", "1e5", "/a/b.c", "*x", "&y"}) {
    config.model.path = path;
    const std::string text = run_config_to_yaml(config);
    const RunConfig back = read(text);
    EXPECT_EQ(run_config_to_yaml(back), text);
    EXPECT_EQ(back.model.path, path);
    EXPECT_EQ(back.train.learning_rate, config.train.learning_rate);
    EXPECT_EQ(back.seed, config.seed);
    EXPECT_EQ(back.draft.taps, config.draft.taps);
    EXPECT_EQ(back.draft.init, config.draft.init);
    EXPECT_EQ(back.train.loss, config.train.loss);
    EXPECT_EQ(back.train.compute, config.train.compute);
    EXPECT_EQ(back.model.feature_weights, config.model.feature_weights);
  }
}

TEST(ConfigYaml, HelpIsAValidFileThatExplainsEveryKey) {
  const std::string help = run_config_help();
  EXPECT_EQ(run_config_to_yaml(read(help)), run_config_to_yaml(RunConfig()));
  const RunConfig config;
  visit_fields(config, [&](const char*, const char* key, const auto&, const char* text) {
    EXPECT_NE(help.find(std::string(key) + ": "), std::string::npos) << key;
    EXPECT_NE(help.find(std::string("# ") + text), std::string::npos) << key;
  });
}

TEST(ConfigYaml, HelpNamesEveryChoice) {
  const std::string help = run_config_help();
  EXPECT_NE(help.find("# type of the matrix products: bf16 or fp32\n"), std::string::npos);
  EXPECT_NE(help.find(": native or bf16 (a copy in the run's folder, often several times faster)\n"),
            std::string::npos);
  EXPECT_NE(help.find(": random, target (the target's last layers) or the path of a drafter\n"), std::string::npos);
}

TEST(ConfigYaml, ChoicesAreReadByTheirNames) {
  const RunConfig config =
      read("model:\n  feature_weights: bf16\ndraft:\n  init: target\n", {"train.loss=dpace", "train.compute=\"fp32\""});
  EXPECT_EQ(config.model.feature_weights, FeatureWeights::kBFloat16);
  EXPECT_EQ(config.draft.init.kind, DraftInit::Kind::kTarget);
  EXPECT_EQ(config.train.loss, LossKind::kDpace);
  EXPECT_EQ(config.train.compute, Compute::kFloat32);
  EXPECT_EQ(read("", {"draft.init=a: b#c"}).draft.init, DraftInit::from_folder("a: b#c"));
  EXPECT_EQ(read("", {"draft.init=random"}).draft.init, DraftInit());
}

TEST(NearestName, IsAtMostHalfTheLengthAway) {
  const std::vector<std::string> known = {"layers", "clip", "loss"};
  EXPECT_EQ(nearest_name("layer", known), "layers");
  EXPECT_EQ(nearest_name("lyaers", known), "layers");
  EXPECT_EQ(nearest_name("clop", known), "clip");
  EXPECT_EQ(nearest_name("xyz", known), "");
  EXPECT_EQ(nearest_name("", known), "");
  EXPECT_EQ(nearest_name("abcd", {}), "");
}

TEST(CheckRunConfig, DefaultsPass) { EXPECT_NO_THROW(check_run_config(RunConfig())); }

TEST(CheckRunConfig, ImpossibleValuesAreRefusedByKey) {
  for (const char* assignment : {"draft.block_size=1",
                                 "draft.layers=0",
                                 "draft.layers=-1",
                                 "draft.head_dim=63",
                                 "draft.taps=[1,1]",
                                 "draft.taps=[-1]",
                                 "draft.mask_token_id=-2",
                                 "draft.mask_token_id=2147483648",
                                 "draft.rope_theta=-1",
                                 "draft.norm_eps=1",
                                 "draft.init=",
                                 "draft.sliding_window=8",
                                 "draft.sliding_layers=[0]",
                                 "draft.sliding_layers=[3]",
                                 "draft.block_size=1000000000000",
                                 "train.row_length=1",
                                 "train.anchors_per_document=0",
                                 "train.anchors_per_pack=0",
                                 "train.accumulation=0",
                                 "train.epochs=0",
                                 "train.max_steps=-1",
                                 "train.max_minutes=-1",
                                 "train.learning_rate=0",
                                 "train.learning_rate=-1e-4",
                                 "train.min_learning_rate=1",
                                 "train.warmup=-0.1",
                                 "train.weight_decay=-1",
                                 "train.beta1=1",
                                 "train.beta2=1.5",
                                 "train.adam_eps=0",
                                 "train.clip=-1",
                                 "train.loss=none",
                                 "train.gamma=-1",
                                 "train.dpace_alpha=2",
                                 "train.soft_labels=1.5",
                                 "train.compute=fp16",
                                 "train.feature_cache_mb=-1",
                                 "train.feature_disk_mb=-1",
                                 "train.save_every=-1",
                                 "train.keep_checkpoints=0",
                                 "train.log_every=0",
                                 "train.eval_every=-1",
                                 "eval.prompts=0",
                                 "eval.max_new_tokens=0",
                                 "data.max_length=1",
                                 "threads=-1",
                                 "output="}) {
    const std::string text = assignment;
    expect_refused("", {text.substr(0, text.find('='))}, {text});
  }
  expect_refused("", {"draft.heads is 6", "draft.kv_heads, 4"}, {"draft.heads=6", "draft.kv_heads=4"});
  expect_refused("", {"draft.num_taps is 3", "2 as draft.taps lists"}, {"draft.taps=[1,2]", "draft.num_taps=3"});
  expect_refused("", {"train.loss is 'none', but it must be decay or dpace"}, {"train.loss=none"});
  expect_refused("", {"train.compute is 'fp16', but it must be bf16 or fp32"}, {"train.compute=fp16"});
  expect_refused("", {"model.feature_weights is 'bf8', but it must be native or bf16"}, {"model.feature_weights=bf8"});
  expect_refused("", {"draft.init is 'empty', but it must be random, target or the path of a drafter"},
                 {"draft.init="});
  expect_refused("train:\n  loss: [decay]\n", {"run.yaml:2: train.loss is 'a list', but it must be decay or dpace"});
  EXPECT_NO_THROW(read("", {"draft.sliding_window=8", "draft.sliding_layers=[0,2]"}));
  expect_refused("", {"draft.sliding_layers holds 2; layers are numbered 0 to 1"},
                 {"draft.layers=2", "draft.sliding_layers=[2]", "draft.sliding_window=8"});
  expect_refused("", {"draft.sliding_window and draft.sliding_layers go together"}, {"draft.sliding_layers=[1]"});
  expect_refused("", {"train.epochs is 0, but it must be between 1 and"}, {"train.epochs=0"});
}

TEST(Recipes, EveryOneLoads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DRAFTSMITH_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() != ".yaml") continue;
    ++count;
    const RunConfig config = read_run_config(entry.path(), {});
    EXPECT_FALSE(config.model.path.empty()) << entry.path();
    EXPECT_FALSE(config.data.path.empty()) << entry.path();
    EXPECT_EQ(run_config_to_yaml(read(run_config_to_yaml(config))), run_config_to_yaml(config));
  }
  EXPECT_GE(count, 2);
}

TEST(Recipes, SeedHasTheSizePlannedFor) {
  const RunConfig config = read_run_config(DRAFTSMITH_SOURCE_DIR "/recipes/seed.yaml", {});
  const DraftConfig& d = config.draft;
  const std::int64_t layer = d.hidden_size * d.head_dim * (2 * d.heads + 2 * d.kv_heads) +
                             3 * d.hidden_size * d.intermediate_size + 2 * d.hidden_size + 2 * d.head_dim;
  EXPECT_EQ(d.layers * layer + d.num_taps * d.hidden_size * d.hidden_size + 2 * d.hidden_size, 1703998720);
  EXPECT_EQ(config.train.anchors_per_pack * d.block_size, 8192);
  EXPECT_EQ(config.train.row_length, 8192);
}

}  // namespace
}  // namespace draftsmith
