// A cluster of tools/cluster, for a test whose ranks run on several machines.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "tests/system/mpirun.h"

namespace ladder {

// tools/cluster with these arguments, as a command that concerns a cluster of this test process.
Flags cluster_command(const Flags& arguments);

// True where this system lets the user make a cluster, with `more` flags of tools/cluster up; where
// it does not, the test's output says that it was skipped, and why.
bool clusters_are_possible(const Flags& more = {});

// A Cluster has nodes node1, node2, ... until the object goes, or the test process ends in any way.
class Cluster {
 public:
  // Fails the test if the cluster cannot be made. REQUIRES: clusters_are_possible(more).
  explicit Cluster(size_t num_nodes, const Flags& more = {});
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Runs a program and its flags under tools/mpirun with `where`, such as {"--hosts", "node1:2"}.
  ProcessResult run(const Flags& where, const Flags& argv, ProcessOptions options = {}) const;
  // Runs a shell's command on a node, or on the head, and returns what it printed. Fails the test
  // unless its status is 0.
  std::string shell(const std::string& node, const std::string& command) const;
  // Takes a node from the network, or puts it back.
  void cut(const std::string& node) const;
  void mend(const std::string& node) const;

  // Fails the test unless within a few seconds no process of a run and no file of one is left on
  // any node.
  void check_clean() const;

 private:
  // What is in the nodes' own folders and runs there, in words.
  std::string leftovers() const;

  size_t num_nodes_;
  std::string first_files_;  // before there was a run
};

}  // namespace ladder
