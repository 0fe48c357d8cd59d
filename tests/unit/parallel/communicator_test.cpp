#include "trainctl/parallel/communicator.h"

#include <gmock/gmock.h>

#include "rank_threads.h"

namespace trainctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GroupCommunicator, GathersStringsOfDifferentLengthsInOrderOfRank) {
  const auto errors = RankThreads().run(3, [](Communicator& c) {
    const std::string mine(static_cast<size_t>(c.world().rank) * 3, 'x');
    EXPECT_THAT(c.gather(mine, "test"), ElementsAre("", "xxx", "xxxxxx"));
    EXPECT_THAT(c.gather("", "test"), ElementsAre("", "", ""));
    EXPECT_EQ(c.from_main(c.is_main() ? "from 0" : "other", "test"), "from 0");
  });
  EXPECT_EQ(errors, kNoErrors3);
}

TEST(GroupCommunicator, SumsInPlace) {
  const auto errors = RankThreads().run(2, [](Communicator& c) {
    const at::Tensor tensor = at::full({3}, static_cast<double>(c.world().rank + 1));
    c.sum(tensor, "test");
    EXPECT_TRUE(tensor.eq(3).all().item<bool>());
  });
  EXPECT_EQ(errors, kNoErrors2);
}

TEST(GroupCommunicator, VotesStopForAllAndRank0DecidesOnTimes) {
  const auto errors = RankThreads().run(3, [](Communicator& c) {
    const int64_t rank = c.world().rank;
    StepVote vote;
    vote.stop_signal = rank == 2 ? 15 : 0;
    vote.save = rank == 0;
    vote.validate = rank == 1;  // does not count
    vote.seconds = static_cast<double>(rank);
    c.begin_vote([&] { return vote; });
    const StepVerdict verdict = c.finish_vote();
    EXPECT_EQ(verdict.stop_signal, 15);
    EXPECT_EQ(verdict.stop_rank, 2);
    EXPECT_TRUE(verdict.save);
    EXPECT_FALSE(verdict.validate);
    EXPECT_THAT(verdict.seconds, ElementsAre(0, 1, 2));
  });
  EXPECT_EQ(errors, kNoErrors3);
}

TEST(GroupCommunicator, ASaveIsSettledOnceItIsOnEveryRank) {
  const auto errors = RankThreads().run(3, [](Communicator& c) {
    for (int64_t done = 0; done <= 3; ++done) {
      StepVote vote;
      vote.save_settled = c.world().rank < done;
      c.begin_vote([&] { return vote; });
      EXPECT_EQ(c.finish_vote().save_settled, done == 3);
    }
  });
  EXPECT_EQ(errors, kNoErrors3);
}

TEST(GroupCommunicator, AnErrorOfOneRankIsOneOnAllWithTheSameCode) {
  const auto errors = RankThreads().run(3, [](Communicator& c) {
    try {
      c.together("test", [&] {
        if (c.world().rank == 1) throw data_error("no such file\nsecond line");
      });
      ADD_FAILURE() << "rank " << c.world().rank << " goes on";
    } catch (const UserError& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      throw;
    }
  });
  EXPECT_EQ(errors[1], "no such file\nsecond line");
  EXPECT_EQ(errors[0], "rank 0 ends because rank 1 failed: no such file");
  EXPECT_EQ(errors[2], "rank 2 ends because rank 1 failed: no such file");
}

TEST(JoinRanks, RefusesRanksThatWereStartedDifferently) {
  RankThreads ranks;
  ranks.must_agree = [](int64_t rank) {
    return rank == 1 ? R"({"optimizer": {"eps": 2, "betas": [1]}})"
                     : R"({"optimizer": {"eps": 1, "betas": [1]}})";
  };
  const auto errors = ranks.run(2, [](Communicator&) {});
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("rank 1 on "));
    EXPECT_THAT(error, HasSubstr("optimizer.eps is 2, rank 0 has 1"));
  }
}

TEST(SingleCommunicator, VotesForItselfAtTheEndOfTheStep) {
  const auto c = make_single_communicator();
  int signal = 0;
  c->begin_vote([&] {
    StepVote vote;
    vote.stop_signal = signal;
    return vote;
  });
  signal = 2;
  EXPECT_EQ(c->finish_vote().stop_signal, 2);
  EXPECT_THAT(c->gather("me", "test"), ElementsAre("me"));
  EXPECT_THROW(c->together("test", [] { throw std::runtime_error("as it is"); }),
               std::runtime_error);
}

}  // namespace
}  // namespace trainctl
