package audit

// Done is the outcome of an action that was not refused.
const Done = "done"

// The beginnings of an INSERT of entries, for a CTE in the statement that makes the change. The action, the details and
// a FROM follow. The statement has the argument @by, which is the actor of its context; see [Of].
const (
	// OfWorkspaces is for entries about workspaces. Its FROM has the columns id, name and owner_user_id.
	OfWorkspaces = `INSERT INTO audit_log (actor, workspace_id, workspace_name, user_id, user_name, action, details)
		SELECT audit_actor(@by::jsonb), id, name, owner_user_id,
			(SELECT username FROM users u WHERE u.id = owner_user_id), `
	// OfUsers is for entries about users. Its FROM has the columns id and username.
	OfUsers = `INSERT INTO audit_log (actor, user_id, user_name, action, details)
		SELECT audit_actor(@by::jsonb), id, username, `
	// OfSystem is for entries about the installation.
	OfSystem = `INSERT INTO audit_log (actor, action, details) SELECT audit_actor(@by::jsonb), `
)
