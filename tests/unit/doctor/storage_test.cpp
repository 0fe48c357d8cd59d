#include <gmock/gmock.h>
#include <sys/stat.h>

#include "doctor/storage_evidence.h"
#include "judging.h"
#include "support/testing.h"

namespace trainctl::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;

Folder good_folder(const std::string& path) {
  Folder folder;
  folder.path = folder.nearest = path;
  folder.exists = true;
  folder.file_system = "ext4";
  folder.mount_point = "/";
  folder.total = folder.free = 100 * kGiB;
  folder.files_total = folder.files_free = 1000000;
  return folder;
}

StorageEvidence good_storage() {
  StorageEvidence storage;
  storage.output = good_folder("runs");
  storage.temporary = good_folder("/tmp");
  storage.trial = {64 * kMiB, 0.1, ""};
  return storage;
}

std::string said_of(const std::string& id, const StorageEvidence& storage) {
  return said(judge(storage_group(), id, storage));
}

TEST(StorageProbes, FindNothingWhereAllIsWell) {
  for (const Probe& probe : storage_group().probes) {
    EXPECT_EQ(said_of(probe.id, good_storage()), "ok") << probe.id;
  }
}

TEST(StorageProbes, OutputFolderThatCannotBeWritten) {
  StorageEvidence storage = good_storage();
  storage.output.problem = "Permission denied";
  const Finding finding = judge(storage_group(), "storage.output", storage);
  EXPECT_EQ(said(finding), "unfit output-not-writable");
  EXPECT_THAT(finding.cause, HasSubstr("Permission denied"));
  storage.output.read_only = true;
  EXPECT_EQ(said_of("storage.output", storage), "unfit output-read-only");
}

TEST(StorageProbes, SpaceFilesAndQuota) {
  StorageEvidence storage = good_storage();
  storage.output.free = 100 * kMiB;
  storage.output.files_free = 500;
  storage.output.quota_left = 100 * kMiB;
  storage.output.quota_limit = kGiB;
  EXPECT_EQ(said_of("storage.space", storage), "warning disk-full");
  EXPECT_EQ(said_of("storage.files", storage), "warning inodes-few");
  EXPECT_EQ(said_of("storage.quota", storage), "warning quota-low");
  storage.output.free = kMiB;
  storage.output.files_free = 0;
  storage.output.quota_left = 0;
  EXPECT_EQ(said_of("storage.space", storage), "unfit disk-full");
  EXPECT_EQ(said_of("storage.files", storage), "unfit inodes-few");
  EXPECT_EQ(said_of("storage.quota", storage), "unfit quota-low");
  storage.output.files_total = 0;  // btrfs and most network file systems
  EXPECT_EQ(said_of("storage.files", storage), "ok");
}

TEST(StorageProbes, KindOfFileSystem) {
  StorageEvidence storage = good_storage();
  storage.output.file_system = "tmpfs";
  EXPECT_EQ(said_of("storage.kind", storage), "warning output-in-memory");
  storage.output.file_system = "overlay";
  EXPECT_EQ(said_of("storage.kind", storage), "warning output-in-container");
  for (const char* shared : {"nfs4", "lustre", "gpfs", "ceph", "beegfs", "fuse.sshfs", "cifs"}) {
    storage.output.file_system = shared;
    storage.job_nodes = 4;
    EXPECT_EQ(said_of("storage.kind", storage), "ok") << shared;
    EXPECT_THAT(judge(storage_group(), "storage.kind", storage).found, HasSubstr("shared"));
  }
  storage.output.file_system = "xfs";
  EXPECT_EQ(said_of("storage.kind", storage), "warning output-not-shared");
  storage.job_nodes = 1;
  EXPECT_EQ(said_of("storage.kind", storage), "ok");
}

TEST(StorageProbes, SpeedOfWriting) {
  StorageEvidence storage = good_storage();
  storage.trial = {5 * kMiB, 0.5, ""};
  EXPECT_EQ(said_of("storage.speed", storage), "warning write-slow");
  storage.trial.problem = "Disk quota exceeded";
  EXPECT_EQ(said_of("storage.speed", storage), "unfit write-fails");
  storage.trial = {};
  EXPECT_EQ(judge(storage_group(), "storage.speed", storage).found, "not measured");
}

TEST(StorageProbes, TemporaryFolder) {
  StorageEvidence storage = good_storage();
  storage.temporary.exists = false;
  storage.temporary_named = true;
  const Finding finding = judge(storage_group(), "storage.temporary", storage);
  EXPECT_EQ(said(finding), "warning tmpdir-unusable");
  EXPECT_THAT(finding.cause, HasSubstr("TMPDIR"));
  storage = good_storage();
  storage.temporary.free = kMiB;
  EXPECT_EQ(said_of("storage.temporary", storage), "warning tmpdir-unusable");
}

TEST(MountOf, TakesTheInnermostAndTheLatest) {
  const std::vector<std::string> mounts = {
      "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
      "30 22 0:40 / /data rw - nfs4 server:/export rw,vers=4.2",
      "31 22 0:41 / /data/with\\040space rw shared:1 master:2 - lustre 10.0.0.1@tcp:/fs rw",
      "32 22 0:42 / /data rw - xfs /dev/vdb rw"};
  EXPECT_EQ(mount_of("/data/runs", mounts).file_system, "xfs");
  EXPECT_EQ(mount_of("/data/with space/runs", mounts).file_system, "lustre");
  EXPECT_EQ(mount_of("/database", mounts).file_system, "ext4");
  EXPECT_EQ(mount_of("/database", mounts).source, "/dev/vda");
  EXPECT_EQ(mount_of("/", {}).file_system, "");
}

TEST(StorageEvidence, OfAFolderYetToBeMadeLeavesNothingBehind) {
  const TemporaryFolder folder;
  DoctorOptions options;
  options.output_dir = folder.path() / "a/b/runs";
  const StorageEvidence storage = gather_storage(options);
  EXPECT_FALSE(storage.output.exists);
  EXPECT_EQ(storage.output.nearest, folder.path().string());
  EXPECT_EQ(storage.output.problem, "");
  EXPECT_GT(storage.trial.bytes, 0);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  options.quick = true;
  EXPECT_EQ(gather_storage(options).trial.bytes, 0);
}

TEST(StorageEvidence, AFileInTheFoldersPlaceIsNamed) {
  const TemporaryFolder folder;
  folder.write("runs", "");
  DoctorOptions options;
  options.output_dir = folder.path() / "runs/mini";
  const StorageEvidence storage = gather_storage(options);
  EXPECT_THAT(storage.output.problem, HasSubstr("is no folder"));
  EXPECT_EQ(said_of("storage.output", storage), "unfit output-not-writable");
}

TEST(StorageEvidence, ALinkToNowhereIsNoFolder) {
  const TemporaryFolder folder;
  fs::create_symlink("nowhere", folder.path() / "runs");
  DoctorOptions options;
  options.output_dir = folder.path() / "runs";
  EXPECT_EQ(said_of("storage.output", gather_storage(options)), "unfit output-not-writable");
}

}  // namespace
}  // namespace trainctl::doctor
