#include "draftsmith/store/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "draftsmith/base/check.h"
#include "draftsmith/store/sha256.h"
#include "draftsmith/store/test_folder.h"
#include "draftsmith/store/whole_file.h"

namespace draftsmith {
namespace fs = std::filesystem;

namespace {

// Writes beyond `bytes` fail with EFBIG while this lives; a test cannot come closer to a full disk.
struct FileSizeLimit {
  rlimit before;
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit tight{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before); }
};

std::string sha256(std::string_view text) {
  Sha256 sum;
  sum.add(text);
  return sum.hex();
}

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
  const std::string text(200, 'x');
  for (std::size_t length = 0; length <= text.size(); ++length) {
    Sha256 pieces;
    for (std::size_t at = 0; at < length; at += 7)
      pieces.add(std::string_view(text).substr(at, std::min<std::size_t>(7, length - at)));
    EXPECT_EQ(pieces.hex(), sha256(text.substr(0, length))) << length;
  }
}

TEST(TextFile, ReadsBackWhatWasWritten) {
  const TestFolder folder;
  const std::string text("a\0b\n", 4);
  write_text_file(folder / "x", text);
  write_text_file(folder / "x", text + text);
  EXPECT_EQ(read_text_file(folder / "x"), text + text);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

TEST(TextFile, BadReadsNameTheFile) {
  const TestFolder folder;
  write_text_file(folder / "ten", "0123456789");
  EXPECT_EQ(read_text_file(folder / "ten", 10).size(), 10u);
  EXPECT_USER_ERROR(read_text_file(folder / "ten", 9), "ten", "larger than 9 bytes");
  EXPECT_USER_ERROR(read_text_file(folder / "none"), "none", "No such file");
  EXPECT_USER_ERROR(read_text_file(folder.path()), folder.path().string(), "directory");
  EXPECT_USER_ERROR(write_text_file(folder / "none" / "x", "y"), "none/x", "No such file");
  EXPECT_USER_ERROR(write_text_file(folder.path(), "y"), folder.path().string(), "folder");
}

TEST(TextFile, WritesThroughALinkAndKeepsIt) {
  const TestFolder folder;
  write_text_file(folder / "real", "old");
  fs::create_symlink("real", folder / "link");
  write_text_file(folder / "link", "new");
  EXPECT_EQ(read_text_file(folder / "real"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
}

TEST(TextFile, AFullDiskLeavesTheOldFileAndNoTemporary) {
  const TestFolder folder;
  write_text_file(folder / "x", "old");
  {
    const FileSizeLimit limit(1000);
    EXPECT_USER_ERROR(write_text_file(folder / "x", std::string(5000, 'y')), (folder / "x").string(), "File too large");
  }
  EXPECT_EQ(read_text_file(folder / "x"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"x"});
}

TEST(WholeFile, WithoutCommitLeavesNothing) {
  const TestFolder folder;
  {
    WholeFile file(folder / "x");
    file.write(std::as_bytes(std::span("abc")));
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(WriteFolder, AppearsWholeUnderItsName) {
  const TestFolder folder;
  const fs::path made = folder / "deep" / "run";
  write_folder(made / "", [&](const fs::path& temporary) {
    EXPECT_FALSE(fs::exists(made));
    fs::create_directory(temporary / "sub");
    write_text_file(temporary / "sub" / "x", "1");
  });
  EXPECT_EQ(read_text_file(made / "sub" / "x"), "1");
  EXPECT_EQ(names_in(folder / "deep"), std::vector<std::string>{"run"});
}

TEST(WriteFolder, ReplacesTheOldOneAtOnce) {
  const TestFolder folder;
  const fs::path made = folder / "run";
  for (const std::string text : {"1", "2", "3"}) {
    write_folder(made, [&](const fs::path& temporary) {
      if (fs::exists(made)) {
        EXPECT_NE(read_text_file(made / "x"), text);
      }
      write_text_file(temporary / "x", text);
    });
    EXPECT_EQ(read_text_file(made / "x"), text);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run"});
  }
}

TEST(WriteFolder, AnyExceptionLeavesTheOldFolderAndNoTemporary) {
  const TestFolder folder;
  const fs::path made = folder / "run";
  write_folder(made, [](const fs::path& temporary) { write_text_file(temporary / "x", "old"); });
  const std::vector<std::function<void(const fs::path&)>> faults = {
      [](const fs::path&) { throw std::runtime_error("any"); },
      [](const fs::path&) { throw 7; },
      [](const fs::path& temporary) { fail("bad ", (temporary / "x").string()); },
      [](const fs::path& temporary) { fs::create_directory(temporary / "none" / "deeper"); },
      [](const fs::path& temporary) {
        const FileSizeLimit limit(100);
        write_text_file(temporary / "x", std::string(200, 'y'));
      },
  };
  for (const auto& fault : faults) {
    EXPECT_ANY_THROW(write_folder(made, [&](const fs::path& temporary) {
      write_text_file(temporary / "x", "half");
      fs::create_directory(temporary / "sub");
      write_text_file(temporary / "sub" / "y", "half");
      fault(temporary);
    }));
    EXPECT_EQ(read_text_file(made / "x"), "old");
    EXPECT_EQ(names_in(made), std::vector<std::string>{"x"});
    EXPECT_EQ(folder.names(), std::vector<std::string>{"run"});
  }
}

TEST(WriteFolder, MessagesSpeakOfTheNameTheUserGave) {
  const TestFolder folder;
  const fs::path made = folder / "run";
  const auto fill = [](const fs::path& temporary) { fail("cannot write ", (temporary / "x").string()); };
  EXPECT_USER_ERROR(write_folder(made, fill), (made / "x").string(), "cannot write");
}

TEST(WriteFolder, CleansUpAfterACrashButNotAfterTheLiving) {
  const TestFolder folder;
  const fs::path made = folder / "run";
  fs::create_directories(folder / ".run.tmp-999999-0" / "sub");
  fs::create_directories(folder / ".run.tmp-notes");  // not one of ours
  fs::create_directories(folder / ".other.tmp-1-0");  // of another name
  write_folder(made, [&](const fs::path& outer) {
    write_text_file(outer / "x", "outer");
    write_folder(made, [](const fs::path& inner) { write_text_file(inner / "x", "inner"); });
    EXPECT_TRUE(fs::exists(outer / "x"));
  });
  EXPECT_EQ(read_text_file(made / "x"), "outer");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{".other.tmp-1-0", ".run.tmp-notes", "run"}));
}

TEST(WriteFolder, NeverDeletesWhatTheNewFolderLacks) {
  const TestFolder folder;
  const fs::path made = folder / "run";
  const auto fill = [](const fs::path& temporary) { write_text_file(temporary / "x", "new"); };
  fs::create_directory(made);
  write_text_file(made / "thesis.tex", "years");
  EXPECT_USER_ERROR(write_folder(made, fill), "thesis.tex", "would be deleted");
  EXPECT_EQ(read_text_file(made / "thesis.tex"), "years");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"run"});
}

TEST(WriteFolder, RefusesNamesThatCannotBeReplaced) {
  const TestFolder folder;
  const auto fill = [](const fs::path&) { FAIL() << "must not be called"; };
  write_text_file(folder / "file", "x");
  EXPECT_USER_ERROR(write_folder(folder / "file", fill), "file", "a file has this name");
  EXPECT_USER_ERROR(write_folder(folder / "file" / "run", fill), "file", "cannot");
  for (const char* name : {"", "/", ".", ".."}) EXPECT_USER_ERROR(write_folder(name, fill), "cannot write", "replaced");
}

TEST(FolderLock, IsHeldByOneAtATime) {
  const TestFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_USER_ERROR(FolderLock(folder.path()), folder.path().string().c_str(), "another process");
  }
  const FolderLock again(folder.path());
}

TEST(RequireWritableFolder, MakesTheFolderAndLeavesNothingInIt) {
  const TestFolder folder;
  require_writable_folder(folder / "a" / "b");
  EXPECT_TRUE(names_in(folder / "a" / "b").empty());
  write_text_file(folder / "file", "x");
  EXPECT_USER_ERROR(require_writable_folder(folder / "file"), "file", "not a folder");
  EXPECT_USER_ERROR(require_writable_folder("/proc/none"), "/proc/none", "cannot");
}

}  // namespace
}  // namespace draftsmith
