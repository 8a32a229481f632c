// Package logkey defines the keys of the log's fields, and of the attributes of traces, in one place. Each thing has
// one key everywhere, and each key means one thing, so that a search finds all lines about it.
//
// It owns only the names. The guide caddymodule/docs/logs.md lists them in the same words; a test compares them, and
// finds every field in the source that has a different key.
//
// The log contains no secret, no address of a person's machine and no query of a request. The level of a line is:
//
//   - error: people are not served, or files are at risk, until an operator acts.
//   - warn: the product continues by itself, but the line is worth a look.
//   - info: something happened to a workspace, an archive, a user or a leader.
//   - debug: everything else.
package logkey

// What a line is about. These keys connect the lines and traces of several processes.
const (
	Workspace = "workspace" // the id of a workspace
	Operation = "operation" // the operation of the workspace, such as `RESTORING`
	Request   = "uuid"      // the id of the request, as in Caddy's access log (`{http.request.uuid}`)
	Trace     = "traceID"   // the trace, as in Caddy's access log
	OpID      = "op_id"     // the id of an operation with a storage job; the job and the archive are named after it
	User      = "user"      // the id of the user whom the line is about
	Username  = "username"  // the name of that user
	By        = "by"        // the id of the user who requested it
	Through   = "through"   // what acted for that user, such as `gateway` or `ttl`
)

// Workspaces.
const (
	Phase         = "phase"          // the phase of the workspace
	PreviousPhase = "previous_phase" // the phase before
	DesiredState  = "desired_state"  // the requested state
	Reason        = "reason"         // what the workspace waits for, such as `JobQueued`
	Ready         = "ready"          // whether the application answered in the end
	Message       = "message"        // the cause in words
	ErrorReason   = "error_reason"   // why an operation failed, such as `Timeout`
	ErrorCount    = "error_count"    // how many failures in a row
	Action        = "action"         // what the leader does for the operation, such as `restore`
	Choice        = "choice"         // what an administrator chose for the recovery
	Duration      = "duration"       // how long, in seconds
	Now           = "now"            // whether a deletion happens immediately
	Bytes         = "bytes"          // the size of a home, in bytes
	Files         = "files"          // the number of its files
	HomeWarn      = "home_warn"      // the setting of that name, in bytes
	Image         = "image"          // the reference of an image
)

// Archives and the collector.
const (
	ArchiveKey       = "archive_key"       // the key of an archive in the bucket
	Damage           = "damage"            // what is wrong with the archive
	Archives         = "archives"          // how many archives
	ForeignObjects   = "foreign_objects"   // objects in the bucket that are not archives
	Unneeded         = "unneeded"          // archives that no workspace needs
	Due              = "due"               // unneeded archives whose delay has passed
	WithoutWorkspace = "without_workspace" // archives of workspaces that the database does not know
	Newer            = "newer"             // archives that are newer than their workspace
	Deleted          = "deleted"           // archives that were deleted
	Spared           = "spared"            // archives that were due, and were needed again
	Failed           = "failed"            // archives that could not be deleted
	AbortedUploads   = "aborted_uploads"   // old unfinished uploads that were ended
	Holder           = "holder"            // the process that collects at the moment
)

// Processes, leaders and servers.
const (
	Node        = "node"         // the process
	Lock        = "lock"         // the name of the lock for which the processes compete
	Shard       = "shard"        // the part of the workspaces that the process leads
	Shards      = "shards"       // the number of parts
	OtherShards = "other_shards" // the number of parts that other processes lead
	Epoch       = "epoch"        // the number of the leader's term
	Setting     = "setting"      // a setting of the database's connection
	Expected    = "expected"     // the identity of the recorded server
	Found       = "found"        // the identity of the server that answered
	Check       = "check"        // the row of `caddy codehub doctor`
	Problem     = "problem"      // what is wrong
	Remedy      = "remedy"       // what to do about it
	Object      = "object"       // a container, volume or job by its name
	Objects     = "objects"      // how many of them
	Stood       = "stood_before" // whether the firewall rules were there already
	Workspaces  = "workspaces"   // how many workspaces
	Lost        = "lost"         // how many workspaces would have lost their files
	LookedAt    = "looked_at"    // how many were examined
	Used        = "used"         // the share of the disk or of the memory in use
	FreeBytes   = "free_bytes"   // its free space, in bytes
	Stalled     = "stalled"      // the share of the last 10 s in which something waited for memory
	Interval    = "interval"     // the time between two attempts, in seconds
	Outage      = "outage"       // how long an outage took, in seconds
	RouteLease  = "route_lease"  // the setting of that name, in seconds
	Error       = "error"        // the error
	Component   = "component"    // the part of the program that the line is about
	Stack       = "stack"        // where in the program it panicked
)

// Requests and users.
const (
	Client        = "client"         // the kind of client that has sent a request, such as `navigation` or `api`
	Answer        = "answer"         // how the request was answered, such as `proxy` or `wake_page`
	Held          = "held"           // how long the request waited, in seconds
	Method        = "method"         // the method of a request
	Path          = "path"           // the path of a request, without its query
	Status        = "status"         // the status of the answer
	Role          = "role"           // the new role of a user
	Disabled      = "disabled"       // whether a user was disabled
	Password      = "password"       // whether a password was set; never the password
	MaxRunning    = "max_running"    // a user's own limit of running workspaces
	MaxWorkspaces = "max_workspaces" // a user's own limit of workspaces
	Proxy         = "proxy"          // the address of a proxy that is not trusted
)
