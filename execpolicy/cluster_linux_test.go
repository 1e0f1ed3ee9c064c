package execpolicy_test

import (
	"maps"
	"slices"
	"testing"
)

// clusterSuites are tests of this package whose sessions are a cluster's as well. The
// others need an engine's client, a directory of this machine that is mounted, or a field
// that only a DockerPolicy has.
var clusterSuites = map[string]func(*testing.T){
	"Conformance":                          TestConformance,
	"ConformanceOfSessions":                TestConformanceOfSessions,
	"Files":                                TestFiles,
	"LargeFile":                            TestLargeFile,
	"Trees":                                TestTrees,
	"Directories":                          TestDirectories,
	"ErrorsOfFiles":                        TestErrorsOfFiles,
	"Approve":                              TestApprove,
	"ApproveAndWhatIsNotACommand":          TestApproveAndWhatIsNotACommand,
	"ApproveTakesItsTime":                  TestApproveTakesItsTime,
	"ApproveInTurn":                        TestApproveInTurn,
	"ApproveThatDoesNotReturn":             TestApproveThatDoesNotReturn,
	"ApproveUsesSessions":                  TestApproveUsesSessions,
	"ApproveWhileTheContainerEnds":         TestApproveWhileTheContainerEnds,
	"Filter":                               TestFilter,
	"FilterBlocks":                         TestFilterBlocks,
	"FilterThatFails":                      TestFilterThatFails,
	"FilterOfScripts":                      TestFilterOfScripts,
	"FilterBeforeAWriterThatIsStuck":       TestFilterBeforeAWriterThatIsStuck,
	"JobEnds":                              TestJobEnds,
	"JobBesideCommands":                    TestJobBesideCommands,
	"JobIsKilled":                          TestJobIsKilled,
	"JobSurvivesCommand":                   TestJobSurvivesCommand,
	"JobEndsWithSession":                   TestJobEndsWithSession,
	"ManyJobs":                             TestManyJobs,
	"HostileJobs":                          TestHostileJobs,
	"JobHooks":                             TestJobHooks,
	"JobSignal":                            TestJobSignal,
	"JobOutputIsBlocked":                   TestJobOutputIsBlocked,
	"JobStdinFails":                        TestJobStdinFails,
	"JobServesCommands":                    TestJobServesCommands,
	"JobsExpire":                           TestJobsExpire,
	"RestartWithJobs":                      TestRestartWithJobs,
	"CauseOfTheEndOfAJob":                  TestCauseOfTheEndOfAJob,
	"StoppedJobsAndCommands":               TestStoppedJobsAndCommands,
	"ReadFileCutOff":                       TestReadFileCutOff,
	"CopyFSOfAFileThatIsNotWhatItSays":     TestCopyFSOfAFileThatIsNotWhatItSays,
	"DirectoriesAreRecorded":               TestDirectoriesAreRecorded,
	"WriteFilesOnAFullDisk":                TestWriteFilesOnAFullDisk,
	"IdleIsTakenOnce":                      TestIdleIsTakenOnce,
	"IdleClose":                            TestIdleClose,
	"IdleTakeFails":                        TestIdleTakeFails,
	"SpecLimits":                           TestSpecLimits,
	"CommandsRunInTheOrderInWhichTheyCame": TestCommandsRunInTheOrderInWhichTheyCame,
	"RestartHasItsTurn":                    TestRestartHasItsTurn,
	"EverythingAtTheSameTime":              TestEverythingAtTheSameTime,
	"Evidence":                             TestEvidence,
	"EveryEnding":                          TestEveryEnding,
	"EvidenceUnderAFlood":                  TestEvidenceUnderAFlood,
	"CauseOfACancel":                       TestCauseOfACancel,
	"Request":                              TestRequest,
	"RequestStdin":                         TestRequestStdin,
	"StdinOfCommandsThatNeverRan":          TestStdinOfCommandsThatNeverRan,
	"PermissionsUnderAnAccessList":         TestPermissionsUnderAnAccessList,
	"ProgramAtTheProcessLimit":             TestProgramAtTheProcessLimit,
	"Audit":                                TestAudit,
	"Secrets":                              TestSecrets,
	"SecretsQuoted":                        TestSecretsQuoted,
	"SecretsOfCommands":                    TestSecretsOfCommands,
	"SecretsInMuchOutput":                  TestSecretsInMuchOutput,
	"SecretsAndHooks":                      TestSecretsAndHooks,
	"SecretsThatAreLookedUp":               TestSecretsThatAreLookedUp,
	"WrappedPolicyRefusesCode":             TestWrappedPolicyRefusesCode,
}

// The suites of sessions, in pods.
func TestClusterSuites(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(clusterSuites)) {
		t.Run(name, clusterSuites[name])
	}
}
