#include "common/comm/job.h"
#include "common/train/run/run.h"
#include "lessons/17_elastic/supervisor.h"
#include "lessons/17_elastic/trainer.h"

// mpirun starts ranks; anybody else starts the supervisor, which starts mpirun.
int main(int argc, char** argv) {
  return ladder::Job::is_launched() ? ladder::run<ladder::ElasticTrainer>(argc, argv)
                                    : ladder::supervise(argc, argv);
}
