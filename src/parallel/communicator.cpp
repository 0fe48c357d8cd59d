#include "trainctl/parallel/communicator.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "parallel/failure.h"
#include "trainctl/parallel/gradient_sync.h"
#include "trainctl/runtime/explained.h"

namespace trainctl {
namespace {

class LocalGradients final : public GradientSync {
 public:
  void backward(const at::Tensor& loss, bool /*last*/) override { loss.backward(); }
  double own_seconds() const override { return 0; }  // there is nobody to compare with
};

class SingleCommunicator final : public Communicator {
 public:
  SingleCommunicator() : Communicator(ProcessWorld()) {}

  void use_device(const at::Device& /*device*/) override {}
  std::vector<std::string> gather(const std::string& mine, const char* /*what*/) override {
    return {mine};
  }
  void sum(const at::Tensor& /*tensor*/, const char* /*what*/) override {}
  void begin_vote(const std::function<StepVote()>& vote) override { vote_ = vote; }
  StepVerdict finish_vote() override {
    const StepVote vote = vote_();
    return {vote.stop_signal, 0, vote.out_of_time, vote.validate, vote.save, vote.save_settled, {}};
  }
  void enter(int64_t /*step*/, const char* /*doing*/) override {}
  std::unique_ptr<GradientSync> make_gradient_sync(
      const std::vector<NamedParameter>& /*parameters*/,
      const ParallelConfig& /*config*/) override {
    return std::make_unique<LocalGradients>();
  }
  std::vector<std::pair<std::string, std::string>> report() const override { return {}; }
  std::exception_ptr end_with(std::exception_ptr error) override { return error; }

 private:
  std::function<StepVote()> vote_;
};

struct Outcome {
  int code = 0;  // 0: it went well
  std::string text;
};

std::string to_json(const Outcome& outcome) {
  return nlohmann::json{{"code", outcome.code}, {"text", outcome.text}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Outcome outcome_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const UserError& user_error) {
    return {static_cast<int>(user_error.code()), user_error.what()};
  } catch (const std::exception& other) {
    return {static_cast<int>(ExitCode::kTrainingFailed), other.what()};
  }
}

}  // namespace

bool Communicator::cause_was_heard() const {
  constexpr int kLooks = 20;
  for (int i = 0; i < kLooks; ++i) {
    if (stop_ && stop_() != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

void Communicator::together(const char* what, const std::function<void()>& work) {
  if (!world_.distributed()) return work();
  std::exception_ptr error;
  try {
    work();
  } catch (const std::exception&) {
    error = explained(std::current_exception());
  }
  const std::vector<std::string> outcomes = gather(to_json(outcome_of(error)), what);
  // The first rank with an error explains it; others with the same one need not repeat it.
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const auto json = nlohmann::json::parse(outcomes[rank]);
    const int code = json.at("code").get<int>();
    if (code == 0) continue;
    agreed_to_end_ = true;
    if (static_cast<int64_t>(rank) == world_.rank) std::rethrow_exception(error);
    const std::string text = json.at("text").get<std::string>();
    if (cause_was_heard()) throw UserError(static_cast<ExitCode>(code), "");
    throw UserError(static_cast<ExitCode>(code), "rank " + std::to_string(world_.rank) +
                                                     " ends because rank " + std::to_string(rank) +
                                                     " failed: " + first_line(text));
  }
}

std::unique_ptr<Communicator> make_single_communicator() {
  return std::make_unique<SingleCommunicator>();
}

}  // namespace trainctl
