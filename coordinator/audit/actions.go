package audit

import "strings"

// Action is what was asked for. The part before the dot is what it concerns.
type Action string

// The actions. Opening is a request to a workspace that woke it; starting is asked for in words.
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
	// WorkspaceExec is written before the command begins, with the base name of its program only: arguments
	// and output may hold secrets.
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

	// APIRequest is a request of a known user that was refused because that user, or the token, may not make it.
	APIRequest Action = "api.request"
)

// Actions lists them all.
func Actions() []Action {
	return []Action{
		WorkspaceCreate, WorkspaceEdit, WorkspaceOpen, WorkspaceStart, WorkspaceSleep, WorkspaceArchive,
		WorkspaceKeepAwake, WorkspaceDelete, WorkspaceUndelete, WorkspaceRecover, WorkspaceRestore, WorkspaceExec,
		UserCreate, UserSignIn, UserSignOut, UserPassword, UserRole, UserDisable, UserEnable, UserLimits, UserUnlock,
		TokenCreate, TokenRevoke,
		SystemCollect, SystemScrub, SystemAccept, SystemMigrate, SystemOrphans, SystemEgress, SystemThaw, APIRequest,
	}
}

// Matching returns the action of that name, or those of which it is the word before the dot; nil if there is none.
func Matching(name string) (found []Action) {
	for _, a := range Actions() {
		if group, _, _ := strings.Cut(string(a), "."); string(a) == name || group == name {
			found = append(found, a)
		}
	}
	return found
}

// Names lists the names of them all, for people.
func Names() string {
	var names []string
	for _, a := range Actions() {
		names = append(names, string(a))
	}
	return strings.Join(names, ", ")
}
