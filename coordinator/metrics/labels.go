package metrics

import (
	"strconv"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/version"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// The values of a label are listed here if they have no type in another package. If they have a type of this package,
// they are in the order of the type's constants. If [other] is a value, it is the last one.
var (
	// These labels identify the program, so each has one value.
	release  = Label{"version", []string{contract.Release}}
	revision = Label{"revision", []string{version.Revision()}}

	clients = Label{"client", []string{"program", "navigation", "self_navigation", "subresource"}}

	outcomes = Label{"outcome", []string{"proxied", "wake_page", "sign_in", "redirected", "refused", "client_gone"}}

	refusalReasons = Label{"reason", []string{
		"asleep", "bad_body", "bad_gateway", "bad_token", "cross_origin", "failed", "limit", "misdirected", "no_listener", "not_found",
		"not_woken", "other_host", "outdated", "over_share", "overload", "scope_missing", "starting", "stopping",
		"timeout", "too_early", "unauthorized", "unchecked", "unconfirmed", "unpublished", "unreachable",
	}}

	signals = Label{"signal", []string{"navigation", "program", "page", "transfer", "message", "input", "command"}}

	stages   = Label{"stage", []string{"waiting", "restoring", "pulling", "starting", "answering"}}
	wakeEnds = Label{"outcome", []string{"ready", "failed", "refused", "given_up", "stopped"}}
	wokenIn  = Label{"from", texts(workspace.PhasePending, workspace.PhaseArchived, workspace.PhaseStandby,
		workspace.PhaseRunning, other)}

	phases = Label{"phase", texts(workspace.PhasePending, workspace.PhaseArchived, workspace.PhaseStandby,
		workspace.PhaseRunning, workspace.PhaseError, workspace.PhaseDeleting, other)}

	desiredStates = Label{"desired_state", texts(workspace.DesiredArchived, workspace.DesiredStandby,
		workspace.DesiredRunning, workspace.DesiredDeleted)}
	causes = Label{"cause", texts(audit.Idle, audit.Busy, audit.Disk, audit.Memory, audit.API, audit.Gateway, audit.CLI, other)}

	operations = Label{"operation", texts(workspace.OpCreateEmptyArchive, workspace.OpProvisioning, workspace.OpRestoring,
		workspace.OpStarting, workspace.OpStopping, workspace.OpArchiving, workspace.OpDeleting, other)}
	operationEnds = Label{"outcome", []string{"succeeded", "failed", "postponed"}}

	waits = Label{"reason", []string{
		workspace.WaitStoreAway, workspace.WaitStoreRefuses, workspace.WaitBucketMismatch, workspace.WaitBackendAway,
		workspace.WaitBackendMismatch, workspace.WaitArchiveFailed, workspace.WaitDeletionFailed,
		workspace.WaitKeptUntilDeleted, workspace.WaitKeptUntilGivenUp, workspace.WaitPullingImage,
		workspace.WaitUnhealthy, workspace.WaitNotAnswering, workspace.WaitUnschedulable, workspace.WaitVolume, workspace.WaitQuota,
		workspace.WaitNodeLost, workspace.WaitTerminating, workspace.WaitEvicted, workspace.WaitContainer,
		workspace.WaitPaused, workspace.WaitDiskPressure, workspace.WaitJobQueue, workspace.WaitArchiveLocked,
		workspace.WaitJobImage, workspace.WaitEgressRules, workspace.WaitConflict, workspace.WaitInternalError, other,
	}}
	errorReasons = Label{"reason", texts(workspace.ReasonTimeout, workspace.ReasonRetryExceeded,
		workspace.ReasonActionFailed, workspace.ReasonDataLost, workspace.ReasonUnreachable,
		workspace.ReasonImagePullFailed, workspace.ReasonContainerWithoutVolume, workspace.ReasonArchiveCorrupted,
		workspace.ReasonConflict, other)}

	scopes  = Label{"scope", []string{"requested", "transitional", "everything"}}
	sensors = Label{"sensor", []string{"database", "containers", "volumes", "jobs", "object_store"}}
	actions = Label{"action", []string{
		"provision", "start", "delete_container", "archive", "restore", "create_empty_archive", "drop_archived_volume",
		"drop_stale_volume", "delete_volume", "delete_jobs", "freeze", "thaw", other,
	}}
	queues = Label{"queue", []string{"calls", "removals"}}
	turns  = Label{"state", []string{"running", "waiting"}}

	failed = Label{"scope", guard.Scopes[:]}

	components = Label{"component", []string{"activity", "census", "gc", "memory", "prepull", "scrub", "ttl"}}

	s3Operations = Label{"operation", []string{
		"HeadBucket", "CreateBucket", "HeadObject", "GetObject", "PutObject", "DeleteObject", "DeleteObjects",
		"ListObjectsV2", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload", "AbortMultipartUpload",
		"ListMultipartUploads", "ListParts", other,
	}}
	s3Outcomes = Label{"outcome", []string{"succeeded", "not_found", "client_error", "server_error", "no_answer"}}
	directions = Label{"direction", []string{"sent", "received"}}

	collected = Label{"result", []string{"deleted", "spared", "failed"}}
	found     = Label{"state", []string{"all", "orphaned", "due", "unknown", "newer"}}
	readBack  = Label{"result", []string{"whole", "damaged", "missing", "unreadable"}}

	connections = Label{"state", []string{"in_use", "idle"}}
	marks       = Label{"mark", []string{"archive_at", "stop_at"}}
	shards      = Label{"shard", numbers(64)} // leader.MaxShards
)

func texts[T ~string](values ...T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// numbers are the numbers below n.
func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i)
	}
	return out
}
