// Compiled by Bazel whenever it links a program that is handed to users (`linkstamp` in BUILD),
// with the revision that tools/bazel/workspace_status has named. A program is not linked again
// if only the revision has changed.
namespace ladder {

extern const char kLinkedRevision[];
const char kLinkedRevision[] = BUILD_SCM_REVISION;

}  // namespace ladder
