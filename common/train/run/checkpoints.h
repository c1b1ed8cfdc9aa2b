// The checkpoints of a run: when they are written, and the one that it resumes from.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "common/checkpoint/folder.h"
#include "common/checkpoint/reader.h"
#include "common/checkpoint/writer.h"
#include "common/comm/job.h"
#include "common/data/tokenizer.h"
#include "common/train/program/prediction.h"

namespace ladder {

class Checkpoints {
 public:
  // Locks the folder of --checkpoint and finds the newest checkpoint if the run resumes. Throws a
  // UserError that names the flag if the folder cannot be used, if it has checkpoints and the run
  // does not resume, or if the newest one is damaged, of another model, or of a step beyond the
  // last. What is not known of the vocabulary, and the checkpoint knows, is added. Collective over
  // the job's ranks. The arguments outlive this object.
  Checkpoints(const RunConfig& config, const ProcessGrid& grid, Job& job, const LessonInfo& lesson,
              const Corpus& corpus, Vocabulary& vocabulary);
  // Stops writing. A checkpoint that is not complete never becomes visible.
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Returns the step that the run resumes after; 0 if it begins from the beginning.
  int64_t resumed_step() const { return resumed_step_; }
  // Returns lines for the header: the checkpoint, and what is different from the run that wrote it.
  std::string notes() const { return notes_; }
  // Returns the paths of the curves of a run that began here and has left no checkpoint. On rank 0.
  std::set<std::string> begun() const {
    return folder_ ? folder_->begun() : std::set<std::string>();
  }
  // Returns the mark of the run that goes on here; "" if its checkpoint has none. On rank 0.
  const std::string& run() const { return run_; }
  // Gives the trainer the state of the checkpoint. REQUIRES: resumed_step() > 0; it is called once.
  void restore(Trainer& trainer);
  // Allocates what writing needs, and notes which curves begin. Called once, before the first step.
  void prepare(Memory& host_memory, Stream& stream, Trainer& trainer);
  // Writes a checkpoint if one is due after this step, or `is_due` says so. Unless
  // --checkpoint-async is given it is there when this returns. Throws an Error if it, or the one
  // before, could not be written. Collective if one is due.
  void after_step(int64_t step, Trainer& trainer, bool is_due = false);
  // Waits until all checkpoints are there. Collective.
  void finish();

 private:
  // How long what one machine has written may take to appear on another, in seconds: shared file
  // systems may be late.
  static constexpr double kLateSeconds = 30;

  // Throws a UserError on all ranks that names a machine unless one rank of every machine can write
  // into rank 0's hidden folder, whose name no other folder has. So a folder of the same name on a
  // machine's own disk is found out. Collective. (These two are in shared_folder.cc.)
  void require_shared_folder() const;
  // Waits for a file system that is late. Returns 0, or the number of the error if this rank
  // cannot.
  int try_to_write() const;
  void find_newest(Vocabulary& vocabulary);
  void compare(const CheckpointIndex& index);
  // Adds a line to the notes for each setting that the index does not have, or has otherwise.
  void note_changed_settings(const CheckpointIndex& index);
  void note_changed(const std::string& what, const std::string& now, const std::string& then,
                    const char* because);
  void save(int64_t step, Trainer& trainer);
  void write(const CheckpointIndex& index, const std::vector<NamedSlice>& slices,
             const ToHost& to_host);
  void publish(const CheckpointIndex& index);
  void barrier();

  const RunConfig& config_;
  const ProcessGrid& grid_;
  Job& job_;
  std::string lesson_;
  std::map<std::string, std::string> settings_;
  std::string unfinished_;  // where checkpoints are until they are complete, the same on all ranks
  std::optional<CheckpointFolder> folder_;  // on rank 0
  std::optional<CheckpointReader> resumed_;
  int64_t resumed_step_ = 0;
  std::string run_, notes_;
  Tensor buffer_;
  Stream* stream_ = nullptr;

  std::thread writer_;  // with --checkpoint-async
  std::atomic<bool> stopped_ = false, writing_ = false, all_ranks_done_ = false;
  std::exception_ptr error_;
};

}  // namespace ladder
