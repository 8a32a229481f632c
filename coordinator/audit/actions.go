package audit

import "strings"

// Action is a kind of change. The part before the dot is the kind of object.
type Action string

// The actions. WorkspaceOpen is a request that woke a workspace; WorkspaceStart is an explicit command.
const (
	WorkspaceCreate    Action = "workspace.create"
	WorkspaceEdit      Action = "workspace.edit"
	WorkspaceOpen      Action = "workspace.open"
	WorkspaceStart     Action = "workspace.start"
	WorkspaceSleep     Action = "workspace.sleep"
	WorkspaceArchive   Action = "workspace.archive"
	WorkspaceKeepAwake Action = "workspace.keep_awake"
	WorkspaceDelete    Action = "workspace.delete"
	WorkspaceUndelete  Action = "workspace.undelete"
	WorkspaceRecover   Action = "workspace.recover"
	WorkspaceRestore   Action = "workspace.restore"
	// WorkspaceExec is written before the command begins. It has only the base name of the program, because arguments
	// and output may contain secrets.
	WorkspaceExec Action = "workspace.exec"

	UserCreate   Action = "user.create"
	UserSignIn   Action = "user.sign_in"
	UserSignOut  Action = "user.sign_out"
	UserPassword Action = "user.password"
	UserRole     Action = "user.role"
	UserDisable  Action = "user.disable"
	UserEnable   Action = "user.enable"
	UserLimits   Action = "user.limits"
	UserUnlock   Action = "user.unlock"

	TokenCreate Action = "token.create"
	TokenRevoke Action = "token.revoke"

	SystemCollect Action = "system.gc"
	SystemScrub   Action = "system.scrub"
	SystemAccept  Action = "system.accept"
	SystemMigrate Action = "system.migrate"
	SystemOrphans Action = "system.orphans"
	SystemEgress  Action = "system.egress"
	SystemThaw    Action = "system.thaw"

	// APIRequest is a refused request of a known user: the user, or the token, lacks the permission.
	APIRequest Action = "api.request"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{
		WorkspaceCreate, WorkspaceEdit, WorkspaceOpen, WorkspaceStart, WorkspaceSleep, WorkspaceArchive,
		WorkspaceKeepAwake, WorkspaceDelete, WorkspaceUndelete, WorkspaceRecover, WorkspaceRestore, WorkspaceExec,
		UserCreate, UserSignIn, UserSignOut, UserPassword, UserRole, UserDisable, UserEnable, UserLimits, UserUnlock,
		TokenCreate, TokenRevoke,
		SystemCollect, SystemScrub, SystemAccept, SystemMigrate, SystemOrphans, SystemEgress, SystemThaw, APIRequest,
	}
}

// Matching returns the action with that name, or all actions with that word before the dot, or nil if there are none.
func Matching(name string) (found []Action) {
	for _, a := range Actions() {
		if group, _, _ := strings.Cut(string(a), "."); string(a) == name || group == name {
			found = append(found, a)
		}
	}
	return found
}

// Names returns the names of all actions, for messages to people.
func Names() string {
	var names []string
	for _, a := range Actions() {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}
