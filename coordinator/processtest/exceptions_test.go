package processtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// exception says why no scenario reaches a function, and which test covers the function instead. A test is named by its
// folder below coordinator and its function.
type exception struct{ why, proof string }

// check fails the test unless the named test exists.
func (e exception) check(t *testing.T, of string) {
	t.Helper()
	folder, name, _ := strings.Cut(e.proof, " ")
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// A suite of tests that several packages share is not in a file named _test.go.
		if !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(folder, "test") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name && strings.HasPrefix(strings.ToLower(name), "test") {
				return
			}
		}
	}
	t.Errorf("%s is an exception because %s, but there is no test %q that proves it", of, e.why, e.proof)
}

// The reasons why no scenario reaches a function.
const (
	byPeople    = "a request of a person or a command, in one statement or transaction: no process does it again"
	byRefusal   = "something was refused, so nothing has changed; one statement"
	bySessions  = "signing in concerns no workspace, and is one statement or transaction"
	byAdoption  = "needs a server that is another one than recorded"
	byRace      = "needs two processes in the same call at the same time"
	byHand      = "needs something that is left behind, made or changed past this system"
	byRegistry  = "needs a registry, and a pull that is repeated is harmless"
	byCommand   = "runs a person's command in the person's own container, and changes nothing of this system"
	byImage     = "runs a command of the image's that changes nothing of this system"
	byRules     = "needs firewall rules, which the engine of the scenarios does not make; they are made all at once, and again when in doubt"
	byHelper    = "removes what a helper of a process that has died has left for some minutes"
	byEnding    = "asks the programs of a container to end, which is removed next, asked or not"
	byLayers    = "makes the image without the volumes of another one, which has no name, and which the next start makes again if it is gone"
	byImages    = "gives an empty home to the image's user before the container runs, and again with every start"
	byMeasure   = "writes how large a home is, in one statement; the next measurement writes it again"
	byDoctor    = "tries on a person's command what the engine can do, with an object of its own that is removed at once"
	byProbe     = "tries whether a cluster enforces policies, with objects of its own that it or the cluster removes"
	byPages     = "a page says how it is used, in one statement that only concerns counting; the next page says it again"
	byCheck     = "tries at the start what the store can do, with an object of its own that this check or the next one removes"
	byNeighbour = "needs a container of another installation at an address of the workspaces"
	byDryRun    = "asks with dryRun, which changes nothing"
	byGrowth    = "asks for a larger home after a change of that setting, in one request that is made again until it is"
	byRows      = "needs thousands of changes since the last count, whose rows it adds up in one statement; the next count does it again"
	byMemory    = "needs a host that is short of memory; one statement, which the next look makes again"
	bySettings  = "removes a Pod that waits for a node after a change of the settings, at this version only; the next look does it again"
	byEngine    = "a cluster cannot freeze a container, so nothing dozes there"
	byCluster   = "a cluster gives addresses to its Pods itself"
	byStop      = "the orderly end of a process, and harmless when it does not happen"
	byMigration = "part of the text of each migration, and of its transaction; the scenarios' database has the newest schema"
)

// exceptions are the functions that no scenario reaches, each with the reason and the test that covers it.
var exceptions = map[string]exception{
	"archive.(*checking).put PutObject":                {byCheck, "archive TestTheCheckRemovesWhatAKilledOneLeft"},
	"archive.(*checking).upload AbortMultipartUpload":  {byCheck, "archive TestTheCheckTellsFailuresApart"},
	"archive.(*checking).upload CreateMultipartUpload": {byCheck, "archive TestTheCheckTellsFailuresApart"},
	"archive.(*checking).upload UploadPart":            {byCheck, "archive TestTheCheckTellsFailuresApart"},
	"archive.(*checking).uploads AbortMultipartUpload": {byCheck, "archive TestTheCheckRemovesWhatAKilledOneLeft"},
	"store.(*Store).AcceptIdentity SQL":                {byPeople, "store TestOnlyWhatIsFoundNowCanBeAccepted"},
	"store.(*Store).Adopt SQL":                         {byPeople, "../caddymodule/internal/command/verify TestVerifyAndAdopt"},
	"store.(*Store).Count SQL":                         {byRows, "store TestTheCensusReadsKindsAndNotWorkspaces"},
	"store.(*Store).Create SQL":                        {byPeople, "dataplane/service TestCreate"},
	"store.(*Store).Delete SQL":                        {byPeople, "dataplane/service TestDelete"},
	"store.(*Store).DropAddress SQL":                   {byNeighbour, "control/reconcile TestAnAddressThatSomethingElseHas"},
	"store.(*Store).FoundIdentity SQL":                 {byAdoption, "identity TestAnotherEngineIsRefusedUntilTheRightOneIsBack"},
	"store.(*Store).RetryPull SQL":                     {byPeople, "dataplane/service TestTheOwnerHasAnImagePulledAgain"},
	"store.(*Store).SleepForMemory SQL":                {byMemory, "control/scarcity TestTheLongestDozingSleepFirst"},
	"store.(*Store).keepAwake SQL":                     {byPeople, "control/ttl TestAWorkspaceThatIsKeptAwakeIsNotAskedAndDoesNotSleep"},
	"store.(*Store).Recover SQL":                       {byPeople, "store TestRecoverClearsTheErrorThatWasJudgedAndNoOther"},
	"store.(*Store).Revert SQL":                        {byPeople, "store TestRevertIsWrittenWhereItCanBeCarriedOut"},
	"store.(*Store).SaveHome SQL":                      {byMeasure, "control/reconcile TestASaveKeepsAMeasurement"},
	"store.(*Store).RequestScrub SQL":                  {byPeople, "control/scrub TestAnAdministratorHasAllArchivesRead"},
	"store.(*Store).SetPageActivity SQL":               {byPages, "store TestThePageActivityIsWrittenOnce"},
	"store.(*Store).Undelete SQL":                      {byPeople, "store TestUndeleteIsPossibleUntilTheCollection"},
	"store.(*Store).Update SQL":                        {byPeople, "dataplane/service TestUpdateChangesOnlyTheGivenFields"},
	"store/auditlog.(*Log).Refused SQL":                {byRefusal, "dataplane/auth TestFailedSignInsAreInTheAudit"},
	"store/auditlog.(*Log).WriteIf SQL":                {byPeople, "store/auditlog TestWrite"},
	"store/accounts.(*Store).AddExternalSession SQL":   {bySessions, "dataplane/auth TestAProviderEndsItsSessions"},
	"store/accounts.(*Store).AddIdentity SQL":          {bySessions, "../caddymodule TestSignInThroughAProvider"},
	"store/accounts.(*Store).AddSession SQL":           {bySessions, "dataplane/auth TestLoginAndLogout"},
	"store/accounts.(*Store).AddTicket SQL":            {bySessions, "dataplane/auth TestTicketsAreOneTimeAndForOneWorkspace"},
	"store/accounts.(*Store).AddToken SQL":             {bySessions, "dataplane/auth TestAnAccessToken"},
	"store/accounts.(*Store).AddUser SQL":              {byPeople, "dataplane/auth TestUsers"},
	"store/accounts.(*Store).EditUser SQL":             {byPeople, "dataplane/auth TestPasswordChangesEndSessions"},
	"store/accounts.(*Store).ClearSignIn SQL":          {bySessions, "dataplane/auth TestASuccessClearsTheAccountAndNotTheAddress"},
	"store/accounts.(*Store).CountSignIn SQL":          {bySessions, "dataplane/auth TestManyGuessesAtOnceAreNotOne"},
	"store/accounts.(*Store).EndExternalSessions SQL":  {bySessions, "dataplane/auth TestAProviderEndsItsSessions"},
	"store/accounts.(*Store).EndSession SQL":           {bySessions, "dataplane/auth TestLoginAndLogout"},
	"store/accounts.(*Store).EndSessionsOf SQL":        {bySessions, "dataplane/auth TestSessionsAreListedAndEnded"},
	"store/accounts.(*Store).EndToken SQL":             {bySessions, "dataplane/auth TestWhatEndsAccessTokens"},
	"store/accounts.(*Store).OpenNamedSession SQL":     {bySessions, "dataplane/auth TestAUserWhomAnotherAuthenticationNames"},
	"store/accounts.(*Store).RedeemTicket SQL":         {bySessions, "dataplane/auth TestATicketIsRedeemedOnceHoweverManyTry"},
	"store/accounts.(*Store).ReplaceHash SQL":          {bySessions, "dataplane/auth TestAnOutdatedHashIsRenewedAtLogin"},
	"store/accounts.(*Store).SetRole SQL":              {bySessions, "../caddymodule TestSignInThroughAProvider"},
	"store/accounts.(*Store).TouchSession SQL":         {bySessions, "dataplane/auth TestSessionsAreListedAndEnded"},
	"store/accounts.(*Store).Unlock SQL":               {byPeople, "dataplane/auth TestUnlock"},
	"store/postgres.(*DB).WriterGone SQL":              {byStop, "store/postgres TestWritersTellWhenTheyHaveWrittenAndWhenTheyWillAgain"},
	"store/postgres.record SQL":                        {byMigration, "store/postgres TestEveryTextOfAMigrationGivesOneSchema"},

	"backend/docker.(*Docker).Remove NetworkRemove":                             {byHand, "backend/docker TestSurplusNetwork"},
	"backend/docker.(*Docker).checkNoJob ContainerRemove":                       {byRace, "backend/backendtest testStartAgainstJob"},
	"backend/docker.(*Docker).removeScratch VolumeRemove":                       {byHand, "backend/docker TestScratchWithoutItsJob"},
	"backend/docker/internal/network.(*Network).remove NetworkRemove":           {byRace, "backend/docker TestNetworkRace"},
	"backend/docker/doctor.(*Doctor).DiskLimit ContainerCreate":                 {byDoctor, "backend/docker TestDiskLimitsRefused"},
	"backend/docker/doctor.(*Doctor).DiskLimit ContainerRemove":                 {byDoctor, "backend/docker TestDiskLimitsRefused"},
	"backend/docker/doctor.(*Doctor).Freezes ContainerCreate":                   {byDoctor, "backend/docker TestTheDoctorTriesToFreeze"},
	"backend/docker/doctor.(*Doctor).Freezes ContainerPause":                    {byDoctor, "backend/docker TestTheDoctorTriesToFreeze"},
	"backend/docker/doctor.(*Doctor).Freezes ContainerRemove":                   {byDoctor, "backend/docker TestTheDoctorTriesToFreeze"},
	"backend/docker/doctor.(*Doctor).Freezes ContainerStart":                    {byDoctor, "backend/docker TestTheDoctorTriesToFreeze"},
	"backend/docker/doctor.(*Doctor).Freezes ContainerUnpause":                  {byDoctor, "backend/docker TestTheDoctorTriesToFreeze"},
	"backend/docker/doctor.(*Doctor).Freezes CopyToContainer":                   {byDoctor, "backend/docker TestTheDoctorTriesToFreeze"},
	"backend/docker/doctor.(*Doctor).HomeLimit VolumeCreate":                    {byDoctor, "backend/docker TestDiskLimitsRefused"},
	"backend/docker.(*Docker).exec ContainerExecAttach":                         {byCommand, "backend/backendtest testExec"},
	"backend/docker.(*Docker).exec ContainerExecCreate":                         {byCommand, "backend/backendtest testExec"},
	"backend/docker.(*Docker).resize ContainerExecResize":                       {byCommand, "backend/backendtest testTerminal"},
	"backend/docker/doctor.(*Doctor).HomeLimit VolumeRemove":                    {byDoctor, "backend/docker TestDiskLimitsRefused"},
	"backend/docker/internal/network.decision.forget VolumeRemove":              {byPeople, "backend/docker TestEgress"},
	"backend/docker/internal/network.decision.make VolumeCreate":                {byRules, "backend/docker TestAutoDecidesOnce"},
	"backend/docker/internal/image.Helper.removeAbandoned ContainerRemove":      {byHelper, "backend/docker TestAbandonedHelper"},
	"backend/docker/internal/home.(*Volumes).putFolder CopyToContainer":         {byImages, "backend/docker TestHomeOwner"},
	"backend/docker/internal/image.(*Store).withoutVolumes ImageLoad":           {byLayers, "backend/docker TestImageWithoutVolumesIsPruned"},
	"backend/docker/internal/image.(*Store).removeAbandoned ImageRemove":        {byLayers, "backend/docker TestImagesWithoutVolumesAreRemoved"},
	"backend/docker/internal/ending.Ender.endOtherSessions ContainerExecAttach": {byEnding, "backend/docker TestAskedToEnd"},
	"backend/docker/internal/image.(*Store).Pull ImagePull":                     {byRegistry, "backend/docker TestPullIsInterrupted"},
	"backend/docker/internal/sampler.(*Sampler).askImage ContainerExecCreate":   {byImage, "backend/docker TestTheCommandOfAnImage"},
	"backend/docker/internal/sampler.(*Sampler).askImage ContainerExecStart":    {byImage, "backend/docker TestTheCommandOfAnImage"},

	"backend/kubernetes.(*Backend).grow Patch":             {byGrowth, "backend/kubernetes TestHomesGrow"},
	"backend/kubernetes.(*Backend).removeUnstarted Delete": {byRace, "backend/kubernetes TestInterrupted"},
	"backend/kubernetes.(*Backend).removeUnrun Delete":     {bySettings, "backend/kubernetes TestCorrectedSettingsReachAPodThatWaits"},
	"backend/kubernetes/enforcement.Probe.Enforced Create": {byProbe, "backend/kubernetes TestDoctor"},
	"backend/kubernetes/enforcement.Probe.Enforced Patch":  {byProbe, "backend/kubernetes TestDoctor"},
	"backend/kubernetes/enforcement.Probe.remove Delete":   {byProbe, "backend/kubernetes TestDoctor"},
	"backend/kubernetes/doctor.(*Doctor).Homes Patch":      {byDryRun, "backend/kubernetes TestHomesGrow"},
	"backend/kubernetes/doctor.(*Doctor).refused Create":   {byDryRun, "backend/kubernetes TestDoctor"},
	"backend/kubernetes.(*Backend).whyNoPod Create":        {byDryRun, "backend/kubernetes TestQuota"},
}

// exceptionsOnKubernetes are the functions that only a run on Kubernetes does not reach.
var exceptionsOnKubernetes = map[string]exception{
	"store.(*Store).Doze SQL":           {byEngine, "store TestWhatDozes"},
	"store.(*Store).EndUnmadeDozes SQL": {byEngine, "store TestDozesThatWereNotMade"},
	"store.(*Store).TakeAddress SQL":    {byCluster, "store TestTakeAddress"},
	"store.Limited.endEach SQL":         {byEngine, "store TestNothingTakesAPlaceBeyondTheLimits"},
}
