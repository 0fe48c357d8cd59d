#include "trainctl/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "support/testing.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

CheckpointContent content_of(int64_t step, int64_t elements = 16) {
  const at::Tensor values = at::full({elements}, static_cast<double>(step));
  return {step,
          {{"weight", values}},
          {{"weight.exp_avg", values * 2}},
          "{\"step\": " + std::to_string(step) + "}"};
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel level, const std::string& message) {
      if (level == LogLevel::kWarning) warnings_.push_back(message);
    });
  }
  void TearDown() override { set_log_sink(nullptr); }

  fs::path save(int64_t step, int64_t keep_latest = 3) {
    return save_checkpoint(checkpoints_, content_of(step), keep_latest);
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const auto& [step, path] : list_checkpoints(checkpoints_)) out.push_back(step);
    return out;
  }
  std::vector<std::string> entries(const fs::path& folder) const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder)) {
      out.push_back(entry.path().filename().string());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  template <typename Action>
  std::string refusal(const Action& action) {
    return refusal_of(ExitCode::kCheckpoint, action);
  }
  static void flip_byte(const fs::path& file, int64_t at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const int byte = stream.get();
    stream.seekp(at);
    stream.put(static_cast<char>(byte ^ 1));
  }

  TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path(), checkpoints_ = folder_ / "checkpoints";
  std::vector<std::string> warnings_;
};

TEST_F(CheckpointTest, ComesBackAsItWasSaved) {
  const fs::path path = save(10);
  EXPECT_EQ(path, checkpoints_ / "step-10");
  EXPECT_THAT(entries(path), ElementsAre("COMPLETE", "manifest.json", "model.safetensors",
                                         "optimizer.safetensors", "state.json"));
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-10"));
  const LoadedCheckpoint loaded = load_checkpoint(path);
  EXPECT_EQ(loaded.step, 10);
  EXPECT_EQ(loaded.path, path);
  EXPECT_EQ(loaded.state_json, "{\"step\": 10}");
  EXPECT_TRUE(at::equal(loaded.model.tensor("weight"), at::full({16}, 10.0)));
  EXPECT_TRUE(at::equal(loaded.optimizer.tensor("weight.exp_avg"), at::full({16}, 20.0)));
}

TEST_F(CheckpointTest, RetentionCountsByStepNotByNameOrTime) {
  for (int64_t step = 8; step <= 12; ++step) save(step, 2);
  EXPECT_THAT(steps(), ElementsAre(11, 12));
  for (int64_t step = 98; step <= 102; ++step) {
    save(step, 2);
    EXPECT_EQ(steps().back(), step);
  }
  EXPECT_THAT(steps(), ElementsAre(101, 102));
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-101", "step-102"));
}

TEST_F(CheckpointTest, ALaterStepOfAnotherRunIsLeftAloneAndNotCounted) {
  save(5000, 2);
  for (int64_t step = 8; step <= 12; ++step) {
    save(step, 2);
    EXPECT_THAT(steps(), ::testing::Contains(step));
  }
  EXPECT_THAT(steps(), ElementsAre(11, 12, 5000));
  ASSERT_THAT(warnings_, SizeIs(1));  // once, not at every save
  EXPECT_THAT(warnings_[0], AllOf(HasSubstr("step-5000"), HasSubstr("another run")));
}

TEST_F(CheckpointTest, TheOneJustSavedIsKeptWhateverKeepLatestSays) {
  save(1, 0);
  save(2, 0);
  EXPECT_THAT(steps(), ElementsAre(2));
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  save(10);
  save_checkpoint(checkpoints_, content_of(10, 32), 3);
  EXPECT_EQ(load_checkpoint(checkpoints_ / "step-10").model.tensor("weight").numel(), 32);
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-10"));
}

TEST_F(CheckpointTest, AnIncompleteFolderOfTheStepIsReplaced) {
  save(10);
  fs::remove(checkpoints_ / "step-10" / "COMPLETE");
  EXPECT_THAT(steps(), ElementsAre());
  save(10);
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_EQ(load_checkpoint(checkpoints_ / "step-10").step, 10);
}

TEST_F(CheckpointTest, LeftoversOfInterruptedSavesAreCleaned) {
  save(10);
  fs::copy(checkpoints_ / "step-10", checkpoints_ / "step-20.partial-99",
           fs::copy_options::recursive);
  fs::copy(checkpoints_ / "step-10", checkpoints_ / "step-5.removed-99",
           fs::copy_options::recursive);
  fs::create_directories(checkpoints_ / "step-notes");  // not ours
  fs::create_directories(checkpoints_ / "step-007");    // nor is this
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_EQ(load_newest_checkpoint(checkpoints_)->step, 10);
  save(11);
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-007", "step-10", "step-11", "step-notes"));
}

TEST_F(CheckpointTest, AReplacementInterruptedHalfwayLosesNothing) {
  save(10);
  fs::rename(checkpoints_ / "step-10", checkpoints_ / "step-10.replaced-99");
  EXPECT_THAT(steps(), ElementsAre(10));
  EXPECT_EQ(load_newest_checkpoint(checkpoints_)->step, 10);
  save(11);
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-10", "step-11"));
  fs::copy(checkpoints_ / "step-10", checkpoints_ / "step-10.replaced-99",
           fs::copy_options::recursive);
  save(12);
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-10", "step-11", "step-12"));
}

TEST_F(CheckpointTest, DamageAnywhereIsFoundAndNamed) {
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json", "COMPLETE"}) {
    const fs::path path = save(10);
    const fs::path file = path / name;
    const auto size = static_cast<int64_t>(fs::file_size(file));
    for (const int64_t at : {int64_t{0}, size / 2, size - 1}) {
      flip_byte(file, at);
      const std::string reason = refusal([&] { load_checkpoint(path); });
      EXPECT_THAT(reason, AllOf(HasSubstr(path.string()), HasSubstr("checksum"))) << name << at;
      flip_byte(file, at);
    }
    ASSERT_EQ(refusal([&] { load_checkpoint(path); }), "");
    fs::resize_file(file, static_cast<uintmax_t>(size - 1));
    EXPECT_NE(refusal([&] { load_checkpoint(path); }), "") << name;
    fs::remove(file);
    EXPECT_THAT(refusal([&] { load_checkpoint(path); }), HasSubstr(name));
  }
}

TEST_F(CheckpointTest, AManifestThatIsWrongButUndamagedIsRefused) {
  const auto forge = [&](const std::string& from, const std::string& to) {
    const fs::path path = save(10);
    std::string json = read_file(path / "manifest.json", ExitCode::kCheckpoint);
    const size_t at = json.find(from);
    EXPECT_NE(at, std::string::npos) << json;
    json.replace(at, from.size(), to);
    std::ofstream(path / "manifest.json") << json;
    std::ofstream(path / "COMPLETE") << to_hex(checksum(std::as_bytes(std::span(json)))) << "\n";
    return refusal([&] { load_checkpoint(path); });
  };
  EXPECT_EQ(forge("\"step\"", "\"step\""), "");
  EXPECT_THAT(forge("\"format_version\": 2", "\"format_version\": 3"),
              AllOf(HasSubstr("format_version 3"), HasSubstr("1 to 2")));
  EXPECT_THAT(forge("\"format_version\": 2", "\"format_version\": 0"),
              HasSubstr("format_version 0"));
  EXPECT_THAT(forge("model.safetensors", "state.json"), HasSubstr("listed twice"));
  EXPECT_THAT(forge("\"run\"", "\"walk\""), HasSubstr("is not a manifest"));
  EXPECT_THAT(forge("state.json", "other.json"), HasSubstr("does not list state.json"));
  EXPECT_THAT(forge("state.json", "../state.json"), HasSubstr("not the name of a file"));
  EXPECT_THAT(forge("\"xxh3\": \"", "\"xxh3\": \"g"), HasSubstr("16 hexadecimal"));
  EXPECT_THAT(forge("\"bytes\": ", "\"bytes\": -"), HasSubstr("bytes is not a whole number"));
  EXPECT_THAT(forge("\"files\"", "\"data\""), HasSubstr("is not a manifest"));
  EXPECT_THAT(forge("{", "["), HasSubstr("is not a manifest"));
}

TEST_F(CheckpointTest, TheFirstFormatIsReadToo) {
  const fs::path path = save(10);
  nlohmann::json json =
      nlohmann::json::parse(read_file(path / "manifest.json", ExitCode::kCheckpoint));
  json["format_version"] = 1;
  json.erase("run");
  json.erase("validation_loss");
  const std::string text = json.dump();
  std::ofstream(path / "manifest.json") << text;
  std::ofstream(path / "COMPLETE") << to_hex(checksum(std::as_bytes(std::span(text)))) << "\n";
  const LoadedCheckpoint loaded = load_checkpoint(path);
  EXPECT_EQ(loaded.manifest.format, 1);
  EXPECT_EQ(loaded.manifest.run, "");
  EXPECT_TRUE(at::equal(loaded.model.tensor("weight"), at::full({16}, 10.0)));
}

TEST_F(CheckpointTest, AFileThatTheManifestDoesNotListIsNotRead) {
  const fs::path path = save(10);
  nlohmann::json json =
      nlohmann::json::parse(read_file(path / "manifest.json", ExitCode::kCheckpoint));
  for (auto& file : json["files"]) {
    if (file["file"] == "model.safetensors") file["file"] = "other.safetensors";
  }
  fs::copy(path / "model.safetensors", path / "other.safetensors");
  const std::string text = json.dump();
  std::ofstream(path / "manifest.json") << text;
  std::ofstream(path / "COMPLETE") << to_hex(checksum(std::as_bytes(std::span(text)))) << "\n";
  EXPECT_THAT(refusal([&] { load_checkpoint(path); }),
              HasSubstr("does not list model.safetensors"));
}

TEST_F(CheckpointTest, RanksThatShareTheVerificationFindDamageBetweenThem) {
  CheckpointContent content = content_of(10, 400'000);
  const fs::path path = save_checkpoint(checkpoints_, content, 3);
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    flip_byte(path / name, 1'000'000);
    int found = 0;
    for (const int64_t rank : {0, 1}) {
      const std::string text = refusal([&] { load_checkpoint(path, {rank, 2}); });
      found += text.find("checksum") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(found, 1) << name;
    flip_byte(path / name, 1'000'000);
  }
}

TEST_F(CheckpointTest, NewestFallsBackOverDamagedOnesWithAWarningEach) {
  for (int64_t step = 1; step <= 4; ++step) save(step, 10);
  flip_byte(checkpoints_ / "step-4" / "model.safetensors", 150);
  fs::remove(checkpoints_ / "step-3" / "COMPLETE");
  const auto loaded = load_newest_checkpoint(checkpoints_);
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->step, 2);
  ASSERT_THAT(warnings_, SizeIs(2));
  EXPECT_THAT(warnings_[0], HasSubstr("step-4"));
  EXPECT_THAT(warnings_[1], HasSubstr("step-3"));
}

TEST_F(CheckpointTest, NoneAtAllIsNoErrorButNoGoodOneIs) {
  EXPECT_FALSE(load_newest_checkpoint(checkpoints_).has_value());
  fs::create_directories(checkpoints_ / "step-9.partial-1");
  EXPECT_FALSE(load_newest_checkpoint(checkpoints_).has_value());
  save(1);
  fs::resize_file(checkpoints_ / "step-1" / "model.safetensors", 10);
  EXPECT_THAT(refusal([&] { load_newest_checkpoint(checkpoints_); }),
              AllOf(HasSubstr(checkpoints_.string()), HasSubstr("--resume never")));
}

TEST_F(CheckpointTest, ARenamedFolderDoesNotPassForAnotherStep) {
  save(10);
  save(11);
  fs::rename(checkpoints_ / "step-10", checkpoints_ / "step-12");
  EXPECT_EQ(load_newest_checkpoint(checkpoints_)->step, 11);
  fs::rename(checkpoints_ / "step-12", checkpoints_ / "best");
  EXPECT_EQ(load_checkpoint(checkpoints_ / "best").step, 10);  // by a name of the user's own
}

TEST_F(CheckpointTest, RefusalsOfOtherPathsAreClear) {
  EXPECT_THAT(refusal([&] { load_checkpoint(folder_ / "nothing"); }), HasSubstr("no such folder"));
  EXPECT_THAT(refusal([&] { load_checkpoint(folder_); }), HasSubstr("COMPLETE is missing"));
  std::ofstream(folder_ / "file").flush();
  EXPECT_THAT(refusal([&] { save_checkpoint(folder_ / "file", content_of(1), 1); }),
              HasSubstr((folder_ / "file").string()));
}

TEST_F(CheckpointTest, AFileSizeLimitEndsTheSaveOnlyAndKeepsTheEarlierOnes) {
  save(1, 1);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message =
      refusal([&] { save_checkpoint(checkpoints_, content_of(2, 100'000), 1); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("model.safetensors"), HasSubstr("File too large")));
  EXPECT_THAT(entries(checkpoints_), ElementsAre("step-1"));
  EXPECT_EQ(load_newest_checkpoint(checkpoints_)->step, 1);
}

TEST_F(CheckpointTest, AFullDiskEndsTheSaveOnlyAndKeepsTheEarlierOnes) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "mounting a small tmpfs needs root: " << std::strerror(errno);
  }
  const fs::path checkpoints = disk / "checkpoints";
  save_checkpoint(checkpoints, content_of(1, 1000), 3);
  // Known beforehand not to fit.
  EXPECT_THAT(
      refusal([&] { save_checkpoint(checkpoints, content_of(2, 1'000'000), 3); }),
      AllOf(HasSubstr(checkpoints.string()), HasSubstr("No space left"), HasSubstr("keep_latest")));
  // Fits by a hair, but not with its folder and headers in whole pages: found by the write itself.
  const fs::space_info space = fs::space(disk);
  const auto fit = static_cast<int64_t>((space.available - (64 << 10) - 64) / 8);
  std::ofstream(disk / "filler") << std::string(40'000, 'x');
  const std::string tight = refusal([&] { save_checkpoint(checkpoints, content_of(3, fit), 3); });
  EXPECT_THAT(tight, HasSubstr("No space left"));
  EXPECT_THAT(entries(checkpoints), ElementsAre("step-1"));
  EXPECT_EQ(load_newest_checkpoint(checkpoints)->step, 1);
  ::umount(disk.c_str());
}

// Case D3: killed at any moment, the newest complete one loads.
TEST_F(CheckpointTest, AKilledSaveNeverLeavesATornCheckpoint) {
  std::mt19937 random(1);
  int64_t saved = 0;
  for (int round = 0; round < 20; ++round) {
    int channel[2];
    ASSERT_EQ(::pipe(channel), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      for (int64_t step = saved + 1;; ++step) {
        const at::Tensor values =
            at::from_blob(::calloc(100'000, 4), {100'000}, at::TensorOptions(at::kFloat));
        save_checkpoint(checkpoints_, {step, {{"w", values}}, {{"w.m", values}}, "{}"}, 2);
        if (::write(channel[1], &step, sizeof step) != sizeof step) ::_exit(1);
      }
    }
    ASSERT_GT(child, 0);
    ::close(channel[1]);
    ASSERT_EQ(::read(channel[0], &saved, sizeof saved), static_cast<ssize_t>(sizeof saved));
    ::usleep(static_cast<useconds_t>(random() % 20'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (int64_t step = 0; ::read(channel[0], &step, sizeof step) == sizeof step;) saved = step;
    ::close(channel[0]);

    const auto loaded = load_newest_checkpoint(checkpoints_);
    ASSERT_TRUE(loaded.has_value());
    EXPECT_GE(loaded->step, saved);
    EXPECT_LE(loaded->step, saved + 1);
    EXPECT_TRUE(warnings_.empty()) << warnings_.front();
    saved = loaded->step;
  }
  save(saved + 1, 2);
  EXPECT_THAT(entries(checkpoints_), SizeIs(2));
}

}  // namespace
}  // namespace trainctl
