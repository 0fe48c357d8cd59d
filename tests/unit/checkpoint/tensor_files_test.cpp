#include "trainctl/checkpoint/tensor_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/testing.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_safetensors(folder_ / "model-00001-of-00002.safetensors", {{"a", at::ones({3})}}, {});
    write_safetensors(folder_ / "model-00002-of-00002.safetensors", {{"b", at::zeros({2})}}, {});
  }
  void index(const nlohmann::json& map) const {
    write(nlohmann::json{{"metadata", {{"total_size", 20}}}, {"weight_map", map}}.dump());
  }
  void write(const std::string& text) const {
    temporary_.write("model.safetensors.index.json", text);
  }
  std::string refusal() const {
    return refusal_of(ExitCode::kCheckpoint, [&] { TensorFiles::open(folder_, "model"); });
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  nlohmann::json good_ = {{"a", "model-00001-of-00002.safetensors"},
                          {"b", "model-00002-of-00002.safetensors"}};
};

TEST_F(TensorFilesTest, ShardsReadAsOneSet) {
  index(good_);
  const TensorFiles files = TensorFiles::open(folder_, "model");
  EXPECT_THAT(files.names(), ElementsAre("a", "b"));
  EXPECT_TRUE(at::equal(files.tensor("a"), at::ones({3})));
  EXPECT_TRUE(files.contains("b"));
  EXPECT_EQ(files.files().size(), 2U);
  EXPECT_THAT(refusal_of(ExitCode::kCheckpoint, [&] { files.tensor("c"); }),
              AllOf(HasSubstr("index.json"), HasSubstr("no tensor 'c'")));
}

TEST_F(TensorFilesTest, ASingleFileNeedsNoIndex) {
  write_safetensors(folder_ / "optimizer.safetensors", {{"x", at::ones({1})}}, {});
  EXPECT_THAT(TensorFiles::open(folder_, "optimizer").names(), ElementsAre("x"));
}

TEST_F(TensorFilesTest, AnIndexCannotLeadOutOfItsFolder) {
  temporary_.write("outside/secret.safetensors", "x");
  for (const char* name : {"../secret.safetensors", "/etc/passwd", "outside/secret.safetensors",
                           "..", ".", "", "a/../../b"}) {
    index({{"a", name}, {"b", "model-00002-of-00002.safetensors"}});
    EXPECT_THAT(refusal(), HasSubstr("not the name of a file in this folder")) << name;
  }
  index({{"a", std::string("model-00001-of-00002.safetensors\0x", 34)}});
  EXPECT_THAT(refusal(), HasSubstr("not the name of a file"));
}

TEST_F(TensorFilesTest, IndexAndShardsMustAgree) {
  index({{"a", "model-00002-of-00002.safetensors"}, {"b", "model-00002-of-00002.safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("holds tensor"));
  index({{"a", "model-00001-of-00002.safetensors"}, {"c", "model-00002-of-00002.safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("holds tensor"));
  index({{"a", "model-00001-of-00002.safetensors"}, {"b", "gone.safetensors"}});
  EXPECT_THAT(refusal(), HasSubstr("gone.safetensors"));
  write_safetensors(folder_ / "model-00001-of-00002.safetensors",
                    {{"a", at::ones({3})}, {"extra", at::ones({1})}}, {});
  index(good_);
  EXPECT_THAT(refusal(), HasSubstr("does not name"));
  write_safetensors(folder_ / "model-00001-of-00002.safetensors",
                    {{"a", at::ones({3})}, {"b", at::ones({1})}}, {});
  EXPECT_THAT(refusal(), HasSubstr("holds too"));
}

TEST_F(TensorFilesTest, AnIndexThatIsNoneIsRefused) {
  for (const char* text : {"", "{", "[]", "{}", R"({"weight_map": []})", R"({"weight_map": {}})",
                           R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": "x", "a": "y"}})",
                           R"({"weight_map": {"a": "x"}, "weight_map": {"a": "y"}})", "\xff\xfe",
                           R"({"x": [[[[[[[[[[[[1]]]]]]]]]]]]})"}) {
    write(text);
    EXPECT_THAT(refusal(), HasSubstr("is not an index")) << text;
  }
}

}  // namespace
}  // namespace trainctl
