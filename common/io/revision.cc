// Compiled by Bazel whenever it links a program that is handed to users (`linkstamp` in BUILD),
// with the revision that tools/bazel/workspace_status has named. A program is not linked again
// because the revision alone is another.
namespace ladder {

extern const char kLinkedRevision[];
const char kLinkedRevision[] = BUILD_SCM_REVISION;

}  // namespace ladder
