// Checkpoints against the disk: bazel run -c opt //common/checkpoint:benchmark -- --folder /tmp/b
//
// Each round writes and reads, one after the other, a checkpoint of one rank, and as many bytes by
// plain write, fsync and read, in calls of the same size. Printed: medians over the rounds, of
// seconds and of ratios within one round, so that what else the machine does in the meantime
// strikes both alike. Before it is read a file is dropped from the system's cache, so that it comes
// from the disk; with --cached it comes from the cache.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/reader.h"
#include "common/checkpoint/writer.h"
#include "common/io/version.h"
#include "kernels/runtime/clock.h"
#include "kernels/runtime/median.h"

namespace ladder {
namespace {

// The state of a model that one rank has, and a checkpoint of it.
class Contest {
 public:
  Contest(const std::string& model, const std::string& folder)
      : model_(find_preset(model).config), layout_(model_, 1), path_(folder), folder_(folder) {
    for (std::vector<float>& buffer : buffers_) {
      buffer.resize(layout_.num_elements());
      std::iota(buffer.begin(), buffer.end(), 0.0f);
    }
    slices_ = stored_slices([&](std::string_view kind) {
      const size_t index = kind == kParam ? 0 : kind == kExpAvg ? 1 : 2;
      return owned_slices(layout_, 0,
                          TensorView(buffers_[index].data(), DType::fp32, DeviceType::cpu,
                                     {buffers_[index].size()}));
    });
    for (const auto& [name, slice] : slices_) bytes_ += slice.view.num_bytes();
  }

  size_t bytes() const { return bytes_; }

  void write() {
    const std::string partial = folder_.begin(1);
    write_rank_files(partial, 0, slices_, [](const NamedSlice& part) { return part.slice.view; });
    CheckpointIndex index;
    index.model = model_;
    index.scalars = {{"step", int64_t{1}}, {"updates", int64_t{1}}};
    write_index(partial, index);
    folder_.publish(1);
  }
  void read() {
    CheckpointReader reader(checkpoint_path(path_, 1));
    for (const auto& [name, slice] : slices_) {
      reader.read(name, {slice.parameter->ranges, slice.first, slice.view.num_elements()},
                  slice.view);
    }
  }
  void write_plainly() {
    const Descriptor file(open(plain().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666));
    for_file_blocks([&](TensorView file_block) {
      check(file.write_all(
                {static_cast<const std::byte*>(file_block.data()), file_block.num_bytes()}),
            "write failed");
    });
    check(fsync(file.number()) == 0, "fsync failed");
  }
  void read_plainly() {
    const Descriptor file(open(plain().c_str(), O_RDONLY));
    for_file_blocks([&](TensorView file_block) {
      const ssize_t count = ::read(file.number(), file_block.data(), file_block.num_bytes());
      check(count == static_cast<ssize_t>(file_block.num_bytes()), "read failed");
    });
  }
  // Drops what has been written from the system's cache.
  void drop() const {
    for (const std::string& path :
         {plain(), concat(checkpoint_path(path_, 1), "/", rank_file_name(0))}) {
      const Descriptor file(open(path.c_str(), O_RDONLY));
      posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }
  void remove() {
    folder_.remove_all_but(0);
    std::remove(plain().c_str());
    sync();
  }

 private:
  std::string plain() const { return path_ + "/plain"; }
  void for_file_blocks(const std::function<void(TensorView)>& body) {
    for (const auto& [name, slice] : slices_) {
      const size_t n = slice.view.num_elements(), file_block = file_block_elements(DType::fp32);
      for (size_t first = 0; first < n; first += file_block) {
        body(slice.view.rows(first, std::min(file_block, n - first)));
      }
    }
  }

  ModelConfig model_;
  Layout layout_;
  std::string path_;
  CheckpointFolder folder_;
  std::vector<float> buffers_[3];
  std::vector<NamedSlice> slices_;
  size_t bytes_ = 0;
};

double seconds_of(const std::function<void()>& body) {
  const Time begin = Clock::now();
  body();
  return seconds_since(begin);
}

void print_row(const char* name, const std::vector<double>& ours, const std::vector<double>& plain,
               size_t bytes) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / plain[i]);
  std::printf("%-6s %10.3f %10.3f %10.2f %12.2f\n", name, median(ours), median(plain),
              static_cast<double>(bytes) / 1e9 / median(ours), median(ratios));
}

void run(const std::string& model, const std::string& folder, size_t rounds, bool cached) {
  Contest contest(model, folder);
  std::vector<double> written, written_plainly, read, read_plainly;
  for (size_t round = 0; round <= rounds; ++round) {
    // Who is first takes turns: the disk may still be busy with what the other has left.
    const auto take_turns = [&](const std::function<void()>& ours,
                                const std::function<void()>& plain) {
      double ours_seconds = round % 2 == 0 ? seconds_of(ours) : 0;
      const double plain_seconds = seconds_of(plain);
      if (round % 2 == 1) ours_seconds = seconds_of(ours);
      return std::pair(ours_seconds, plain_seconds);
    };
    const auto [ours, plain] =
        take_turns([&] { contest.write(); }, [&] { contest.write_plainly(); });
    if (!cached) contest.drop();
    const auto [ours_read, plain_read] =
        take_turns([&] { contest.read(); }, [&] { contest.read_plainly(); });
    contest.remove();
    if (round == 0) continue;  // touches the memory
    written.push_back(ours);
    written_plainly.push_back(plain);
    read.push_back(ours_read);
    read_plainly.push_back(plain_read);
  }
  std::printf("%s, %zu bytes\n%-6s %10s %10s %10s %12s\n", model.c_str(), contest.bytes(), "",
              "ours s", "plain s", "GB/s", "ours/plain");
  print_row("write", written, written_plainly, contest.bytes());
  print_row("read", read, read_plainly, contest.bytes());
}

}  // namespace
}  // namespace ladder

int main(int argc, char** argv) {
  std::string model = "gpt2", folder;
  size_t rounds = 5;
  bool cached = false;
  CLI::App app("Times checkpoints against plain writes and reads of the same bytes.");
  app.add_option("--model", model, "Preset [gpt2]");
  app.add_option("--folder", folder, "A folder on the disk to measure; it is emptied")->required();
  app.add_option("--rounds", rounds, "[5]");
  app.add_flag("--cached", cached, "Read from the system's cache, not from the disk");
  ladder::add_version_flag(app);
  CLI11_PARSE(app, argc, argv);
  try {
    ladder::run(model, folder, rounds, cached);
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
